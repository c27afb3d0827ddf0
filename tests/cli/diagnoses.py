"""The output of ``signoff doctor``, and databases in states that it should detect."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from signoff.records import WorkerInfo
from signoff.stores.address import is_postgres, store_at
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.schema import path_of
from tests.cli.commands import Ended
from tests.cli.conftest import Here

Findings = dict[str, list[tuple[str, str]]]


def findings(ended: Ended) -> Findings:
    """(level, message) by check, of a command with ``--json``."""
    found: Findings = {}
    for item in ended.json["items"]:
        found.setdefault(item["check"], []).append((item["level"], item["message"]))
    return found


def examine(here: Here, *arguments: str, cwd: Path, **variables: str) -> Findings:
    return findings(here("doctor", *arguments, "--json", cwd=cwd, **variables))


def levels(found: Findings, check: str) -> list[str]:
    return [level for level, _ in found[check]]


def on_store(address: str, work: Callable[[Store], Awaitable[Any]]) -> Any:
    """Do something on an open store."""

    async def do() -> Any:
        store = store_at(address)
        await store.open()
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(do())


def sql(address: str, statement: str) -> list[Any]:
    """Change something behind the store's back. ``signoff.`` before tables is left out for SQLite."""
    if is_postgres(address):
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(path_of(address), isolation_level=None)) as connection:
        return connection.execute(statement.replace("signoff.", "")).fetchall()


def worker(id: str = "w", *, group: str = "default", namespace: str = "default") -> WorkerInfo:
    """A worker of another host."""
    return WorkerInfo(id, "elsewhere", 1, time.time(), group, namespace)
