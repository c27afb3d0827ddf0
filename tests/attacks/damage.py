"""Rows damaged by SQL, past all checks: as by a bad disk, an older version or manual changes."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import psycopg

from signoff.stores.postgres.store import PostgresStore
from signoff.stores.sqlite.store import SqliteStore
from tests.stores.scene import STORES, Scene

DATABASES = ("sqlite", "postgres")


class Damaged:
    """A scene on a database, and a hand at that database.

    Attributes:
        scene: The store, and its clocks.
        is_postgres: Whether it is Postgres, whose tables are in a schema.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.is_postgres = isinstance(scene.store, PostgresStore)
        self._refused: set[str] = set()

    def run(self, sqlite: str, postgres: str | None = None) -> None:
        """Run SQL: of SQLite, and of Postgres, if it differs in more than the schema ``signoff``."""
        if self.is_postgres:
            with psycopg.connect(
                cast("PostgresStore", self.scene.store).conninfo, autocommit=True
            ) as connection:
                connection.execute((postgres or sqlite).encode())
        else:
            with closing(sqlite3.connect(cast("SqliteStore", self.scene.store).path)) as connection:
                connection.executescript(sqlite)

    def find(self, sqlite: str) -> Any:
        """Return the first column of the only row that a query of one table finds."""
        if self.is_postgres:
            conninfo = cast("PostgresStore", self.scene.store).conninfo
            with psycopg.connect(conninfo, options="-c search_path=signoff") as connection:
                row = connection.execute(sqlite.encode()).fetchone()
        else:
            with closing(sqlite3.connect(cast("SqliteStore", self.scene.store).path)) as connection:
                row = connection.execute(sqlite).fetchone()
        assert row is not None
        return row[0]

    def refuse(
        self, table: str, *, on: str = "UPDATE", row: str = "NEW", when: str = "namespace = 'evil'"
    ) -> None:
        """Have the database refuse to change rows of a table, as an added constraint does."""
        condition = f"{row}.{when}"
        self._refused.add(table)
        self.run(
            f"CREATE TRIGGER poison_{table} BEFORE {on} ON {table} WHEN {condition} "
            "BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
            "CREATE OR REPLACE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'poisoned'; END $$;"
            f"CREATE TRIGGER poison_{table} BEFORE {on} ON signoff.{table} FOR EACH ROW WHEN ({condition}) "
            "EXECUTE FUNCTION public.poison()",
        )

    def ignore(
        self, table: str, *, on: str = "UPDATE", row: str = "NEW", when: str = "namespace = 'evil'"
    ) -> None:
        """Have the database leave rows of a table as they are without an error, as a trigger may."""
        self.refuse(table, on=on, row=row, when=when)
        self.run(
            f"DROP TRIGGER poison_{table}; CREATE TRIGGER poison_{table} BEFORE {on} ON {table} WHEN {row}.{when} "
            "BEGIN SELECT RAISE(IGNORE); END",
            "CREATE OR REPLACE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NULL; END $$",
        )

    def allow(self, table: str) -> None:
        """Have the database take changes of a table again."""
        self._refused.discard(table)
        self.run(f"DROP TRIGGER poison_{table}", f"DROP TRIGGER poison_{table} ON signoff.{table}")

    def allow_all(self) -> None:
        """Have the database take all changes again: other tests use it after this one."""
        for table in tuple(self._refused):
            self.allow(table)


@asynccontextmanager
async def damaged(database: str, folder: Path) -> AsyncIterator[Damaged]:
    """Open a scene on a database whose rows can be damaged."""
    gc.collect()  # or jobs of an earlier test still speak of a database of the same name
    async with STORES[database](folder) as scene:
        damage = Damaged(scene)
        try:
            yield damage
        finally:
            damage.allow_all()
