"""Kinds of workflows besides plain async functions, and repeated registration."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable, Finished
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows import Data, Executions, Flow
from signoff.testing import MemoryStore
from tests.support import asked, in_asyncio, pauses, running


async def body(ctx: Context, x: int = 1) -> int:
    return await ctx.step("double", lambda: 2 * x)


def generator(ctx: Context, x: int = 1) -> Generator[Any, Any, int]:
    return (yield ctx.step("double", lambda: 2 * x))


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def unsaid(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


async def prefixed(prefix: str, ctx: Context, x: int = 1) -> str:
    return prefix + str(await ctx.step("double", lambda: 2 * x))


class Doubling:
    @staticmethod
    async def static(ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)

    @classmethod
    async def of_class(cls, ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)

    async def method(self, ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)

    async def __call__(self, ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)


class Generating:
    def __call__(self, ctx: Context, x: int = 1) -> Generator[Any, Any, int]:
        return (yield ctx.step("double", lambda: 2 * x))


class Static:
    @staticmethod
    async def __call__(ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)


class OfClass:
    @classmethod
    async def __call__(cls, ctx: Context, x: int = 1) -> int:
        return await body(ctx, x)


class Slotted:
    __slots__ = ()

    async def __call__(self, ctx: Context) -> None: ...


async def endless(ctx: Context) -> Any:
    yield 1


async def by_name(*, ctx: Context) -> None: ...


async def without() -> None: ...


WORKFLOWS: dict[str, tuple[Any, Any]] = {
    "body": (wrapped(body), 14),
    "generator": (wrapped(wrapped(generator)), 14),
    "static": (Doubling.static, 14),
    "Doubling": (Doubling(), 14),
    "Generating": (Generating(), 14),
    "Static": (Static(), 14),
    "OfClass": (OfClass(), 14),
    "prefixed": (functools.partial(prefixed, "="), "=14"),
    "partial of a wrapper": (functools.partial(wrapped(prefixed), "="), "=14"),
}


@pytest.mark.parametrize("name", WORKFLOWS)
@in_asyncio
async def test_what_is_called_like_workflow_code_is_a_workflow(name: str) -> None:
    function, result = WORKFLOWS[name]
    app = Signoff(MemoryStore())
    app.workflow(name=name if " " in name else None)(function)
    assert list(app.registry.names()) == [name]
    async with app.worker(hot_runs=0), AsyncClient(app) as client:
        assert await (await client.start(function, 7)).result(60) == result
        assert [each.name for each in (await client.workflows.list()).items] == [name]


@in_asyncio
async def test_a_static_method_is_registered_in_its_class() -> None:
    app = Signoff(MemoryStore())

    class Orders:
        @app.workflow
        @staticmethod
        async def double(ctx: Context, x: int) -> int:
            return await body(ctx, x)

    async with app.worker(), AsyncClient(app) as client:
        assert await (await client.start(Orders.double, 7)).result(60) == 14


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (Doubling.__dict__["of_class"], "is a method; register a function"),
        (Doubling.of_class, "is a method; register a function"),
        (Doubling().method, "is a method; register a function"),
        (Doubling.method, "is a method; register a function"),
        (Doubling, "must be an async function or a generator function, not class Doubling"),
        (unsaid(body), r"must be an async function .*needs functools\.wraps"),
        (lambda ctx: (yield ctx.step("s", lambda: 1)), "needs a name that is not empty"),
        (endless, "is an async generator function: await the context's calls"),
        (by_name, "takes no positional parameter; the first one is the context"),
        (without, "takes no parameters; the first one is the context"),
        (functools.lru_cache(body), "is cached"),
        (
            functools.partialmethod(body, x=3),
            "must be an async function or a generator function, not partialm",
        ),
        (Slotted(), "Slotted that does not accept attributes; register an async"),
        (print, "must be an async function or a generator function"),
        ("body", "must be an async function or a generator function, not str"),
        (3, "must be an async function or a generator function, not int"),
    ],
    ids=range(16),
)
def test_what_cannot_be_a_workflow_is_refused_with_what_to_do(function: Any, why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        Signoff(MemoryStore()).workflow(function)


@in_asyncio
async def test_a_wrapper_that_returns_no_coroutine_fails_its_run_at_once() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    @functools.wraps(body)
    def wrapper(ctx: Context) -> int:
        return 3

    async with app.worker(), AsyncClient(app) as client:
        with pytest.raises(RegistrationError, match="'body' returned int at its call, not a coroutine"):
            await (await client.start(wrapper)).result(60)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"name": 3}, "workflow name: expected a string, not 3"),
        ({"name": "a\0b"}, "workflow name: has a NUL character"),
        ({"name": "a\ud800"}, "workflow name: has a lone surrogate"),
        ({"version": 2}, "version of workflow 'body': expected a string, not 2"),
        ({"version": "2\0"}, "version of workflow 'body': has a NUL character"),
    ],
)
def test_a_name_or_version_that_no_store_keeps_is_refused_when_it_is_given(options: Any, why: str) -> None:
    with pytest.raises(InvalidValue, match=why):
        Signoff(MemoryStore()).workflow(**options)(body)


@in_asyncio
async def test_a_workflow_that_was_called_is_not_started() -> None:
    app = Signoff(MemoryStore())
    app.workflow(body)
    async with AsyncClient(app) as client:
        with pytest.raises(RegistrationError, match="'body' was called; instead of calling it, pass"):
            await client.start(body(cast("Context", None)))  # type: ignore[arg-type]


@in_asyncio
async def test_a_coroutine_is_not_registered() -> None:
    with pytest.raises(RegistrationError, match="not coroutine"):
        Signoff(MemoryStore()).workflow(body(None))  # type: ignore[arg-type]


CELL = """
def cell(app, version):
    @app.workflow
    async def work(ctx):
        await ctx.wait_for_user("ok?")
        return version

    flow = Flow("flow", auto_close_timeout=0.0)

    @flow.chunk
    async def keep(data):
        data.set_state("version", version)

    flow.to(keep)
    app.register(flow)
    app.register(Agent(TestModel(custom_output_text=str(version)), name="agent", capabilities=[Durable()]))
"""


def notebook(name: str) -> Callable[[Signoff, int], None]:
    module = ModuleType(name)
    vars(module).update(Flow=Flow, Data=Data, Agent=Agent, TestModel=TestModel, Durable=Durable)
    exec(CELL, vars(module))
    return module.cell  # type: ignore[no-any-return]


@in_asyncio
async def test_a_cell_that_is_run_again_reaches_workers_that_run_already() -> None:
    cell, app = notebook("__main__"), Signoff(MemoryStore())
    async with running(app) as client:
        for version in (1, 2):
            cell(app, version)
            waiting = await client.start("work", id=f"w{version}")
            await pauses(app, waiting.id)
            execution = await Executions(client, "flow").start(1)
            assert await execution.result(60) == {"version": version}
            turn = await app.conversation("agent", session_id=f"s{version}").run("hello")
            assert isinstance(turn, Finished)
            assert turn.output == str(version)
        for run_id in ("w1", "w2"):  # what waits in memory gets the new code as well
            (question,) = await asked(client, run_id)
            await client.answer(question.id, True)
            assert await (await client.get(run_id)).result(60) == 2


PARTIAL_CELL = """
async def base(version, ctx):
    return version


class Working:
    def __init__(self, version):
        self.version = version

    async def __call__(self, ctx):
        return self.version


def cell(app, version):
    app.workflow(name="partial")(functools.partial(base, version))
    app.workflow(name="object")(Working(version))
"""


@in_asyncio
async def test_a_partial_and_an_object_of_a_cell_that_is_run_again_are_replaced() -> None:
    app = Signoff(MemoryStore())
    async with running(app) as client:
        for version in (1, 2):
            module = ModuleType("__main__")
            vars(module).update(functools=functools)
            exec(PARTIAL_CELL, vars(module))
            module.cell(app, version)
            for name in ("partial", "object"):
                assert await (await client.start(name)).result(60) == version


def test_a_partial_of_a_module_is_registered_once() -> None:
    app = Signoff(MemoryStore())
    app.workflow(name="p")(functools.partial(prefixed, "="))
    with pytest.raises(RegistrationError, match="'p' version '1' is registered twice"):
        app.workflow(name="p")(functools.partial(prefixed, "-"))


def test_a_module_registers_the_name_of_a_flow_or_an_agent_once() -> None:
    app = Signoff(MemoryStore())
    for name in ("flow", "agent"):
        for is_second in (False, True):
            flow = Flow("flow")
            flow.chunk(name="keep")(lambda data: None)
            flow.to("keep")
            agent = Agent(TestModel(), name="agent", capabilities=[Durable()])
            refused = pytest.raises(RegistrationError, match=f"{name}.*is registered twice")
            with refused if is_second else contextlib.nullcontext():
                app.register(flow if name == "flow" else agent)
