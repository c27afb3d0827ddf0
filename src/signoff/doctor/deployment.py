"""The whole examination: of a database and the work in it, or of a server and the work seen through it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import httpx

from signoff.client.async_client import KEY_VARIABLE, AsyncClient
from signoff.doctor import audit_trail, remote, sqlite, workload
from signoff.doctor.findings import Finding, Level, attempt, examine, failure, ok
from signoff.doctor.workload import WORK_CHECKS, Known, Workload
from signoff.people.audit.anchors.config import anchors_of
from signoff.stores.contract.store import Store
from signoff.stores.migrations import Schema, conninfo_of, schema_of
from signoff.stores.sqlite import inspection as sqlite_inspection
from signoff.stores.sqlite.schema import connect_to_look
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.store_wrapper import unwrapped
from signoff.wire.http import is_loopback, server_url

PATIENCE_SECONDS: Final = 5.0
WORK_SECONDS: Final = 30.0  # for the work of all namespaces together

_SCHEMA = {
    "current": (ok, "version {found}, as this Signoff needs it"),
    "pending": (
        failure,
        "version {found}, but this Signoff needs {known}: run signoff migrate; the work is not checked",
    ),
    "newer": (
        failure,
        "version {found}, but this Signoff knows only up to {known}: upgrade signoff; the work is not checked",
    ),
}


def of_store(store: Store, known: Known | None = None) -> Iterator[Finding]:
    """Examine the database of a store, which need not be open, and the work in it.

    Args:
        store: A store on a database.
        known: The workflows of an app, in the store's namespace.

    Raises:
        TookTooLong: A check did not end; the last finding says so. Its thread may keep this process from ending.
        InvalidValue: The store's database is not accessible from here.
    """
    store = unwrapped(store)
    if isinstance(store, SqliteStore):
        return _of_file(store, known)
    return _of_postgres(store, conninfo_of(store), known)


def _of_file(store: SqliteStore, known: Known | None) -> Iterator[Finding]:
    if not store.path.exists():
        yield Finding(
            "database", Level.FAILURE, f"{store.path} does not exist; check --store, or run signoff migrate"
        )
        return
    schema = yield from _schema(store)
    if schema is None:  # another program's file, or not a database
        return
    yield from examine(sqlite.File(store.path), sqlite.FILE_CHECKS)
    if schema.state != "current":
        return
    yield from examine(sqlite.File(store.path), sqlite.SCHEMA_CHECKS)

    def namespaces() -> Sequence[str]:
        with closing(connect_to_look(store.path)) as db:
            return sqlite_inspection.namespaces(db)

    yield from _work_in(SqliteStore(store.path, namespace=store.namespace), namespaces, known)


def _of_postgres(store: Store, conninfo: str, known: Known | None) -> Iterator[Finding]:
    import psycopg

    from signoff.doctor import postgres
    from signoff.stores.postgres import inspection
    from signoff.stores.postgres.schema import translate
    from signoff.stores.postgres.store import PostgresStore

    def connect() -> psycopg.Connection[tuple[Any, ...]]:
        try:  # prepared statements do not survive a pooler
            return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise translate(error, store.location) from error

    db = yield from attempt("database", connect)
    if db is None:
        return
    server = postgres.Server(
        db, store.location, store.listen_conninfo if isinstance(store, PostgresStore) else None
    )
    yield Finding("database", Level.OK, f"{store.location} can be reached")
    yield from examine(server, postgres.SERVER_CHECKS)
    schema = yield from _schema(store)
    if schema is not None and schema.state == "current":
        yield from examine(server, postgres.SCHEMA_CHECKS)
        looking = PostgresStore(
            conninfo,
            namespace=store.namespace,
            patience_seconds=PATIENCE_SECONDS,
            readers=1,
            listen_address="",
        )
        yield from _work_in(looking, lambda: inspection.namespaces_with_ready_runs(db), known)
    db.close()  # not after TookTooLong: its thread uses it


def _schema(store: Store) -> Generator[Finding, None, Schema | None]:
    """Report on the schema. Returns it, or None if it cannot be read."""
    schema = yield from attempt("schema", lambda: schema_of(store))
    if schema is None:
        return None
    judge, text = _SCHEMA[schema.state]
    verdict = judge(text.format(found=schema.found or "none yet", known=schema.known))
    yield Finding("schema", verdict.level, verdict.message)
    return schema


def _work_in(store: Store, namespaces: Callable[[], Sequence[str]], known: Known | None) -> Iterator[Finding]:
    """Examine the work in the store's namespace, and in all namespaces with work."""

    async def look_everywhere() -> list[Workload]:
        names = dict.fromkeys((store.namespace, *namespaces()))
        await store.open()
        try:
            trails.extend(await audit_trail.look(store, anchors_of()))
            return [
                await workload.look(
                    store.within(name),
                    Workload(name, store.clock.now(), known if name == store.namespace else None),
                )
                for name in names
            ]
        finally:
            await store.close()

    trails: list[audit_trail.Trail] = []
    yield from _examine_work(look_everywhere)
    yield from examine(trails, audit_trail.CHECKS)


def _examine_work(look: Callable[[], Coroutine[None, None, list[Workload]]]) -> Iterator[Finding]:
    found = yield from attempt("work", lambda: asyncio.run(look()), WORK_SECONDS)
    for each in found or ():
        yield from examine(each, WORK_CHECKS)


def server_of(store: Store) -> str | None:
    """Return the URL of the server of a remote store, None for other stores."""
    from signoff.stores.remote.store import RemoteStore

    return store.location if isinstance(store, RemoteStore) else None


def of_server(url: str, key: str | None, namespace: str, known: Known | None = None) -> Iterator[Finding]:
    """Examine a ``signoff server``, and the work that is visible through it.

    Args:
        url: The server.
        key: A worker key, if there is one.
        namespace: The tenant whose work is examined.
        known: The workflows of an app.

    Raises:
        TookTooLong: As for ``of_store``.
        InvalidValue: The URL is not valid.
    """
    base = server_url(url)
    return _of_server(base, url, key, namespace, known)


def _of_server(
    base: httpx.URL, url: str, key: str | None, namespace: str, known: Known | None
) -> Iterator[Finding]:
    with httpx.Client(base_url=base, timeout=PATIENCE_SECONDS, trust_env=not is_loopback(base.host)) as http:
        server = remote.Server(http, url, key, namespace, os.environ.get(KEY_VARIABLE))
        for finding in examine(server, remote.CHECKS):
            yield finding
            if finding.check == "server" and finding.level is Level.FAILURE:
                return
        is_open = yield from attempt("worker key", lambda: server.is_open)
    if is_open or (key is None and is_open is not None):
        yield from _work_through(url, key, namespace, known, is_open=is_open)


def _work_through(
    url: str, key: str | None, namespace: str, known: Known | None, *, is_open: bool
) -> Iterator[Finding]:
    """Examine the work as a remote worker sees it or, without a key, as any client does."""

    async def as_a_worker() -> list[Workload]:
        from signoff.stores.remote.store import RemoteStore

        store = RemoteStore(url, key=key, namespace=namespace, patience_seconds=PATIENCE_SECONDS)
        await store.open()
        try:
            return [await workload.look(store, Workload(namespace, store.clock.now(), known))]
        finally:
            await store.close()

    async def as_a_client() -> list[Workload]:
        async with AsyncClient(url) as client:
            return [await workload.look(client.backend, Workload(namespace, time.time(), known))]

    yield from _examine_work(as_a_worker if is_open else as_a_client)
