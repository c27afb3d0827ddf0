"""A Postgres server for benchmarks, with durable commits as in production, and its raw speed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from psycopg.sql import SQL, Identifier

from benchmarks.yardsticks import ROWS, Yardstick
from tests.postgres.server import PostgresServer

# The table has the columns and the key of Signoff's journal.
JOURNAL = """
CREATE TABLE raw (
    run_id text, namespace text, seq integer, at double precision, kind text, n integer, call text, name text,
    value text, error text, details text,
    PRIMARY KEY (run_id, namespace, seq)
)
"""

ADD = "INSERT INTO raw VALUES ('run-1', 'default', %s, 1.7e9, 'completed', %s, 'step', 'step', '42', NULL, NULL)"


class Bench:
    """Databases on one server, a new one for each round.

    Args:
        server_url: A server whose user may create databases.
    """

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._numbers = count()
        self.commits = Yardstick("raw psycopg, a commit per row", "rows/s", self._commits_per_second)
        self.batches = Yardstick("raw psycopg, 100 rows per commit", "rows/s", self._rows_per_second)
        self.commit = Yardstick("one raw commit", "ms", self._milliseconds_of_commit)

    @property
    def version(self) -> str:
        with psycopg.connect(self._server_url) as connection:
            return str(connection.info.server_version // 10_000)

    def new_database(self) -> str:
        """Return the address of an empty database."""
        name = f"signoff_bench_{next(self._numbers)}"
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name)))
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        return f"{self._server_url.rpartition('/')[0]}/{name}"

    def _seconds_of_commits(self, rows_each: int, commits: int) -> float:
        with psycopg.connect(self.new_database(), autocommit=True) as connection:
            connection.execute(JOURNAL)
            cursor = connection.cursor()
            began = time.perf_counter()
            for first in range(0, rows_each * commits, rows_each):
                if rows_each == 1:
                    cursor.execute(ADD, (first, first))
                else:
                    with connection.transaction():
                        cursor.executemany(ADD, [(seq, seq) for seq in range(first, first + rows_each)])
            return time.perf_counter() - began

    def _commits_per_second(self, folder: Path) -> float:
        return ROWS / self._seconds_of_commits(1, ROWS)

    def _rows_per_second(self, folder: Path) -> float:
        return ROWS * 20 / self._seconds_of_commits(100, ROWS // 5)

    def _milliseconds_of_commit(self, folder: Path) -> float:
        return 1_000 * self._seconds_of_commits(1, ROWS) / ROWS


@contextmanager
def bench() -> Iterator[Bench]:
    """Start a new server, and stop it."""
    with PostgresServer() as server:
        yield Bench(server.url())
