"""Rules of the SQLite store alone: one file, many processes, no loss, no lock that a user sees."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from signoff.errors import AlreadySettled, InvalidValue, SchemaTooNew, StoreFull, StoreUnavailable
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewRun,
    NewToken,
    PromiseKind,
    PromiseState,
    RunState,
    TokenKind,
)
from signoff.records.paging import RunFilter
from signoff.records.workers import WorkerInfo
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.stores.sqlite import (
    audit,
    claims,
    concurrency_keys,
    deferred_changes,
    groups,
    leases,
    messages,
    retention,
    schedules,
    sessions,
    task_states,
    tasks,
    transitions,
)
from signoff.stores.sqlite import journal as sqlite_journal
from signoff.stores.sqlite import promises as sqlite_promises
from signoff.stores.sqlite import questions as sqlite_questions
from signoff.stores.sqlite import runs as sqlite_runs
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.stores.processes import outcome, process
from tests.stores.scene import GROUP, SUCCESS, YES, Scene, entry, multiply, question, sqlite_scene, until
from tests.support import comes, in_asyncio

RUN = NewRun("r", "refund", "default", "{}")


def raw(path: Path) -> closing[sqlite3.Connection]:
    """Open the file as another program would."""
    return closing(sqlite3.connect(path, isolation_level=None))


class Watched(sqlite3.Connection):
    """Calls ``before`` with each statement before it is executed."""

    before: Callable[[str], None] | None = None

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if self.before is not None:
            self.before(sql)
        return super().execute(sql, *args)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """All connections that the test has opened so far; just after a store is opened, the last is its writer's."""
    connect = sqlite3.connect
    opened: list[Watched] = []

    def watched(*args: Any, **more: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **more, factory=Watched))
        return opened[-1]

    monkeypatch.setattr("sqlite3.connect", watched)
    return opened


def _scene(folder: Path, test: Any) -> None:
    async def play() -> None:
        async with sqlite_scene(folder) as scene:
            await test(scene)

    asyncio.run(play())


# The file


@pytest.mark.parametrize("address", ["sqlite:///{}", "{}"])
def test_a_store_is_named_by_url_or_path(tmp_path: Path, address: str) -> None:
    store = SqliteStore(address.format(tmp_path / "x.db"))
    assert store.location == f"sqlite:///{tmp_path}/x.db"
    assert SqliteStore(tmp_path / "x.db").location == store.location
    assert SqliteStore("sqlite:///x.db").location == f"sqlite:///{Path.cwd()}/x.db"


NO_FILES = [
    "",
    ":memory:",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite://x.db",
    "sqlite:///x.db?timeout=5",
    "file:x.db?mode=memory",
    "postgresql://host/db",
]


@pytest.mark.parametrize("address", NO_FILES)
def test_an_address_that_names_no_file_is_refused_with_what_to_do(address: str) -> None:
    with pytest.raises(InvalidValue):
        SqliteStore(address)


def test_a_file_migrated_by_a_newer_signoff_is_refused(tmp_path: Path) -> None:
    open_once(tmp_path / "x.db")
    with raw(tmp_path / "x.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(SchemaTooNew):
        open_once(tmp_path / "x.db")


def test_a_file_that_is_not_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    with raw(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE runs (a)")
    (tmp_path / "text.db").write_text("This is a shopping list. " * 100)
    for name in ("other.db", "text.db", "no/such/folder/x.db"):
        with pytest.raises(StoreUnavailable, match=name):
            open_once(tmp_path / name)
    with raw(tmp_path / "other.db") as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("runs",)]


def test_several_processes_may_create_one_file_at_once(tmp_path: Path) -> None:
    commands = [process("open_many_times", tmp_path / "x.db") for _ in range(4)]
    running = [command.__enter__() for command in commands]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    for command in commands:
        command.__exit__(None, None, None)


@pytest.mark.long
def test_a_process_killed_during_a_migration_leaves_a_whole_file(
    tmp_path: Path,
) -> None:
    [survivor] = outcome("die_at_each_statement_of_opening", tmp_path)

    async def use(path: Path) -> None:
        store = SqliteStore(path)
        await store.open()
        assert (await store.create_run(RUN))[1]
        await store.close()

    async def use_all() -> None:
        for number in range(int(survivor)):  # at once takes three times the processor
            await use(tmp_path / f"{number}.db")

    def schema_of(path: Path) -> list[Any]:
        with raw(path) as connection:
            marks = [
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
            ]
            return [
                *marks,
                connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall(),
            ]

    asyncio.run(use_all())
    whole = schema_of(tmp_path / f"{survivor}.db")
    assert len(whole[-1]) < int(survivor), "most were killed within the migration"
    for number in range(int(survivor)):
        assert schema_of(tmp_path / f"{number}.db") == whole


def open_once(path: Path) -> None:
    store = SqliteStore(path)

    async def play() -> None:
        await store.open()
        await store.close()

    asyncio.run(play())


def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")

    async def play() -> None:
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.get_run("r")
        await store.open()
        await store.open()
        await store.create_run(RUN)
        await store.close()
        await store.close()
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.create_run(RUN)
        await store.open()
        assert (await store.get_run("r")).id == "r"
        await store.close()

    asyncio.run(play())


def test_closing_finishes_what_was_begun(tmp_path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db", inline_below_seconds=0)
        await store.open()
        begun = [
            asyncio.create_task(store.create_run(NewRun(f"r{n}", "refund", "default", "{}")))
            for n in range(50)
        ]
        await asyncio.sleep(0)
        await store.close()
        results = await asyncio.gather(*begun, return_exceptions=True)
        await store.open()
        listed = {run.id for run in (await store.list_runs(RunFilter())).items}
        await store.close()
        assert listed == {result[0].id for result in results if isinstance(result, tuple)}
        assert all(isinstance(result, tuple | StoreUnavailable) for result in results)

    asyncio.run(play())


# The writer


@pytest.mark.parametrize("inline_below_seconds", [0.0, 1.0])
def test_what_waits_is_committed_together(tmp_path: Path, inline_below_seconds: float) -> None:
    heard: list[Change] = []

    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db", inline_below_seconds=inline_below_seconds)
        await store.open()
        store.listen(heard.append)
        runs = [NewRun(f"r{n}", "refund", "default", "{}") for n in range(500)]
        await asyncio.gather(*(store.create_run(run) for run in runs))
        await store.close()

    asyncio.run(play())
    assert sum(len(change.runs or ()) for change in heard) == 500
    assert len(heard) < 10


def test_quick_commits_stay_on_the_loop_and_slow_ones_leave_it(tmp_path: Path) -> None:
    async def committing_thread(inline_below_seconds: float) -> str:
        threads: list[str] = []
        store = SqliteStore(tmp_path / "x.db", inline_below_seconds=inline_below_seconds)
        await store.open()
        store.listen(lambda _: threads.append(threading.current_thread().name))
        for number in range(3):
            await store.create_run(NewRun(f"{inline_below_seconds}.{number}", "refund", "default", "{}"))
        await store.close()
        return threads[-1]

    assert asyncio.run(committing_thread(10.0)) == threading.current_thread().name
    assert asyncio.run(committing_thread(1e-9)) == "signoff-sqlite-writer"


@pytest.mark.parametrize("inline_below_seconds", [0.0, 10.0])
def test_the_log_reaches_its_full_size_after_some_commits_the_database_not(
    tmp_path: Path, inline_below_seconds: float
) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db", inline_below_seconds=inline_below_seconds)
        await store.open()
        with raw(tmp_path / "x.db") as other:
            other.execute("BEGIN")
            pages = other.execute("PRAGMA page_count").fetchone()  # from now on it sees the database as it is
            for number in range(40):
                await store.create_run(NewRun(f"r{number}", "refund", "default", "{}"))
            log = tmp_path / "x.db-wal"
            await until(lambda: log.stat().st_size > 4_000_000)
            for number in range(40, 80):
                await store.create_run(NewRun(f"r{number}", "refund", "default", "{}"))
            assert log.stat().st_size < 6_000_000
            assert other.execute("SELECT count(*) FROM runs").fetchone() == (0,)
            other.execute("COMMIT")
            assert other.execute("SELECT count(*) FROM runs").fetchone() == (80,)
            assert other.execute("PRAGMA page_count").fetchone()[0] < pages[0] + 20
            assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        await store.close()
        assert (tmp_path / "x.db").stat().st_size < 1_000_000

    asyncio.run(play())


def test_every_connection_waits_until_its_commits_are_on_the_disk(
    tmp_path: Path, opened: list[Watched]
) -> None:
    """No kill can show it, only a power cut."""

    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db")
        await store.open()
        await store.create_run(RUN)
        writer = opened[-1]
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        await store.close()

    asyncio.run(play())


def test_a_broken_clock_fails_what_was_asked_and_nothing_after_it(tmp_path: Path) -> None:
    class Clock(VirtualClock):
        broken = False

        def now(self) -> float:
            if self.broken:
                raise RuntimeError("no time")
            return super().now()

    async def play(inline_below_seconds: float) -> None:
        clock = Clock()
        path = tmp_path / f"{inline_below_seconds}.db"
        store = SqliteStore(path, clock=clock, inline_below_seconds=inline_below_seconds)
        await store.open()
        clock.broken = True
        with pytest.raises(RuntimeError, match="no time"):
            await store.create_run(RUN)
        clock.broken = False
        assert (await store.create_run(RUN))[1]
        await store.close()

    for inline_below_seconds in (0.0, 10.0):
        asyncio.run(play(inline_below_seconds))


def test_an_operation_that_breaks_half_way_leaves_no_trace_and_no_victim(tmp_path: Path) -> None:
    """A lone surrogate cannot be stored, which shows only when the second of two entries is written."""

    async def play(scene: Scene) -> None:
        first, second = await scene.run("a"), await scene.run("b")
        broken = entry(1, error="\ud800")
        results = await asyncio.gather(
            scene.append(first, entry(0)),
            scene.append(second, entry(0), broken),
            scene.store.signal("a", "go", "1"),
            return_exceptions=True,
        )
        assert isinstance(results[1], UnicodeEncodeError)
        assert (results[0], results[2]) == (None, True)
        assert len(await scene.journal("a")) == 1
        assert await scene.journal("b") == []

    _scene(tmp_path, play)


def test_loops_on_many_threads_share_a_store(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    asyncio.run(store.open())

    async def create(thread: int) -> None:
        for number in range(50):
            await store.create_run(NewRun(f"r{thread}.{number}", "refund", "default", "{}"))

    threads = [threading.Thread(target=lambda n=n: asyncio.run(create(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    listed = asyncio.run(store.list_runs(RunFilter(), limit=1000))
    asyncio.run(store.close())
    assert len(listed.items) == 400


def test_a_loop_that_closes_early_harms_no_other(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db", inline_below_seconds=0)
    asyncio.run(store.open())

    async def leave() -> None:
        asyncio.get_running_loop().create_task(store.create_run(RUN))
        await asyncio.sleep(0)

    asyncio.run(leave())
    asyncio.run(store.create_run(NewRun("s", "refund", "default", "{}")))
    asyncio.run(store.close())


# What others see between two commits

# A state that must never be visible, since no run takes its messages here.
NEVER = {
    "a settled promise without the message of a run that waits for it": """
        WITH waiting AS (
            SELECT target_id, run_id, n FROM waiters WHERE target = 'promise'
            UNION ALL SELECT id, run_id, n FROM promises WHERE state <> 'cancelled'
        )
        SELECT waiting.* FROM waiting JOIN promises ON promises.id = target_id JOIN runs ON runs.id = waiting.run_id
        WHERE promises.state <> 'pending' AND runs.ended_at IS NULL
            AND (waiting.run_id, waiting.n, target_id) NOT IN (SELECT run_id, n, name FROM messages WHERE n >= 0)
    """,
    "a run that has ended without the message of a run that waits for it": """
        WITH waiting AS (
            SELECT target_id, run_id, n FROM waiters WHERE target = 'run'
            UNION ALL SELECT id, parent_id, parent_n FROM runs WHERE parent_id IS NOT NULL
        )
        SELECT waiting.* FROM waiting JOIN runs ON runs.id = target_id
        WHERE runs.ended_at IS NOT NULL
            AND (run_id, n, target_id) NOT IN (SELECT run_id, n, name FROM messages WHERE n >= 0)
    """,
    "a message to a run that sleeps on": """
        SELECT run_id FROM messages JOIN runs ON runs.id = run_id WHERE runs.state = 'paused'
    """,
    "an open promise of a run that has ended": """
        SELECT promises.id FROM promises JOIN runs ON runs.id = run_id
        WHERE promises.state = 'pending' AND runs.ended_at IS NOT NULL
    """,
    "a run that was cancelled at once without its journal's last entry": """
        SELECT id FROM runs WHERE state = 'cancelled' AND id NOT IN (SELECT run_id FROM journal)
    """,
    "a run that is to stop and was not told": """
        SELECT id FROM runs
        WHERE cancel_asked AND id NOT IN (SELECT run_id FROM messages WHERE kind = 'cancel')
            OR deadline_passed AND id NOT IN (SELECT run_id FROM messages WHERE kind = 'deadline')
    """,
    "a request that is known without its signal": """
        SELECT run_id FROM requests WHERE run_id NOT IN (SELECT run_id FROM messages WHERE kind = 'signal')
    """,
    "a question that is open and in no inbox, or not open and in one": """
        SELECT id FROM promises
        WHERE (state = 'pending') <> (number IN (SELECT number FROM inbox))
    """,
    "a question whose asking or settling is not recorded": """
        SELECT id FROM promises WHERE id NOT IN (SELECT question_id FROM audit WHERE kind = 'asked')
            OR state <> 'pending' AND id NOT IN (SELECT question_id FROM audit WHERE audit.kind = promises.state)
    """,
    "a vote that is recorded and not counted": """
        SELECT id FROM promises WHERE version = 0 AND id IN (SELECT question_id FROM audit WHERE kind = 'voted')
    """,
}


async def _time_passes(scene: Scene) -> None:
    scene.clock.advance(60)
    await scene.store.due()


async def _answer_too_late(scene: Scene) -> None:
    scene.clock.advance(60)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0")


async def _vote_too_late(scene: Scene) -> None:
    scene.clock.advance(60)
    await scene.store.amend("r.0", VOTE)


VOTE = Amendment(0, "1", (), None, YES, (NewAuditEvent("e", AuditKind.VOTED, "r.0", "r"),))

WAKERS: dict[str, Callable[[Scene], Awaitable[object]]] = {
    "amend": lambda scene: scene.store.amend("r.0", VOTE),
    "amend too late": _vote_too_late,
    "settle": lambda scene: scene.settle("r.0"),
    "settle too late": _answer_too_late,
    "due": _time_passes,
    "complete": lambda scene: scene.store.complete(Write("begun", 1), SUCCESS),
    "cancel at once": lambda scene: scene.store.cancel("ready"),
    "cancel": lambda scene: scene.store.cancel("r"),
    "signal": lambda scene: scene.store.signal("r", "go", "1", request_id="q"),
}


@pytest.mark.parametrize("waker", WAKERS)
def test_settlements_and_ends_are_visible_only_with_their_notifications(
    tmp_path: Path, opened: list[Watched], waker: str
) -> None:
    seen: list[tuple[str, list[Any]]] = []

    def look(_: str = "") -> None:
        with raw(tmp_path / "signoff.db") as onlooker:
            seen.extend((name, onlooker.execute(query).fetchall()) for name, query in NEVER.items())

    async def play(scene: Scene) -> None:
        writer = opened[-1]
        parent = await scene.run("r", deadline_at=1_000_060.0)
        children = [NewRun(id, id, GROUP, "{}", "r", n) for n, id in enumerate(("begun", "ready"), start=1)]
        await scene.pause(parent, entry(0), opens=[question("r", due_at=1_000_060.0)], starts=children)
        [claim] = await scene.claim(workflows=["begun"])
        await scene.append(claim.run, opens=[question("begun")])
        other = await scene.run("other")
        joins = [replace(child, parent_id="other") for child in children]
        questions = [question("other", id="r.0"), question("other", 3, id="begun.0")]
        await scene.pause(other, opens=questions, starts=joins)
        await scene.store.enlist(WorkerInfo("w", "host", 10, 1.5, GROUP))
        writer.before = look
        await WAKERS[waker](scene)
        look()
        assert await scene.state() is RunState.READY

    _scene(tmp_path, play)
    assert len(seen) > 2 * len(NEVER)
    assert [found for found in seen if found[1]] == []


# Several processes


def test_a_commit_of_another_process_is_noticed(tmp_path: Path) -> None:
    heard: list[Change] = []

    async def play(scene: Scene) -> None:
        stop = scene.store.listen(heard.append)
        await asyncio.to_thread(outcome, "create_runs", tmp_path / "signoff.db", "r", 3)
        await until(lambda: Change(runs=None) in heard)
        stop()
        assert len(await scene.claim()) == 3

    _scene(tmp_path, play)


@in_asyncio
async def test_a_key_that_another_process_creates_is_noticed(tmp_path: Path) -> None:
    here, there = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "a.db")
    await here.open()
    await there.open()
    try:
        assert not await here.has_token([TokenKind.API_KEY])
        await there.create_token(NewToken("k", TokenKind.API_KEY, "0" * 64, "service:bot"))
        await comes(lambda: here.has_token([TokenKind.API_KEY]))
    finally:
        await here.close()
        await there.close()


def test_50_threads_in_4_processes_race_to_settle_and_one_wins(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.paused()
        arguments = [(tmp_path / "signoff.db", "r.0", f"p{n}", 50) for n in range(4)]
        commands = [process("settle_with_threads", *some) for some in arguments]
        running = [command.__enter__() for command in commands]
        try:
            for one in running:
                assert one.stdout is not None
                assert await asyncio.to_thread(one.stdout.readline) == "ready\n"
            for one in running:
                assert one.stdin is not None
                one.stdin.write("go\n")
                one.stdin.flush()
            printed = await asyncio.gather(
                *(asyncio.to_thread(one.communicate, timeout=60) for one in running)
            )
        finally:
            for command in commands:
                command.__exit__(None, None, None)
        told = [(how, who) for out, _ in printed for how, who in json.loads(out)]
        promise = await scene.store.get_promise("r.0")
        assert Counter(how for how, _ in told) == {"won": 1, "lost": 199}
        assert {who for _, who in told} == {promise.settled_by}
        assert len(await scene.messages()) == 1

    _scene(tmp_path, play)


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        for attempt in range(3):
            workers = [f"w{attempt}.{n}" for n in range(2)]
            commands = [process("append_for_ever", tmp_path / "signoff.db", worker, 5) for worker in workers]
            running = [command.__enter__() for command in commands]
            acknowledged: dict[str, int] = defaultdict(lambda: -1)
            for one in running:
                assert one.stdout is not None
                lines = [await asyncio.to_thread(one.stdout.readline) for _ in range(40 * attempt + 1)]
                one.send_signal(signal.SIGKILL)
                lines += await asyncio.to_thread(one.stdout.readlines)
                for line in lines:
                    if line.endswith("\n"):
                        run_id, seq = line.split()
                        acknowledged[run_id] = int(seq)
            for command in commands:
                command.__exit__(None, None, None)
            assert acknowledged
            for run_id, seq in acknowledged.items():
                journal = await scene.store.read_journal(run_id)
                assert [item.seq for item in journal] == list(range(len(journal)))
                assert len(journal) > seq
            for worker in workers:
                assert await scene.store.release(worker) == 5

    _scene(tmp_path, play)
    with raw(tmp_path / "signoff.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_lock_of_another_process_is_waited_for(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.start()
        with process("hold_the_lock", tmp_path / "signoff.db", 1) as other:
            assert other.stdout is not None
            assert await asyncio.to_thread(other.stdout.readline) == "locked\n"
            assert (await scene.store.get_run("r")).id == "r", "readers do not wait"
            results = await asyncio.gather(*(scene.store.signal("r", "go", str(n)) for n in range(20)))
            assert results == [True] * 20
            assert other.wait(timeout=60) == 0
        assert len(await scene.messages()) == 20

    _scene(tmp_path, play)


def test_a_lock_that_is_never_freed_is_reported_and_nothing_is_written(tmp_path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db", busy_seconds=0.2)
        await store.open()
        with raw(tmp_path / "x.db") as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"x\.db"):
                await store.create_run(RUN)
            other.execute("ROLLBACK")
        assert (await store.create_run(RUN))[1]
        await store.close()

    asyncio.run(play())


def test_readers_and_a_writer_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db", busy_seconds=0.2)
        await store.open()
        await store.create_run(RUN)
        with raw(tmp_path / "x.db") as other:
            other.execute("BEGIN EXCLUSIVE")
            other.execute("UPDATE runs SET state = 'failed'")
            assert (await store.get_run("r")).state is RunState.READY
            assert [run.state for run in (await store.list_runs(RunFilter())).items] == [RunState.READY]
            other.execute("ROLLBACK")
            other.execute("BEGIN")
            assert other.execute("SELECT count(*) FROM messages").fetchone() == (0,)
            assert await store.signal("r", "go", "1")
            assert other.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        await store.close()

    asyncio.run(play())


def test_opening_waits_for_a_process_that_creates_the_file(
    tmp_path: Path, opened: list[Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself does not wait here."""
    attempts: list[str] = []
    with closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)) as other:

        def let_the_second_succeed(statement: str) -> None:
            if "journal_mode" in statement:
                attempts.append(statement)
                if len(attempts) == 2:
                    other.execute("COMMIT")

        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(Watched, "before", staticmethod(let_the_second_succeed))
        open_once(tmp_path / "x.db")
    assert len(attempts) == 2


@pytest.mark.parametrize("beginning", ["PRAGMA user_version", "BEGIN IMMEDIATE"])
def test_opening_tries_again_when_others_were_first_again_and_again(
    tmp_path: Path, opened: list[Watched], monkeypatch: pytest.MonkeyPatch, beginning: str
) -> None:
    """SQLite gives up after it has lost the race for a new log's locks dozens of times."""
    lost: list[str] = []

    def lose_twice(statement: str) -> None:
        if statement.startswith(beginning) and len(lost) < 2:
            lost.append(statement)
            error = sqlite3.OperationalError("locking protocol")
            error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
            raise error

    monkeypatch.setattr(Watched, "before", staticmethod(lose_twice))
    open_once(tmp_path / "x.db")
    assert len(lost) == 2


def locked_once_at(writer: Watched, beginning: str) -> list[str]:
    """Let the next such statement find the file locked. Returns what is filled with the statement."""
    failed: list[str] = []

    def fail(statement: str) -> None:
        if not failed and statement.lstrip().startswith(beginning):
            failed.append(statement)
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    writer.before = fail
    return failed


def test_a_small_read_that_finds_the_file_locked_is_left_to_a_reader(
    tmp_path: Path, opened: list[Watched]
) -> None:
    async def play(scene: Scene) -> None:
        writer = opened[-1]
        await scene.start()
        failed = locked_once_at(writer, "SELECT")
        while not failed:  # the writer is not asked while its thread looks abroad
            assert (await scene.store.get_run("r")).id == "r"

    _scene(tmp_path, play)


def test_a_check_for_other_commits_is_repeated_silently_on_a_locked_file(
    tmp_path: Path, opened: list[Watched], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Change] = []

    async def play(scene: Scene) -> None:
        scene.store.listen(heard.append)
        failed = locked_once_at(opened[-1], "PRAGMA data_version")
        await until(lambda: bool(failed))
        with raw(tmp_path / "signoff.db") as other:
            other.execute(
                "INSERT INTO workers (id, host, pid, process_started_at, group_name) VALUES ('w', 'host', 1, 1.5, 'g')"
            )
        await until(lambda: Change(runs=None) in heard)

    _scene(tmp_path, play)
    assert [message for message in caplog.messages if "signoff.db" in message] == []


def test_a_forked_child_gets_an_error_to_open_its_own(tmp_path: Path) -> None:
    *child, parent = outcome("fork_while_open", tmp_path / "x.db")
    assert len(child) == 3
    assert all("StoreUnavailable" in line and "forked" in line for line in child)
    assert parent == "done"


# When the disk fails


def test_a_read_only_file_is_reported() -> None:
    # Not below pytest's folder, which no other user may enter: root has to become another user here.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        open_once(folder / "x.db")
        (folder / "x.db").chmod(0o444)
        [line] = outcome("open_as_nobody", folder / "x.db")
    assert line.startswith("StoreReadOnly")


def test_a_full_database_stops_work_and_loses_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(tmp_path / "x.db")
        await store.open()
        await store.create_run(RUN)
        db = store._file.writer._committer.db  # pyright: ignore[reportPrivateUsage]
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
        big = NewRun("big", "refund", "default", json.dumps("x" * 10_000))
        results = await asyncio.gather(
            store.create_run(big), store.signal("r", "go", "1"), return_exceptions=True
        )
        assert isinstance(results[0], StoreFull)
        db.execute("PRAGMA max_page_count = 1000000")
        assert (await store.create_run(big))[1]
        left = len(await store.read_messages(["r"]))
        assert left == (1 if results[1] is True else 0)
        await store.close()

    asyncio.run(play())


def test_a_file_that_may_not_grow_stops_work_and_loses_nothing(tmp_path: Path) -> None:
    assert outcome("outgrow_a_file_size_limit", tmp_path / "x.db") == ["StoreUnavailable", "True"]


def test_a_full_disk_stops_work_and_loses_nothing(tmp_path: Path) -> None:
    mount = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small disk")
    assert outcome("outgrow_a_disk", tmp_path, prefix=["unshare", "--mount"]) == ["StoreFull", "True"]


# Ten million rows


def test_a_paused_run_with_a_question_costs_five_small_rows(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.paused()

    _scene(tmp_path, play)
    with raw(tmp_path / "signoff.db") as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    once = dict.fromkeys(("runs", "promises", "inbox", "audit", "unsealed"), 1)
    assert {name: count for name, count in counts.items() if count} == once


@pytest.mark.long
def test_among_100_000_paused_runs_one_is_answered_and_claimed(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.paused("r0")
        with raw(tmp_path / "signoff.db") as connection:
            multiply(connection, "runs", 100_000)
            multiply(connection, "promises", 100_000)
        await scene.settle("r77777.0")
        [claim] = await scene.claim()
        assert claim.run.id == "r77777"
        assert await scene.store.due() is not None
        page = await scene.store.list_runs(RunFilter(states=frozenset({RunState.PAUSED})), limit=3)
        assert [run.id for run in page.items] == ["r99999", "r99998", "r99997"]

    _scene(tmp_path, play)


def test_100_000_ready_runs_of_one_key_do_not_make_claims_slow(tmp_path: Path, opened: list[Watched]) -> None:
    """Counted in steps of SQLite's machine: how many rows it looks at decides, not the clock."""

    async def play(scene: Scene) -> None:
        slot: dict[str, Any] = {"concurrency_key": "k", "concurrency_limit": 1}
        writer = opened[-1]
        await scene.start("r0", **slot)
        with raw(tmp_path / "signoff.db") as connection:
            connection.execute("UPDATE runs SET blocked = 1")
            multiply(connection, "runs", 100_000)
            connection.execute("UPDATE runs SET blocked = 0 WHERE id = 'r0'")
        for number in range(5):
            await scene.start(f"free{number}")
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        writer.set_progress_handler(count, 100)
        assert [claim.run.id for claim in await scene.claim(limit=3)] == ["r0", "free0", "free1"]
        assert [claim.run.id for claim in await scene.claim(limit=3)] == ["free2", "free3", "free4"]
        await scene.start("late", **slot)
        await scene.complete(await scene.store.get_run("r0"))
        assert [claim.run.id for claim in await scene.claim(limit=3)] == ["r1"]
        writer.set_progress_handler(None, 100)
        assert steps < 100, "10,000 steps"

    _scene(tmp_path, play)


MODULES = (
    audit,
    claims,
    deferred_changes,
    groups,
    sqlite_journal,
    concurrency_keys,
    leases,
    messages,
    sqlite_promises,
    sqlite_questions,
    retention,
    sqlite_runs,
    schedules,
    sessions,
    task_states,
    tasks,
    transitions,
)


def statements_of(module: ModuleType) -> list[tuple[str, str]]:
    """Return the constants of a module that are whole statements, with their names."""
    return [
        (f"{module.__name__}.{name}", value)
        for name, value in vars(module).items()
        if isinstance(value, str)
        and re.match(r"\s*(SELECT|UPDATE|INSERT|DELETE)", value)
        and "{" not in value
    ]


def listing_statements() -> list[tuple[str, str]]:
    some_states = [
        frozenset(RunState),
        frozenset({RunState.PAUSED}),
        frozenset({RunState.READY, RunState.FAILED}),
    ]
    runs = [
        (f"list_runs {len(states)} {which}", sqlite_runs.list_statement(states, **which))
        for states in some_states
        for which in (
            dict(zip(("workflow", "group", "parent", "session"), chosen, strict=True))
            for chosen in product([False, True], repeat=4)
        )
    ]
    promises = [
        (f"list_promises {states} {kinds}", sqlite_promises.list_statement(states, kinds, of_run=of_run))
        for states in (tuple(PromiseState), (PromiseState.PENDING,))
        for kinds in (tuple(PromiseKind), (PromiseKind.QUESTION,))
        for of_run in (False, True)
    ]
    inboxes = [(f"inbox of {names}", sqlite_promises.inbox_statement(names)) for names in (1, 2, 20)]
    return runs + promises + inboxes


STATEMENTS = (
    [statement for module in MODULES for statement in statements_of(module)]
    + listing_statements()
    + [
        (f"first {kind} {count} {beside}", claims.first_statement(count, kind, beside=beside))
        for kind in ("new", "again", "suspect")
        for count in (1, 2, 20)
        for beside in (False, True)
    ]
)


@pytest.fixture(scope="module")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "x.db"
    open_once(path)
    return path


@pytest.mark.parametrize(("name", "statement"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_no_statement_reads_a_table_from_end_to_end_or_sorts(
    empty_file: Path, name: str, statement: str
) -> None:
    if name.endswith("LIST_WORKERS"):
        pytest.skip("the register of workers is small, and asked for as a whole")
    if name.endswith(("UNSEALED", "_DEFERRED")):
        pytest.skip("the beginning of a queue is read, in the order of its key")
    with raw(empty_file) as connection:
        names = re.findall(r"[^\w:]:([a-z_]+\d*)", statement)
        numbers = [int(number) for number in re.findall(r"\?(\d+)", statement)]
        values = (
            dict.fromkeys(names) if names else [None] * (max(numbers) if numbers else statement.count("?"))
        )
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement, values)]
    for step in plan:  # the register of workers is small
        assert not re.search(r"SCAN (?!json_each|held|workers|\(subquery|CONSTANT)", step), plan
        assert "TEMP B-TREE FOR ORDER" not in step, plan
