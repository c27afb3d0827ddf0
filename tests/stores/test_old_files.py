"""Files of former versions: what was begun there goes on under the newest schema."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff.records import AuditKind, PromiseKind, PromiseState
from signoff.records.paging import AuditFilter, PromiseFilter
from signoff.stores.sqlite.store import SqliteStore
from tests.stores.processes import outcome
from tests.stores.released import orders
from tests.stores.scene import YES
from tests.support import in_asyncio

RELEASED = sorted(Path(orders.__file__).parent.glob("*.sql"))


def old_file(recorded: Path, path: Path) -> Path:
    """Make the file that a former version left."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(recorded.read_text())
    return path


def open_once(path: Path) -> None:
    async def play() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(play())


def schema_of(path: Path) -> list[Any]:
    """The tables, indexes and marks of a file. Columns that were added later stand last, so they are sorted."""
    with closing(sqlite3.connect(path)) as connection:
        marks = [
            connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")
        ]
        names = connection.execute("SELECT type, name, tbl_name FROM sqlite_schema ORDER BY name").fetchall()
        tables = [name for kind, name, _ in names if kind == "table"]
        columns = [(name, sorted(connection.execute(f"PRAGMA table_info({name})"))) for name in tables]
        return [marks, names, columns]


def test_the_first_schema_is_recorded() -> None:
    assert [recorded.stem for recorded in RELEASED] == ["0001"]


@pytest.mark.parametrize("recorded", RELEASED, ids=lambda path: path.stem)
@in_asyncio
async def test_questions_that_were_open_under_a_former_schema_are_in_everybodys_inbox(
    tmp_path: Path, recorded: Path
) -> None:
    store = SqliteStore(old_file(recorded, tmp_path / "signoff.db"))
    await store.open()
    pending = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING)
    [asked] = (await store.list_promises(pending)).items
    inbox = replace(pending, answerable_by=frozenset({"user:ana"}))
    assert (await store.list_promises(inbox)).items == (asked,)
    await store.settle(asked.id, PromiseKind.QUESTION, YES)
    assert (await store.list_promises(inbox)).items == ()
    [settled] = (await store.list_audit(AuditFilter(asked.id))).items
    assert (settled.kind, settled.by) == (AuditKind.RESOLVED, YES.by)
    await store.close()


@pytest.mark.parametrize("recorded", RELEASED, ids=lambda path: path.stem)
def test_an_old_file_becomes_what_a_new_one_is(tmp_path: Path, recorded: Path) -> None:
    open_once(old_file(recorded, tmp_path / "old.db"))
    open_once(tmp_path / "new.db")
    assert schema_of(tmp_path / "old.db") == schema_of(tmp_path / "new.db")


@pytest.mark.long
@pytest.mark.parametrize("recorded", RELEASED, ids=lambda path: path.stem)
def test_a_migration_killed_at_any_statement_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, recorded: Path
) -> None:
    open_once(old_file(recorded, tmp_path / "whole.db"))
    original = old_file(recorded, tmp_path / "old.db")
    old = schema_of(original)
    new = schema_of(tmp_path / "whole.db")
    [survivor] = outcome("die_at_each_statement_of_opening", tmp_path, original)
    found = [schema_of(tmp_path / f"{number}.db") for number in range(int(survivor))]
    assert all(each in (old, new) for each in found)
    assert found[0] == old
    statements = len([line for line in found if line == old])
    assert statements > 8, "most were killed within the migration"
    for number in range(int(survivor)):
        open_once(tmp_path / f"{number}.db")
        assert schema_of(tmp_path / f"{number}.db") == new
