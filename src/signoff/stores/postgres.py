"""The Postgres store: one database, any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

import psycopg

from signoff.clock import Clock
from signoff.errors import StoreUnavailable
from signoff.records import (
    Entry,
    Group,
    Message,
    NewPromise,
    NewRun,
    NewSchedule,
    Promise,
    PromiseKind,
    Rate,
    Run,
    Schedule,
    Settlement,
    WorkerInfo,
)
from signoff.stores import postgres_groups as groups
from signoff.stores import postgres_leases as leases
from signoff.stores import postgres_operations as operations
from signoff.stores import postgres_reads as reads
from signoff.stores import postgres_retention as retention
from signoff.stores import postgres_schedules as schedules
from signoff.stores.base import Change, Claim, Outcome, Page, PromiseFilter, RunFilter, Write
from signoff.stores.limits import check_limits
from signoff.stores.listeners import Listeners
from signoff.stores.postgres_clock import DatabaseClock
from signoff.stores.postgres_link import Link
from signoff.stores.postgres_lookups import Lookups
from signoff.stores.postgres_notifier import Notifier
from signoff.stores.postgres_schema import (
    connection_options,
    is_conflict,
    is_gone,
    location_of,
    migrate,
    translate,
)
from signoff.stores.postgres_writer import RETRY_LATER, RETRY_SOON, Writer
from signoff.stores.touched import Touched

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("signoff.store")

TELL_AFTER_SECONDS = 6.0  # of waiting for a server that is gone


class PostgresStore:
    """Keeps runs in a Postgres database. The contract of every method is in ``signoff.stores.base.Store``.

    Everything is in the schema ``signoff`` of the database. Times are the database's, whatever machines' clocks say.

    Args:
        address: ``postgresql://user:password@host:port/database``, with any options of libpq.
        namespace: The tenant.
        clock: Business time, instead of the database's; for tests.
        lease_clock: The time leases are measured by, instead of the database's; for tests.
        lease_seconds: How long a claim or a heartbeat holds a run.
        patience_seconds: How long operations wait for a server that is gone before they raise StoreUnavailable.
        readers: How many connections read, extend leases and look for what is due; two more write and listen.
        listen_address: Where to LISTEN, if ``address`` is a pooler that shares connections by transaction (PgBouncer).
            None listens at ``address``; the empty string does not listen, and others' commits are found by looking.
        inline_below_seconds: Send single operations from the event loop while replies take less; 0 never does.

    Example:
        store = PostgresStore("postgresql://signoff@db/signoff")
        await store.open()
    """

    def __init__(
        self,
        address: str,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        lease_clock: Clock | None = None,
        lease_seconds: float = 10.0,
        patience_seconds: float = 60.0,
        readers: int = 3,
        listen_address: str | None = None,
        inline_below_seconds: float = 0.001,
    ) -> None:
        self.namespace = namespace
        self.lease_seconds = lease_seconds
        self._owner = True
        self._database = _Database(
            address,
            clock=clock,
            lease_clock=lease_clock,
            patience_seconds=patience_seconds,
            readers=readers,
            listen_address=listen_address,
            inline_below_seconds=inline_below_seconds,
        )
        self.clock: Clock = self._database.clock

    @property
    def location(self) -> str:
        return self._database.location

    @property
    def conninfo(self) -> str:
        """How to connect to the database, with its secrets."""
        return self._database.options

    @property
    def listen_conninfo(self) -> str | None:
        """How to connect to listen there; None if it does not listen."""
        return self._database.listen_options

    async def open(self) -> None:
        try:
            await asyncio.to_thread(self._database.open)
        except asyncio.CancelledError:
            self._database.give_up()  # or its thread would wait for the server, and this process for the thread
            raise

    async def close(self) -> None:
        if self._owner:
            await asyncio.to_thread(self._database.close)

    def within(self, namespace: str) -> PostgresStore:
        view = object.__new__(PostgresStore)
        view.namespace = namespace
        view.clock = self.clock
        view.lease_seconds = self.lease_seconds
        view._owner = False
        view._database = self._database
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        return self._database.listeners.add(self.namespace, callback)

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        return await self._write(operations.create_run, new, token)

    async def get_run(self, run_id: str) -> Run:
        return await self._database.lookups.find(self.namespace, run_id)

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        return await self._read(reads.ended, run_ids)

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        return await self._read(reads.list_runs, which, after, limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        return await self._read(reads.read_journal, run_id, after, limit)

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        return await self._read(reads.read_messages, run_ids)

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        return await self._write(operations.cancel, run_id, reason, by)

    async def retry(self, run_id: str, *, token: str | None = None) -> Run:
        return await self._write(operations.retry, run_id, token)

    async def signal(
        self,
        run_id: str,
        name: str,
        value: str,
        *,
        by: str | None = None,
        request_id: str | None = None,
        token: str | None = None,
    ) -> bool:
        return await self._write(operations.signal, run_id, name, value, by, request_id, token)

    async def delete_ended(self, before: float, limit: int) -> int:
        return await self._change(retention.delete_ended, before, limit)

    # What the holder of a lease does

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        if not workflows or limit <= 0:
            return []
        lease_seconds = self.lease_seconds
        return await self._write(operations.claim, worker_id, group, workflows, limit, lease_seconds, token)

    async def append(self, write: Write) -> None:
        await self._write(operations.append, write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._write(operations.pause, write, wakes, wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._write(operations.complete, write, outcome)

    # Promises

    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        return await self._write(operations.create_promise, new, token)

    async def get_promise(self, promise_id: str) -> Promise:
        return await self._read(reads.get_promise, promise_id)

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        return await self._read(reads.list_promises, which, after, limit)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        return await self._write(operations.settle, promise_id, kind, settlement, token)

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        return await self._database.due(limit)

    # Groups

    async def pause_group(self, name: str) -> None:
        await self._change(groups.set_paused, name, True)

    async def resume_group(self, name: str) -> None:
        await self._change(groups.set_paused, name, False)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_limits(max_running, starts_per)
        await self._change(groups.set_limits, name, max_running, starts_per)

    async def list_groups(self) -> Sequence[Group]:
        return await self._read(groups.list_groups)

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        return await self._change(schedules.put, new, self._database.now())

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return await self._read(schedules.get, schedule_id)

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        return await self._read(schedules.list_schedules, after, limit)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return await self._read(schedules.pause, schedule_id)

    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        return await self._change(schedules.resume, schedule_id, next_at)

    async def delete_schedule(self, schedule_id: str) -> None:
        await self._read(schedules.delete, schedule_id)

    async def due_schedules(self, limit: int) -> tuple[Sequence[Schedule], float | None]:
        now = self._database.now()
        return await self._database.call(lambda db: schedules.due(db, now, limit))

    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        now = self._database.now()
        return await self._change(schedules.fire, schedule_id, expected, runs, next_at, now)

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        lease_now = self._database.lease_now()
        self._database.tell(await self._database.call(lambda db: leases.enlist(db, worker, lease_now)))

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._database.call(reads.list_workers)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        if not held:
            return set()
        lease_now = self._database.lease_now()
        return await self._read(leases.heartbeat, worker_id, held, lease_now, self.lease_seconds)

    async def release(self, worker_id: str) -> int:
        return await self._database.release(worker_id)

    def _write(
        self,
        make: Callable[Concatenate[str, P], operations.Request[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Awaitable[T]:
        return self._database.writer.write(make(self.namespace, *args, **kwargs))

    async def _change(
        self,
        change: Callable[Concatenate[reads.Connection, str, P], tuple[T, Touched]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Change something on a reader's connection, beside the writer, and tell of it."""
        result, touched = await self._read(change, *args, **kwargs)
        self._database.tell(touched)
        return result

    async def _read(
        self, read: Callable[Concatenate[reads.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        namespace = self.namespace
        return await self._database.call(lambda db: read(db, namespace, *args, **kwargs))


class _Database:
    """The open database that views of several namespaces share: a writer, a notifier, readers for the rest."""

    def __init__(
        self,
        address: str,
        *,
        clock: Clock | None,
        lease_clock: Clock | None,
        patience_seconds: float,
        readers: int,
        listen_address: str | None,
        inline_below_seconds: float,
    ) -> None:
        self.options = connection_options(address)
        self.location = location_of(address)
        self.listeners = Listeners()
        self.clock: Clock = clock or DatabaseClock()
        self.listen_options = None if listen_address == "" else connection_options(listen_address or address)
        self._is_pooled = listen_address is not None
        self._own_clock = clock
        self._lease_clock = lease_clock
        self._patience_seconds = patience_seconds
        self._readers = readers
        self._inline_below_seconds = inline_below_seconds
        self.lookups = Lookups(self._get_runs)
        self._writer: Writer | None = None
        self._notifier: Notifier | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._connections: set[reads.Connection] = set()  # of the readers
        self._mine = threading.local()
        self._opening = threading.Lock()
        self._closing = False
        self._pid = os.getpid()
        self.clock.on_jump(self.listeners.tell_jump)

    @property
    def writer(self) -> Writer:
        if self._writer is None:
            raise StoreUnavailable(self.location, "it is not open")
        return self._writer

    def now(self) -> float | None:
        return None if self._own_clock is None else self._own_clock.now()

    def lease_now(self) -> float | None:
        return None if self._lease_clock is None else self._lease_clock.now()

    def open(self) -> None:
        with self._opening:
            if self._writer is not None:
                return
            self._pid = os.getpid()
            self._closing = False
            self._patiently(self._prepare)
            self._mine = threading.local()
            self._threads = ThreadPoolExecutor(self._readers, thread_name_prefix="signoff-postgres-reader")
            if (listen_options := self.listen_options) is not None:
                self._notifier = Notifier(
                    lambda: psycopg.connect(listen_options, autocommit=True),
                    self.listeners,
                    self.location,
                )
                self._notifier.wait_until_listening(self._patience_seconds)
            link = Link(lambda: psycopg.connect(self.options, autocommit=True), prepares=not self._is_pooled)
            self._patiently(link.open)
            self._writer = Writer(
                link,
                location=self.location,
                clock=self._own_clock,
                lease_clock=self._lease_clock,
                patience_seconds=self._patience_seconds,
                inline_below_seconds=self._inline_below_seconds,
                committed=self.tell,
                doubted=self.listeners.tell_disturbance,
            )

    def give_up(self) -> None:
        """Have whoever waits for the server wait no longer."""
        self._closing = True

    def close(self) -> None:
        with self._opening:
            if os.getpid() != self._pid:
                return  # forked: the connections are the parent's
            writer, self._writer = self._writer, None
            threads, self._threads = self._threads, None
            notifier, self._notifier = self._notifier, None
            if writer is not None:
                writer.close()
            self._closing = True
            if threads is not None:
                threads.shutdown()
            while self._connections:
                self._connections.pop().close()
            if notifier is not None:
                notifier.close()

    async def call(self, work: Callable[[reads.Connection], T]) -> T:
        """Do something on a reader's thread and connection. It must be safe to do twice."""
        self.writer.check_usable()
        threads, calling = self._threads, None
        if threads is not None:
            with contextlib.suppress(RuntimeError):  # another thread has just shut them down
                calling = asyncio.get_running_loop().run_in_executor(threads, self._call_here, work)
        if calling is None:
            raise StoreUnavailable(self.location, "it is closed")
        return await calling

    async def _get_runs(self, namespace: str, run_ids: Sequence[str]) -> dict[str, Run]:
        return await self.call(lambda db: reads.get_runs(db, namespace, run_ids))

    async def due(self, limit: int) -> float | None:
        now = self.now()
        lease_now = self.lease_now()
        sent_at = time.monotonic()
        reply = await self.call(lambda db: leases.due(db, now, lease_now, limit))
        if isinstance(self.clock, DatabaseClock):
            self.clock.learn(sent_at, reply.now, time.monotonic())
        self.tell(reply.touched)
        return reply.next_at

    async def release(self, worker_id: str) -> int:
        now = self.now()
        freed, touched = await self.call(lambda db: leases.release(db, worker_id, now))
        self.tell(touched)
        return freed

    def tell(self, touched: Touched) -> None:
        """Tell this process, and then the others, what a commit touched."""
        if not touched:
            return
        self.listeners.tell(touched.change)
        notifier = self._notifier
        if notifier is not None:
            notifier.tell(touched)

    def _prepare(self) -> None:
        with psycopg.connect(self.options, autocommit=True) as connection:
            migrate(connection, self.location)
            if isinstance(self.clock, DatabaseClock):
                self.clock.ask(connection)

    def _call_here(self, work: Callable[[reads.Connection], T]) -> T:
        def once() -> T:
            connection: reads.Connection | None = getattr(self._mine, "connection", None)
            if connection is None:
                # A pooler gives each transaction another connection, which knows no prepared statements of ours.
                connection = self._mine.connection = psycopg.connect(
                    self.options, autocommit=True, prepare_threshold=None if self._is_pooled else 5
                )
                self._connections.add(connection)
            try:
                return work(connection)
            except psycopg.Error as error:
                if is_gone(error):
                    del self._mine.connection
                    self._connections.discard(connection)
                    connection.close()
                raise

        return self._patiently(once)

    def _patiently(self, work: Callable[[], T]) -> T:
        """Do something, and again while the server is gone or another transaction won."""
        began_at = time.monotonic()
        pause = RETRY_SOON
        has_told = False
        while True:
            try:
                return work()
            except psycopg.Error as error:
                may_come_back = is_gone(error) or is_conflict(error)
                waited = time.monotonic() - began_at
                if not may_come_back or self._closing or waited > self._patience_seconds:
                    raise translate(error, self.location) from error
                if waited > TELL_AFTER_SECONDS and not has_told:
                    has_told = True
                    said = " ".join(str(error).split())
                    log.warning("store %s is not available, still trying: %s", self.location, said)
            time.sleep(pause)
            pause = min(pause * 2, RETRY_LATER)
