"""An error class that is imported only where it is caught: the same clause catches it live and rebuilt."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.testing import MemoryStore, at_pause, environment
from tests.support import in_asyncio

LIBRARY = "late_library"


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{LIBRARY}.py").write_text("class Lazy(Exception): pass\nclass Other(Exception): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(LIBRARY, None)


def lazy() -> Any:
    return importlib.import_module(LIBRARY)


async def fails(kind: str) -> None:
    raise getattr(lazy(), kind)("of a library that only the step imports")


async def in_the_clause(ctx: Context) -> str:
    try:
        await ctx.step("fails", fails, "Lazy", non_retryable=(Exception,))
    except lazy().Other:
        return "other"
    except lazy().Lazy:
        await ctx.step("caught", str, "caught")
    await ctx.wait_for_signal("go")
    return "caught"


async def inside_another(ctx: Context) -> str:
    caught = "not"
    for kind in ("Lazy", "Other"):
        try:
            await ctx.step("fails", fails, kind, non_retryable=(Exception,))
        except Exception:
            library = lazy()
            try:
                raise
            except (library.Lazy, library.Other) as error:
                caught = type(error).__name__
    await ctx.wait_for_signal("go")
    return caught


async def in_a_group(ctx: Context) -> str:
    caught: list[str] = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step("fails", fails, "Lazy", non_retryable=(Exception,)))
    except* lazy().Lazy:
        caught.append("caught")
    await ctx.wait_for_signal("go")
    return caught[0]


@pytest.mark.parametrize("code", [in_the_clause, inside_another, in_a_group])
@in_asyncio
async def test_the_same_clause_catches_it_when_the_run_is_rebuilt(
    code: Callable[[Context], Awaitable[str]],
) -> None:
    results: list[str] = []
    for crash in (False, True):
        app = Signoff(MemoryStore())

        @app.workflow
        async def flow(ctx: Context) -> str:
            return await code(ctx)

        async with environment(app) as env:
            if crash:
                env.crash(at=at_pause())
            run = await env.start(flow)
            await env.idle()
            if crash:
                sys.modules.pop(LIBRARY)  # another process has not imported it
            await run.signal("go")
            results.append(await run.result())
    assert LIBRARY in sys.modules
    assert results[0] == results[1]
