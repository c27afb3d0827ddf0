"""The Postgres store: one database, any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from signoff.records import (
    Amendment,
    AuditEvent,
    Due,
    Entry,
    LiveText,
    Message,
    NewRun,
    Promise,
    PromiseKind,
    Run,
    Seal,
    Settlement,
    Token,
    TokenKind,
    WorkerInfo,
)
from signoff.records.failed_items import Unreadable
from signoff.records.names import check_namespace
from signoff.records.tasks import TaskRef
from signoff.runtime.clock import Clock
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Change, Store
from signoff.stores.contract.validation import check_arguments, check_names, check_request
from signoff.stores.postgres import (
    audit,
    leases,
    live,
    operations,
    promise_schedules,
    questions,
    reads,
    retention,
    schedules,
    tokens,
    writable,
    write_requests,
)
from signoff.stores.postgres import tasks as task_operations
from signoff.stores.postgres.database import Database
from signoff.stores.shared.failed_items import raise_outage
from signoff.stores.shared.failure_isolation import Done, Skipped, earliest
from signoff.stores.shared.heartbeats import extend_leases
from signoff.stores.shared.settled_promises import place_of
from signoff.stores.shared.touched_runs import TouchedRuns

P = ParamSpec("P")
T = TypeVar("T")


class PostgresStore(Store):
    """Stores runs in a Postgres database. See ``signoff.stores.contract.store.Store`` for the contract of each method.

    All tables are in the schema ``signoff`` of the database. Times come from the database's clock, not the machine's.

    Args:
        address: ``postgresql://user:password@host:port/database``, with any libpq options.
        namespace: The tenant.
        clock: Business time instead of the database's clock, for tests.
        lease_clock: Lease time instead of the database's clock, for tests.
        lease_seconds: How long a claim or a heartbeat holds a run.
        patience_seconds: How long operations wait for an unavailable server before they raise StoreUnavailable.
        readers: Number of connections that read, extend leases and process due items. Two more write and listen.
        listen_address: Address for LISTEN, if ``address`` is a transaction pooler (PgBouncer). None listens at
            ``address``; the empty string disables listening, and other processes' commits are found by polling.
        inline_below_seconds: Send single operations from the event loop while replies take less; 0 disables this.
        migrates: Whether ``open`` migrates the schema. Otherwise it raises SchemaTooOld for an outdated schema.

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
        inline_below_seconds: float = 0.002,
        migrates: bool = True,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.lease_seconds = lease_seconds
        self._owner = True
        self._database = Database(
            address,
            clock=clock,
            lease_clock=lease_clock,
            patience_seconds=patience_seconds,
            readers=readers,
            listen_address=listen_address,
            inline_below_seconds=inline_below_seconds,
            migrates=migrates,
        )
        self.clock: Clock = self._database.clock

    @property
    def location(self) -> str:
        return self._database.location

    @property
    def conninfo(self) -> str:
        """The connection string, with credentials."""
        return self._database.options

    @property
    def listen_conninfo(self) -> str | None:
        """The connection string of the listener; None if listening is disabled."""
        return self._database.listen_options

    async def open(self) -> None:
        given_up = threading.Event()
        try:
            await asyncio.to_thread(self._database.open, given_up)
        except asyncio.CancelledError:
            given_up.set()  # otherwise its thread waits for the server, and this process cannot exit
            raise

    async def close(self) -> None:
        if self._owner:
            await asyncio.to_thread(self._database.close)

    def within(self, namespace: str) -> PostgresStore:
        view = object.__new__(PostgresStore)
        view.namespace = check_namespace(namespace)
        view.clock = self.clock
        view.lease_seconds = self.lease_seconds
        view._owner = False
        view._database = self._database
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        return self._database.listeners.add(self.namespace, callback)

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Check an operation's arguments, and call its function."""
        check_arguments(arguments)
        name, values = operation.name, [*arguments.values()]
        if (make := operations.REQUESTS.get(name)) is not None:
            return await self._write(make, *values)
        if name in operations.TIMED:
            values.append(self._database.now())
        if (change := operations.CHANGES.get(name)) is not None:
            return await self._change(change, *values)
        return await self._read(operations.CALLS[name], *values)

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        check_request(None, token)
        return await self._write(write_requests.create_run, new, token)

    async def get_run(self, run_id: str) -> Run:
        return await self._database.lookups.find(self.namespace, run_id)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        return await self._read(reads.read_journal, run_id, after, limit)

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        return await self._read(reads.read_messages, run_ids)

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
        check_request(request_id, token)
        return await self._write(write_requests.signal, run_id, name, value, by, request_id, token)

    async def delete_ended(self, before: float, limit: int) -> int:
        return await self._database.prune_aside.do(
            self,
            lambda: self._change(retention.delete_ended, before, limit),
            lambda skipped: self._change(retention.delete_each, before, limit, skipped),
            namespace=self.namespace,
        )

    async def delete_settled(
        self, before: float, limit: int, *, after: str | None = None
    ) -> tuple[int, str | None]:
        place = place_of(after)
        return await self._database.settled_aside.do(
            self,
            lambda: self._read(retention.delete_settled, before, limit, place),
            lambda skipped: self._read(retention.delete_each_settled, before, limit, place, skipped),
            namespace=self.namespace,
        )

    # Operations of a lease holder

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        check_names(worker_id=worker_id, token=token)
        if not workflows or limit <= 0:
            return []
        asked = (worker_id, group, workflows, limit, self.lease_seconds, token or write_requests.new_token())
        return await self._database.claims.claim(
            self,
            lambda: self._write(write_requests.claim, *asked),
            lambda skipped, known: self._change(
                leases.claim_each,
                write_requests.claim_body(*asked),
                skipped,
                known,
                self._database.now(),
                self._database.lease_now(),
            ),
        )

    async def append(self, write: Write) -> None:
        await self._write(write_requests.append, write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._write(write_requests.pause, write, wakes, wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._write(write_requests.complete, write, outcome)

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        if pieces:
            await self._change(live.publish, pieces)

    # Promises

    async def get_promise(self, promise_id: str) -> Promise:
        return await self._read(reads.get_promise, promise_id)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(settlement.request_id, token)
        return await self._write(write_requests.settle, promise_id, kind, settlement, token)

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(None, token)
        return await self._write(questions.amend, question_id, amendment, token)

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self._database.now()
        return await self._database.call(lambda db: questions.due(db, now, limit))

    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        return await self._database.call(lambda db: audit.heads(db, after, limit))

    async def queued_namespaces(self, queue: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return await self._database.call(
            lambda db: task_operations.queued_namespaces(db, queue, after, limit)
        )

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return await self._database.call(lambda db: audit.unsealed(db, limit, besides))

    async def find_token(self, hash: str) -> Token | None:
        return await self._database.call(lambda db: tokens.find(db, hash))

    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        now = self._database.now()
        return await self._database.call(lambda db: tokens.has(db, kinds, now))

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        aside = self._database.due_aside
        next_at = await aside.do(
            self,
            lambda: self._database.due(limit, self.lease_seconds),
            lambda skipped: self._due_each(limit, skipped),
        )
        changes_at = await self._database.make_deferred(self)
        return earliest(aside.next_at(next_at, self.clock.now()), changes_at)

    async def _due_each(self, limit: int, skipped: Skipped) -> Done[float | None]:
        return await self._database.due_each(limit, skipped, self.lease_seconds)

    def hold_leases(self) -> None:
        self._database.outages.hold()

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self._database.now()
        return await self._database.call(lambda db: schedules.due(db, now, limit))

    async def due_promise_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self._database.now()
        return await self._database.call(lambda db: promise_schedules.due(db, now, limit))

    async def heartbeat_tasks(self, pid: str, tasks: Sequence[TaskRef] | None) -> int:
        check_arguments({"pid": pid, "tasks": tasks})
        return await self._read(task_operations.heartbeat, pid, tasks, self._database.lease_now())

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        lease_now = self._database.lease_now()
        self._database.notify(await self._database.call(lambda db: leases.enlist(db, worker, lease_now)))

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._database.call(reads.list_workers)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        if not held:
            return set()
        lease_now = self._database.lease_now()
        return await extend_leases(
            self,
            held,
            lambda some: self._read(leases.heartbeat, worker_id, some, lease_now, self.lease_seconds),
        )

    async def check_writable(self) -> None:
        await self._database.write_check.look(lambda: self._read(writable.check))

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        try:
            return await self._database.release(worker_id, dead=dead)
        except Exception as error:
            await raise_outage(self, error)
            return await self._database.release(worker_id, dead=dead, each=True)

    def _write(
        self,
        make: Callable[Concatenate[str, P], write_requests.Request[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Awaitable[T]:
        return self._database.writer.write(make(self.namespace, *args, **kwargs))

    async def _change(
        self,
        change: Callable[Concatenate[reads.Connection, str, P], tuple[T, TouchedRuns]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Make a change on a reader's connection, beside the writer, and notify listeners."""
        result, touched = await self._read(change, *args, **kwargs)
        self._database.notify(touched)
        return result

    async def _read(
        self, read: Callable[Concatenate[reads.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        namespace = self.namespace
        return await self._database.call(lambda db: read(db, namespace, *args, **kwargs))
