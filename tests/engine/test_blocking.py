"""A step that blocks its worker's loop for longer than a lease: the run converges, in every kind of store."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from signoff import Context, RunState, Signoff
from signoff.service import interventions
from tests.halves import sample
from tests.places import place
from tests.support import opened, until


class Blocking:
    """A workflow whose step blocks until it is let go; registered with one app for each worker."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.attempts = 0

    def register(self, app: Signoff) -> Signoff:
        @app.workflow(name="flow")
        async def flow(ctx: Context) -> int:
            await ctx.step("before", lambda: None)
            return await ctx.step("block", self.block)

        return app

    async def block(self) -> int:
        self.attempts += 1
        self.begun.release()
        self.let_go.wait(60)
        return self.attempts


@pytest.mark.parametrize("kind", sample(["sqlite", "postgres", "remote"]))
def test_a_step_that_blocks_one_worker_after_another_goes_to_an_operator(kind: str, tmp_path: Path) -> None:
    with place(kind, tmp_path) as new_store:
        blocking = Blocking()
        app, *blocked = (blocking.register(Signoff(new_store(lease_seconds=3.0))) for _ in range(3))
        with ExitStack() as workers:
            workers.callback(blocking.let_go.set)
            asyncio.run(converging(blocking, app, blocked, workers))
        for each in blocked:
            each.close()


async def converging(blocking: Blocking, app: Signoff, blocked: list[Signoff], workers: ExitStack) -> None:
    async def is_suspended() -> bool:
        found = await app.store.get_run("r")
        return found.is_suspended and found.state is RunState.PAUSED

    async with opened(app) as client:
        run = await client.start("flow", id="r")
        for each in blocked:
            workers.enter_context(
                each.worker(beat_seconds=0.05, stalled_seconds=1.5, grace_seconds=0, max_takeovers=2)
            )
            assert await asyncio.to_thread(blocking.begun.acquire, timeout=60)
        async with app.worker(beat_seconds=0.05, max_takeovers=2):
            await until(app, is_suspended)
            found = await app.store.get_run("r")
            assert "2 workers in turn were lost or blocked" in (found.suspended_reason or "")
            assert (found.suspended_by, blocking.attempts) == (None, 2)
            blocking.let_go.set()
            await interventions.resume(app.store, "r", by="user:ana")
            assert await run.result(60) == 3
