"""Leases after an outage of the store: no worker could extend them, so none loses a run."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import psycopg
import pytest

from signoff.engine.timers.timers import TimerService
from signoff.errors import StoreFull, StoreUnavailable
from signoff.records import NewPromise, NewRun, PromiseState, RunState
from signoff.records.tasks import NewInvocation, TaskLease, TaskState
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.postgres import clock, database
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.shared import outages
from signoff.stores.shared.outages import Outages
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.sqlite.transaction import Committer
from signoff.testing import VirtualClock
from tests.postgres.databases import fresh_database
from tests.postgres.server import PostgresServer
from tests.support import comes, in_asyncio

AnyStore = SqliteStore | PostgresStore
S = TypeVar("S", SqliteStore, PostgresStore, AnyStore)

STORES = pytest.mark.parametrize("kind", ["sqlite", "postgres"])

LEASE_SECONDS = 10.0
LONG_SECONDS = 45.0
SHORT_SECONDS = 0.5


class Time:
    """The clock that measures outages, set by a test.

    Attributes:
        now: In seconds, from that of the machine's monotonic clock on.
        waits: How often a write was noted that waits.
    """

    def __init__(self) -> None:
        self.now = time.monotonic()
        self.waits = 0

    async def has_waits(self) -> bool:
        return self.waits > 0


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    waiting = Outages.waiting

    def note(self: Outages, since: float | None = None) -> None:
        waiting(self, since)
        made.waits += 1

    monkeypatch.setattr(outages, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(Outages, "waiting", note)
    return made


@asynccontextmanager
async def _holding(store: S) -> AsyncIterator[S]:
    """Open a store in which a worker holds a run."""
    await store.open()
    await store.create_run(NewRun("r", "w", "g", "{}"))
    [claim] = await store.claim("worker", "g", ["w"], 1)
    assert claim.run.id == "r"
    try:
        yield store
    finally:
        await store.close()


async def _state(store: Store) -> RunState:
    return (await store.get_run("r")).state


async def _due_beside_a_lock(
    store: Store, path: Path, measured: Time, leases: VirtualClock, seconds: float
) -> None:
    """Do what is due while another process holds the file's lock for so long."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        leases.advance(max(seconds, LEASE_SECONDS))
        due = asyncio.create_task(store.due())
        await comes(measured.has_waits)
        measured.now += seconds
        other.execute("ROLLBACK")
        await due


@in_asyncio
async def test_a_lock_on_the_file_takes_no_leases(tmp_path: Path, measured: Time) -> None:
    leases = VirtualClock()
    async with _holding(
        SqliteStore(tmp_path / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:
        await _due_beside_a_lock(store, tmp_path / "signoff.db", measured, leases, LONG_SECONDS)
        assert await _state(store) is RunState.RUNNING
        measured.now += LEASE_SECONDS - 1
        leases.advance(LEASE_SECONDS - 1)
        next_at = await store.due()
        assert next_at is not None
        assert next_at > store.clock.now(), "and it is not polled"
        assert await store.heartbeat("worker", {"r": 1}) == set()
        measured.now += 1
        leases.advance(1)
        await store.due()
        assert await _state(store) is RunState.RUNNING, "it was extended in time"
        leases.advance(LEASE_SECONDS)
        await store.due()
        assert await _state(store) is RunState.READY


@in_asyncio
async def test_who_does_not_extend_a_lease_after_an_outage_loses_it(tmp_path: Path, measured: Time) -> None:
    leases = VirtualClock()
    async with _holding(
        SqliteStore(tmp_path / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:
        await _due_beside_a_lock(store, tmp_path / "signoff.db", measured, leases, LONG_SECONDS)
        measured.now += LEASE_SECONDS
        leases.advance(LEASE_SECONDS)
        await store.due()
        assert await _state(store) is RunState.READY


@in_asyncio
async def test_another_process_s_commit_holds_no_lease_up(tmp_path: Path, measured: Time) -> None:
    leases = VirtualClock()
    async with _holding(
        SqliteStore(tmp_path / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:
        await _due_beside_a_lock(store, tmp_path / "signoff.db", measured, leases, SHORT_SECONDS)
        assert await _state(store) is RunState.READY


@in_asyncio
async def test_a_lock_that_outlasts_patience_takes_no_leases_either(tmp_path: Path, measured: Time) -> None:
    leases = VirtualClock()
    path = tmp_path / "signoff.db"
    async with _holding(
        SqliteStore(path, lease_clock=leases, lease_seconds=LEASE_SECONDS, busy_seconds=0.1)
    ) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            leases.advance(LONG_SECONDS)
            with pytest.raises(StoreUnavailable):
                await store.due()
            measured.now += LONG_SECONDS
            other.execute("ROLLBACK")
        await store.due()
        assert await _state(store) is RunState.RUNNING


@in_asyncio
async def test_a_full_disk_takes_no_leases(
    tmp_path: Path, measured: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = VirtualClock()
    async with _holding(
        SqliteStore(tmp_path / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:

        def refuse(self: Committer, batch: object) -> None:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        with monkeypatch.context() as full:
            full.setattr(Committer, "_try", refuse)
            with pytest.raises(StoreFull):
                await store.heartbeat("worker", {"r": 1})
            leases.advance(LONG_SECONDS)
            measured.now += LONG_SECONDS
        await store.due()
        assert await _state(store) is RunState.RUNNING
        measured.now += LEASE_SECONDS
        await store.due()
        assert await _state(store) is RunState.READY


@in_asyncio
async def test_a_server_that_was_away_takes_no_leases_of_its_remote_workers(
    tmp_path: Path, measured: Time
) -> None:
    leases = VirtualClock()
    async with _holding(
        SqliteStore(tmp_path / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:
        leases.advance(LONG_SECONDS)
        async with Server(store, port=0):
            await store.create_promise(NewPromise("p", due_at=store.clock.now() - 1))
            await comes(lambda: _is_settled(store))
            assert await _state(store) is RunState.RUNNING
            measured.now += LEASE_SECONDS
            await comes(lambda: _is_ready(store))


@asynccontextmanager
async def _stores(kind: str, folder: Path, leases: VirtualClock) -> AsyncIterator[Callable[[], AnyStore]]:
    """Yield what makes stores of one database, each as a process of its own would have it."""
    if kind == "sqlite":
        yield lambda: SqliteStore(folder / "signoff.db", lease_clock=leases, lease_seconds=LEASE_SECONDS)
    else:
        with fresh_database() as url:
            yield lambda: PostgresStore(url, lease_clock=leases, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def loop_time(monkeypatch: pytest.MonkeyPatch, measured: Time) -> Callable[[], None]:
    """Return what makes the running loop go by the time that the test sets, as if its process was stopped."""

    def follow() -> None:
        began = measured.now
        monkeypatch.setattr(
            asyncio.get_running_loop(), "time", lambda: time.monotonic() + measured.now - began
        )

    return follow


@STORES
@in_asyncio
async def test_a_process_that_was_stopped_takes_no_leases(
    tmp_path: Path, measured: Time, loop_time: Callable[[], None], kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        loop_time()
        timers = asyncio.create_task(TimerService(store).run())
        await store.create_promise(NewPromise("p", due_at=store.clock.now() - 1))
        await comes(lambda: _is_settled(store))
        leases.advance(LONG_SECONDS)
        measured.now += LONG_SECONDS
        await store.create_promise(NewPromise("q", due_at=store.clock.now() - 1))
        await comes(lambda: _is_settled(store, "q"))
        assert await _state(store) is RunState.RUNNING
        assert await store.heartbeat("worker", {"r": 1}) == set()
        leases.advance(LEASE_SECONDS)

        async def is_ready_as_time_goes_on() -> bool:
            measured.now += LEASE_SECONDS / 100
            return await _is_ready(store)

        await comes(is_ready_as_time_goes_on)
        timers.cancel()
        await asyncio.wait([timers])


@STORES
@in_asyncio
async def test_a_stop_between_the_question_and_its_answer_takes_no_leases(
    tmp_path: Path, measured: Time, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        leases.advance(LONG_SECONDS)
        reached = Outages.reached

        def stopped(self: Outages) -> None:
            reached(self)
            measured.now += LONG_SECONDS

        with monkeypatch.context() as once:
            once.setattr(Outages, "reached", stopped)
            await store.due()
        assert await _state(store) is RunState.RUNNING
        measured.now += LEASE_SECONDS
        await store.due()
        assert await _state(store) is RunState.READY


@STORES
@in_asyncio
async def test_another_process_frees_what_one_that_was_stopped_holds(
    tmp_path: Path, measured: Time, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        other = make()
        await other.open()
        leases.advance(LONG_SECONDS)
        store.hold_leases()
        await store.due()
        assert await _state(store) is RunState.RUNNING
        await other.due()
        assert await _state(store) is RunState.READY
        await other.close()


async def _serve(store: Store, measured: Time, leases: VirtualClock, seconds: int) -> None:
    """Look each second, as a process that begins and serves for so long."""
    store.hold_leases()
    for _ in range(seconds + 1):
        await store.due()
        measured.now += 1
        leases.advance(1)


@STORES
@in_asyncio
async def test_processes_that_keep_restarting_free_a_dead_workers_runs(
    tmp_path: Path, measured: Time, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        leases.advance(LONG_SECONDS)
        for _ in range(2):
            begun = make()
            await begun.open()
            await _serve(begun, measured, leases, 4)
            await begun.close()
            assert await _state(store) is RunState.RUNNING
            leases.advance(LONG_SECONDS)  # nothing serves: this does not count
            measured.now += LONG_SECONDS
        begun = make()
        await begun.open()
        await _serve(begun, measured, leases, 4)
        await begun.close()
        assert await _state(store) is RunState.READY


@STORES
@in_asyncio
async def test_processes_that_keep_restarting_free_a_dead_processes_task(
    tmp_path: Path, measured: Time, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make:
        store = make()
        await store.open()
        await store.open_invocation(
            NewInvocation(NewPromise("t"), "poll://any@g", lease=TaskLease("dead", 2000))
        )
        leases.advance(LONG_SECONDS)
        measured.now += LONG_SECONDS
        await _serve_in_turn(make, measured, leases, 2)
        assert (await store.get_task("t")).state is TaskState.ACQUIRED, "its process may come back"
        await _serve_in_turn(make, measured, leases, 2)
        assert (await store.get_task("t")).state is TaskState.PENDING
        await store.close()


@STORES
@in_asyncio
async def test_processes_that_keep_restarting_take_no_returning_workers_run(
    tmp_path: Path, measured: Time, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        for _ in range(4):
            leases.advance(LONG_SECONDS)
            measured.now += LONG_SECONDS
            begun = make()
            await begun.open()
            await _serve(begun, measured, leases, 5)
            assert await begun.heartbeat("worker", {"r": 1}) == set()
            await _serve(begun, measured, leases, 4)
            await begun.close()
        assert await _state(store) is RunState.RUNNING


@STORES
@in_asyncio
async def test_a_lease_that_cannot_be_freed_stops_no_other_after_restarts(
    tmp_path: Path, measured: Time, kind: str
) -> None:
    leases = VirtualClock()
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        _refuse_to_free(store, "r")
        leases.advance(LONG_SECONDS)
        await _serve_in_turn(make, measured, leases, 4)
        for round in range(2):
            await store.create_run(NewRun(f"late-{round}", "w", "g", "{}"))
            [claim] = await store.claim("worker", "g", ["w"], 1)
            leases.advance(LONG_SECONDS)
            measured.now += LONG_SECONDS
            await _serve_in_turn(make, measured, leases, 2)
            assert (await store.get_run(claim.run.id)).state is RunState.RUNNING, "its worker may come back"
            await _serve_in_turn(make, measured, leases, 6)
            assert (await store.get_run(claim.run.id)).state is RunState.READY
            [claim] = await store.claim("another", "g", ["w"], 1)
            assert await store.heartbeat("another", {claim.run.id: claim.run.epoch}) == set()
        assert await _state(store) is RunState.RUNNING


async def _serve_in_turn(
    make: Callable[[], AnyStore], measured: Time, leases: VirtualClock, processes: int
) -> None:
    """Have processes follow one another, each of which serves for less than a lease."""
    for _ in range(processes):
        begun = make()
        await begun.open()
        await _serve(begun, measured, leases, 4)
        await begun.close()


def _refuse_to_free(store: AnyStore, run_id: str) -> None:
    """Have the database leave a run as it is that is to be freed, without an error."""
    if isinstance(store, PostgresStore):
        with psycopg.connect(store.conninfo, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION signoff.stays() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$"
            )
            connection.execute(
                "CREATE TRIGGER stays BEFORE UPDATE ON signoff.runs FOR EACH ROW "
                f"WHEN (NEW.id = '{run_id}' AND NEW.worker_id IS NULL) EXECUTE FUNCTION signoff.stays()".encode()
            )
    else:
        with closing(sqlite3.connect(store.path)) as connection:
            connection.execute(
                f"CREATE TRIGGER stays BEFORE UPDATE ON runs WHEN NEW.id = '{run_id}' AND NEW.worker_id IS NULL "
                "BEGIN SELECT RAISE(IGNORE); END"
            )


@STORES
@in_asyncio
async def test_outages_that_follow_one_another_free_a_dead_worker_s_runs(
    tmp_path: Path, measured: Time, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    leases = VirtualClock()
    noted: list[Outages] = []
    monkeypatch.setattr(Outages, "__init__", _noting(noted))
    async with _stores(kind, tmp_path, leases) as make, _holding(make()) as store:
        leases.advance(LONG_SECONDS)
        looks = 0
        while await _state(store) is RunState.RUNNING:
            for each in noted:
                each.waiting()
            measured.now += LEASE_SECONDS / 3
            leases.advance(LEASE_SECONDS / 3 + 1)
            await store.due()
            measured.now += 1
            looks += 1
            assert looks < 30, "they are never freed"
        assert looks > LEASE_SECONDS, "each second without an outage counts"


def _noting(noted: list[Outages]) -> Callable[[Outages], None]:
    made = Outages.__init__

    def note(self: Outages) -> None:
        made(self)
        noted.append(self)

    return note


@in_asyncio
async def test_a_suspended_machine_takes_no_leases_on_a_remote_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept = 0.0
    clocks = SimpleNamespace(monotonic=lambda: time.monotonic() - slept, time=time.time, sleep=time.sleep)
    monkeypatch.setattr(clock, "time", clocks)
    monkeypatch.setattr(database, "time", clocks)
    with fresh_database() as url:
        async with _holding(PostgresStore(url, lease_seconds=LEASE_SECONDS)) as store:
            await store.due()
            with psycopg.connect(url) as other:
                other.execute("UPDATE signoff.runs SET lease_until = extract(epoch FROM now()) - 20")
            slept = 3600.0
            for _ in range(3):
                await store.due()
            assert await _state(store) is RunState.RUNNING


async def _is_settled(store: Store, id: str = "p") -> bool:
    return (await store.get_promise(id)).state is not PromiseState.PENDING


async def _is_ready(store: Store) -> bool:
    return await _state(store) is RunState.READY


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


@pytest.mark.long
@in_asyncio
async def test_a_database_that_is_away_takes_no_leases(server: PostgresServer, measured: Time) -> None:
    leases = VirtualClock()
    async with _holding(
        PostgresStore(server.url(), lease_clock=leases, lease_seconds=LEASE_SECONDS)
    ) as store:
        await asyncio.to_thread(server.stop)
        leases.advance(LONG_SECONDS)
        due = asyncio.create_task(store.due())
        try:
            await comes(measured.has_waits)
        finally:
            measured.now += LONG_SECONDS
            await asyncio.to_thread(server.start)
        await due
        assert await _state(store) is RunState.RUNNING
        measured.now += LEASE_SECONDS
        leases.advance(LEASE_SECONDS)
        await store.due()
        assert await _state(store) is RunState.READY


@in_asyncio
async def test_a_locked_table_takes_no_leases() -> None:
    """Such as by CREATE INDEX: others read and cannot write."""
    with fresh_database() as url:
        async with _holding(PostgresStore(url, lease_seconds=1.0)) as store:
            with psycopg.connect(url) as other:
                other.execute("LOCK TABLE signoff.runs IN SHARE MODE")
                due = asyncio.create_task(_until_due(store))
                beat = asyncio.create_task(store.heartbeat("worker", {"r": 1}))
                await asyncio.sleep(2.5 * store.lease_seconds)
                other.rollback()
            assert await beat == set()
            assert await _state(store) is RunState.RUNNING
            due.cancel()
            await asyncio.gather(due, return_exceptions=True)


@in_asyncio
async def test_a_lost_connection_that_is_made_anew_at_once_holds_no_lease_up(measured: Time) -> None:
    """Such as one that a proxy or an administrator has closed."""
    with fresh_database() as url:
        leases = VirtualClock()
        async with _holding(
            PostgresStore(url, lease_clock=leases, lease_seconds=LEASE_SECONDS, readers=1)
        ) as store:
            await store.list_workers()
            with psycopg.connect(url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND query LIKE '%signoff.workers%' AND pid <> pg_backend_pid()"
                )
            await store.list_workers()
            measured.now = time.monotonic() + LONG_SECONDS
            leases.advance(LEASE_SECONDS)
            await comes(lambda: _is_freed(store))


async def _is_freed(store: Store) -> bool:
    await store.due()
    return await _is_ready(store)


async def _until_due(store: Store) -> None:
    while True:
        await store.due()
        await asyncio.sleep(0.05)
