"""Bringing a database's schema up to date, and saying how it stands."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from signoff.errors import InvalidValue
from signoff.stores.contract.store import Store
from signoff.stores.sqlite import schema as sqlite_schema
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.view import unwrapped


@dataclass(frozen=True, slots=True)
class Schema:
    """How a database's schema stands. Each change of tables or functions raises the version of the schema by one.

    Attributes:
        found: The version that it has; 0 if there is nothing of ours.
        known: The version that this Signoff needs.
    """

    found: int
    known: int

    @property
    def state(self) -> str:
        """``current``, ``pending`` (it is an older one) or ``newer`` (a newer Signoff has migrated it)."""
        if self.found == self.known:
            return "current"
        return "pending" if self.found < self.known else "newer"


def schema_of(store: Store) -> Schema:
    """Say how the schema of a store's database stands, and change nothing. Blocks; the store need not be open.

    Raises:
        InvalidValue: The store has no database here.
        StoreUnavailable: The database cannot be read.
    """
    store = unwrapped(store)
    if isinstance(store, SqliteStore):
        found = sqlite_schema.version_of(store.path, store.location)
        return Schema(found, len(sqlite_schema.migrations()))
    conninfo = conninfo_of(store)
    from signoff.stores.postgres import schema as postgres_schema

    with postgres_schema.connected(conninfo, store.location) as connection:
        found_version = postgres_schema.version(connection)
    return Schema(found_version.number, postgres_schema.known_version().number)


def migrate(store: Store) -> Schema:
    """Bring the schema of a store's database up to date, one process at a time, all or nothing. Blocks.

    Returns:
        How it stood before.

    Raises:
        InvalidValue: The store has no database here.
        SchemaTooNew: A newer Signoff has migrated it.
        SchemaTooOld: It is an older one, and the database's role may not change it.
        StoreUnavailable: The database cannot be opened or written.
    """
    store = unwrapped(store)
    if isinstance(store, SqliteStore):
        applied = sqlite_schema.prepare(store.path, store.location, busy_seconds=store.busy_seconds)
        known = len(sqlite_schema.migrations())
        return Schema(known - applied, known)
    conninfo = conninfo_of(store)
    from signoff.stores.postgres import schema as postgres_schema

    with postgres_schema.connected(conninfo, store.location) as connection:
        applied = postgres_schema.migrate(connection, store.location)
    known = postgres_schema.known_version().number
    return Schema(known - applied, known)


def conninfo_of(store: Store) -> str:
    """Return how to connect to the Postgres database of a store. Raises InvalidValue if it has none."""
    store = unwrapped(store)
    if "signoff.stores.postgres.store" in sys.modules:  # else it is no such store, and psycopg may be missing
        from signoff.stores.postgres.store import PostgresStore

        if isinstance(store, PostgresStore):
            return store.conninfo
    raise InvalidValue("store", f"{store.location} is no database here; migrate it where the database is")
