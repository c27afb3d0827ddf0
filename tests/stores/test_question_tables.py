"""Rules that the databases enforce for every statement: inboxes follow questions, and the trail stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest

from signoff.records import AuditKind, NewAuditEvent, NewPromise, PromiseKind, Seal
from signoff.records.paging import AuditFilter
from signoff.stores.postgres.store import PostgresStore
from tests.stores.scene import Scene, postgres_scene, sqlite_scene
from tests.support import in_asyncio


@dataclass
class Tables:
    """A store's database, as another program sees it; a statement says ``schema.`` before the name of a table."""

    scene: Scene
    file: Path

    def execute(self, statement: LiteralString) -> Sequence[Any]:
        store = self.scene.store
        if isinstance(store, PostgresStore):
            with psycopg.connect(store.conninfo, autocommit=True) as connection:
                cursor = connection.execute(statement.replace("schema.", "signoff."))
                return cursor.fetchall() if cursor.description else []
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            return connection.execute(statement.replace("schema.", "")).fetchall()

    async def kinds(self) -> list[AuditKind]:
        return [event.kind for event in (await self.scene.store.list_audit(AuditFilter())).items]

    def inbox(self) -> list[str]:
        return [row[0] for row in self.execute("SELECT assignee FROM schema.inbox ORDER BY assignee")]


Making = Callable[[Path], AbstractAsyncContextManager[Scene]]
databases = pytest.mark.parametrize("making", [sqlite_scene, postgres_scene])
REFUSED = (sqlite3.IntegrityError, psycopg.errors.RaiseException)


@databases
@in_asyncio
async def test_no_statement_changes_or_deletes_what_is_recorded(tmp_path: Path, making: Making) -> None:
    async with making(tmp_path) as scene:
        tables = Tables(scene, tmp_path / "signoff.db")
        await scene.store.record([NewAuditEvent("e", AuditKind.VOTED, "r.0", by="user:ana")])
        assert await scene.store.seal([Seal(0, "e", "h")])
        before = (await scene.store.list_audit(AuditFilter())).items
        with pytest.raises(REFUSED, match="not changed"):
            tables.execute("UPDATE schema.audit SET by = 'user:bob'")
        with pytest.raises(REFUSED, match="not changed"):
            tables.execute("UPDATE schema.seals SET hash = 'forged'")
        with pytest.raises(REFUSED, match="deleted"):
            tables.execute("DELETE FROM schema.audit")
        with pytest.raises(REFUSED, match="deleted"):
            tables.execute("DELETE FROM schema.seals")
        if isinstance(scene.store, PostgresStore):
            with pytest.raises(REFUSED, match="deleted"):
                tables.execute("TRUNCATE schema.audit")
            with pytest.raises(REFUSED, match="deleted"):
                tables.execute("TRUNCATE schema.seals")
        assert (await scene.store.list_audit(AuditFilter())).items == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO audit SELECT number, 'default', 'new', at, kind, 'q', NULL, 'x', '{}', NULL FROM audit",
        "INSERT OR REPLACE INTO audit SELECT NULL, 'default', id, at, kind, 'q', run_id, 'x', '{}', NULL FROM audit",
        "INSERT OR REPLACE INTO seals VALUES ('default', 0, 'other', 'forged')",
        "INSERT OR REPLACE INTO seals VALUES ('default', 1, 'e', 'forged')",
    ],
)
@in_asyncio
async def test_sqlite_replaces_nothing_that_is_recorded(tmp_path: Path, statement: LiteralString) -> None:
    async with sqlite_scene(tmp_path) as scene:
        await scene.store.record([NewAuditEvent("e", AuditKind.VOTED, "r.0", by="user:ana")])
        assert await scene.store.seal([Seal(0, "e", "h")])
        before = await scene.store.read_chain()
        with pytest.raises(REFUSED, match="not changed"):
            Tables(scene, tmp_path / "signoff.db").execute(statement)
        assert await scene.store.read_chain() == before


@databases
@pytest.mark.parametrize("end", ["settled", "deleted"])
@in_asyncio
async def test_whatever_statement_ends_a_question_takes_it_out_of_every_inbox(
    tmp_path: Path, making: Making, end: str
) -> None:
    async with making(tmp_path) as scene:
        tables = Tables(scene, tmp_path / "signoff.db")
        asked = NewPromise("q", PromiseKind.QUESTION, assignees=("user:ana", "group:finance"))
        await scene.store.create_promise(asked)
        assert tables.inbox() == ["group:finance", "user:ana"]
        if end == "settled":
            tables.execute("UPDATE schema.promises SET state = 'cancelled', settled_at = 5")
        else:
            tables.execute("DELETE FROM schema.promises")
        assert tables.inbox() == []
        settled = [AuditKind.CANCELLED] if end == "settled" else []
        assert await tables.kinds() == [AuditKind.ASKED, *settled]


@databases
@in_asyncio
async def test_plain_promises_come_into_no_inbox_and_no_trail(tmp_path: Path, making: Making) -> None:
    async with making(tmp_path) as scene:
        tables = Tables(scene, tmp_path / "signoff.db")
        await scene.store.create_promise(NewPromise("p"))
        tables.execute("UPDATE schema.promises SET act_at = 5")
        assert await scene.store.due_questions(10) == ([], None)
        tables.execute("UPDATE schema.promises SET state = 'cancelled', settled_at = 5")
        tables.execute("DELETE FROM schema.promises")
        assert (tables.inbox(), await tables.kinds()) == ([], [])
