"""Empty databases for tests, on one server that all processes of a test run share.

The server is started when the first database is asked for. ``SIGNOFF_TEST_POSTGRES=postgresql://...`` names one to
use instead: its user must be allowed to create databases.
"""

from __future__ import annotations

import atexit
import functools
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress, count
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from signoff.stores.postgres import schema as postgres_schema
from tests.postgres.folder import in_memory, locked, of_this_run
from tests.postgres.installations import installations
from tests.postgres.server import FAST, PostgresServer

PREFIX = "signoff_test"
GRACE_SECONDS = 1.0  # for the server to notice that a client has gone

ABANDONED = """
    SELECT datname FROM pg_database WHERE datname LIKE 'signoff\\_test\\_%' AND NOT EXISTS
    (SELECT FROM pg_stat_activity WHERE application_name || '_' = rtrim(pg_database.datname, '0123456789'))
"""
CLIENTS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
TABLES = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'signoff'::regnamespace AND relkind = 'r' AND relname <> 'migrations'
"""
SCHEMAS = """
    SELECT nspname FROM pg_namespace
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'public')
    UNION SELECT 'public' FROM pg_depend
    WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('public') AND deptype = 'n'
"""


@contextmanager
def fresh_database(major: int | None = None) -> Iterator[str]:
    """The URL of an empty database of this test alone.

    Args:
        major: The version of Postgres, one of ``versions()``; the newest if None.
    """
    databases = _databases(major or versions()[0])
    name = databases.take()
    try:
        yield databases.url(name)
    finally:
        databases.give_back(name)


@contextmanager
def migrated_database() -> Iterator[str]:
    """The URL of a database with the tables of a store and nothing in them, for tests that leave the tables as such.

    To make them takes ten times as long as to empty them.
    """
    databases = _databases(versions()[0])
    name = databases.take_migrated()
    try:
        yield databases.url(name)
    finally:
        databases.give_back_migrated(name)


@functools.cache
def versions() -> tuple[int, ...]:
    """The major versions of Postgres that tests can use, the newest first."""
    if url := os.environ.get("SIGNOFF_TEST_POSTGRES"):
        with psycopg.connect(url) as connection:
            return (connection.info.server_version // 10_000,)
    return tuple(installation.major for installation in installations())


@functools.cache
def shared_server_url(major: int) -> str:
    """The server of this test run, started by the first process that asks; it stops when all of them have ended."""
    if url := os.environ.get("SIGNOFF_TEST_POSTGRES"):
        return url
    held = of_this_run(in_memory())
    address = held.path / f"url-{major}"
    with locked(address.with_suffix(".lock")):
        if not address.exists():
            [installation] = [found for found in installations() if found.major == major]
            server = PostgresServer(installation, settings=FAST, held=held)
            server.start()
            _started.append(server)
            address.touch(mode=0o600)
            address.write_text(server.url())
        return address.read_text()


_started: list[PostgresServer] = []  # kept, for Python warns of processes that it forgets as they run


class Databases:
    """Databases that tests of this process use one after the other.

    To empty one takes a tenth of the time of CREATE and DROP DATABASE.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._name = f"{PREFIX}_{secrets.token_hex(4)}"
        self._numbers = count()
        self._free: list[str] = []
        self._migrated: list[str] = []
        self._connections: dict[
            str, psycopg.Connection[Any]
        ] = {}  # to those with tables: a new one reads the catalog
        # As long as this connection is open, others see that the databases with its name are used.
        self._server = psycopg.connect(server_url, autocommit=True, application_name=self._name)
        for (abandoned,) in self._server.execute(ABANDONED).fetchall():
            self._drop(abandoned)
        atexit.register(self.close)

    def url(self, name: str) -> str:
        return re.sub(r"^(\w+://[^/?]*)(/[^?]*)?", rf"\1/{name}", self._server_url)

    def take(self) -> str:
        """An empty database."""
        if self._free:
            return self._free.pop()
        name = f"{self._name}_{next(self._numbers)}"
        self._server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        return name

    def give_back(self, name: str) -> None:
        """Empty a database for the next test, or drop it if there are still connections."""
        if self._emptied(name):
            self._free.append(name)
        else:
            self._drop(name)

    def take_migrated(self) -> str:
        """A database with the tables of a store."""
        if self._migrated:
            return self._migrated.pop()
        name = self.take()
        postgres_schema.migrate(self._connection(name), name)
        return name

    def give_back_migrated(self, name: str) -> None:
        """Empty the tables for the next test, or drop the database if there are still connections."""
        try:
            truncated = self._truncated(name)
        except psycopg.OperationalError:  # a test has ended all connections to it
            self._disconnect(name)
            truncated = self._truncated(name)
        if truncated:
            self._migrated.append(name)
        else:
            self._drop(name)

    def close(self) -> None:
        """Drop those that are free."""
        for free in (self._free, self._migrated):
            while free:
                self._drop(free.pop())
        self._server.close()

    def _truncated(self, name: str) -> bool:
        connection = self._connection(name)
        if not self._alone(connection):
            return False
        names = [Identifier("signoff", table) for (table,) in connection.execute(TABLES).fetchall()]
        rows = SQL(", ").join(SQL("EXISTS (SELECT FROM {})").format(table) for table in names)
        [used] = connection.execute(SQL("SELECT {}").format(rows)).fetchall()
        if filled := list(compress(names, used)):
            tables = SQL(", ").join(filled)
            with connection.transaction():
                connection.execute("SET LOCAL session_replication_role = replica")  # no trigger holds it up
                connection.execute(SQL("TRUNCATE {} RESTART IDENTITY").format(tables))
        return True

    def _connection(self, name: str) -> psycopg.Connection[Any]:
        """Return the connection that is kept to a database with tables."""
        if name not in self._connections:
            self._connections[name] = psycopg.connect(self.url(name), autocommit=True)
        return self._connections[name]

    def _disconnect(self, name: str) -> None:
        if connection := self._connections.pop(name, None):
            connection.close()

    def _alone(self, connection: psycopg.Connection) -> bool:
        """Wait a moment until there are no other connections."""
        deadline = time.monotonic() + GRACE_SECONDS
        while connection.execute(CLIENTS).fetchone() != (0,):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def _emptied(self, name: str) -> bool:
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            if not self._alone(connection):
                return False
            for (schema,) in connection.execute(SCHEMAS).fetchall():
                connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
            connection.execute("CREATE SCHEMA IF NOT EXISTS public")
            connection.execute(SQL("ALTER DATABASE {} RESET ALL").format(Identifier(name)))
        return True

    def _drop(self, name: str) -> None:
        self._disconnect(name)
        self._server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


@functools.cache
def _databases(major: int) -> Databases:
    return Databases(shared_server_url(major))
