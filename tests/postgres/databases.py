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
from itertools import count

import psycopg
from psycopg.sql import SQL, Identifier

from tests.postgres.folder import in_memory, locked, of_this_run
from tests.postgres.installations import installations
from tests.postgres.server import FAST, PostgresServer

PREFIX = "signoff_test"
GRACE_SECONDS = 1.0  # for the server to notice that a client has gone

ABANDONED = """
    SELECT datname FROM pg_database WHERE datname LIKE 'signoff\\_test\\_%'
    AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE starts_with(pg_database.datname, application_name || '_'))
"""
CLIENTS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
SCHEMAS = """
    SELECT nspname FROM pg_namespace
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'public')
    UNION SELECT 'public' FROM pg_depend
    WHERE refclassid = 'pg_namespace'::regclass AND refobjid = to_regnamespace('public') AND deptype = 'n'
"""


@contextmanager
def fresh_database(major: int | None = None) -> Iterator[str]:
    """The URL of an empty database that nobody else uses.

    Args:
        major: The version of Postgres, one of ``versions()``; the newest if None.
    """
    databases = _databases(major or versions()[0])
    name = databases.take()
    try:
        yield databases.url(name)
    finally:
        databases.give_back(name)


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
        """Empty a database for the next test, or drop it if somebody is still connected."""
        if self._emptied(name):
            self._free.append(name)
        else:
            self._drop(name)

    def close(self) -> None:
        """Drop those that are free."""
        while self._free:
            self._drop(self._free.pop())
        self._server.close()

    def _emptied(self, name: str) -> bool:
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            deadline = time.monotonic() + GRACE_SECONDS
            while connection.execute(CLIENTS).fetchone() != (0,):
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.002)
            for (schema,) in connection.execute(SCHEMAS).fetchall():
                connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(schema)))
            connection.execute("CREATE SCHEMA IF NOT EXISTS public")
            connection.execute(SQL("ALTER DATABASE {} RESET ALL").format(Identifier(name)))
        return True

    def _drop(self, name: str) -> None:
        self._server.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))


@functools.cache
def _databases(major: int) -> Databases:
    return Databases(shared_server_url(major))
