"""The files of an SQLite store are deleted, replaced, truncated or write-protected while it is open."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from signoff.errors import StoreDamaged, StoreError, StoreMoved, StoreReadOnly
from signoff.records import NewRun
from signoff.stores.sqlite import open_files
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio

SOON = 20.0  # seconds: far more than it takes

Harm = Callable[[Path], object]


def new_run(id: str) -> NewRun:
    return NewRun(id, "refund", "default", "{}")


def beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


@asynccontextmanager
async def store_at(folder: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(folder / "x.db")
    await store.open()
    try:
        await store.create_run(new_run("before"))
        yield store
    finally:
        await store.close()


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        beside(path, end).unlink()


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def restore_backup(path: Path) -> None:
    copy = beside(path, ".backup")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.rename(path)


def delete_log(path: Path) -> None:
    beside(path, "-wal").unlink()


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def cut_in_half(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.truncate(path, path.stat().st_size // 2)


AT_ONCE = [
    (delete, "deleted, renamed or moved"),
    (delete_all, "deleted, renamed or moved"),
    (move_folder, "deleted, renamed or moved"),
    (restore_backup, "restored backup"),
    (delete_log, "x.db-wal"),
    (truncate, "truncated"),
    (cut_in_half, "truncated"),
]


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "in the thread"])
@pytest.mark.parametrize(("harm", "said"), AT_ONCE, ids=lambda each: getattr(each, "__name__", ""))
@in_asyncio
async def test_nothing_is_acknowledged_that_is_not_in_the_file(
    tmp_path: Path, harm: Harm, said: str, *, inline: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with store_at(folder) as store:
        store._file.writer._inline_below = 1.0 if inline else 0.0
        harm(store.path)
        await asyncio.sleep(1.5 * open_files.LOOK_AFTER_SECONDS)
        with pytest.raises(StoreMoved, match=said) as caught:
            await store.create_run(new_run("after"))
        assert "nothing acknowledged is lost" not in str(caught.value)
        with pytest.raises(StoreMoved, match=said):
            await store.check_writable()


@pytest.mark.parametrize(
    ("harm", "said"),
    [*AT_ONCE, (lambda path: beside(path, "-shm").unlink(), "x.db-shm")],
    ids=lambda each: getattr(each, "__name__", "shm"),
)
@in_asyncio
async def test_it_is_noticed_without_a_write_and_said_once(
    tmp_path: Path, harm: Harm, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with store_at(folder) as store:
        harm(store.path)
        await _until(lambda: any("not available" in message for message in caplog.messages))
        with pytest.raises(StoreMoved, match=said):
            await store.get_run("before")
        with pytest.raises(StoreMoved, match=said):
            await store.list_workers()
    messages = [each for each in caplog.messages if "not available" in each]
    assert len(messages) == 1
    assert said in messages[0]


@in_asyncio
async def test_work_goes_on_when_the_same_file_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with store_at(tmp_path) as store:
        away = beside(store.path, ".away")
        store.path.rename(away)
        await asyncio.sleep(1.5 * open_files.LOOK_AFTER_SECONDS)
        with pytest.raises(StoreMoved):
            await store.create_run(new_run("while it was away"))
        await _until(lambda: store._file.writer._moved is not None)
        away.rename(store.path)
        await _until(lambda: any("back in place" in message for message in caplog.messages))
        await store.create_run(new_run("after"))
    async with store_at(tmp_path) as again:
        assert (await again.get_run("after")).id == "after"


@in_asyncio
async def test_a_reader_creates_no_file_in_the_place_of_one_that_was_deleted(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        delete_all(store.path)
        with pytest.raises(StoreError):
            await store._file._readers.call(lambda: store._file._read_here(lambda db: db.execute("SELECT 1")))
        assert not store.path.exists()


@in_asyncio
async def test_what_the_deleted_log_held_is_written_back_as_the_process_stops(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        delete_log(store.path)
        await asyncio.sleep(1.5 * open_files.LOOK_AFTER_SECONDS)
        with pytest.raises(StoreMoved):
            await store.create_run(new_run("after"))
    async with store_at(tmp_path) as again:
        assert (await again.get_run("before")).id == "before"


@in_asyncio
async def test_a_file_overwritten_in_place_is_damaged_and_confirms_nothing(
    tmp_path: Path,
) -> None:
    async with store_at(tmp_path) as store:
        pass
    with store.path.open("r+b") as file:  # as by ``cp``, or by a faulty disk
        file.seek(4096)
        file.write(b"\xa5" * (store.path.stat().st_size - 4096))

    async def read() -> None:
        async with store_at(tmp_path) as again:
            await again.get_run("before")

    with pytest.raises(StoreDamaged, match="restore a backup") as caught:
        await read()
    assert "nothing acknowledged is lost" not in str(caught.value)


@in_asyncio
async def test_vacuum_and_checkpoints_of_others_are_no_loss(tmp_path: Path) -> None:
    async with store_at(tmp_path) as store:
        with closing(sqlite3.connect(store.path, timeout=SOON, isolation_level=None)) as other:
            other.execute("CREATE TABLE filler AS SELECT zeroblob(2000000) AS bytes")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            await store.create_run(new_run("large"))
            await _looked(store)
            other.execute("DROP TABLE filler")
            other.execute("VACUUM")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        await store.create_run(new_run("small"))
        await _looked(store)
        assert store._file.writer._moved is None
        await store.create_run(new_run("after"))


@in_asyncio
async def test_a_file_made_read_only_takes_no_writes_and_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store_at(tmp_path) as store:
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # nothing is read-only for root
        await _until(lambda: store._file.writer._is_read_only)
        with pytest.raises(StoreReadOnly):
            await store.create_run(new_run("after"))
        assert (await store.get_run("before")).id == "before"
        monkeypatch.undo()
        await _until(lambda: not store._file.writer._is_read_only)
        await store.create_run(new_run("after"))


@in_asyncio
async def test_a_network_file_system_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("signoff.stores.sqlite.database_file.network_file_system", lambda path: "nfs4")
    async with store_at(tmp_path):
        pass
    assert any("nfs4" in message and "Postgres" in message for message in caplog.messages)


def test_the_file_system_of_a_path_is_that_of_the_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 0:20 / / rw - ext4 /dev/root rw\n"
        "23 22 0:21 / /srv/my\\040share rw,relatime shared:1 - nfs4 server:/ rw\n"
        "24 23 0:22 / /srv/my\\040share/local rw - xfs /dev/b rw\n"
    )
    monkeypatch.setattr(open_files, "MOUNTS", str(table))
    monkeypatch.setattr(open_files.sys, "platform", "linux")
    assert open_files.network_file_system(Path("/srv/my share/x.db")) == "nfs4"
    assert open_files.network_file_system(Path("/srv/my share/local/x.db")) is None
    assert open_files.network_file_system(Path("/srv/x.db")) is None


async def _until(look: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON
    while not look():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


async def _looked(store: SqliteStore) -> None:
    """Wait until the writer has looked at the files."""
    writer = store._file.writer
    before = writer._files_checked_at
    await _until(lambda: writer._files_checked_at > before)
    before = writer._files_checked_at
    await _until(lambda: writer._files_checked_at > before)
