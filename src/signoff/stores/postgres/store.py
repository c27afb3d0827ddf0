"""The Postgres store: one database, any number of processes on any number of machines."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from signoff.records import (
    Amendment,
    AuditEvent,
    Due,
    Entry,
    Group,
    LiveText,
    Message,
    NewAuditEvent,
    NewPromise,
    NewRun,
    NewSchedule,
    NewToken,
    Promise,
    PromiseKind,
    Rate,
    Rule,
    Run,
    Schedule,
    Seal,
    Session,
    Settlement,
    Token,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, NewDelivery, Report
from signoff.records.failed_items import Unreadable
from signoff.records.names import check_namespace
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
)
from signoff.runtime.clock import Clock
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.snapshots import Saved
from signoff.stores.contract.store import Change, Store
from signoff.stores.contract.validation import (
    check_deliveries,
    check_events,
    check_limits,
    check_names,
    check_report,
    check_request,
    check_saved,
    check_schedule,
    check_token,
)
from signoff.stores.postgres import (
    audit,
    groups,
    interventions,
    leases,
    live,
    outbox,
    questions,
    reads,
    retention,
    rules,
    schedules,
    sessions,
    snapshots,
    tokens,
    writable,
)
from signoff.stores.postgres import workflows as registered
from signoff.stores.postgres import write_requests as operations
from signoff.stores.postgres.database import Database
from signoff.stores.shared.failed_items import raise_outage
from signoff.stores.shared.failure_isolation import Done, Skipped, earliest
from signoff.stores.shared.heartbeats import extend_leases
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

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        check_request(None, token)
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

    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        check_request(None, token)
        return await self._write(interventions.retry, run_id, how, event, token)

    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        return await self._write(interventions.suspend, run_id, event, reason, epoch)

    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        return await self._write(interventions.resume, run_id, event)

    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        return await self._write(interventions.terminate, run_id, event, reason)

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
        return await self._write(operations.signal, run_id, name, value, by, request_id, token)

    async def delete_ended(self, before: float, limit: int) -> int:
        return await self._database.prune_aside.do(
            self,
            lambda: self._change(retention.delete_ended, before, limit),
            lambda skipped: self._change(retention.delete_each, before, limit, skipped),
            namespace=self.namespace,
        )

    # Operations of a lease holder

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        check_names(worker_id=worker_id, token=token)
        if not workflows or limit <= 0:
            return []
        asked = (worker_id, group, workflows, limit, self.lease_seconds, token or operations.new_token())
        return await self._database.claims.claim(
            self,
            lambda: self._write(operations.claim, *asked),
            lambda skipped, known: self._change(
                leases.claim_each,
                operations.claim_body(*asked),
                skipped,
                known,
                self._database.now(),
                self._database.lease_now(),
            ),
        )

    async def append(self, write: Write) -> None:
        await self._write(operations.append, write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._write(operations.pause, write, wakes, wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._write(operations.complete, write, outcome)

    # Live text

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        if pieces:
            await self._change(live.publish, pieces)

    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        return await self._read(live.read, run_id, epoch, after)

    # Promises

    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        check_request(None, token)
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
        check_request(settlement.request_id, token)
        return await self._write(operations.settle, promise_id, kind, settlement, token)

    # Questions

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(None, token)
        return await self._write(questions.amend, question_id, amendment, token)

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        now = self._database.now()
        return await self._database.call(lambda db: questions.due(db, now, limit))

    # Sessions

    async def get_session(self, session_id: str) -> Session:
        return await self._read(sessions.get_session, session_id)

    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        return await self._read(sessions.list_sessions, after, limit)

    # Snapshots

    async def save_run(self, run_id: str) -> Saved:
        return await self._read(snapshots.save_run, run_id)

    async def load_run(self, saved: Saved, event: NewAuditEvent) -> Run:
        check_saved(saved)
        check_events([event])
        return await self._change(snapshots.load_run, saved, event, self._database.now())

    # Rules

    async def get_rule(self, rule_id: str) -> Rule:
        return await self._read(rules.get_rule, rule_id)

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        return await self._read(rules.list_rules, which, after, limit, self._database.now())

    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        return await self._read(rules.revoke_rule, rule_id, event, self._database.now())

    # The audit trail

    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        await self._write(audit.record, events)

    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        return await self._read(audit.list_audit, which, after, limit)

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        return await self._read(audit.read_chain, after, limit)

    async def last_seal(self) -> Seal | None:
        return await self._read(audit.last_seal)

    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        return await self._database.call(lambda db: audit.heads(db, after, limit))

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return await self._database.call(lambda db: audit.unsealed(db, limit, besides))

    async def seal(self, seals: Sequence[Seal]) -> bool:
        return await self._read(audit.seal, seals)

    # Tokens

    async def create_token(self, new: NewToken) -> Token:
        check_token(new)
        return await self._read(tokens.create, new, self._database.now())

    async def find_token(self, hash: str) -> Token | None:
        return await self._database.call(lambda db: tokens.find(db, hash))

    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        now = self._database.now()
        return await self._database.call(lambda db: tokens.has(db, kinds, now))

    async def get_token(self, token_id: str) -> Token:
        return await self._read(tokens.get, token_id)

    async def list_tokens(
        self, which: TokenFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        return await self._read(tokens.list_tokens, which, after, limit)

    async def revoke_token(self, token_id: str) -> Token:
        return await self._read(tokens.revoke, token_id, self._database.now())

    async def expire_token(self, token_id: str, at: float) -> Token:
        return await self._read(tokens.expire, token_id, at)

    async def touch_token(self, token_id: str) -> None:
        await self._read(tokens.touch, token_id, self._database.now())

    async def delete_tokens(self, before: float, limit: int) -> int:
        return await self._read(tokens.delete, before, limit)

    # Notifications

    async def read_cursor(self, channel: str) -> int | None:
        return await self._read(outbox.read_cursor, channel)

    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        check_deliveries(channel, deliveries)
        return await self._read(outbox.expand, channel, expected, seq, deliveries, self._database.now())

    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        now = self._database.now()
        return await self._read(outbox.claim, channel, limit, lease_seconds, now)

    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        check_report(report)
        await self._read(outbox.finish, delivery_id, attempt, report, self._database.now())

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        which.check()
        return await self._read(outbox.list_deliveries, which, after, limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        return await self._change(outbox.redeliver, delivery_id, self._database.now())

    async def delete_deliveries(self, before: float, limit: int) -> int:
        return await self._read(outbox.delete, before, limit)

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

    # Groups

    async def pause_group(self, name: str) -> None:
        check_names(group=name)
        await self._change(groups.set_paused, name, True)

    async def resume_group(self, name: str) -> None:
        check_names(group=name)
        await self._change(groups.set_paused, name, False)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_names(group=name)
        check_limits(max_running, starts_per)
        await self._change(groups.set_limits, name, max_running, starts_per)

    async def list_groups(self) -> Sequence[Group]:
        return await self._read(groups.list_groups)

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        check_schedule(new)
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

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
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
        self._database.notify(await self._database.call(lambda db: leases.enlist(db, worker, lease_now)))

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return await self._database.call(reads.list_workers)

    async def announce(self, workflows: Sequence[WorkflowInfo]) -> None:
        await self._read(registered.announce, workflows, self._database.now())

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        return await self._read(registered.list_workflows, which, after, limit)

    async def delete_workflows(self, before: float, limit: int) -> int:
        return await self._read(registered.delete, before, limit)

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
        make: Callable[Concatenate[str, P], operations.Request[T]],
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
