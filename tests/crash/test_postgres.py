"""Many machines on one Postgres: workers and the server are killed, frozen and restored; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from signoff import AsyncClient, Signoff
from signoff.records import Entry, EntryKind, NewPromise, PromiseState, RunState
from signoff.records.paging import RunFilter
from signoff.stores.postgres.store import PostgresStore
from tests.crash import processes, programs
from tests.forks import fork
from tests.postgres.account import unprivileged
from tests.postgres.databases import fresh_database
from tests.postgres.installations import newest
from tests.postgres.server import PostgresServer
from tests.remote.bad_world import answer_everything, check_effects, check_results, comes, everything, pauses
from tests.remote.processes import lines, slow_app
from tests.support import PATIENCE_SECONDS, in_asyncio

RUNS = 280  # of each program as many
LEASE_SECONDS = 3.0
MACHINES = ("m1", "m2", "m3")

ENTRIES_A_KILL = (
    25  # written since the last kill: however slow this machine is, as much work is done between two
)
WRITTEN = "SELECT count(*) FROM signoff.journal"
AT_WORK = "SELECT pid FROM signoff.workers WHERE id IN (SELECT worker_id FROM signoff.runs)"
ROOT = Path(__file__).parents[2]
# What is killed leaves no coverage data behind, and starts four times as fast without measuring any.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
HELD = "SELECT count(*) FROM signoff.runs WHERE worker_id LIKE %s"


class Process:
    """A worker, killed at the end. Its log is in a file."""

    def __init__(self, folder: Path, name: str, *arguments: object) -> None:
        self.log = folder / f"{name}.log"
        command = [sys.executable, "-m", "tests.crash.processes", name, *map(str, arguments)]
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(command, cwd=ROOT, env=UNMEASURED, stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9, also when it is frozen."""
        self.running.kill()
        self.running.wait()


class Workers:
    """One worker on each machine, forked from a process that has imported everything: a new one works at once."""

    def __init__(self, folder: Path, url: str) -> None:
        self.effects = folder / "effects"
        self._url = url
        self._of = {machine: self._start(machine) for machine in MACHINES}

    def pids(self) -> set[int]:
        return {worker.pid or 0 for worker in self._of.values()}

    def kill(self, pid: int) -> str:
        """Kill a worker. Returns its machine."""
        [machine] = [machine for machine, worker in self._of.items() if worker.pid == pid]
        self._of[machine].kill()
        self._of[machine].join()
        return machine

    def restart(self, machine: str) -> None:
        self._of[machine] = self._start(machine)

    def close(self) -> None:
        for worker in self._of.values():
            worker.kill()
            worker.join()

    def _start(self, machine: str) -> ForkServerProcess:
        return fork(processes.main, "worker", self._url, str(LEASE_SECONDS), machine, str(self.effects))


async def time_of_takeover(url: str, pid: int) -> float | None:
    """How long a dead worker's runs stay without another one; None if it held none."""
    began = time.monotonic()
    held = 0
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                while True:
                    found = await (await connection.execute(HELD, (f"%:{pid}:%",))).fetchone()
                    assert found is not None
                    held = max(held, found[0])
                    if found[0] == 0:
                        return time.monotonic() - began if held else None
                    await asyncio.sleep(0.02)
        except psycopg.OperationalError:
            await asyncio.sleep(0.1)  # the server is being restarted


async def kill_workers(workers: Workers, url: str, chance: random.Random, takeovers: list[float]) -> None:
    """Kill a worker that holds runs every second; another one of its machine comes soon, or late."""
    measuring: list[asyncio.Task[float | None]] = []
    written = 0
    try:
        while True:
            await asyncio.sleep(1.0)
            [(entries,)] = await looked_up(url, WRITTEN) or [(0,)]
            at_work = workers.pids() & {pid for (pid,) in await looked_up(url, AT_WORK)}
            if not at_work or entries < written + ENTRIES_A_KILL:
                continue
            written = entries
            pid = chance.choice(sorted(at_work))
            machine = workers.kill(pid)
            measuring.append(asyncio.create_task(time_of_takeover(url, pid)))
            await asyncio.sleep(chance.choice((0.0, 0.5)))
            workers.restart(machine)
    finally:
        for task in measuring:
            if task.done() and (seconds := task.result()) is not None:
                takeovers.append(seconds)
            task.cancel()
        await asyncio.gather(*measuring, return_exceptions=True)


async def looked_up(url: str, query: LiteralString) -> list[tuple[Any, ...]]:
    """The rows of a query; none while the server is being restarted."""
    try:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await (await connection.execute(query)).fetchall()
    except psycopg.OperationalError:
        return []


async def restart_the_server(server: PostgresServer, chance: random.Random) -> None:
    """Restart it twice: once in order, once by kill -9 and with a pause."""
    await asyncio.sleep(chance.uniform(1.5, 3.0))
    await asyncio.to_thread(server.restart, "fast")
    await asyncio.sleep(chance.uniform(1.5, 3.0))
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(1.0)
    await asyncio.to_thread(server.start)


async def stuck(app: Signoff, began: float) -> str:
    """Describe the runs that have not ended: how many in each state, and the first few."""
    states = frozenset(state for state in RunState if not state.is_final)
    runs = (await app.store.list_runs(RunFilter(states=states), limit=1000)).items
    kinds = Counter(f"{run.state}{' suspended' * run.is_suspended} takeovers={run.takeovers}" for run in runs)
    said = [f"{len(runs)} of {RUNS} runs are stuck after {time.monotonic() - began:.0f} s: {dict(kinds)}"]
    now = time.time()
    for run in runs[:5]:
        journal = await app.store.read_journal(run.id)
        messages = [str(message.kind) for message, _ in await app.store.read_messages([run.id])]
        wakes = None if run.wake_at is None else round(run.wake_at - now, 1)
        leased = None if run.lease_until is None else round(run.lease_until - now, 1)
        said.append(
            f"{run.id} {run.state} epoch={run.epoch} wakes={run.wakes} wake_in={wakes} lease_for={leased}"
            f" worker={run.worker_id} messages={messages} suspended={run.suspended_reason!r}"
            f" last entries={[f'{entry.kind} {entry.n} {entry.name}' for entry in journal[-3:]]}"
        )
    workers = [
        f"{worker.id} seen {now - (worker.seen_at or 0.0):.1f} s ago, holds {worker.held}"
        for worker in await app.store.list_workers()
    ]
    return "\n".join([*said, f"workers: {workers[-6:]}"])


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


@pytest.mark.long
@pytest.mark.timeout(600)
@in_asyncio
async def test_hundreds_of_runs_end_correctly_despite_kills_and_a_restart(
    tmp_path: Path, server: PostgresServer
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    url = server.url()
    app = programs.make_app(PostgresStore(url), tmp_path / "effects")
    takeovers: list[float] = []
    began = time.monotonic()
    try:
        async with AsyncClient(app) as client:
            workers = await asyncio.to_thread(Workers, tmp_path, url)
            troubles = [
                asyncio.create_task(kill_workers(workers, url, chance, takeovers)),
                asyncio.create_task(answer_everything(client)),
            ]
            restarts = asyncio.create_task(restart_the_server(server, chance))
            try:
                names = [f"{name}-{k}" for k in range(RUNS // len(programs.NAMES)) for name in programs.NAMES]
                handles = await asyncio.gather(
                    *(client.start(name.partition("-")[0], id=name) for name in names)
                )
                ends = asyncio.gather(*(handle.result() for handle in handles))
                await asyncio.wait([ends, *troubles], timeout=400, return_when=asyncio.FIRST_COMPLETED)
                for task in troubles:
                    if task.done():
                        task.result()
                if not ends.done():
                    raise AssertionError(await stuck(app, began))
                results = dict(zip(names, ends.result(), strict=True))
                await restarts
            finally:
                for task in (*troubles, restarts):
                    task.cancel()
                await asyncio.gather(*troubles, restarts, return_exceptions=True)
                await asyncio.to_thread(workers.close)
            runs = (await app.store.list_runs(RunFilter(), limit=10_000)).items
            journals = {run.id: await app.store.read_journal(run.id) for run in runs}
    finally:
        await app.store.close()
    assert len(results) == RUNS
    check_results(results)
    repeated = check_effects(workers.effects, journals)
    assert takeovers
    print(
        f"{RUNS} runs in {time.monotonic() - began:.1f} s; {len(takeovers)} takeovers took"
        f" {min(takeovers):.2f} to {max(takeovers):.2f} s, median {statistics.median(takeovers):.2f} s"
        f" (leases last {LEASE_SECONDS:g} s); {repeated} executions repeated before they were journaled"
    )


@pytest.mark.long
@pytest.mark.timeout(400)
@in_asyncio
async def test_a_worker_frozen_past_its_lease_writes_and_settles_nothing(
    tmp_path: Path,
) -> None:
    with fresh_database() as url:
        app = slow_app(PostgresStore(url), tmp_path)  # type: ignore[arg-type]
        await app.store.open()
        frozen = Process(tmp_path, "slow", url, 1.5, "m1", tmp_path)
        other = None
        try:
            async with AsyncClient(app) as client:
                parent = await client.start("parent", id="p")
                await comes(lambda: len(lines(tmp_path / "begun")) == 1)
                await pauses(app, "p")
                frozen.running.send_signal(signal.SIGSTOP)
                other = Process(tmp_path, "slow", url, 90.0, "m2", tmp_path)
                await comes(lambda: len(lines(tmp_path / "begun")) == 2)
                before = await everything(app)
                (
                    tmp_path / f"go-{frozen.running.pid}"
                ).touch()  # what it does first when it wakes is to write
                frozen.running.send_signal(signal.SIGCONT)
                await comes(lambda: any("the lease on run" in line for line in lines(frozen.log)))
                after = await everything(app)
                assert [(run.state, run.epoch) for run, _ in after.values()] == [
                    (run.state, run.epoch) for run, _ in before.values()
                ]
                assert [journal for _, journal in after.values()] == [
                    journal for _, journal in before.values()
                ]
                (tmp_path / f"go-{other.running.pid}").touch()
                assert await parent.result(PATIENCE_SECONDS) == other.running.pid
                other.kill()
                # It works on as before, and so has done all that it might have done with the runs it lost.
                following = await client.start("child", id="next")
                assert await following.result(PATIENCE_SECONDS) == frozen.running.pid
                entries = (await everything(app))["p"][1]
                completed = [entry.value for entry in entries if entry.kind is EntryKind.COMPLETED]
                assert completed == [str(other.running.pid)]
        finally:
            for process in (frozen, other):
                if process is not None:
                    process.kill()
            await app.store.close()


@pytest.mark.timeout(400)
@in_asyncio
async def test_of_answers_from_four_processes_one_wins_and_it_is_never_lost(
    tmp_path: Path, server: PostgresServer
) -> None:
    """There are no workers while people answer, and the server is killed right after each acknowledgement."""
    url = server.url()
    store = PostgresStore(url)
    await store.open()
    try:
        for race in range(3):
            promise_id = f"p{race}"
            await store.create_promise(NewPromise(promise_id))
            files = [tmp_path / f"{race}.{n}" for n in range(4)]
            begin_at = str(time.time() + 0.5)
            racers = [
                fork(processes.settle, url, promise_id, str(n), begin_at, file)
                for n, file in enumerate(files)
            ]
            for racer in racers:
                await asyncio.to_thread(racer.join)
            said = [file.read_text().split() for file in files]
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            [winner] = [value for outcome, value in said if outcome == "won"]
            assert sorted(value for outcome, value in said if outcome == "told") == [f"user:{winner}"] * 3
            promise = await store.get_promise(promise_id)
            assert (promise.state, promise.value) == (PromiseState.RESOLVED, winner)
    finally:
        await store.close()


@pytest.mark.long
@pytest.mark.timeout(300)
@in_asyncio
async def test_a_dump_of_a_running_system_restores_to_a_consistent_one(
    tmp_path: Path, server: PostgresServer
) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE first")
        connection.execute("CREATE DATABASE second")
    names = [f"{name}-{k}" for k in range(10) for name in programs.NAMES]
    first = tmp_path / "first"
    second = tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    app = programs.make_app(PostgresStore(server.url("first")), first / "effects")
    try:
        async with AsyncClient(app) as client:
            workers = await asyncio.to_thread(Workers, first, server.url("first"))
            people = asyncio.create_task(answer_everything(client))
            try:
                for name in names[:25]:
                    await client.start(name.partition("-")[0], id=name)
                dumping = asyncio.create_task(asyncio.to_thread(_dump, server, tmp_path / "dump"))
                handles = [await client.start(name.partition("-")[0], id=name) for name in names[25:]]
                await dumping
                handles += [await client.get(name) for name in names[:25]]
                await asyncio.gather(*(handle.result(120) for handle in handles))
            finally:
                people.cancel()
                await asyncio.gather(people, return_exceptions=True)
                await asyncio.to_thread(workers.close)
    finally:
        await app.store.close()
    await asyncio.to_thread(_restore, server, tmp_path / "dump")
    results = await _finish(server.url("second"), second)
    assert len(results) >= 25
    check_results(results)


async def _finish(url: str, folder: Path) -> dict[str, Any]:
    """Let a restored system go on to the end."""
    programs.bring_agent()
    app = programs.make_app(PostgresStore(url), folder / "effects")
    try:
        await app.store.open()
        runs = (await app.store.list_runs(RunFilter(), limit=10_000)).items
        journals = [await app.store.read_journal(run.id) for run in runs]
        assert any(not run.state.is_final for run in runs), "it was dumped in the middle of its work"
        for run, journal in zip(runs, journals, strict=True):
            assert [entry.seq for entry in journal] == list(range(len(journal)))
            assert run.state.is_final == _has_ended(journal)
        async with AsyncClient(app) as client, app.worker(beat_seconds=0.5):
            people = asyncio.create_task(answer_everything(client))
            try:
                chosen = [run.id for run in runs if run.parent_id is None]
                handles = [await client.get(run_id) for run_id in chosen]
                ended = await asyncio.gather(*(handle.result(120) for handle in handles))
                return dict(zip(chosen, ended, strict=True))
            finally:
                people.cancel()
                await asyncio.gather(people, return_exceptions=True)
    finally:
        await app.store.close()


def _has_ended(journal: Sequence[Entry]) -> bool:
    ends = (EntryKind.SUCCEEDED, EntryKind.FAILED, EntryKind.CANCELLED)
    return bool(journal) and journal[-1].kind in ends


def _dump(server: PostgresServer, file: Path) -> None:
    time.sleep(1.0)
    with file.open("wb") as out:
        _run([_tool("pg_dump"), "--format=custom", server.url("first")], stdout=out)


def _restore(server: PostgresServer, file: Path) -> None:
    with file.open("rb") as dump:
        _run([_tool("pg_restore"), "--dbname", server.url("second")], stdin=dump)


def _tool(name: str) -> str:
    return str(newest().reachable().bin / name)


def _run(command: Sequence[str], **streams: Any) -> None:
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, **unprivileged(), **streams)
    assert done.returncode == 0, re.sub("//[^@]*@", "//", done.stderr.decode())
