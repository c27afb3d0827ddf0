"""A store in memory: the whole contract without durability, in a few microseconds per operation."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar, cast

from signoff.errors import NotFound, StoreUnavailable
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
    LAST_NUMBER,
    AuditFilter,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
    page_number,
    page_place,
    place_of,
)
from signoff.runtime import forks
from signoff.runtime.clock import Clock, SystemClock
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.snapshots import Saved
from signoff.stores.contract.store import Change, Claim, Outcome, Write
from signoff.stores.contract.validation import check_names, check_request, check_saved, check_schedule
from signoff.stores.shared.listed_payloads import first_of, listed, seen_of
from signoff.testing.model.model import Model
from signoff.testing.model.tables import Commit

P = ParamSpec("P")
T = TypeVar("T")

log = own_logger("signoff.store")


class _Elsewhere:
    """Placeholder for the tables of a store that belongs to the parent process."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StoreUnavailable(
            MemoryStore.location,
            "it lives in the memory of the process that this one was forked from; use a file to share it",
        )


class MemoryStore:
    """Keeps runs in this process, for tests. ``stores.contract.store.Store`` documents its methods.

    Args:
        namespace: The tenant.
        clock: The business time: deadlines, timers, time stamps.
        lease_clock: Measures leases.
        lease_seconds: How long a claim or a heartbeat holds a run.

    Attributes:
        model: The reference model that implements it; tests may read its tables.

    Example:
        app = Signoff(MemoryStore(clock=VirtualClock()))
    """

    location = "memory"

    def __init__(
        self,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        lease_clock: Clock | None = None,
        lease_seconds: float = 10.0,
    ) -> None:
        self.namespace = check_namespace(namespace)
        self.clock: Clock = clock or SystemClock()
        self.lease_seconds = lease_seconds
        self.model = Model(self.clock, lease_clock or SystemClock(), lease_seconds)
        self._lock = threading.RLock()
        self._listeners: dict[object, tuple[str, Callable[[Change], None]]] = {}
        self.clock.on_jump(self._tell_jump)
        forks.in_child(self)

    def forked(self) -> None:
        """Refuse use in a forked child, whose writes the parent would not see."""
        forks.keep(self._lock, self._listeners)
        self._lock, self._listeners = threading.RLock(), {}
        self.model = cast("Model", _Elsewhere())

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def within(self, namespace: str) -> MemoryStore:
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__, namespace=check_namespace(namespace))
        forks.in_child(view)
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        key = object()
        self._listeners[key] = (self.namespace, callback)

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    # Runs

    async def create_run(self, new: NewRun, *, token: str | None = None) -> tuple[Run, bool]:
        check_request(None, token)
        return self._do(self.model.create_run, new, token)

    async def get_run(self, run_id: str) -> Run:
        run = self.model.tables.runs.get((self.namespace, run_id))
        if run is None:
            raise NotFound("run", run_id)
        return run

    async def ended(self, run_ids: Sequence[str]) -> set[str]:
        return self.model.ended(self.namespace, run_ids)

    async def list_runs(self, which: RunFilter, *, after: str | None = None, limit: int = 100) -> Page[Run]:
        before = page_number(after, 2**62)
        facts = self.model.tables.facts
        found = (
            (facts[key].number, run)
            for key, run in reversed(self.model.tables.runs.items())
            if key[0] == self.namespace
            and facts[key].number < before
            and (which.states is None or run.state in which.states)
            and which.workflow in (None, run.workflow)
            and which.group in (None, run.group)
            and which.parent_id in (None, run.parent_id)
            and which.session_id in (None, run.session_id)
            and which.suspended in (None, run.is_suspended)
        )
        return _page(found, limit)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        journal = self.model.tables.journals.get((self.namespace, run_id), [])
        return journal[after + 1 :] if limit is None else first_of(journal[after + 1 :], limit)[0]

    async def read_messages(self, run_ids: Sequence[str]) -> Sequence[tuple[Message, int]]:
        tables = self.model.tables
        found, more = first_of(
            (message, tables.runs[self.namespace, run_id].wakes)
            for run_id in sorted(set(run_ids))
            for message in tables.messages.get((self.namespace, run_id), ())
        )
        return seen_of(found) if more else found

    async def cancel(self, run_id: str, *, reason: str | None = None, by: str | None = None) -> Run:
        return self._do(self.model.cancel, run_id, reason, by)

    async def retry(
        self,
        run_id: str,
        *,
        how: Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        check_request(None, token)
        return self._do(self.model.retry, run_id, how, event, token)

    async def suspend(
        self, run_id: str, event: NewAuditEvent, *, reason: str | None = None, epoch: int | None = None
    ) -> Run:
        return self._do(self.model.suspend, run_id, event, reason, epoch)

    async def resume(self, run_id: str, event: NewAuditEvent) -> Run:
        return self._do(self.model.resume, run_id, event)

    async def terminate(self, run_id: str, event: NewAuditEvent, *, reason: str | None = None) -> Run:
        return self._do(self.model.terminate, run_id, event, reason)

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
        return self._do(self.model.signal, run_id, name, value, by, request_id, token)

    async def delete_ended(self, before: float, limit: int) -> int:
        return self._do(self.model.delete_ended, before, limit)

    # Operations of a lease's holder

    async def claim(
        self, worker_id: str, group: str, workflows: Sequence[str], limit: int, *, token: str | None = None
    ) -> Sequence[Claim]:
        check_names(worker_id=worker_id, token=token)
        return self._do(self.model.claim, worker_id, group, workflows, limit, token)

    async def append(self, write: Write) -> None:
        self._do(self.model.append, write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return self._do(self.model.pause, write, wakes, wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        self._do(self.model.complete, write, outcome)

    # Live text

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        self._do(self.model.live.publish, pieces)

    async def read_live(self, run_id: str, *, epoch: int = 0, after: int = -1) -> Sequence[LiveText]:
        return self.model.live.read(self.namespace, run_id, epoch, after)

    # Promises

    async def create_promise(self, new: NewPromise, *, token: str | None = None) -> tuple[Promise, bool]:
        check_request(None, token)
        return self._do(self.model.promises.create, new, token)

    async def get_promise(self, promise_id: str) -> Promise:
        promise = self.model.tables.promises.get((self.namespace, promise_id))
        if promise is None:
            raise NotFound("promise", promise_id)
        return promise

    async def list_promises(
        self, which: PromiseFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Promise]:
        which.check()
        begin = page_number(after, 0)
        found = (
            (number, promise)
            for key, promise in self.model.tables.promises.items()
            if (number := self.model.tables.promise_numbers[key]) > begin
            and promise.namespace == self.namespace
            and which.kind in (None, promise.kind)
            and which.state in (None, promise.state)
            and which.run_id in (None, promise.run_id)
            and (not which.is_of_runs or self._asks(which, promise.run_id))
            and (
                which.answerable_by is None
                or not promise.assignees
                or not which.answerable_by.isdisjoint(promise.assignees)
            )
        )
        return _page(found, limit)

    def _asks(self, which: PromiseFilter, run_id: str | None) -> bool:
        run = None if run_id is None else self.model.tables.runs.get((self.namespace, run_id))
        return run is not None and which.workflow in (None, run.workflow) and which.group in (None, run.group)

    async def settle(
        self, promise_id: str, kind: PromiseKind, settlement: Settlement, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(settlement.request_id, token)
        return self._do(self.model.promises.settle, promise_id, kind, settlement, token)

    # Questions

    async def amend(
        self, question_id: str, amendment: Amendment, *, token: str | None = None
    ) -> tuple[Promise, bool]:
        check_request(None, token)
        return self._do(self.model.promises.amend, question_id, amendment, token)

    async def due_questions(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return self.model.promises.due_questions(limit)

    # Sessions

    async def get_session(self, session_id: str) -> Session:
        if (self.namespace, session_id) not in self.model.tables.sessions:
            raise NotFound("session", session_id)
        return self._session(self.model.tables.sessions[self.namespace, session_id][1])

    async def list_sessions(self, *, after: str | None = None, limit: int = 100) -> Page[Session]:
        before = page_number(after, LAST_NUMBER)
        found = [
            (number, self._session(session))
            for number, session in self.model.tables.sessions.values()
            if number < before and session.namespace == self.namespace
        ]
        return _page(sorted(found, key=lambda each: -each[0]), limit)

    def _session(self, session: Session) -> Session:
        active = self.model.state.active_run(session.namespace, session.id)
        return replace(session, active_run_id=None if active is None else active.id)

    # Snapshots

    async def save_run(self, run_id: str) -> Saved:
        return self.model.snapshots.save_run(self.namespace, run_id)

    async def load_run(self, saved: Saved, event: NewAuditEvent) -> Run:
        check_saved(saved)
        return self._do(self.model.snapshots.load_run, saved, event)

    # Rules

    async def get_rule(self, rule_id: str) -> Rule:
        return self.model.rules.get(self.namespace, rule_id)

    async def list_rules(
        self, which: RuleFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Rule]:
        which.check()
        begin = page_number(after, 0)
        found = self.model.rules.list_rules(self.namespace, which)
        return _page(((number, rule) for number, rule in found if number > begin), limit)

    async def revoke_rule(self, rule_id: str, event: NewAuditEvent) -> Rule:
        return self._do(self.model.rules.revoke, rule_id, event)

    # The audit trail

    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        self._do(self.model.audit.record, events)

    async def list_audit(
        self, which: AuditFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[AuditEvent]:
        which.check()
        begin = page_number(after, 0)
        found = self.model.audit.list_audit(self.namespace, which)
        return _page(((number, event) for number, event in found if number > begin), limit)

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        return first_of(self.model.audit.read_chain(self.namespace, after, limit), limit)[0]

    async def last_seal(self) -> Seal | None:
        return self.model.audit.last_seal(self.namespace)

    async def heads(self, *, after: str = "", limit: int = 100) -> Sequence[tuple[str, Seal]]:
        return self.model.audit.heads(after, limit)

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return first_of(self.model.audit.unsealed(limit, besides), limit)[0]

    async def seal(self, seals: Sequence[Seal]) -> bool:
        return self._do(self.model.audit.seal, seals)

    # Tokens

    async def create_token(self, new: NewToken) -> Token:
        return self._do(self.model.tokens.create, new)

    async def find_token(self, hash: str) -> Token | None:
        return self.model.tokens.find(hash)

    async def has_token(self, kinds: Sequence[TokenKind]) -> bool:
        return self.model.tokens.has(kinds)

    async def get_token(self, token_id: str) -> Token:
        return self.model.tokens.get(self.namespace, token_id)

    async def list_tokens(
        self, which: TokenFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Token]:
        begin = page_number(after, 0)
        found = self.model.tokens.list_tokens(self.namespace, which)
        return _page(((number, token) for number, token in found if number > begin), limit)

    async def revoke_token(self, token_id: str) -> Token:
        return self._do(self.model.tokens.revoke, token_id)

    async def expire_token(self, token_id: str, at: float) -> Token:
        return self._do(self.model.tokens.expire, token_id, at)

    async def touch_token(self, token_id: str) -> None:
        self._do(self.model.tokens.touch, token_id)

    async def delete_tokens(self, before: float, limit: int) -> int:
        return self._do(self.model.tokens.delete, before, limit)

    # Notifications

    async def read_cursor(self, channel: str) -> int | None:
        return self.model.outbox.read_cursor(self.namespace, channel)

    async def expand(
        self, channel: str, expected: int | None, seq: int, deliveries: Sequence[NewDelivery]
    ) -> bool:
        return self._do(self.model.outbox.expand, channel, expected, seq, deliveries)

    async def claim_deliveries(
        self, channel: str, limit: int, lease_seconds: float
    ) -> tuple[Sequence[Delivery], float | None]:
        return self._do(self.model.outbox.claim, channel, limit, lease_seconds)

    async def finish_delivery(self, delivery_id: str, attempt: int, report: Report) -> None:
        self._do(self.model.outbox.finish, delivery_id, attempt, report)

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        which.check()
        before = page_number(after, 2**62)
        found = self.model.outbox.list_deliveries(self.namespace, which)
        return _page(((number, each) for number, each in found if number < before), limit)

    async def redeliver(self, delivery_id: str) -> Delivery:
        return self._do(self.model.outbox.redeliver, delivery_id)

    async def delete_deliveries(self, before: float, limit: int) -> int:
        return self._do(self.model.outbox.delete, before, limit)

    # Time and leases

    async def due(self, limit: int = 1000) -> float | None:
        return self._do(lambda _: self.model.timers.due(limit))

    # Groups

    async def pause_group(self, name: str) -> None:
        check_names(group=name)
        self._do(self.model.groups.pause, name)

    async def resume_group(self, name: str) -> None:
        check_names(group=name)
        self._do(self.model.groups.resume, name)

    async def limit_group(
        self, name: str, *, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_names(group=name)
        self._do(self.model.groups.limit, name, max_running, starts_per)

    async def list_groups(self) -> Sequence[Group]:
        return self.model.groups.list_groups(self.namespace)

    # Schedules

    async def put_schedule(self, new: NewSchedule) -> Schedule:
        check_schedule(new)
        return self._do(self.model.schedules.put, new)

    async def get_schedule(self, schedule_id: str) -> Schedule:
        return self.model.schedules.get(self.namespace, schedule_id)

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        found = (
            listed(each)
            for each in self.model.schedules.list_schedules(self.namespace)
            if each.id > (after or "")
        )
        items, more = first_of(found, limit)
        return Page(tuple(items), items[-1].id if more and items else None)

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        return self._do(self.model.schedules.pause, schedule_id)

    async def resume_schedule(self, schedule_id: str, next_at: float) -> Schedule:
        return self._do(self.model.schedules.resume, schedule_id, next_at)

    async def delete_schedule(self, schedule_id: str) -> None:
        self._do(self.model.schedules.delete, schedule_id)

    async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
        return self.model.schedules.due(limit)

    async def fire_schedule(
        self, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        return self._do(self.model.schedules.fire, schedule_id, expected, runs, next_at)

    # Workers

    async def enlist(self, worker: WorkerInfo) -> None:
        self._do(lambda _: self.model.enlist(worker))

    async def list_workers(self) -> Sequence[WorkerInfo]:
        return self.model.list_workers()

    async def announce(self, workflows: Sequence[WorkflowInfo]) -> None:
        self._do(self.model.workflows.announce, workflows)

    async def list_workflows(
        self, which: WorkflowFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[WorkflowInfo]:
        which.check()
        place = page_place(after)
        found = (
            each
            for each in self.model.workflows.list_workflows(self.namespace, which)
            if (each.name, each.group, each.version) > place
        )
        items, more = first_of(found, limit)
        last = items[-1] if more and items else None
        return Page(tuple(items), None if last is None else place_of(last.name, last.group, last.version))

    async def delete_workflows(self, before: float, limit: int) -> int:
        return self._do(self.model.workflows.delete, before, limit)

    async def heartbeat(self, worker_id: str, held: Mapping[str, int]) -> set[str]:
        return self._do(self.model.heartbeat, worker_id, held)

    def hold_leases(self) -> None:
        pass

    async def check_writable(self) -> None:
        pass

    async def release(self, worker_id: str, *, dead: bool = False) -> int:
        return self._do(lambda _: self.model.release(worker_id, dead))

    # Internal

    def _do(self, operation: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            try:
                return operation(self.namespace, *args, **kwargs)
            finally:  # a refused answer may have timed its promise out
                commit = self.model.take_commit()
                if commit is not None:
                    self._tell_commit(commit)

    def _tell_commit(self, commit: Commit) -> None:
        changes: dict[str, Change] = {}
        for namespace, callback in list(self._listeners.values()):
            if namespace not in changes:
                changes[namespace] = commit.of(namespace)
            change = changes[namespace]
            if change.runs or change.due or change.ready:
                _tell(callback, change)

    def _tell_jump(self) -> None:
        for _, callback in list(self._listeners.values()):
            _tell(callback, Change(runs=frozenset(), ready=False, due=True))


def _tell(callback: Callable[[Change], None], change: Change) -> None:
    try:
        callback(change)
    except Exception:
        log.exception("a listener of the store failed; the commit stands")


def _page(found: Iterable[tuple[int, Any]], limit: int) -> Page[Any]:
    numbers: list[int] = []

    def items() -> Iterator[Any]:
        for number, item in found:
            numbers.append(number)
            yield listed(item)

    page, more = first_of(items(), limit)
    return Page(tuple(page), str(numbers[len(page) - 1]) if more and page else None)
