"""Other programs that read an SQLite file without a pause, and disk space that is never reclaimed."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from signoff.doctor import sqlite as checks
from signoff.doctor.findings import Level
from signoff.doctor.sqlite import File, space
from signoff.records import NewRun, RunState
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.sqlite import write_ahead_log
from signoff.stores.sqlite.open_files import OpenFiles
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.sqlite.transaction import Committer
from signoff.stores.sqlite.write_ahead_log import MIB, LogLimit
from tests.cli.commands import signoff
from tests.cli.diagnoses import examine
from tests.support import in_asyncio

READER = """
import sqlite3, sys, time
seconds = float(sys.argv[2])
a, b = (sqlite3.connect(sys.argv[1], isolation_level=None) for _ in "ab")
def begin(connection):
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM runs").fetchone()
begin(a)
print("reads", flush=True)
while True:  # one of the two always reads
    time.sleep(seconds / 2)
    begin(b)
    time.sleep(seconds / 2)
    a.execute("COMMIT")
    a, b = b, a
"""

VALUE = '{"args": ["' + b64encode(Random(1).randbytes(75_000)).decode() + '"]}'
"""It cannot be compressed to much less."""


@contextmanager
def reader(path: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A process whose reads overlap without end, each of so many seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reads\n"
        try:
            yield process
        finally:
            process.kill()


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


async def fill(store: SqliteStore, mebibytes: int, name: str = "r") -> int:
    """Write so much, and return how long the log was at most."""
    longest = 0
    for n in range(mebibytes):
        await asyncio.gather(
            *(store.create_run(NewRun(f"{name}{n}-{k}", "w", "g", VALUE)) for k in range(10))
        )
        longest = max(longest, log_of(store.path).stat().st_size)
    return longest


@pytest.mark.parametrize("is_bounded", [True, False])
@in_asyncio
async def test_the_log_stays_short_while_reads_from_outside_overlap_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_bounded: bool
) -> None:
    """Without the bound it grows by all that is written: the attack works."""
    monkeypatch.setattr(write_ahead_log, "LIMIT_BYTES", 8 * MIB if is_bounded else 1 << 40)
    monkeypatch.setattr(write_ahead_log, "PATIENCE", ((0, 5.0),))
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    with reader(store.path, 0.05):
        longest = await fill(store, 80)
    await store.close()
    if is_bounded:
        assert longest < 50 * MIB
    else:
        assert longest > 70 * MIB


@in_asyncio
async def test_an_endless_reader_delays_commits_little_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_ahead_log, "LIMIT_BYTES", MIB)
    monkeypatch.setattr(write_ahead_log, "PATIENCE", ((0, 0.01),))
    monkeypatch.setattr(write_ahead_log, "WARN_BYTES", 8 * MIB)
    monkeypatch.setattr(write_ahead_log, "LEAST_REST_SECONDS", 0.01)
    monkeypatch.setattr(write_ahead_log, "REST", ((0, 0.0),))
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    with caplog.at_level(logging.WARNING), reader(store.path, 1000.0):
        assert await fill(store, 30) > 25 * MIB
        assert (await store.get_run("r29-9")).state is RunState.READY
        told: list[str] = []
        async with asyncio.timeout(60):  # the attempts are the writer thread's, between commits
            while not told:
                await store.create_run(NewRun(f"u{time.monotonic_ns()}", "w", "g", "{}"))
                told = [
                    text
                    for text in map(logging.LogRecord.getMessage, caplog.records)
                    if "-ahead log" in text and str(store.path) in text  # servers of other tests log, too
                ]
        assert len(told) <= 3  # again when it is twice as long
        assert "another program reads it continuously" in told[0]
    await fill(store, 1, "s")

    async def emptied() -> None:
        while log_of(store.path).stat().st_size > 8 * MIB:
            await store.create_run(NewRun(f"t{time.monotonic_ns()}", "w", "g", "{}"))

    await asyncio.wait_for(emptied(), 30)
    await store.close()


def test_an_attempt_waits_for_all_readers_together_no_longer_than_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself waits for each of its locks so long, one after another."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE runs (id)")
        asked: list[str] = []
        with reader(path, 1000.0):
            db.execute("INSERT INTO runs VALUES (1)")
            times = iter(range(100))
            clock = SimpleNamespace(monotonic=lambda: next(times) / 10)  # other threads have the real one
            monkeypatch.setattr(write_ahead_log, "time", clock)
            monkeypatch.setattr(write_ahead_log, "PATIENCE", ((0, 1.0),))
            monkeypatch.setattr(write_ahead_log, "LOOKS", 100)
            db.set_trace_callback(asked.append)
            assert not LogLimit("x").empty(db, 0)
        assert asked[0] == "PRAGMA busy_timeout = 10"
        assert asked.count("PRAGMA wal_checkpoint(TRUNCATE)") == 10
        assert asked[-1] == "PRAGMA busy_timeout = 0"


def test_a_sufficient_wait_is_allowed_again_and_commits_rest_after_it() -> None:
    limit = LogLimit("x")
    limit.note(is_empty=True, length=600 * MIB, took=1.5, now=100.0)
    assert limit.is_due(65 * MIB, 100.0), "the log has grown to its limit again meanwhile"
    assert limit.patience(65 * MIB) == 1.5
    limit.note(is_empty=True, length=65 * MIB, took=1.4, now=150.0)
    assert not limit.is_due(600 * MIB, 177.9)
    assert limit.is_due(600 * MIB, 178.1)
    limit.note(is_empty=True, length=65 * MIB, took=0.01, now=200.0)
    assert limit.is_due(65 * MIB, 200.0)
    assert limit.patience(65 * MIB) == 0.25
    assert limit.patience(5000 * MIB) == 3.0


@in_asyncio
async def test_a_log_emptied_by_another_process_is_no_loss_and_scans_no_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    await fill(store, 3)
    looks = 0
    whole = Committer.is_whole

    def counted(self: Committer, size: int, log_size: int) -> bool:
        nonlocal looks
        looks += 1
        monkeypatch.setattr("signoff.stores.sqlite.transaction.connect", None)  # must not be needed
        try:
            return whole(self, size, log_size)
        finally:
            monkeypatch.undo()
            monkeypatch.setattr(Committer, "is_whole", counted)

    monkeypatch.setattr(Committer, "is_whole", counted)
    with closing(sqlite3.connect(store.path, isolation_level=None, timeout=30)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    async with asyncio.timeout(30):
        while not looks:
            await asyncio.sleep(0.01)
    await store.create_run(NewRun("after", "w", "g", "{}"))
    await store.close()


def test_doctor_names_the_process_that_reads_from_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"

    async def begin() -> None:
        store = SqliteStore(path)
        await store.open()
        await fill(store, 1)
        await store.close()

    asyncio.run(begin())
    with reader(path, 1000.0):
        with closing(sqlite3.connect(path, isolation_level=None)) as db:  # so that there is a log to read
            db.execute("CREATE TABLE more (n)")
        with reader(path, 1000.0) as of_log:
            os.truncate(log_of(path), 300 * MIB)  # what is beyond its frames is of no account
            found = examine(signoff, "--store", f"sqlite:///{path}", cwd=tmp_path)["journal"]
    [text] = [text for level, text in found if level == "warning"]
    assert "grown to 300 MiB" in text
    if sys.platform == "linux":
        assert f"({of_log.pid})" in text


# Space


async def pruned(path: Path, mebibytes: int) -> int:
    """Make a file of so much, delete all of it, and return how long the file was."""
    store = SqliteStore(path)
    await store.open()
    await fill(store, mebibytes)
    while claims := await store.claim("w", "g", ["w"], 100):
        for claim in claims:
            await store.complete(Write(claim.run.id, claim.run.epoch), Outcome(RunState.SUCCEEDED, "1"))
    while await store.delete_ended(time.time() + 60, 100):
        pass
    await store.close()
    return path.stat().st_size


@in_asyncio
async def test_space_comes_back_after_pruning_while_a_worker_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    before = await pruned(path, 20)
    assert before > 15 * MIB  # pruning alone gives nothing back
    store = SqliteStore(path)
    await store.open()
    done = 0
    stopping = asyncio.Event()

    async def work() -> None:
        nonlocal done
        while not stopping.is_set():
            await store.create_run(NewRun(f"live{done}", "w", "live", "{}"))
            done += 1
            await asyncio.sleep(0.002)

    working = asyncio.create_task(work())
    ended = await asyncio.to_thread(
        signoff, "compact", "--store", f"sqlite:///{path}", "--json", cwd=tmp_path
    )
    stopping.set()
    await working
    assert ended.code == 0, ended
    assert ended.json["freed_bytes"] > 12 * MIB
    for n in range(done):
        assert (await store.get_run(f"live{n}")).group == "live"
    await store.create_run(NewRun("after", "w", "live", "{}"))
    await store.close()
    assert path.stat().st_size < before / 4
    assert done > 0


@in_asyncio
async def test_a_file_of_an_earlier_version_says_how_it_gets_to_shrink(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    before = await pruned(path, 5)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE filler AS SELECT zeroblob(5000000) AS bytes")
        db.execute("DROP TABLE filler")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA auto_vacuum = NONE")
        db.execute("VACUUM")
        db.execute("CREATE TABLE filler AS SELECT zeroblob(5000000) AS bytes")
        db.execute("DROP TABLE filler")
        db.execute("PRAGMA journal_mode = WAL")
    address = f"sqlite:///{path}"
    refused = signoff("compact", "--store", address, cwd=tmp_path)
    assert (refused.code, "signoff compact --rebuild" in refused.err) == (2, True), refused
    assert signoff("compact", "--store", address, "--rebuild", cwd=tmp_path).code == 0
    assert path.stat().st_size < before / 4
    ended = signoff("compact", "--store", address, cwd=tmp_path)
    assert (ended.code, "0 MiB returned to the system" in ended.out) == (0, True), ended


@in_asyncio
async def test_doctor_says_how_space_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    await pruned(path, 2)
    [verdict] = space(File(path))
    assert verdict.level is Level.OK
    monkeypatch.setattr(checks, "MUCH_FREE_BYTES", MIB)
    [verdict] = space(File(path))
    assert (verdict.level, "signoff compact returns them" in verdict.message) == (Level.WARNING, True)


# Paths and files


@in_asyncio
async def test_a_path_that_is_a_link_to_the_file_opens_and_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "x.db"
    link.symlink_to(tmp_path / "data" / "x.db")
    for name, place in (("a", link), ("b", tmp_path / "data" / "x.db"), ("c", link)):
        store = SqliteStore(place)
        await store.open()
        await store.create_run(NewRun(name, "w", "g", "{}"))
        await store.close()
    store = SqliteStore(link)
    await store.open()
    assert [(await store.get_run(name)).id for name in "abc"] == ["a", "b", "c"]
    await store.close()


@in_asyncio
async def test_a_log_emptied_under_an_idle_process_is_noticed_without_a_read(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    await fill(store, 1)
    files: OpenFiles = store._file.writer._committer.files
    assert files.log_bytes > 0
    os.truncate(log_of(store.path), 0)
    async with asyncio.timeout(30):
        while store._file.writer._moved is None:
            await asyncio.sleep(0.01)
    assert "truncated" in store._file.writer._moved
    await store.close()
