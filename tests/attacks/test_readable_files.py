"""A database on a machine with other users: its files contain payloads, answers and hashes of keys."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from signoff.doctor.findings import Level
from signoff.doctor.sqlite import File, permissions
from signoff.records import NewRun
from signoff.stores.sqlite import schema
from signoff.stores.sqlite.free_space import give_back, rebuild
from signoff.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


async def write_into(path: Path) -> dict[str, int]:
    """Open a store, write, and return the modes of all files that it has then."""
    schema.prepare(path, str(path), busy_seconds=5.0)  # stores of tests begin with a copy
    store = SqliteStore(path)
    try:
        await store.open()
        await store.create_run(NewRun("r", "add", "default", "{}"))
        return {each.name: mode_of(each) for each in path.resolve().parent.iterdir()}
    finally:
        await store.close()


def test_a_new_file_with_its_log_is_its_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    found = asyncio.run(write_into(folder / "signoff.db"))
    assert found == dict.fromkeys(("signoff.db", "signoff.db-wal", "signoff.db-shm"), 0o600)


def test_a_new_file_where_a_link_leads_is_too(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "signoff.db")
    schema.prepare(tmp_path / "link.db", "link.db", busy_seconds=5.0)
    assert mode_of(tmp_path / "signoff.db") == 0o600


def test_a_new_file_is_never_readable_by_others_not_even_for_an_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "signoff.db"
    before: list[int] = []
    connects = schema.sqlite3.connect

    def look_first(*args: object, **more: object) -> object:
        before.append(mode_of(path))
        return connects(*args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(schema.sqlite3, "connect", look_first)
    schema.prepare(path, "signoff.db", busy_seconds=5.0)
    assert before == [0o600]


def test_threads_that_create_one_file_at_once_all_have_it(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"
    applied: list[int] = []
    ready = threading.Barrier(8)

    def prepare() -> None:
        ready.wait()
        applied.append(schema.prepare(path, "signoff.db", busy_seconds=30.0))

    threads = [threading.Thread(target=prepare) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(applied) == [0] * 7 + [max(applied)]
    assert max(applied) > 0


def test_an_existing_file_keeps_its_mode_and_doctor_names_its_readers(tmp_path: Path) -> None:
    path = tmp_path / "signoff.db"
    path.touch()
    path.chmod(0o640)
    assert asyncio.run(write_into(path)) == dict.fromkeys(
        ("signoff.db", "signoff.db-wal", "signoff.db-shm"), 0o640
    )
    [verdict] = permissions(File(path))
    assert verdict.level is Level.WARNING
    assert verdict.message.startswith("its group may open the file (mode 0640)")
    path.chmod(0o644)
    [verdict] = permissions(File(path))
    assert "its group and all users of this machine may open the file (mode 0644)" in verdict.message
    path.chmod(0o600)
    assert [each.level for each in permissions(File(path))] == [Level.OK]


@pytest.mark.parametrize("way", ["compact", "rebuild"])
def test_a_file_that_is_compacted_stays_its_owners_alone(tmp_path: Path, umask: int, way: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "signoff.db"
    asyncio.run(write_into(path))
    free_up = give_back if way == "compact" else rebuild
    free_up(path, str(path), busy_seconds=5.0)
    assert {mode_of(each) for each in folder.iterdir()} == {0o600}
