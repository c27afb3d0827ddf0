"""Migrations of SQLite files: all or nothing, whatever the file had before."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from signoff.records import NewRun
from signoff.stores.sqlite import schema
from signoff.stores.sqlite.store import SqliteStore
from tests.stores.processes import outcome

MIGRATION = """
ALTER TABLE runs ADD COLUMN added TEXT;
CREATE TABLE added (id INTEGER PRIMARY KEY) STRICT;
CREATE TRIGGER run_is_added AFTER INSERT ON runs
BEGIN
    INSERT INTO added VALUES (NEW.number);
END;
CREATE INDEX runs_by_added ON runs (added);
INSERT INTO added SELECT number FROM runs;
"""


def opened_once(path: Path, *runs: str) -> Path:
    async def play() -> None:
        store = SqliteStore(path)
        await store.open()
        for run in runs:
            assert (await store.create_run(NewRun(run, "w", "g", "{}")))[1]
        await store.close()

    asyncio.run(play())
    return path


def contents(path: Path) -> list[Any]:
    """All that a migration changes in a file."""
    with closing(sqlite3.connect(path)) as db:
        marks = [db.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
        tables = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        return [marks, tables, db.execute("SELECT * FROM runs").fetchall()]


@pytest.fixture
def migration(tmp_path: Path) -> Path:
    """The file of a migration that Signoff does not have yet."""
    path = tmp_path / "9999.sql"
    path.write_text(MIGRATION)
    return path


def with_another(monkeypatch: pytest.MonkeyPatch, migration: Path) -> None:
    files = [*schema.migration_files(), migration]
    monkeypatch.setattr(schema, "migration_files", lambda: files)


def test_a_file_gets_only_the_migrations_that_it_does_not_have(
    tmp_path: Path, migration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = opened_once(tmp_path / "x.db", "one")
    with_another(monkeypatch, migration)
    opened_once(path, "two")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT id, added FROM runs").fetchall() == [("one", None), ("two", None)]
        assert db.execute("SELECT count(*) FROM added").fetchone() == (2,)
        assert db.execute("PRAGMA user_version").fetchone() == (len(schema.migrations()),)


def test_a_migration_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, migration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = opened_once(tmp_path / "x.db", "one")
    before = contents(path)
    migration.write_text(MIGRATION + "CREATE TABLE runs (id INTEGER) STRICT;")
    with_another(monkeypatch, migration)
    with pytest.raises(Exception, match="already exists"):
        opened_once(path)
    assert contents(path) == before


@pytest.mark.long
def test_a_killed_migration_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, migration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = opened_once(tmp_path / "old.db", "one")
    old = contents(original)
    [survivor] = outcome("die_at_each_statement_of_opening", tmp_path, original, migration)
    new = contents(tmp_path / f"{survivor}.db")
    found = [contents(tmp_path / f"{number}.db") for number in range(int(survivor))]
    assert all(each in (old, new) for each in found)
    assert found[0] == old != new
    assert found.count(old) > 8, "most were killed within the migration"
    with_another(monkeypatch, migration)
    for number in range(int(survivor)):
        assert contents(opened_once(tmp_path / f"{number}.db")) == new
