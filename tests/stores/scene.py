"""A store with clocks that the test moves, and short names for frequent operations of the rules."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from signoff.codec.ciphers import Ciphers, EncryptionKey
from signoff.records import (
    Amendment,
    AuditEvent,
    CallKind,
    Due,
    Entry,
    EntryKind,
    Message,
    NewPromise,
    NewRun,
    NewSchedule,
    Origin,
    Promise,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Settlement,
)
from signoff.records.paging import RunFilter
from signoff.server import Server
from signoff.server.routes import store_operations
from signoff.server.store_api import access as access_of_workers
from signoff.server.store_api import payload_checks
from signoff.server.store_api.access import Access
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.store import Change, Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.wrappers.encrypted import encrypted
from signoff.testing import MemoryStore, VirtualClock
from tests import worker_keys
from tests.postgres.databases import migrated_database
from tests.support import OnThread

GROUP = "default"
WORKFLOW = "refund"
SUCCESS = Outcome(RunState.SUCCEEDED, result="1")
FAILURE = Outcome(RunState.FAILED, error='{"type": "builtins:ValueError", "message": "no", "args": ["no"]}')
KEPT_FAILURE = Outcome(RunState.FAILED, error=FAILURE.error, retryable=True)
YES = Settlement(PromiseState.RESOLVED, value="true", by="user:ana")
NO = Settlement(PromiseState.RESOLVED, value="false", by="user:bob")


class Scene:
    """A store under test, its clocks, and what a worker or a caller does with it.

    Attributes:
        origin: From where all comes that is done with the store, whatever is said; None: from where that says.
    """

    def __init__(
        self, store: Store, clock: VirtualClock, lease_clock: VirtualClock, origin: Origin | None = None
    ) -> None:
        self.store = store
        self.clock = clock
        self.lease_clock = lease_clock
        self.origin = origin

    def within(self, namespace: str) -> Scene:
        return Scene(self.store.within(namespace), self.clock, self.lease_clock, self.origin)

    async def start(self, id: str = "r", *, workflow: str = WORKFLOW, group: str = GROUP, **more: Any) -> Run:
        run, _ = await self.store.create_run(
            NewRun(id, workflow, group, more.pop("arguments", '{"args": []}'), **more)
        )
        return run

    async def claim(
        self,
        *,
        worker: str = "w",
        workflows: Sequence[str] = (WORKFLOW,),
        group: str = GROUP,
        limit: int = 100,
        token: str | None = None,
    ) -> list[Claim]:
        return list(await self.store.claim(worker, group, workflows, limit, token=token))

    async def run(self, id: str = "r", *, worker: str = "w", **more: Any) -> Run:
        """Start a run and lease it; there must be no other ready one."""
        await self.start(id, **more)
        [claim] = await self.claim(worker=worker, workflows=[more.get("workflow", WORKFLOW)])
        assert claim.run.id == id
        return claim.run

    async def append(self, run: Run, *entries: Entry, **more: Any) -> None:
        await self.store.append(Write(run.id, run.epoch, entries=entries, **more))

    async def pause(self, run: Run, *entries: Entry, wake_at: float | None = None, **more: Any) -> bool:
        write = Write(run.id, run.epoch, entries=entries, **more)
        return await self.store.pause(write, wakes=run.wakes, wake_at=wake_at)

    async def paused(self, id: str = "r", *, wake_at: float | None = None, **more: Any) -> Run:
        """Start a run that pauses on promise ``{id}.0``."""
        run = await self.run(id, **more)
        assert await self.pause(run, wake_at=wake_at, opens=[question(id)])
        return await self.store.get_run(id)

    async def complete(self, run: Run, outcome: Outcome = SUCCESS, **more: Any) -> None:
        await self.store.complete(Write(run.id, run.epoch, **more), outcome)

    async def settle(
        self, id: str, settlement: Settlement = YES, *, kind: PromiseKind = PromiseKind.QUESTION
    ) -> tuple[Promise, bool]:
        return await self.store.settle(id, kind, settlement)

    async def state(self, id: str = "r") -> RunState:
        return (await self.store.get_run(id)).state

    async def messages(self, id: str = "r") -> list[Message]:
        return [message for message, _ in await self.store.read_messages([id])]

    async def journal(self, id: str = "r") -> list[EntryKind]:
        return [entry.kind for entry in await self.store.read_journal(id)]

    async def listen(self, heard: list[Change]) -> Callable[[], None]:
        """Listen; returns when every commit from now on is heard."""
        stop = self.store.listen(heard.append)
        if isinstance(self.store, RemoteStore):
            await until(lambda: heard == [Change(runs=None)])
            heard.clear()
        return stop

    async def listed(self, **which: Any) -> list[str]:
        return [run.id for run in (await self.store.list_runs(RunFilter(**which))).items]


def entry(seq: int, kind: EntryKind = EntryKind.COMPLETED, **more: Any) -> Entry:
    return Entry(seq, 1.5, kind, n=seq, call=CallKind.STEP, name="fetch", value="1", **more)


def question(run_id: str, n: int = 0, *, id: str | None = None, **more: Any) -> NewPromise:
    return NewPromise(id or f"{run_id}.{n}", PromiseKind.QUESTION, run_id, n, **more)


def promise(run_id: str, n: int = 0, *, id: str | None = None, **more: Any) -> NewPromise:
    return replace(question(run_id, n, id=id, **more), kind=PromiseKind.PROMISE)


async def until(true: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Wait for something that happens on another thread or in another process."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def sqlite_scene(folder: Path) -> AsyncIterator[Scene]:
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    store = SqliteStore(folder / "signoff.db", clock=clock, lease_clock=lease_clock)
    await store.open()
    try:
        yield Scene(store, clock, lease_clock)
    finally:
        await store.close()


@asynccontextmanager
async def memory_scene(folder: Path) -> AsyncIterator[Scene]:
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    yield Scene(MemoryStore(clock=clock, lease_clock=lease_clock), clock, lease_clock)


@asynccontextmanager
async def encrypted_scene(folder: Path) -> AsyncIterator[Scene]:
    """Encryption changes nothing of what a store does, whichever it is; the one in memory is the fastest."""
    async with memory_scene(folder) as scene:
        ciphers = Ciphers([EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)])
        yield Scene(encrypted(scene.store, ciphers), scene.clock, scene.lease_clock)


def multiply(connection: sqlite3.Connection, table: str, count: int) -> None:
    """Copy the rows of run ``r0``, the only ones, for runs ``r1``, ``r2`` ... until there are ``count`` runs."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    renamed = {
        "number": "NULL",
        "id": "'r' || k || substr(id, 3)",
        "run_id": "'r' || k",
    }
    values = ", ".join(renamed.get(column, column) for column in columns)
    connection.execute(
        f"""
        WITH RECURSIVE numbers(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM numbers WHERE k < {count - 1})
        INSERT INTO {table} SELECT {values} FROM numbers, {table}
        """
    )


@asynccontextmanager
async def postgres_scene(_: Path) -> AsyncIterator[Scene]:
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    with migrated_database() as url:
        store = PostgresStore(url, clock=clock, lease_clock=lease_clock)
        await store.open()
        try:
            yield Scene(store, clock, lease_clock)
        finally:
            await store.close()


@asynccontextmanager
async def remote_scene(folder: Path) -> AsyncIterator[Scene]:
    """A remote store, and a server on a thread of its own whose SQLite store has the clocks."""
    clock, lease_clock = VirtualClock(1_000_000.0), VirtualClock(5_000.0)
    served = SqliteStore(folder / "signoff.db", clock=clock, lease_clock=lease_clock)
    with asking_nothing(), opening_all(), OnThread(lambda: serving(served)) as server:
        store = RemoteStore(server.url, key=worker_keys.SECRET)
        await store.open()
        try:
            yield Scene(store, clock, lease_clock, worker_keys.ORIGIN)
        finally:
            await store.close()


class Untimed:
    """A store for a server whose timers stand still: the tests do what is due themselves."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def due(self, limit: int = 1000) -> float | None:
        return None

    def hold_leases(self) -> None:
        """Do nothing: the tests let leases run out."""

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return [], None

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return [], None

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent]:
        return []


@contextmanager
def asking_nothing() -> Iterator[None]:
    """Have servers take questions, answers and schedules of any words: rules of stores are not about these."""

    async def check_nothing(*_: object) -> None:
        pass

    with pytest.MonkeyPatch.context() as patch:
        for kind in (NewPromise, NewSchedule, Amendment, Promise):
            patch.delitem(cast("dict[type, Any]", payload_checks.FORMATS), kind)
        patch.setattr(access_of_workers, "check_settled", check_nothing)
        yield


@contextmanager
def opening_all() -> Iterator[None]:
    """Have any worker key open all operations of all namespaces: rules of stores are not about what a key opens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_operations, "do_for", _do)
        patch.setattr(Access, "check_namespace", lambda self, namespace: None)
        yield


async def _do(access: Access, store: Store, name: str, arguments: dict[str, Any]) -> Any:
    return await getattr(store, name)(**arguments)


@asynccontextmanager
async def serving(store: Store) -> AsyncIterator[Server]:
    try:
        untimed = cast("Store", Untimed(store))
        keys = worker_keys.KEYS
        async with Server(untimed, port=0, worker_keys=keys, worker_lease_seconds=None) as server:
            yield server
    finally:
        await store.close()


STORES = {
    "memory": memory_scene,
    "encrypted": encrypted_scene,
    "sqlite": sqlite_scene,
    "postgres": postgres_scene,
    "remote": remote_scene,
}
STORE_NAMES = [
    pytest.param(name, marks=pytest.mark.long) if name in ("postgres", "remote") else name
    for name in sorted(STORES)
]
"""For fixtures. `make test` tries the rules in memory and on files; on Postgres and through a server they are long."""


def rule(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an ``async def test(scene, ...)`` on every store, each on an event loop of its own."""

    @functools.wraps(test)
    def on_a_loop(store_name: str, tmp_path: Path, **more: Any) -> None:
        async def play() -> None:
            async with STORES[store_name](tmp_path) as scene:
                await test(scene, **more)

        asyncio.run(play())

    # pytest passes what the signature names.
    asked = inspect.signature(test).parameters
    own = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in ("store_name", "tmp_path")
    ]
    on_a_loop.__signature__ = inspect.Signature(own + list(asked.values())[1:])  # type: ignore[attr-defined]
    return on_a_loop
