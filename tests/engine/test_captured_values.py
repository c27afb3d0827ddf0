"""Objects and variables that step functions capture: objects of methods, and variables of factories.

A replay compares it. What belongs to the process, such as a client with a counter, it does not.
"""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import threading
import types
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import Context
from signoff.errors import NonDeterminism
from tests.engine.restarts import pay, restarted
from tests.halves import sample
from tests.support import in_asyncio

Make = Callable[[str], Callable[[], Any]]


# Data


@dataclass
class Order:
    id: str
    lines: list[str] = field(default_factory=list[str])

    def pay(self) -> str:
        return pay(self.id)

    async def pay_async(self) -> str:
        return pay(self.id)


class Model(BaseModel):
    id: str

    def pay(self) -> str:
        return pay(self.id)


class Plain:
    def __init__(self, id: str) -> None:
        self.id = id
        self.log = logging.getLogger(__name__)

    def pay(self) -> str:
        return pay(self.id)


class Slotted:
    __slots__ = ("_id", "unset")

    def __init__(self, id: str) -> None:
        self._id = id

    def __call__(self) -> str:
        return pay(self._id)


class Connection:
    """What has no stable form."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


@dataclass
class Payer:
    client: Connection
    order: str

    def pay(self) -> str:
        return pay(self.order)


class Nested:
    def __init__(self, id: str) -> None:
        self.orders = [Plain(id)]

    def pay(self) -> str:
        return self.orders[0].pay()


# Functions that code outside of the workflow has made


def payer(order: Any) -> Callable[[], Any]:
    async def pays() -> str:
        return pay(getattr(order, "id", order))

    return pays


def payer_by_default(order: str) -> Callable[[], Any]:
    return lambda order=order: pay(order)


def payer_by_name(order: str) -> Callable[[], Any]:
    def pays(*, order: str = order) -> str:
        return pay(order)

    return pays


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def of_local_class(order: str) -> Callable[[], Any]:
    class Local:
        def pay(self) -> str:
            return pay(order)

    return Local().pay


FORMS: dict[str, Make] = {
    "dataclass": lambda id: Order(id).pay,
    "dataclass async": lambda id: Order(id).pay_async,
    "model": lambda id: Model(id=id).pay,
    "plain": lambda id: Plain(id).pay,
    "slots": Slotted,
    "nested": lambda id: Nested(id).pay,
    "namespace": lambda id: payer(types.SimpleNamespace(id=id)),
    "with a client": lambda id: Payer(Connection(), id).pay,
    "text": lambda id: id.upper,
    "list": lambda id: [id].copy,
    "getter": lambda id: functools.partial(operator.itemgetter(id), {"a": 1, "b": 2}),
    "factory": payer,
    "factory of object": lambda id: payer(Plain(id)),
    "factory of dataclass": lambda id: payer(Order(id)),
    "default": payer_by_default,
    "named default": payer_by_name,
    "decorated": lambda id: logged(payer_by_default(id)),
    "decorated method": lambda id: logged(Order(id).pay),
    "decorated partial": lambda id: logged(functools.partial(pay, id)),
    "cached": lambda id: functools.cache(payer_by_name(id)),
    "local class": of_local_class,
    "partial": lambda id: functools.partial(Order(id).pay),
    "partial of factory": lambda id: functools.partial(payer(id)),
}


def called(function: Callable[[], Any]) -> Any:
    return function()


def in_order(make: Make, *ids: str) -> Callable[[Context], Any]:
    async def code(ctx: Context) -> list[Any]:
        done = [await ctx.step("pay", make(id)) for id in ids]
        await ctx.wait_for_signal("go")
        return done

    return code


def by_closure(make: Make, *ids: str) -> Callable[[Context], Any]:
    """Has the workflow close over what is brought along."""

    async def code(ctx: Context) -> list[Any]:
        done: list[Any] = []
        for id in ids:
            pays = make(id)
            done.append(await ctx.step("pay", lambda pays=pays: called(pays)))
            done.append(await ctx.step("pay", lambda: called(pays)))  # noqa: B023
        await ctx.wait_for_signal("go")
        return done

    return code


def by_generator(make: Make, *ids: str) -> Callable[[Context], Any]:
    def steps(ctx: Context) -> Generator[Any, Any, list[Any]]:
        done = []
        for id in ids:
            done += [(yield ctx.step("pay", make(id)))]
        yield ctx.wait_for_signal("go")
        return done

    async def code(ctx: Context) -> list[Any]:
        return await ctx.lfc(lambda ctx: (yield from steps(ctx)))

    return code


@pytest.mark.parametrize("made", sample([in_order, by_closure, by_generator]), ids=lambda made: made.__name__)
@pytest.mark.parametrize("form", FORMS)
@in_asyncio
async def test_what_a_function_brings_along_is_compared(form: str, made: Callable[..., Any]) -> None:
    make = FORMS[form]
    error = await restarted(made(make, "a", "b"), made(make, "b", "a"))
    assert isinstance(error, NonDeterminism), error
    assert error.recorded != error.issued
    fits = await restarted(made(make, "a", "b"), made(make, "a", "b"))
    assert not isinstance(fits, NonDeterminism), fits


# What belongs to the process


class Service:
    """A client: it counts, and knows when its process began."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.calls = 0

    def pay(self, order: str) -> str:
        self.calls += 1
        return pay(order)

    def __call__(self, order: str) -> str:
        return self.pay(order)


@dataclass
class Settings:
    began: float
    calls: int = 0

    def pay(self, order: str) -> str:
        self.calls += 1
        return pay(order)


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    calls = 0
    seen: dict[str, int] = {}

    def wrapper(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        seen[str(args)] = calls
        return function(*args)

    return wrapper


@counted
def pay_counted(order: str) -> str:
    return pay(order)


class Container:
    """Has services, deeper than a module's own names."""

    parts: dict[str, Any]


CONTAINER = Container()


@functools.cache
def made_service(began: float) -> Service:
    return Service(began)


@pytest.fixture(autouse=True)
def _new_process() -> None:
    """Lets go of what tests before had in the process."""
    _global(None)
    CONTAINER.parts = {}
    made_service.cache_clear()


SHARED: dict[str, Callable[[float], Callable[[str], Any]]] = {
    "object": lambda began: _global(Service(began)).pay,
    "callable object": lambda began: _global(Service(began)),
    "dataclass": lambda began: _global(Settings(began)).pay,
    "in a container": lambda began: _contained(Service(began)).pay,
    "cached": lambda began: made_service(began).pay,
    "partial": lambda began: functools.partial(_global(Service(began)).pay),
    "decorated": lambda began: pay_counted,
}


def _global(value: Any) -> Any:
    globals()["service"] = value
    return value


def _contained(value: Any) -> Any:
    CONTAINER.parts = {"deep": [types.SimpleNamespace(inner=value)]}
    return value


@pytest.mark.parametrize("form", SHARED)
@in_asyncio
async def test_what_belongs_to_the_process_is_not_compared_nor_warned_of(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    processes = itertools.count()
    made: list[Callable[[str], Any]] = []

    def code(make: Callable[[float], Callable[[str], Any]]) -> Callable[[Context], Any]:
        async def flow(ctx: Context) -> list[Any]:
            made[:] = [make(float(next(processes)))]  # as a process does when it begins
            (pays,) = made
            done = [await ctx.step("pay", pays, order) for order in "abc"]
            done.append(await ctx.step("pay", lambda: pays("d")))
            await ctx.wait_for_signal("go")
            return [*done, await ctx.step("pay", pays, "e")]

        return flow

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        result = await restarted(code(SHARED[form]), code(SHARED[form]))
    assert result == [pay(order) for order in "abcde"]
    assert not caplog.records


@in_asyncio
async def test_a_client_that_the_workflow_s_maker_has_is_not_compared() -> None:
    def flow_with(client: Any) -> Callable[[Context], Any]:
        async def flow(ctx: Context) -> list[Any]:
            done = [await ctx.step("pay", client.pay, order) for order in "ab"]
            await ctx.wait_for_signal("go")
            return done

        return flow

    processes = itertools.count()
    for make in (Service, Settings):

        async def code(ctx: Context, make: Any = make) -> Any:
            ctx._execution.program.function.__dict__["made"] = flow = flow_with(make(next(processes)))
            return await flow(ctx)

        assert await restarted(code) == ["paid a", "paid b"]


PROVIDERS = {"a": Plain("a"), "b": Plain("b")}
HANDLERS = {"a": payer("a"), "b": payer("b")}
ORDERS = [Order("a"), Order("b")]
LISTS = {"a": ["a"], "b": ["b"]}


def payer_of(orders: list[str]) -> Callable[[], str]:
    return lambda: pay(*orders)


@pytest.mark.parametrize(
    "make",
    [
        lambda id: PROVIDERS[id].pay,
        lambda id: HANDLERS[id],
        lambda id: ORDERS[id == "b"].pay,
        lambda id: payer(ORDERS[id == "b"]),
        lambda id: logged(ORDERS[id == "b"].pay),
        lambda id: payer_of(LISTS[id]),
    ],
    ids=["objects", "functions", "dataclasses", "variables", "decorated", "lists"],
)
@in_asyncio
async def test_another_one_of_several_that_belong_to_the_process_is_noticed(make: Make) -> None:
    error = await restarted(in_order(make, "a", "b"), in_order(make, "b", "a"))
    assert isinstance(error, NonDeterminism), error


UP = [True]
UNRELATED = {"elsewhere": [True]}


@in_asyncio
async def test_a_list_elsewhere_with_the_same_items_is_not_another_one() -> None:
    def page(up: list[bool]) -> Callable[[], bool]:
        return lambda: up[0]

    async def code(ctx: Context) -> list[bool]:
        done = [await ctx.step("up", page(UP))]
        await ctx.wait_for_signal("go")
        return done

    async def later(ctx: Context) -> list[bool]:
        UP[0] = False
        return await code(ctx)

    assert await restarted(code, later) == [True]


class Opaque:
    def __init__(self, order: str) -> None:
        self.order, self.connection = order, Connection()

    def pay(self) -> str:
        return pay(self.order)


@in_asyncio
async def test_an_object_without_a_stable_form_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        code = in_order(lambda id: Opaque(id).pay, "a", "b")
        assert await restarted(code, code) == ["paid a", "paid b"]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "Opaque.pay" in warning
    assert "lock" in warning
    assert "compare=" in warning


class Computed:
    """Computes a part of itself when it is asked for."""

    def __init__(self, order: str) -> None:
        self.order = order

    @functools.cached_property
    def said(self) -> str:
        return f"order {self.order}"

    def pay(self) -> str:
        return pay(self.said)


@in_asyncio
async def test_what_an_object_computes_when_asked_is_no_difference() -> None:
    async def code(ctx: Context) -> list[str]:
        order = Computed("a")
        done = [await ctx.step("pay", order.pay), await ctx.step("pay", order.pay)]
        await ctx.wait_for_signal("go")
        return done

    assert await restarted(code, code) == ["paid order a"] * 2


@in_asyncio
async def test_a_function_may_close_over_more_or_less() -> None:
    def made_with(**more: Any) -> Make:
        def make(id: str) -> Callable[[], Any]:
            if more:

                def pays() -> Any:
                    return (pay(id), more)[0]
            else:

                def pays() -> Any:
                    return pay(id)

            return pays

        return make

    code, changed = in_order(made_with(), "a"), in_order(made_with(tries=3), "a")
    assert await restarted(code, changed) == ["paid a"]
    assert await restarted(changed, code) == ["paid a"]


@in_asyncio
async def test_compare_none_lets_a_run_go_on_that_compares_too_much() -> None:
    def code(id: str, **options: Any) -> Callable[[Context], Any]:
        async def flow(ctx: Context) -> Any:
            done = await ctx.step("pay", Order(id).pay, **options)
            await ctx.wait_for_signal("go")
            return done

        return flow

    assert isinstance(await restarted(code("a"), code("b")), NonDeterminism)
    assert await restarted(code("a"), code("b", compare=None)) == "paid a"
