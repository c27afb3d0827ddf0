"""Errors in generator workflows name the line of the user's generator, also a suspended one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff, SignoffError
from signoff.testing import MemoryStore, environment
from tests.support import fails, in_asyncio, new_app, opened, pauses


def plain(ctx: Context) -> Generator[Any, Any, Any]:
    yield asyncio.open_connection("localhost", 1)  # here: NotInStep


def delegating(ctx: Context) -> Generator[Any, Any, Any]:
    def inner() -> Generator[Any, Any, Any]:
        yield ctx.step("first", lambda: 1)
        yield asyncio.open_connection("localhost", 1)  # here: NotInStep

    yield from inner()


def called(ctx: Context) -> Generator[Any, Any, Any]:
    yield ctx.lfc(plain)  # type: ignore[arg-type]


def busy(ctx: Context) -> Generator[Any, Any, Any]:
    while True:
        yield asyncio.sleep(0)  # here: BusyLoop


def waiting(ctx: Context) -> Generator[Any, Any, Any]:
    def inner() -> Generator[Any, Any, Any]:
        yield asyncio.Event().wait()  # here: WaitsForNothing

    yield from inner()


def yields_text(ctx: Context) -> Generator[Any, Any, Any]:
    yield "text"  # here: RegistrationError


def lambdas(ctx: Context) -> Generator[Any, Any, Any]:
    opens: Callable[[], Any] = lambda: asyncio.open_connection("localhost", 1)  # noqa: E731
    yield opens()  # here: NotInStep


@pytest.mark.parametrize(
    ("workflow", "source"),
    [
        (plain, plain),
        (delegating, delegating),
        (called, plain),
        (busy, busy),
        (waiting, waiting),
        (yields_text, yields_text),
        (lambdas, lambdas),
    ],
)
@in_asyncio
async def test_an_error_names_the_line_at_which_the_generator_is(workflow: Any, source: Any) -> None:
    app = Signoff(MemoryStore())
    app.workflow(workflow)
    async with environment(app) as env:
        with pytest.raises(SignoffError) as caught:
            await env.run(workflow.__name__)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    begin = source.__code__.co_firstlineno
    line, expected = next(
        (number, text.rpartition(" ")[2])
        for number, text in enumerate(lines[begin - 1 :], begin)
        if "# here:" in text
    )
    assert type(caught.value).__name__ == expected
    assert f"{__file__}:{line} in " in str(caught.value)


def pays(ctx: Context, kind: str) -> Generator[Any, Any, Any]:
    def inner() -> Generator[Any, Any, Any]:
        yield CALLS[kind](ctx)  # here: NonDeterminism

    yield from inner()
    yield ctx.wait_for_signal("go")


def pay(ctx: Context, time: int) -> int:
    return time


def charge(time: int) -> int:
    return time


times = itertools.count()

CALLS: dict[str, Callable[[Context], Any]] = {
    "step": lambda ctx: ctx.step("pay", charge, next(times)),
    "function": lambda ctx: ctx.lfc(pay, next(times)),
    "timer": lambda ctx: ctx.sleep(next(times) / 1000),
    "promise": lambda ctx: ctx.promise(id=f"promise {next(times)}"),
}


@pytest.mark.parametrize("kind", CALLS)
@in_asyncio
async def test_another_call_at_replay_is_named_with_its_line(tmp_path: Path, kind: str) -> None:
    app = new_app(tmp_path)
    app.workflow(pays)
    async with opened(app) as client:
        async with app.worker():
            await client.start(pays, kind, id="r")
            await pauses(app, "r")
        async with app.worker():
            await (await client.start(pays, kind, id="r")).signal("go")
            run = await fails(app, "r")
    line = pays.__code__.co_firstlineno + 2
    assert run.retryable
    assert f"the code at {__file__}:{line} in inner has " in str(run.error)
