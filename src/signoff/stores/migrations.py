"""Migrates a database's schema, and reports its version."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from signoff.errors import InvalidValue
from signoff.stores.contract.store import Store
from signoff.stores.sqlite import schema as sqlite_schema
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped


@dataclass(frozen=True, slots=True)
class Schema:
    """The version of a database's schema. Each change of tables or functions raises it by one.

    Attributes:
        found: The database's version; 0 if it has no Signoff schema.
        known: The version that this Signoff needs.
    """

    found: int
    known: int

    @property
    def state(self) -> str:
        """``current``, ``pending`` (older) or ``newer`` (migrated by a newer Signoff)."""
        if self.found == self.known:
            return "current"
        return "pending" if self.found < self.known else "newer"


def schema_of(store: Store) -> Schema:
    """Return the schema version of a store's database, without changes. Blocks. The store need not be open.

    Raises:
        InvalidValue: The store has no local database.
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
    """Migrate the schema of a store's database, one process at a time, all or nothing. Blocks.

    Returns:
        The version before.

    Raises:
        InvalidValue: The store has no local database.
        SchemaTooNew: A newer Signoff has migrated it.
        SchemaTooOld: It is older, and the database role may not change it.
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
    """Return the connection string of a store's Postgres database. Raises InvalidValue if it has none."""
    store = unwrapped(store)
    if (
        "signoff.stores.postgres.store" in sys.modules
    ):  # otherwise it cannot be one, and psycopg may be missing
        from signoff.stores.postgres.store import PostgresStore

        if isinstance(store, PostgresStore):
            return store.conninfo
    raise InvalidValue(
        "store", f"{store.location} has no local database; migrate it on the machine of the database"
    )
