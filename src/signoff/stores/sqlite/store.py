"""The SQLite store: one file, any number of processes on one host."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
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
    Rule,
    Run,
    Seal,
    Settlement,
    Token,
    TokenKind,
    WorkerInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.failed_items import Unreadable
from signoff.records.names import check_namespace
from signoff.records.paging import Page, RuleFilter
from signoff.runtime.clock import Clock
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Change, Store
from signoff.stores.contract.validation import check_arguments, check_live, check_names, check_request
from signoff.stores.shared.failure_isolation import ROW_UNCHANGED, Done, LeftUndone, Skipped, earliest
from signoff.stores.shared.heartbeats import extend_leases
from signoff.stores.shared.listed_payloads import bytes_of
from signoff.stores.shared.settled_promises import place_of
from signoff.stores.sqlite import (
    audit,
    claims,
    held_leases,
    journal,
    leases,
    live,
    messages,
    operations,
    outbox,
    promise_schedules,
    promises,
    questions,
    retention,
    rules,
    runs,
    schedules,
    tasks,
    tokens,
    writable,
)
from signoff.stores.sqlite import clock as host
from signoff.stores.sqlite import deferred_changes as deferred
from signoff.stores.sqlite import timers as overdue
from signoff.stores.sqlite.clock import FileClock, LeaseClock
from signoff.stores.sqlite.database_file import DatabaseFile
from signoff.stores.sqlite.transaction import Refused, Transaction

P = ParamSpec("P")
T = TypeVar("T")

log = own_logger("signoff.store")


class SqliteStore(Store):
    """Stores runs in an SQLite file. See ``signoff.stores.contract.store.Store`` for the contract of each method.

    Args:
        address: A path, ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.
        namespace: The tenant.
        clock: Business time: timestamps, deadlines, timers.
        lease_clock: The clock that leases are measured by.
        lease_seconds: How long a claim or a heartbeat holds a run.
        busy_seconds: How long to wait for other processes that write to the file.
        inline_below_seconds: Commit on the event loop itself while commits take less than this, which
            saves two thread switches; 0 always commits in the writer's thread.

    Example:
        store = SqliteStore("sqlite:///signoff.db")
        await store.open()
    """

    def __init__(
        self,
        address: str | os.PathLike[str],
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        lease_clock: Clock | None = None,
        lease_seconds: float = 10.0,
        busy_seconds: float = 60.0,
        inline_below_seconds: float = 0.001,
    ) -> None:
        self.namespace = check_namespace(namespace)
        host_clock = FileClock()
        self.clock: Clock = clock or host_clock
        self.lease_seconds = lease_seconds
        self._lease_clock: Clock = lease_clock or LeaseClock(host_clock)
        self._owner = True
        self._file = DatabaseFile(
            address,
            self.clock,
            self._lease_clock,
            busy_seconds,
            inline_below_seconds,
            None if clock is not None and lease_clock is not None else host_clock,
            lease_seconds,
        )

    @property
    def location(self) -> str:
        return self._file.location

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def busy_seconds(self) -> float:
        """How long to wait for other processes."""
        return self._file.busy_seconds

    async def open(self) -> None:
        await asyncio.to_thread(self._file.open)

    async def close(self) -> None:
        if self._owner:
            await asyncio.to_thread(self._file.close)

    def within(self, namespace: str) -> SqliteStore:
        view = object.__new__(SqliteStore)
        view.namespace = check_namespace(namespace)
        view.clock = self.clock
        view.lease_seconds = self.lease_seconds
        view._lease_clock = self._lease_clock
        view._owner = False
        view._file = self._file
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        return self._file.listeners.add(self.namespace, callback)

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Check an operation's arguments, and call its function."""
        check_arguments(arguments)
        values = arguments.values()
        if (write := operations.WRITES.get(operation.name)) is not None:
            return await self._write(write, *values)
        if (read := operations.SMALL_READS.get(operation.name)) is not None:
            return await self._read_soon(read, *values)
        return await self._read(operations.READS[operation.name], *values)

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        check_request(None, token)
        return await self._write(runs.create_run, new, token)

    async def get_run(self, run_id: str) -> Run:
        return await self._read_soon(runs.get_run, run_id)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        entries, are_all = await self._read_soon(journal.read_few, run_id, after, limit)
        if are_all:
            return entries
        more = None if limit is None else limit - len(entries)
        size = 0 if limit is None else sum(map(bytes_of, entries))  # whole journals have no pages
        return entries + await self._read(journal.read_journal, run_id, entries[-1].seq, more, size)

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        return await self._read_soon(messages.read_messages, run_ids)

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
        return await self._write(messages.signal, run_id, name, value, by, request_id, token)

    async def delete_ended(self, before: float, limit: int) -> int:
        return await self._file.prune_aside.do(
            self,
            lambda: self._write(retention.delete_ended, before, limit),
            lambda skipped: self._write(retention.delete_each, before, limit, skipped),
            namespace=self.namespace,
        )

    async def delete_settled(
        self, before: float, limit: int, *, after: str | None = None
    ) -> tuple[int, str | None]:
        place = place_of(after)
        return await self._file.settled_aside.do(
            self,
            lambda: self._write(retention.delete_settled, before, limit, place),
            lambda skipped: self._write(retention.delete_each_settled, before, limit, place, skipped),
            namespace=self.namespace,
        )

    # Operations of a lease holder

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        check_names(worker_id=worker_id, token=token)
        names = list(workflows)
        aside = self._file.claims
        if not workflows:
            return []
        # With runs set aside, claim in any case: they may no longer be ready, which only the claim detects.
        may_claim = (
            self._file.has_become_ready(self.namespace)
            or await self._read_soon(claims.may_claim, group, names, token)
            or aside.failed(self.namespace)
        )
        if not may_claim:
            return []
        asked = (worker_id, group, names, limit, self.lease_seconds, token)
        return await aside.claim(
            self,
            lambda: self._write(leases.claim, *asked),
            lambda skipped, known: self._write(leases.claim_each, *asked, skipped, known),
        )

    async def append(self, write: Write) -> None:
        await self._write(leases.append, write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._write(leases.pause, write, wakes, wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._write(leases.complete, write, outcome)

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        if pieces:
            check_live(pieces)
            await self._write(live.publish, pieces)

    # Promises

    async def get_promise(self, promise_id: str) -> Promise:
        return await self._read_soon(promises.get_promise, promise_id)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(settlement.request_id, token)
        return await self._write(promises.settle, promise_id, kind, settlement, token)

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(None, token)
        return await self._write(questions.amend, question_id, amendment, token)

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self.clock.now()
        return await self._file.read_soon(lambda db: questions.due(db, now, limit))

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        return await self._read(rules.list_rules, which, after, limit, self.clock.now())

    # Lists and what is not of one namespace

    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        return await self._file.read(lambda db: audit.heads(db, after, limit))

    async def queued_namespaces(self, queue: str, *, after: str = "", limit: int = 100) -> Sequence[str]:
        return await self._file.read(lambda db: tasks.queued_namespaces(db, queue, after, limit))

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return await self._file.read_soon(lambda db: audit.unsealed(db, limit, besides))

    async def find_token(self, hash: str) -> Token | None:
        return await self._file.read_soon(lambda db: tokens.find(db, hash))

    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        self._file.writer.check_readable()
        absent = self._file.absent_tokens
        if absent.issuperset(kinds):  # asked at each request to an open server
            return False
        now = self.clock.now()
        is_found = await self._file.read_soon(lambda db: tokens.has(db, kinds, now))
        if not is_found:
            absent.update(kinds)
        return is_found

    async def touch_token(self, token_id: str) -> None:
        if await self._read_soon(tokens.is_untouched, token_id, self.clock.now()):
            await self._write(tokens.touch, token_id)

    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        now = self.clock.now()
        next_at = await self._read_soon(outbox.next_due, channel)
        if next_at is None or next_at > now:
            return [], next_at
        return await self._write(outbox.claim, channel, limit, lease_seconds)

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        asked_at = self._file.outages.now()
        await self._watch_clock()
        aside = self._file.due_aside
        next_at = await aside.do(
            self,
            lambda: self._due_at_once(limit, asked_at),
            lambda skipped: self._due_each(limit, skipped, asked_at),
        )
        changes_at = await self._file.deferred.make(
            self,
            lambda: self._file.read_soon(deferred.times),
            lambda: self._write(overdue.make_deferred),
            lambda limit: self._file.read(lambda db: deferred.list_failed(db, limit)),
        )
        return earliest(aside.next_at(next_at, self.clock.now()), changes_at)

    async def _due_at_once(self, limit: int, asked_at: float) -> float | None:
        now = self.clock.now()
        next_at = await self._file.read_soon(lambda db: overdue.next_due(db, now, self._lease_clock.now()))
        if next_at is None or next_at > now:
            return next_at
        next_at, is_all = await self._write(overdue.due, limit, self._hold_of(asked_at))
        if not is_all:
            raise LeftUndone(ROW_UNCHANGED)
        return next_at

    async def _due_each(self, limit: int, skipped: Skipped, asked_at: float) -> Done[float | None]:
        return await self._write(overdue.due_each, limit, skipped, self._hold_of(asked_at))

    def hold_leases(self) -> None:
        self._file.outages.hold()

    def _hold_of(self, asked_at: float) -> Callable[[Transaction], overdue.Hold | None]:
        """Return a function that computes the hold on leases. It needs a transaction, as proof that writes work."""
        outages, lease_seconds = self._file.outages, self.lease_seconds

        def hold(tx: Transaction) -> overdue.Hold | None:
            outages.reached()
            outages.hold_if_late(asked_at, lease_seconds)
            served, held_for = outages.take_served(), outages.held_for(lease_seconds)
            if held_for <= 0:
                return None
            return overdue.Hold(held_for, held_leases.count(tx, served, lease_seconds))

        return hold

    async def _watch_clock(self) -> None:
        watch, clock = self._file.watch, self._file.host_clock
        if watch is None or clock is None:
            return
        was, anchor = clock.anchor, watch.look()
        if anchor is not None:
            clock.use(await self._write(host.follow, was, anchor))
            watch.followed()
            log.warning("store %s: its time now follows the machine's clock", self.location)

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self.clock.now()
        return await self._file.read_soon(lambda db: schedules.due(db, now, limit))

    async def due_promise_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self.clock.now()
        return await self._file.read_soon(lambda db: promise_schedules.due(db, now, limit))

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        await self._write(leases.enlist, worker)

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._file.read(leases.list_workers)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        if not held:
            return set()
        return await extend_leases(
            self, held, lambda some: self._write(leases.heartbeat, worker_id, some, self.lease_seconds)
        )

    async def check_writable(self) -> None:
        await self._file.write_check.look(lambda: self._write(writable.check))

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        return await self._write(leases.release, worker_id, dead)

    def _write(
        self,
        work: Callable[Concatenate[Transaction, str, P], T | Refused],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Awaitable[T]:
        return self._file.writer.write(work, self.namespace, *args, **kwargs)

    async def _read(
        self, read: Callable[Concatenate[sqlite3.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        namespace = self.namespace
        return await self._file.read(lambda db: read(db, namespace, *args, **kwargs))

    async def _read_soon(
        self, read: Callable[Concatenate[sqlite3.Connection, str, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        namespace = self.namespace
        return await self._file.read_soon(lambda db: read(db, namespace, *args, **kwargs))
