"""Steps and the workflow share no data: a run gives the same result live and rebuilt."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import logging
import threading
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, PrivateAttr

from signoff import Context, Signoff
from signoff.engine.run import event_loop
from signoff.engine.run.value_copies import copied
from signoff.engine.steps import step_arguments
from signoff.errors import BusyLoop, InvalidValue, NonDeterminism, NotSerializable, PayloadTooLarge
from signoff.testing import MemoryStore, at_pause, environment
from tests.engine.rebuilt_runs import Code, live_and_rebuilt
from tests.support import in_asyncio


@dataclass
class Order:
    id: str = "o"
    lines: list[Any] = field(default_factory=list)

    def spoil(self) -> None:
        self.lines.append("spoilt")


@dataclass(slots=True)
class Slotted:
    lines: list[Any]

    def spoil(self) -> None:
        self.lines.append("spoilt")


class Model(BaseModel):
    lines: list[Any] = []
    order: Order = Order()

    def spoil(self) -> None:
        self.order.spoil()
        self.lines = ["other"]


class Pair(NamedTuple):
    one: list[Any]
    two: int


def spoil(value: Any) -> None:
    """Change something in place, as services and libraries do."""
    if hasattr(value, "spoil"):
        value.spoil()
    elif isinstance(value, tuple):
        spoil(value[0])
    elif isinstance(value, list | deque):
        value.append("spoilt")
    elif isinstance(value, dict):
        for each in list(value.values()):
            if not isinstance(each, str):
                spoil(each)
        value["spoilt"] = "spoilt"
    elif isinstance(value, set):
        value.add("spoilt")
    else:
        value.extend(b"spoilt")


SHAPES: list[Callable[[], Any]] = [
    lambda: [1],
    lambda: {"a": {"b": [1]}},
    lambda: {1},
    lambda: deque([1]),
    lambda: bytearray(b"a"),
    lambda: OrderedDict(a=[1]),
    lambda: defaultdict(list, a=[1]),
    lambda: ([1], "fixed"),
    lambda: Pair([1], 2),
    lambda: [[Order()]][0],
    Order,
    lambda: Slotted([1]),
    Model,
    lambda: [Model(), {"orders": [Order()]}],
]


@pytest.mark.parametrize("make", SHAPES, ids=range(len(SHAPES)))
@in_asyncio
async def test_a_step_cannot_change_what_it_is_given(make: Callable[[], Any]) -> None:
    def with_context(ctx: Any, *, value: Any) -> None:
        spoil(value)

    async def code(ctx: Context) -> str:
        value = make()
        await ctx.step("spoil", spoil, value)
        await ctx.step("spoil", functools.partial(spoil, value))
        await ctx.step("spoil", lambda: spoil(value))
        await ctx.step("spoil", lambda value=value: spoil(value))
        await ctx.lfc(with_context, value=value)
        await ctx.wait_for_signal("go")
        return repr(value)

    before = repr(make())
    assert await live_and_rebuilt(code) == [before, before]


@in_asyncio
async def test_each_attempt_gets_what_the_first_one_got() -> None:
    seen: list[list[str]] = []

    def fails_once(lines: list[str]) -> None:
        seen.append(list(lines))
        lines.append("attempt")
        if len(seen) == 1:
            raise ValueError("once")

    async def code(ctx: Context) -> Any:
        lines = ["a"]
        begun = asyncio.create_task(ctx.step("fails_once", fails_once, lines))
        await asyncio.sleep(0)
        lines.append("later")
        await begun
        await ctx.wait_for_signal("go")
        return lines

    found = await live_and_rebuilt(code)
    assert found == [["a", "later"]] * 2
    assert seen == [["a"]] * 3


class Frozen(BaseModel, frozen=True):
    id: str = "a"
    lines: Any = None
    _seen: list[str] = PrivateAttr(default_factory=list[str])


class Sealed(BaseModel, frozen=True):
    id: str = "a"
    lines: Any = None


class Extended(BaseModel, frozen=True, extra="allow"):
    id: str = "a"


@dataclass(frozen=True)
class Fixed:
    id: str = "a"
    lines: Any = None

    @functools.cached_property
    def computed(self) -> list[int]:
        return []


@dataclass(frozen=True, slots=True)
class FixedSlots:
    id: str = "a"
    lines: Any = None


def _computed() -> Fixed:
    fixed = Fixed()
    _ = fixed.computed
    return fixed


@pytest.mark.parametrize(
    ("value", "is_copied"),
    [
        (Sealed(), False),
        (Fixed(), False),
        (FixedSlots(), False),
        ((Sealed(), Fixed()), False),
        (Frozen(), True),
        (Sealed(lines=[1]), True),
        (Sealed(lines=Order()), True),
        (Extended.model_validate({"more": [1]}), True),
        (Fixed(lines=[1]), True),
        (FixedSlots(lines={"a": 1}), True),
        (_computed(), True),
        (Order(), True),
    ],
    ids=repr,
)
def test_only_what_cannot_change_is_not_copied(value: Any, is_copied: bool) -> None:
    again = copied(value, {})
    assert again == value
    assert (again is not value) is is_copied
    if is_copied and getattr(value, "lines", None):
        assert again.lines is not value.lines


@pytest.mark.parametrize("is_async", [False, True])
@in_asyncio
async def test_each_attempt_has_the_variables_that_the_first_one_had(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[int, str]] = []

    async def code(ctx: Context) -> Any:
        count, name = 1, "a"

        def counts() -> int:
            nonlocal count
            seen.append((count, name))
            count += 1
            if len(seen) % 3:
                raise ValueError("again")
            return count

        async def counts_too() -> int:
            return counts()

        begun = asyncio.create_task(ctx.step("count", counts_too if is_async else counts))
        await asyncio.sleep(0)
        count, name = 7, "later"
        found = await begun
        await ctx.wait_for_signal("go")
        return [found, count, name]

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert await live_and_rebuilt(code) == [[2, 7, "later"]] * 2
    assert seen == [(1, "a")] * 6
    changes = [each for each in caplog.records if "changed 'count'" in each.getMessage()]
    assert len(changes) == 1


@in_asyncio
async def test_what_is_the_same_twice_is_the_same_copy_twice() -> None:
    def same(one: list[int], other: list[int]) -> bool:
        one.append(1)
        return one is other

    async def code(ctx: Context) -> Any:
        one: list[int] = []
        result = await ctx.step("same", same, one, one)
        await ctx.wait_for_signal("go")
        return [result, one]

    assert await live_and_rebuilt(code) == [[True, []]] * 2


async def collects(ctx: Context) -> Any:
    got: list[int] = []

    def fetch(n: int) -> None:
        got.append(n)

    for n in range(3):
        await ctx.step("fetch", fetch, n)
    await ctx.wait_for_signal("go")
    return got


async def counts(ctx: Context) -> Any:
    got = 0

    def fetch() -> None:
        nonlocal got
        got += 1

    for _ in range(3):
        await ctx.step("fetch", fetch)
    await ctx.wait_for_signal("go")
    return got


async def collects_by_a_helper(ctx: Context) -> Any:
    got: list[int] = []

    def add(n: int) -> None:
        got.append(n)

    async def fetch(n: int) -> None:
        add(n)

    await asyncio.gather(*(ctx.step("fetch", fetch, n) for n in range(3)))
    await ctx.wait_for_signal("go")
    return got


async def collects_in_a_task(ctx: Context) -> Any:
    got: dict[int, int] = {}

    async def each(n: int) -> None:
        await ctx.step("fetch", lambda: got.update({n: n}))

    await asyncio.gather(*map(each, range(3)))
    await ctx.wait_for_signal("go")
    return len(got)


@pytest.mark.parametrize("code", [collects, counts, collects_by_a_helper, collects_in_a_task])
@in_asyncio
async def test_a_step_that_changes_a_variable_of_the_workflow_is_warned_of(
    code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        live, rebuilt = await live_and_rebuilt(code)
    assert live == rebuilt
    assert not live
    assert [record for record in caplog.records if "changed 'got'" in record.getMessage()]


@dataclass(eq=False)
class Line:
    """Data that Python compares by its identity."""

    sku: str
    count: int = 0

    def add(self) -> None:
        self.count += 1


def counts_up(line: Line, *more: Any) -> None:
    line.count += 1


def reads(*values: Any, **named: Any) -> str:
    return repr(values)


@in_asyncio
async def test_a_step_that_changes_an_argument_in_place_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def renames(orders: list[Order]) -> None:
        orders[0].id = "other"

    async def code(ctx: Context) -> Any:
        line, orders = Line("a"), [Order("a")]
        for _ in range(3):
            await ctx.step("count", counts_up, line, [1])
            await ctx.step("rename", functools.partial(renames, orders))
        await ctx.step("read", reads, line, orders, float("nan"), [float("nan")], {1, 2})
        await ctx.wait_for_signal("go")
        return [line.count, orders[0].id]

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert await live_and_rebuilt(code) == [[0, "a"]] * 2
    counted, renamed = [record.getMessage() for record in caplog.records]
    assert f"step 'count' ({__file__}:{counts_up.__code__.co_firstlineno}) changed 'line'" in counted
    assert "step 'rename'" in renamed
    assert "'orders'" in renamed


@in_asyncio
async def test_a_step_that_changes_its_object_in_place_is_warned_of_and_detected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def code(ctx: Context) -> Any:
        line = Line("b")
        for _ in range(2):
            await ctx.step("add", line.add)
        await ctx.wait_for_signal("go")
        return line.count

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        live, (error, _) = await live_and_rebuilt(code)
    assert live == 2
    assert error is NonDeterminism
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert f"step 'add' ({__file__}:{Line.add.__code__.co_firstlineno}) changed 'self'" in warning


class Cart:
    def __init__(self) -> None:
        self.items: list[str] = []


@pytest.mark.parametrize(
    ("around", "name"),
    [
        (lambda cart: [Order(), cart], "carts[1]"),
        (lambda cart: (cart,), "carts[0]"),
        (lambda cart: {"a": [cart]}, "carts['a'][0]"),
        (lambda cart: [threading.Lock(), cart, iter([])], "carts[1]"),
    ],
)
@in_asyncio
async def test_a_step_that_changes_a_contained_object_is_warned_of_by_place(
    around: Callable[[Cart], Any], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    step_arguments._warned.clear()  # pyright: ignore[reportPrivateUsage]

    def fill(carts: Any, plain: list[Any]) -> None:
        inside: Any = next(iter(carts.values())) if isinstance(carts, dict) else carts
        [cart] = [each for each in inside if isinstance(each, Cart)]
        cart.items.append("a")

    def leave(carts: Any) -> None: ...

    async def code(ctx: Context) -> Any:
        cart = Cart()
        await ctx.step("leave", leave, around(cart), compare=None)
        await ctx.step("fill", fill, around(cart), [1, [2], {"a": Order()}], compare=None)
        await ctx.wait_for_signal("go")

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        await live_and_rebuilt(code)
    said = [each.getMessage() for each in caplog.records if "changed" in each.getMessage()]
    assert [text for text in said if f"changed {name!r}" in text], said
    assert not [text for text in said if "step 'leave'" in text]


@pytest.mark.parametrize("by_name", [False, True])
@in_asyncio
async def test_a_step_that_changes_a_service_object_in_place_is_warned_of(
    by_name: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Basket:
        def __init__(self) -> None:
            self.items: list[str] = []

    class Client:
        def __init__(self) -> None:
            self.lock, self.calls = threading.Lock(), 0

    def fill(basket: Basket, client: Client) -> None:
        basket.items.append("a")
        client.calls += 1

    async def code(ctx: Context) -> Any:
        basket, client = Basket(), Client()
        step = functools.partial(fill, client=client) if by_name else fill
        await ctx.step("fill", step, basket, *(() if by_name else (client,)))
        await ctx.wait_for_signal("go")
        return len(basket.items)

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert await live_and_rebuilt(code) == [1, 0]
    changed = [each.getMessage() for each in caplog.records if "changed" in each.getMessage()]
    assert len(changed) == 1, "a client's own state is not the run's"
    assert "changed 'basket', which it shares with the workflow" in changed[0]


class Session:
    def __init__(self) -> None:
        self.token = ""


class Slots:
    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token = ""


@pytest.mark.parametrize("make", [Session, Slots, lambda: types.SimpleNamespace(token="")])
@in_asyncio
async def test_a_step_that_changes_an_object_of_the_code_around_it_is_warned_of(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_arguments, "_warned", set[tuple[str, str]]())

    async def code(ctx: Context) -> Any:
        session, client = make(), Session()

        async def log_in() -> None:
            session.token = "t"

        def reads() -> str:
            return client.token

        await ctx.step("reads", reads)
        await ctx.step("log_in", log_in)
        await ctx.wait_for_signal("go")
        return session.token

    with caplog.at_level(logging.WARNING, "signoff.workflow"):
        assert await live_and_rebuilt(code) == ["t", ""]
    (warning,) = [each.getMessage() for each in caplog.records if "changed" in each.getMessage()]
    assert "step 'log_in'" in warning
    assert "changed 'session', which it shares with the workflow" in warning


@in_asyncio
async def test_what_a_step_returns_is_not_the_workflow_s_object() -> None:
    kept: list[Any] = []

    def keep(order: Order) -> Order:
        kept.append(order)
        return order

    async def code(ctx: Context) -> Any:
        order = Order(lines=["a"])
        again = await ctx.step("keep", keep, order)
        kept[-1].lines.append("after it returned")
        again.lines.append("b")
        await ctx.wait_for_signal("go")
        return [order.lines, again.lines]

    assert await live_and_rebuilt(code) == [[["a"], ["a", "b"]]] * 2


# What it returns


class Client:
    """What cannot be stored."""


@pytest.mark.parametrize(
    ("returned", "declared", "error"),
    [
        (["a"], dict[str, int], InvalidValue),
        ({"a": "x"}, dict[str, int], InvalidValue),
        (None, int, InvalidValue),
        (Client(), Any, NotSerializable),
        ("x" * 2_000_000, str, PayloadTooLarge),
    ],
    ids=["other", "inside", "none", "unstorable", "large"],
)
@pytest.mark.parametrize("effect", ["repeatable", "once"])
@in_asyncio
async def test_a_step_that_returns_what_it_must_not_is_not_tried_again(
    returned: Any, declared: Any, error: type[Exception], effect: Any
) -> None:
    charged = itertools.count()

    async def charge() -> Any:
        next(charged)
        return returned

    async def code(ctx: Context) -> Any:
        await ctx.step("charge", charge, returns=declared, effect=effect)

    app = Signoff(MemoryStore())
    app.workflow(name="flow")(code)
    async with environment(app) as env:
        run = await env.start("flow")
        with pytest.raises(error, match="result of step 'charge'"):
            await run.result()
    assert next(charged) == 1


# Code that does much at once


@in_asyncio
async def test_many_calls_at_once_are_no_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "TURNS_WITHOUT_WAITING", 200)

    async def code(ctx: Context) -> Any:
        limit = asyncio.Semaphore(5)

        async def one(ctx: Context, n: int) -> int:
            async with limit:
                return await ctx.step("one", int, n)

        found = await asyncio.gather(*(ctx.step("one", int, n) for n in range(600)))
        found += await asyncio.gather(*(one(ctx, n) for n in range(600)))
        waiting = [asyncio.create_task(asyncio.sleep(1000)) for _ in range(600)]
        await ctx.wait_for_signal("go")
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return sum(found)

    assert await live_and_rebuilt(code) == [2 * sum(range(600))] * 2


@in_asyncio
async def test_a_loop_that_waits_for_nothing_still_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "TURNS_WITHOUT_WAITING", 1000)

    async def code(ctx: Context) -> Any:
        while True:
            await asyncio.sleep(0)

    (error, _), _ = await live_and_rebuilt_or_stuck(code)
    assert error is BusyLoop


async def live_and_rebuilt_or_stuck(code: Code) -> list[Any]:
    app = Signoff(MemoryStore())
    app.workflow(name="flow")(code)
    async with environment(app) as env:
        run = await env.start("flow")
        try:
            return [await run.result(), None]
        except Exception as error:
            return [(type(error), str(error)), None]


# Async generators that the garbage collector finds


@pytest.mark.parametrize("collects_first", [True, False])
@in_asyncio
async def test_generators_in_cycles_are_closed_when_the_run_ends(
    collects_first: bool,
) -> None:
    begun = itertools.count()

    async def numbers(ctx: Context, name: str) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await ctx.step(f"close {name}", lambda: None)

    async def code(ctx: Context) -> Any:
        is_first = next(begun) == 0
        for name in ("a", "b"):
            cycle: list[Any] = [numbers(ctx, name)]
            cycle.append(cycle)
            await anext(cycle[0])
        del cycle
        if is_first == collects_first:
            gc.collect()
        await asyncio.sleep(0)
        await ctx.step("between", lambda: None)
        await ctx.wait_for_signal("go")
        return "done"

    app = Signoff(MemoryStore())
    app.workflow(name="flow")(code)
    gc.disable()
    try:
        async with environment(app) as env:
            env.crash(at=at_pause())
            run = await env.start("flow", id="r")
            await env.idle()
            await run.signal("go")
            assert await run.result() == "done"
            names = [entry.name for entry in await env.store.read_journal("r") if entry.call == "step"]
            assert names == ["between", "close a", "close b"]
    finally:
        gc.enable()
