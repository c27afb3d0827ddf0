"""Runs are taken over before their leases expire if their process of this host has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from signoff import AsyncClient, Context, RunState, Signoff
from signoff.engine.worker.process_identity import new_worker
from signoff.records import WorkerInfo
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio, opened

NO_PROCESS = 2**22 + 1  # above the highest process id
ALIVE = new_worker("default", "default")
EARLIER = replace(ALIVE, process_started_at=ALIVE.process_started_at - 100)  # its process id is in use again
ENDED = replace(ALIVE, pid=NO_PROCESS)
ABROAD = replace(ENDED, host="another host")


def _app(folder: Path) -> Signoff:
    """An app whose leases do not run out within a test."""
    return Signoff(SqliteStore(folder / "signoff.db", lease_seconds=3600))


async def flow(ctx: Context) -> str:
    return await ctx.step("work", lambda: "done here")


async def _hold(client: AsyncClient, app: Signoff, holder: WorkerInfo) -> None:
    """Start a run that is held, and has its id, by another worker."""
    await app.store.enlist(holder)
    await client.start(flow, id=holder.id)
    (claim,) = await app.store.claim(holder.id, "default", ["flow"], 10)
    assert claim.run.id == holder.id


@pytest.mark.parametrize("holder", [ENDED, EARLIER], ids=["ended", "its process id is in use again"])
@in_asyncio
async def test_a_run_of_a_process_of_this_host_that_has_ended_is_taken_over(
    tmp_path: Path, holder: WorkerInfo
) -> None:
    app = _app(tmp_path)
    app.workflow(flow)
    async with opened(app) as client:
        await _hold(client, app, holder)
        async with app.worker():
            assert await (await client.get(holder.id)).result(60) == "done here"


@pytest.mark.parametrize("holder", [ABROAD, ALIVE], ids=["another host", "alive"])
@in_asyncio
async def test_a_run_of_another_host_or_of_a_living_process_stays_leased(
    tmp_path: Path, holder: WorkerInfo
) -> None:
    app = _app(tmp_path)
    app.workflow(flow)
    first, last = replace(holder, id="a"), replace(ENDED, id="b")  # looked at in this order
    async with opened(app) as client:
        for each in (first, last):
            await _hold(client, app, each)
        async with app.worker():
            assert await (await client.get("b")).result(60) == "done here"
            left = await app.store.get_run("a")
            assert (left.state, left.worker_id, left.epoch) == (RunState.RUNNING, "a", 1)


HOLDER = """
import sys, threading
from signoff import Context, Signoff
from signoff.stores.sqlite.store import SqliteStore

app = Signoff(SqliteStore(sys.argv[1], lease_seconds=3600))

@app.workflow
async def flow(ctx: Context) -> str:
    return await ctx.step("work", lambda: print("begun", flush=True) or threading.Event().wait())

with app.worker():
    threading.Event().wait()
"""


@in_asyncio
async def test_a_running_worker_takes_over_the_runs_of_a_killed_process(tmp_path: Path) -> None:
    app = _app(tmp_path)
    async with opened(app) as client, app.worker(beat_seconds=0.05):
        run = await client.start("flow", id="r")
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "signoff.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert await asyncio.to_thread(process.stdout.readline) == "begun\n"
                app.workflow(flow)  # from now on this worker could run it as well
            finally:
                os.kill(process.pid, signal.SIGKILL)
        assert await run.result(60) == "done here"
