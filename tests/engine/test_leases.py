"""Leases: kept while the worker's loop turns, harmless once lost, and all released."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import signoff
from signoff import Context, PromiseTimeout, RunState, Signoff
from signoff.engine.worker.worker import Worker
from signoff.records import EntryKind
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.support import (
    doomed_worker,
    in_asyncio,
    journaled,
    new_app,
    opened,
    pauses,
    reaches,
    running,
    until,
)


def _app(folder: Path, **options: Any) -> Signoff:
    return Signoff(SqliteStore(folder / "signoff.db", **options))


class _Hog:
    """A step that keeps its worker's loop from turning, on its first attempt."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = threading.Event()
        self.attempts = 0

    async def step(self) -> int:
        self.attempts += 1
        mine = self.attempts
        if mine == 1:
            self.begun.set()
            self.let_go.wait(60)
        return mine

    def register(self, app: Signoff) -> None:
        @app.workflow(name="flow")
        async def flow(ctx: Context) -> int:
            return await ctx.step("hog", self.step)


def test_a_worker_whose_loop_has_not_turned_for_long_lets_its_runs_go(tmp_path: Path) -> None:
    hog = _Hog()
    stalled, other = _app(tmp_path, lease_seconds=0.4), _app(tmp_path, lease_seconds=3600)
    for app in (stalled, other):
        hog.register(app)

    async def scenario() -> None:
        async with opened(other) as client:
            run = await client.start("flow", id="r")
            with stalled.worker(beat_seconds=0.05, stalled_seconds=0.2, grace_seconds=0):
                assert await asyncio.to_thread(hog.begun.wait, 60)
                async with other.worker():
                    assert await run.result(60) == 2
                hog.let_go.set()
            assert [entry.value for entry in await journaled(other, "r", EntryKind.COMPLETED)] == ["2"]

    asyncio.run(scenario())
    stalled.close()


def test_a_step_that_keeps_the_loop_for_less_keeps_its_run(tmp_path: Path) -> None:
    hog = _Hog()
    hogged, other = (_app(tmp_path, lease_seconds=60) for _ in range(2))
    for app in (hogged, other):
        hog.register(app)

    async def scenario() -> None:
        async with opened(other) as client:
            run = await client.start("flow", id="r")
            with hogged.worker(beat_seconds=0.05):
                assert await asyncio.to_thread(hog.begun.wait, 60)
                first = (await other.store.get_run("r")).lease_until or 0.0

                async def is_extended() -> bool:
                    return ((await other.store.get_run("r")).lease_until or 0.0) > first + 1.0

                async with other.worker():
                    await until(other, is_extended)
                    hog.let_go.set()
                    assert await run.result(60) == 1
            assert (await other.store.get_run("r")).epoch == 1

    asyncio.run(scenario())
    hogged.close()


class _Stolen:
    """Two workers on one file: the run of the first is given to the second in the middle of a step."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = new_app(folder), new_app(folder)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.ended: list[str] = []
        for name, app in (("first", self.first), ("second", self.second)):
            app.workflow(name="flow")(self._flow(name))

    def _flow(self, name: str) -> Any:
        async def work() -> str:
            if name == "second":
                return name
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return name

        async def flow(ctx: Context) -> str:
            return await ctx.step("work", work)

        return flow

    async def steal(self, holder: Worker) -> None:
        await self.begun.wait()
        holder.draining = True  # it claims nothing more
        await self.second.store.release(holder.info.id)


@in_asyncio
async def test_a_worker_that_lost_its_lease_cancels_its_steps(tmp_path: Path) -> None:
    scene = _Stolen(tmp_path)
    async with opened(scene.first) as client, opened(scene.second):
        run = await client.start("flow", id="r")
        async with doomed_worker(scene.first, beat_seconds=0.02) as holder:
            await scene.steal(holder)
            async with scene.second.worker():
                assert await run.result(60) == "second"
            async with asyncio.timeout(60):
                while not scene.ended:
                    await asyncio.sleep(0.01)
        assert scene.ended == ["cancelled"]


@in_asyncio
async def test_a_worker_that_lost_its_lease_writes_nothing(tmp_path: Path) -> None:
    scene = _Stolen(tmp_path)
    async with opened(scene.first) as client, opened(scene.second):
        run = await client.start("flow", id="r")
        async with doomed_worker(scene.first, beat_seconds=1000) as holder:
            await scene.steal(holder)
            async with scene.second.worker():
                assert await run.result(60) == "second"
            scene.go_on.set()  # it does not know yet, and comes to write its result
            async with asyncio.timeout(60):
                while holder.held:
                    await asyncio.sleep(0.01)
        assert scene.ended == ["done"]
        assert [entry.value for entry in await journaled(scene.second, "r", EntryKind.COMPLETED)] == [
            '"second"'
        ]
        assert len(await journaled(scene.second, "r", EntryKind.SUCCEEDED)) == 1


@in_asyncio
async def test_an_orderly_stop_gives_the_runs_back_at_once(tmp_path: Path) -> None:
    app = _app(tmp_path, lease_seconds=3600)
    begun = asyncio.Event()

    async def endless() -> int:
        if begun.is_set():
            return signoff.current_step().attempt
        begun.set()
        return await asyncio.Event().wait()

    @app.workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step(endless)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with app.worker(grace_seconds=0.05):
            await begun.wait()
        stopped = await app.store.get_run("r")
        assert (stopped.state, stopped.worker_id) == (RunState.READY, None)
        assert await app.store.list_workers() == []
        async with app.worker():
            assert await run.result(60) == 1  # an interrupted attempt does not count


@in_asyncio
async def test_a_drain_lets_running_steps_be_journaled_and_starts_no_others(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def first() -> None:
        ran.append("first")
        begun.set()
        await go_on.wait()

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(first)
        await ctx.step("second", lambda: ran.append("second"))
        return "done"

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app) as worker:
            await begun.wait()
            drained = asyncio.create_task(worker.drain())
            await asyncio.sleep(0)
            go_on.set()
            await drained
            assert [entry.name for entry in await journaled(app, "r", EntryKind.COMPLETED)] == ["first"]
            assert ran == ["first"]
        async with app.worker():
            assert await run.result(60) == "done"
        assert ran == ["first", "second"]


PROCESS = """
import sys, threading
from collections.abc import Mapping
from pathlib import Path
from signoff import Context, Signoff
from signoff.stores.sqlite.store import SqliteStore

app = Signoff(SqliteStore(Path(sys.argv[1]) / "signoff.db", lease_seconds=3600))

def work() -> None:
    print("begun", flush=True)
    threading.Event().wait()

@app.workflow
async def flow(ctx: Context) -> str:
    return await ctx.step("work", work)

with app.worker():
    threading.Event().wait()
"""


@in_asyncio
async def test_runs_of_a_killed_local_process_are_taken_over_before_lease_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "process.py").write_text(textwrap.dedent(PROCESS))
    app = _app(tmp_path, lease_seconds=3600)

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("work", lambda: "done elsewhere")

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        command = [sys.executable, str(tmp_path / "process.py"), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert await asyncio.to_thread(process.stdout.readline) == "begun\n"
            finally:
                os.kill(process.pid, signal.SIGKILL)
        assert await run.status() is RunState.RUNNING
        async with app.worker(beat_seconds=0.1):
            assert await run.result(60) == "done elsewhere"


@in_asyncio
async def test_a_worker_stops_while_the_store_is_unwritable_and_loses_nothing(
    tmp_path: Path,
) -> None:
    lease_clock = VirtualClock()
    app = _app(tmp_path, lease_clock=lease_clock, busy_seconds=0.1)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def second() -> None:
        ran.append("second")
        begun.set()
        await go_on.wait()

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("first", lambda: ran.append("first"))
        await ctx.step(second)
        return "done"

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        locked = sqlite3.connect(tmp_path / "signoff.db", isolation_level=None)
        try:
            async with app.worker(grace_seconds=0.3):
                await begun.wait()
                locked.execute("BEGIN IMMEDIATE")
                go_on.set()
        finally:
            locked.close()
        await reaches(app, "r", RunState.RUNNING)
        lease_clock.advance(11)
        async with app.worker():
            assert await run.result(60) == "done"
        assert ran == ["first", "second", "second"]


@in_asyncio
async def test_a_worker_that_cannot_reach_its_store_waits_and_goes_on(tmp_path: Path) -> None:
    app = _app(tmp_path, busy_seconds=0.1)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "kept"

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(work)

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await begun.wait()
        locked = sqlite3.connect(tmp_path / "signoff.db", isolation_level=None)
        try:
            locked.execute("BEGIN IMMEDIATE")
            go_on.set()
            with pytest.raises(TimeoutError):
                await run.result(0.5)
        finally:
            locked.close()
        assert await run.result(60) == "kept"


def test_a_lease_lasts_10_s_is_extended_every_3_s_and_dropped_after_60_s(
    tmp_path: Path,
) -> None:
    defaults = inspect.signature(Worker).parameters
    assert SqliteStore(tmp_path / "signoff.db").lease_seconds == 10
    assert (defaults["beat_seconds"].default, defaults["stalled_seconds"].default) == (3, 60)


class _Heard(logging.Handler):
    """Sets an event when a logger of Signoff reports an error."""

    def __init__(self, logger: str) -> None:
        super().__init__(logging.ERROR)
        self.event = asyncio.Event()
        self._logger = logging.getLogger(logger)
        self._logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()

    async def wait(self) -> None:
        try:
            await asyncio.wait_for(self.event.wait(), 60)
        finally:
            self._logger.removeHandler(self)


@pytest.mark.parametrize(
    ("prevent", "allow"),
    [("max_page_count = 1", "max_page_count = 1000000"), ("query_only = ON", "query_only = OFF")],
    ids=["full", "read-only"],
)
@in_asyncio
async def test_a_worker_whose_store_may_not_grow_or_be_written_waits_and_goes_on(
    tmp_path: Path, prevent: str, allow: str
) -> None:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "signoff.db", clock=clock)
    app = Signoff(store)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        begun.set()
        await go_on.wait()
        return random.Random(1).randbytes(50_000).hex()  # which takes as much room when it is compressed

    @app.workflow
    async def step(ctx: Context) -> int:
        return len(await ctx.step(work))

    @app.workflow
    async def wait(ctx: Context) -> str:
        promises = [await ctx.promise(timeout_seconds=60) for _ in range(300)]
        ends = await asyncio.gather(*promises, return_exceptions=True)
        return f"{sum(isinstance(end, PromiseTimeout) for end in ends)} timed out"

    async with running(app) as client:
        stepping, waiting = await client.start(step), await client.start(wait)
        await pauses(app, waiting.id)
        await begun.wait()
        db = store._file.writer._committer.db  # pyright: ignore[reportPrivateUsage]
        run_waits, timers_wait = _Heard("signoff.worker"), _Heard("signoff.timers")
        db.execute(f"PRAGMA {prevent}")  # a limit below the present size is the present size
        go_on.set()
        await run_waits.wait()
        clock.advance(61)
        await timers_wait.wait()
        db.execute(f"PRAGMA {allow}")
        assert await stepping.result(60) == 100_000
        assert await waiting.result(60) == "300 timed out"
        assert ran == [1]


# How many


@in_asyncio
async def test_a_worker_holds_no_more_runs_than_its_concurrency(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)
    begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    held: list[int] = []

    async with opened(app) as client:

        async def work() -> None:
            held.append(len(worker.held))
            go_on = asyncio.Event()
            begun.put_nowait(go_on)
            await go_on.wait()

        @app.workflow
        async def flow(ctx: Context) -> None:
            await ctx.step(work)

        runs = [await client.start(flow) for _ in range(5)]
        async with doomed_worker(app, concurrency=2) as worker, asyncio.timeout(60):
            for _ in runs:
                (await begun.get()).set()
            for run in runs:
                await run.result(60)
        assert len(held) == 5
        assert max(held) == 2


class _SlowHeart(SqliteStore):
    """Answers the first heartbeat for run ``r`` when it is let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.beats: list[dict[str, int]] = []
        self.go = threading.Event()

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        self.beats.append(dict(held))
        if len(self.beats) == 1:
            await asyncio.to_thread(self.go.wait)
        return await super().heartbeat(worker_id, held)


@in_asyncio
async def test_a_late_heartbeat_reply_drops_no_run_claimed_meanwhile(tmp_path: Path) -> None:
    store = _SlowHeart(tmp_path / "signoff.db")
    app = Signoff(store)
    first, second = asyncio.Event(), asyncio.Event()
    executed: list[str] = []

    async def step(name: str, until_set: asyncio.Event) -> None:
        executed.append(name)
        await until_set.wait()

    @app.workflow
    async def flow(ctx: Context) -> bool:
        await ctx.step("first", step, "first", first)
        answer = await ctx.wait_for_user("Go on?")
        await ctx.step("second", step, "second", second)
        return answer.approved

    async def beaten(times: int) -> None:
        async with asyncio.timeout(60):
            while len(store.beats) < times:
                await asyncio.sleep(0.005)

    async with running(app, beat_seconds=0.05) as client:
        run = await client.start("flow", id="r")
        await beaten(1)
        first.set()
        await pauses(app, "r")
        await client.answer("r.2", True)
        await reaches(app, "r", RunState.RUNNING)
        store.go.set()
        await beaten(3)  # what the first one found lost has been told
        assert store.beats[0] == {"r": 1}
        assert store.beats[-1] == {"r": 2}
        second.set()
        assert await run.result(60) is True
    assert executed == ["first", "second"]


@in_asyncio
async def test_a_worker_says_again_and_again_that_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.engine.worker.leases.ENLIST_SECONDS", 0.0)
    app = new_app(tmp_path)
    async with opened(app) as client, app.worker(beat_seconds=0.01) as worker:
        for _ in range(3):
            assert [each.id for each in await until(app, client.workers)] == [worker.info.id]
            await app.store.release(worker.info.id)  # as if it had been forgotten
