"""Calls that could never work are refused at once, failures are logged, and short waits give up their slot."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from signoff import AsyncClient, Context, RetryPolicy, Signoff
from signoff.engine.steps.wrong_arguments import check_step
from signoff.errors import InvalidValue, RegistrationError
from signoff.flows import Data, Flow
from signoff.records import EntryKind
from signoff.testing import MemoryStore
from tests.places import NewStore
from tests.support import in_asyncio, running


async def fetch(order: int, *, deep: bool = False) -> int:
    return order


class Client:
    def get(self, a: int, b: int = 2) -> int:
        return a + b

    def __call__(self, a: int) -> int:
        return a

    @classmethod
    def made(cls, a: int) -> int:
        return a

    @staticmethod
    def plain(a: int) -> int:
        return a


class Static:
    @staticmethod
    def __call__(a: int) -> int:
        return a


class OfClass:
    @classmethod
    def __call__(cls, a: int) -> int:
        return a


def with_bank(function: Any) -> Any:
    """Give a function its first argument, as decorators do that provide connections."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function("bank", *args, **kwargs)

    return wrapper


def for_order(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(order: int) -> Any:
        return function("bank", order)

    return wrapper


def charge(bank: str, order: int) -> str:
    return f"{bank} {order}"


class Chosen:
    @functools.singledispatchmethod
    def by_type(self, a: Any) -> Any:
        return a


FITS: list[tuple[Any, tuple[Any, ...]]] = [
    (fetch, (1,)),
    (Client().get, (1,)),
    (Client().get, (1, 2)),
    (Client(), (1,)),
    (Client.made, (1,)),
    (Client.plain, (1,)),
    (Static(), (1,)),
    (OfClass(), (1,)),
    (functools.partial(fetch, 1), ()),
    (lambda *args: args, (1, 2, 3)),
    (with_bank(charge), (1,)),
    (for_order(charge), (1,)),
    (functools.partial(with_bank(charge), 1), ()),
    (Chosen().by_type, (1,)),
    (print, (1,)),
    (len, ([],)),
    (dict, ()),
]

FAILS: list[tuple[Any, tuple[Any, ...], str]] = [
    (5, (), "takes a function, not 5; pass"),
    ({"a": 1}, (), "takes a function, not {'a': 1}"),
    (fetch, (), "missing a required argument: 'order'"),
    (fetch, (1, 2), "too many positional"),
    (Client().get, (), "missing a required argument: 'a'"),
    (Client(), (1, 2), "too many positional"),
    (Static(), (1, 2), "too many positional"),
    (OfClass(), (), "missing a required argument"),
    (Client.made, (), "missing a required argument"),
    (functools.partial(fetch, 1), (2,), "too many positional"),
    (for_order(charge), (1, 2, 3), "too many positional"),
    (lambda *, key: key, (), "missing a required.* argument: 'key'"),
]


@pytest.mark.parametrize(("function", "args"), FITS)
def test_what_can_be_called_is_not_refused(function: Any, args: tuple[Any, ...]) -> None:
    check_step("s", function, args)


@pytest.mark.parametrize(("function", "args", "why"), FAILS)
def test_what_can_never_be_called_is_refused(function: Any, args: tuple[Any, ...], why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        check_step("s", function, args)


async def coroutine(ctx: Context) -> None:
    await ctx.step("x", fetch(1))  # type: ignore[arg-type]


async def unnamed_coroutine(ctx: Context) -> None:
    await ctx.step(fetch(1))  # type: ignore[arg-type]


async def coroutine_as_argument(ctx: Context) -> None:
    await ctx.step("x", Client.plain, fetch(1))  # type: ignore[arg-type]


async def task_as_argument(ctx: Context) -> None:
    await ctx.step("x", functools.partial(Client.plain, asyncio.create_task(fetch(1))))  # type: ignore[arg-type]


async def coroutines_in_a_list(ctx: Context) -> None:
    await ctx.step("x", sum, [1, fetch(1)])  # type: ignore[list-item]


async def call_as_argument(ctx: Context) -> None:
    await ctx.step("x", Client.plain, ctx.step("y", fetch, 1))  # type: ignore[arg-type]


async def called_child(ctx: Context) -> None:
    await ctx.rfc(coroutine(ctx))  # type: ignore[arg-type]


async def too_many(ctx: Context) -> None:
    await ctx.step("x", fetch, 1, 2)


async def in_lfc(ctx: Context) -> None:
    await ctx.lfc(lambda ctx, a: a, b=1)


async def itself(ctx: Context) -> None:
    await ctx.rfc("itself").options(id="r")


async def its_parent(ctx: Context, depth: int = 0) -> None:
    if depth:
        await ctx.rfc("its_parent", 0).options(id="r")
    await ctx.rfc("its_parent", 1).options(id="child")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (coroutine, "instead of calling it"),
        (unnamed_coroutine, r"step 'fetch' called its function; .*ctx.step\('fetch', function"),
        (coroutine_as_argument, "step 'x': its argument 'a' is a coroutine that was not awaited"),
        (task_as_argument, "step 'x': its argument 'a' is a task that was not awaited"),
        (coroutines_in_a_list, "step 'x': its argument '0' holds a coroutine that was not awaited"),
        (call_as_argument, "step 'x': its argument 'a' is a step 'y' that was not awaited"),
        (called_child, "'coroutine' was called; instead of calling it, pass the workflow and its arguments"),
        (too_many, "too many positional"),
        (in_lfc, "missing a required argument: 'a'"),
        (itself, "would wait for itself"),
        (its_parent, "which waits for run 'child'"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@in_asyncio
async def test_a_run_fails_at_once_by_a_call_that_can_never_work(
    new_store: NewStore, code: Callable[..., Any], why: str
) -> None:
    app = Signoff(new_store())
    app.workflow(code)
    async with running(app) as client:
        with pytest.raises(RegistrationError, match=why):
            await (await client.start(code, id="r")).result(60)


@in_asyncio
async def test_each_attempt_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> None:
        def charge() -> None:
            raise ValueError("card declined")

        await ctx.step("charge", charge, retry=RetryPolicy(0.01, max_attempts=2, jitter=False))

    with caplog.at_level(logging.WARNING, "signoff.worker"):
        async with app.worker(), AsyncClient(app) as client:
            with pytest.raises(ValueError, match="declined"):
                await (await client.start(flow, id="r")).result(60)
    said = [record.getMessage() for record in caplog.records if "attempt" in record.getMessage()]
    assert said == [
        "step 'charge' of run r failed in attempt 1: ValueError: card declined; next attempt in 0.0 s",
        "step 'charge' of run r failed in attempt 2: ValueError: card declined; no further attempt",
    ]


@in_asyncio
async def test_a_step_that_calls_a_client_wrongly_is_not_tried_again() -> None:
    app = Signoff(MemoryStore())
    called: list[int] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        async def starts() -> None:
            called.append(1)
            await client.start("other", id=" ")

        await ctx.step("starts", starts)

    async with app.worker(), AsyncClient(app) as client:
        with pytest.raises(InvalidValue, match="id: ' ' is not 1 to 256"):
            await (await client.start(flow, id="r")).result(60)
    assert called == [1]


@in_asyncio
async def test_each_call_of_workflow_code_that_fails_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    app = Signoff(MemoryStore())

    async def helper(ctx: Context) -> None:
        await ctx.sleep(0.01)
        raise ValueError("card declined")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.lfc(helper).options(retry=RetryPolicy(0.01, max_attempts=2, jitter=False))

    with caplog.at_level(logging.WARNING, "signoff.worker"):
        async with app.worker(hot_runs=0), AsyncClient(app) as client:
            with pytest.raises(ValueError, match="declined"):
                await (await client.start(flow, id="r")).result(60)
    said = [record for record in caplog.records if "attempt" in record.getMessage()]
    assert [record.getMessage() for record in said] == [
        "function 'helper' of run r failed in attempt 1: ValueError: card declined; next attempt in 0.0 s",
        "function 'helper' of run r failed in attempt 2: ValueError: card declined; no further attempt",
    ]
    assert {vars(record)["run_id"] for record in said} == {"r"}


@pytest.mark.parametrize("limit", ["worker", "group"])
@in_asyncio
async def test_a_parent_that_polls_its_child_gives_up_the_only_slot(new_store: NewStore, limit: str) -> None:
    app = Signoff(new_store())

    @app.workflow
    async def child(ctx: Context) -> str:
        return "done"

    @app.workflow
    async def parent(ctx: Context) -> str:
        handle = await ctx.rfi(child)
        task = asyncio.ensure_future(_wait(handle))
        while not task.done():
            await asyncio.wait({task}, timeout=0.2)
        return task.result()

    async def _wait(handle: Any) -> str:
        return await handle

    more: dict[str, Any] = {"concurrency": 1} if limit == "worker" else {}
    async with running(app, **more) as client:
        if limit == "group":
            await client.groups.limit("default", max_running=1)
        assert await (await client.start(parent)).result(60) == "done"


@pytest.mark.parametrize(("module", "is_replaced"), [("__main__", True), ("billing", False)])
def test_a_cell_that_is_run_again_replaces_its_workflow(module: str, is_replaced: bool) -> None:
    app = Signoff(MemoryStore())

    def cell() -> Any:
        async def flow(ctx: Context) -> None: ...

        flow.__module__ = module
        return flow

    app.workflow(cell())
    if is_replaced:
        again = cell()
        app.workflow(again)
        assert app.registry.function("flow") is again
    else:
        with pytest.raises(RegistrationError, match="registered twice"):
            app.workflow(cell())


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"retry": 3}, "retry is a RetryPolicy, such as RetryPolicy(max_attempts=3), not 3"),
    ({"retry": False}, "retry is a RetryPolicy"),
    ({"durable": "no"}, "durable is True or False, not 'no'"),
    ({"non_retryable": ("ValueError",)}, "non_retryable is a tuple of exception classes"),
    ({"non_retryable": "ValueError"}, "non_retryable is a tuple of exception classes"),
    ({"non_retryable": 5}, "non_retryable is a tuple of exception classes"),
    ({"key": 5}, "key: expected a string, not 5"),
    ({"key": "a\0b"}, "key: has a NUL character"),
    ({"operators": "group:ops", "effect": "once"}, "operators: pass a list of names, such as ['group:ops']"),
    ({"operators": 5, "effect": "once"}, "operators: expected a list of names"),
    ({"metadata": 5, "effect": "once"}, "metadata is a dict, not 5"),
    ({"on_failure": 5}, "on_failure is a function, not 5"),
    ({"timeout": timedelta(seconds=5)}, "is not a number of seconds; pass its total_seconds()"),
    ({"timeout": float("inf")}, "timeout: inf is not a number of seconds"),
]


@pytest.mark.parametrize(
    ("options", "why", "later"),
    [
        (options, why, later)
        for options, why in WRONG_OPTIONS
        for later in (False, True)
        if not (later and "on_failure" in options)  # which options() does not take
    ],
)
@in_asyncio
async def test_options_of_another_type_are_refused_before_the_step_begins(
    options: dict[str, Any], why: str, later: bool
) -> None:
    app = Signoff(MemoryStore())
    begun: list[int] = []

    def begin() -> None:
        begun.append(1)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await (ctx.step(begin).options(**options) if later else ctx.step(begin, **options))

    async with running(app) as client:
        with pytest.raises((RegistrationError, InvalidValue), match=re.escape(why)):
            await (await client.start(flow)).result(60)
    assert begun == []


@pytest.mark.parametrize(
    "given", [ValueError, [ValueError], (KeyError, ValueError)], ids=["one", "list", "tuple"]
)
@in_asyncio
async def test_exceptions_that_are_not_retried_may_be_one_or_some(given: Any) -> None:
    app = Signoff(MemoryStore())
    begun: list[int] = []

    def fail() -> None:
        begun.append(1)
        raise ValueError("no")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(fail, non_retryable=given)

    async with running(app) as client:
        with pytest.raises(ValueError, match="no"):
            await (await client.start(flow)).result(60)
    assert begun == [1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_attempts": "3"}, "max_attempts is '3'; it must be a whole number"),
        ({"max_attempts": 1.5}, "max_attempts is 1.5; it must be a whole number"),
        ({"max_attempts": True}, "max_attempts is True"),
        ({"initial_seconds": float("nan")}, "initial_seconds is nan; it must be a finite number"),
        ({"initial_seconds": timedelta(seconds=1)}, "initial_seconds is datetime.timedelta"),
        ({"max_seconds": float("inf")}, "max_seconds is inf"),
        ({"factor": None}, "factor is None"),
        ({"retried": (ValueError,)}, "retried is .*; it must be a function"),
        ({"retry_after": 5}, "retry_after is 5; it must be a function"),
    ],
)
def test_a_policy_of_something_else_than_numbers_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(RegistrationError, match=why):
        RetryPolicy(**options)


@pytest.mark.parametrize(
    "option", [{"retry": 3}, {"timeout": "5"}, {"non_retryable": "ValueError"}, {"effect": "twice"}]
)
def test_options_of_a_chunk_are_checked_when_it_is_registered(option: dict[str, Any]) -> None:
    def check(data: Data[Any]) -> None: ...

    [name] = option
    with pytest.raises((RegistrationError, InvalidValue), match=name):
        Flow("f").chunk(**option)(check)


@pytest.mark.parametrize("seconds", ["5", None, True, float("nan"), float("inf"), timedelta(days=1)])
@in_asyncio
async def test_a_sleep_takes_a_number_of_seconds(seconds: Any) -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.sleep(seconds)

    async with running(app) as client:
        with pytest.raises(InvalidValue, match="seconds: .* is not a number of seconds"):
            await (await client.start(flow)).result(60)


@in_asyncio
async def test_no_limit_by_infinity_is_no_timer() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def flow(ctx: Context) -> int:
        async with asyncio.timeout(float("inf")):
            return await asyncio.wait_for(ctx.step("s", lambda: 1), float("inf"))

    async with running(app) as client:
        run = await client.start(flow)
        assert await run.result(60) == 1
        assert [entry.call for entry in await run.journal() if entry.kind == EntryKind.OPENED] == []
