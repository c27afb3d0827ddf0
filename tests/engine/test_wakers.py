"""A step that wakes workflow code through an asyncio object stops its run: a replay would not wake it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import OutsideWorkflow
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio


def wakes_event(event: asyncio.Event) -> Callable[[], Any]:
    async def wake() -> None:
        event.set()

    return wake


def wakes_event_in_a_thread(event: asyncio.Event) -> Callable[[], Any]:
    return event.set


def wakes_and_catches(event: asyncio.Event) -> Callable[[], Any]:
    async def wake() -> None:
        try:
            event.set()
        except Exception:
            return

    return wake


def wakes_in_a_task(event: asyncio.Event) -> Callable[[], Any]:
    async def wake() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wakes_event(event)())

    return wake


@pytest.mark.parametrize("wakes", [wakes_event, wakes_event_in_a_thread, wakes_and_catches, wakes_in_a_task])
@in_asyncio
async def test_a_step_that_wakes_code_of_its_run_stops_it(wakes: Any) -> None:
    app = Signoff(MemoryStore())
    paid: list[str] = []

    @app.workflow
    async def work(ctx: Context) -> bool:
        event = asyncio.Event()
        waiter = asyncio.create_task(event.wait())
        await asyncio.sleep(0)
        with contextlib.suppress(Exception):
            await ctx.step("wake", wakes(event))
        await waiter
        await ctx.step("pay", lambda: paid.append("paid"))
        return True

    async with environment(app) as env:
        run = await env.start(work)
        with pytest.raises(OutsideWorkflow, match="step 'wake' has set a future, an event or a queue"):
            await run.result()
        assert (await env.client.backend.get_run(run.id)).retryable
    assert paid == []


@in_asyncio
async def test_what_a_step_does_with_its_own_asyncio_objects_is_its_own_affair() -> None:
    app = Signoff(MemoryStore())

    async def wake() -> int:
        queue: asyncio.Queue[int] = asyncio.Queue()
        reader = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.put_nowait(1)
        return await reader

    @app.workflow
    async def work(ctx: Context) -> Any:
        return await asyncio.gather(ctx.step("wake", wake), ctx.step("wake", wake))

    async with environment(app) as env:
        assert await env.run(work) == [1, 1]
