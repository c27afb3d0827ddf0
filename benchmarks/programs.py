"""The measured workflows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from signoff import AsyncClient, Context, Signoff
from signoff.engine.worker.worker import Worker


def step(number: int) -> int:
    return number


async def async_step(number: int) -> int:
    return number


async def time_now() -> float:
    return time.perf_counter()


async def steps_in_threads(ctx: Context, steps: int) -> int:
    for number in range(steps):
        await ctx.step("step", step, number)
    return steps


async def async_steps(ctx: Context, steps: int) -> int:
    for number in range(steps):
        await ctx.step("step", async_step, number)
    return steps


async def time_of_each_step(ctx: Context, steps: int) -> list[float]:
    """Return the start time of each step."""
    return [await ctx.step("step", time_now) for _ in range(steps)]


async def time_of_answer(ctx: Context, steps: int) -> float:
    """Run some steps, ask a question, and return the time at the line after the answer."""
    for number in range(steps):
        await ctx.step("step", async_step, number)
    await ctx.wait_for_user("Go on?")
    return time.time()


def new_app(store: str) -> Signoff:
    """Return an app with these workflows."""
    app = Signoff(store)
    for workflow in (steps_in_threads, async_steps, time_of_each_step, time_of_answer):
        app.workflow(workflow)
    return app


def question_of(run_id: str, steps: int) -> str:
    """Return the id of the question that ``time_of_answer`` asks."""
    return f"{run_id}.{steps + 1}"


async def park(client: AsyncClient, run_ids: Iterable[str], steps: int) -> None:
    """Start a ``time_of_answer`` for each id, and return once all have paused."""
    ids = list(run_ids)
    for first in range(0, len(ids), 500):
        await asyncio.gather(
            *(client.start("time_of_answer", steps, id=id) for id in ids[first : first + 500])
        )
    await until_none(client, "ready", "running")


async def evict_all(worker: Worker) -> None:
    """Have a worker evict all paused runs, once it knows that they paused: their rows say so slightly earlier."""
    while worker.held:
        await asyncio.sleep(0.005)
    worker.evict()


async def until_none(client: AsyncClient, *states: str) -> None:
    """Return once no run is in one of these states."""
    while (await client.list(states=states, limit=1)).items:
        await asyncio.sleep(0.005)
