"""Errors in workflows that are generators name the line of the user's generator, also where it is suspended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff, SignoffError
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio


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
