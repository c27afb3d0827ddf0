"""A store in memory: the whole contract without durability, in a few microseconds per operation."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, TypeVar, cast

from signoff.errors import NotFound, StoreUnavailable
from signoff.records import (
    AuditEvent,
    Entry,
    Message,
    Promise,
    Run,
    Schedule,
    Seal,
    Session,
    WorkflowInfo,
)
from signoff.records.checkpoints import CheckpointFilter, CheckpointSummary
from signoff.records.deliveries import Delivery
from signoff.records.failed_items import Unreadable
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.names import check_namespace
from signoff.records.paging import (
    LAST_NUMBER,
    DeliveryFilter,
    Page,
    PromiseFilter,
    RunFilter,
    WorkflowFilter,
    page_number,
    page_place,
    place_of,
)
from signoff.records.promise_schedules import PromiseSchedule
from signoff.records.tasks import Task, TaskState
from signoff.runtime import forks
from signoff.runtime.clock import Clock, SystemClock
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.checkpoints import MOST_LISTED as MOST_CHECKPOINTS
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.promise_schedules import MOST_LISTED
from signoff.stores.contract.store import Change, Store
from signoff.stores.contract.validation import (
    check_arguments,
)
from signoff.stores.shared.checkpoint_rows import checkpoint_place, place_of_checkpoint
from signoff.stores.shared.listed_payloads import first_of, listed, seen_of
from signoff.testing.model.model import Model
from signoff.testing.model.tables import Commit

P = ParamSpec("P")
T = TypeVar("T")

log = own_logger("signoff.store")

_LOCATION: Final = "memory"


class _Elsewhere:
    """Placeholder for the tables of a store that belongs to the parent process."""

    def __getattr__(self, name: str) -> NoReturn:
        raise StoreUnavailable(
            _LOCATION,
            "it lives in the memory of the process that this one was forked from; use a file to share it",
        )


Methods = Mapping[str, Callable[[Model], Callable[..., Any]]]


def _methods(named: Mapping[str, str]) -> Methods:
    return {name: operator.attrgetter(method) for name, method in named.items()}


_METHODS: Final = _methods(
    {
        "create_run": "create_run",
        "cancel": "cancel",
        "retry": "retry",
        "suspend": "suspend",
        "resume": "resume",
        "terminate": "terminate",
        "signal": "signal",
        "delete_ended": "delete_ended",
        "delete_settled": "delete_settled",
        "claim": "workers.claim",
        "append": "append",
        "pause": "pause",
        "complete": "complete",
        "publish": "live.publish",
        "create_promise": "promises.create",
        "settle": "promises.settle",
        "amend": "promises.amend",
        "load_run": "snapshots.load_run",
        "revoke_rule": "rules.revoke",
        "record": "audit.record",
        "seal": "audit.seal",
        "create_token": "tokens.create",
        "revoke_token": "tokens.revoke",
        "expire_token": "tokens.expire",
        "touch_token": "tokens.touch",
        "delete_tokens": "tokens.delete",
        "expand": "outbox.expand",
        "claim_deliveries": "outbox.claim",
        "finish_delivery": "outbox.finish",
        "redeliver": "outbox.redeliver",
        "delete_deliveries": "outbox.delete",
        "pause_group": "groups.pause",
        "resume_group": "groups.resume",
        "limit_group": "groups.limit",
        "put_schedule": "schedules.put",
        "pause_schedule": "schedules.pause",
        "resume_schedule": "schedules.resume",
        "delete_schedule": "schedules.delete",
        "fire_schedule": "schedules.fire",
        "put_promise_schedule": "promise_schedules.put",
        "delete_promise_schedule": "promise_schedules.delete",
        "advance_promise_schedule": "promise_schedules.advance",
        "announce": "workflows.announce",
        "delete_workflows": "workflows.delete",
        "heartbeat": "workers.heartbeat",
        "ended": "ended",
        "read_live": "live.read",
        "save_run": "snapshots.save_run",
        "get_rule": "rules.get",
        "last_seal": "audit.last_seal",
        "get_token": "tokens.get",
        "read_cursor": "outbox.read_cursor",
        "list_groups": "groups.list_groups",
        "get_schedule": "schedules.get",
        "open_invocation": "tasks.open",
        "settle_held": "tasks.settle",
        "acquire_task": "tasks.acquire",
        "release_task": "tasks.release",
        "suspend_task": "tasks.suspend",
        "heartbeat_tasks": "tasks.heartbeat",
        "halt_task": "tasks.halt",
        "continue_task": "tasks.continue_task",
        "await_promise": "tasks.await_promise",
        "listen_promise": "tasks.listen",
        "get_task": "tasks.get",
        "list_branch": "tasks.list_branch",
        "take_task_messages": "tasks.take_messages",
        "finish_task_message": "tasks.finish_message",
        "resend_task_messages": "tasks.resend_messages",
        "get_promise_schedule": "promise_schedules.get",
        "put_checkpoint": "checkpoints.put",
        "put_checkpoint_writes": "checkpoints.put_writes",
        "get_checkpoint": "checkpoints.get",
        "delete_checkpoints": "checkpoints.delete",
        "delete_thread": "checkpoints.delete_thread",
    }
)
"""The method of the model for each operation that needs only the namespace and the arguments."""

_OF_ALL_NAMESPACES: Final = _methods(
    {
        "due_questions": "promises.due_questions",
        "heads": "audit.heads",
        "queued_namespaces": "tasks.queued_namespaces",
        "find_token": "tokens.find",
        "has_token": "tokens.has",
        "due": "timers.due",
        "due_schedules": "schedules.due",
        "due_promise_schedules": "promise_schedules.due",
        "enlist": "workers.enlist",
        "list_workers": "workers.list_workers",
        "release": "workers.release",
    }
)
"""The method for each operation that needs only the arguments."""

_LISTS: Final = _methods(
    {"list_rules": "rules.list_rules", "list_audit": "audit.list_audit", "list_tokens": "tokens.list_tokens"}
)
"""The method that returns all numbered records of a list, oldest first."""


class MemoryStore(Store):
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
        self.clock.on_jump(self._notify_of_jump)
        forks.in_child(self)

    def forked(self) -> None:
        """Refuse use in a forked child, whose writes the parent would not see."""
        forks.keep(self._lock, self._listeners)
        self._lock, self._listeners = threading.RLock(), {}
        self.model = cast("Model", _Elsewhere())

    @property
    def location(self) -> str:
        return _LOCATION

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def within(self, namespace: str) -> MemoryStore:
        view = copy(self)
        view.namespace = check_namespace(namespace)
        forks.in_child(view)
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        key = object()
        self._listeners[key] = (self.namespace, callback)

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        check_arguments(arguments)
        name, values = operation.name, arguments.values()
        if (of_all := _OF_ALL_NAMESPACES.get(name)) is not None:
            return self._do(lambda _: of_all(self.model)(*values))
        if (list_all := _LISTS.get(name)) is not None:
            begin = page_number(arguments["after"], 0)
            found = list_all(self.model)(self.namespace, arguments["which"])
            return _page((each for each in found if each[0] > begin), arguments["limit"])
        return self._do(_METHODS[name](self.model), *values)

    async def get_run(self, run_id: str) -> Run:
        run = self.model.tables.runs.get((self.namespace, run_id))
        if run is None:
            raise NotFound("run", run_id)
        return run

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

    async def read_chain(
        self, *, after: int = -1, limit: int = 100
    ) -> Sequence[tuple[Seal, AuditEvent | None]]:
        return first_of(self.model.audit.read_chain(self.namespace, after, limit), limit)[0]

    async def unsealed(self, limit: int, *, besides: Sequence[str] = ()) -> Sequence[AuditEvent | Unreadable]:
        return first_of(self.model.audit.unsealed(limit, besides), limit)[0]

    async def list_deliveries(
        self, which: DeliveryFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[Delivery]:
        which.check()
        before = page_number(after, 2**62)
        found = self.model.outbox.list_deliveries(self.namespace, which)
        return _page(((number, each) for number, each in found if number < before), limit)

    async def list_schedules(self, *, after: str | None = None, limit: int = 100) -> Page[Schedule]:
        found = (
            listed(each)
            for each in self.model.schedules.list_schedules(self.namespace)
            if each.id > (after or "")
        )
        items, more = first_of(found, limit)
        return Page(tuple(items), items[-1].id if more and items else None)

    async def list_tasks(
        self,
        *,
        state: TaskState | None = None,
        pid: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Task]:
        tasks = self.model.tasks.list_tasks(self.namespace, state, pid)
        found = [each for each in tasks if each.id > (after or "")]
        return Page(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)

    async def list_invocations(
        self, which: InvocationFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        before = page_number(after, LAST_NUMBER)
        nodes = self.model.tasks.list_invocations(self.namespace, which)
        found = ((number, node) for number, node in nodes if number < before)
        return _page(found, limit)

    async def list_calls(
        self, promise_id: str, *, after: str | None = None, limit: int = 100
    ) -> Page[InvocationNode]:
        nodes = self.model.tasks.list_calls(self.namespace, promise_id)
        found = (listed(node) for node in nodes if node.promise.id > (after or ""))
        items, more = first_of(found, limit)
        return Page(tuple(items), items[-1].promise.id if more and items else None)

    async def list_promise_schedules(
        self, *, after: str | None = None, limit: int = 100
    ) -> Page[PromiseSchedule]:
        schedules = self.model.promise_schedules.list_schedules(self.namespace)
        found = [each for each in schedules if each.id > (after or "")]
        limit = min(limit, MOST_LISTED)
        items = tuple(found[:limit])
        return Page(items, items[-1].id if len(found) > limit else None)

    async def list_checkpoints(
        self, which: CheckpointFilter, *, after: str | None = None, limit: int = 100
    ) -> Page[CheckpointSummary]:
        which.check()
        place = checkpoint_place(after)
        last = (place["after_id"] or "", place["after_thread"] or "", place["after_path"] or "")
        found = [
            each
            for each in self.model.checkpoints.list_checkpoints(self.namespace, which)
            if after is None or (each.id, each.thread_id, each.path) < last
        ]
        limit = min(limit, MOST_CHECKPOINTS)
        items = tuple(found[:limit])
        return Page(items, place_of_checkpoint(items[-1]) if items and len(found) > limit else None)

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

    def hold_leases(self) -> None:
        pass

    async def check_writable(self) -> None:
        pass

    def _do(self, operation: Callable[Concatenate[str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            try:
                return operation(self.namespace, *args, **kwargs)
            finally:  # a refused answer may have timed its promise out
                commit = self.model.take_commit()
                if commit is not None:
                    self._notify_of_commit(commit)

    def _notify_of_commit(self, commit: Commit) -> None:
        changes: dict[str, Change] = {}
        for namespace, callback in list(self._listeners.values()):
            if namespace not in changes:
                changes[namespace] = commit.of(namespace)
            change = changes[namespace]
            if change.runs or change.due or change.ready or change.settled:
                _notify(callback, change)

    def _notify_of_jump(self) -> None:
        for _, callback in list(self._listeners.values()):
            _notify(callback, Change(runs=frozenset(), ready=False, due=True))


def _notify(callback: Callable[[Change], None], change: Change) -> None:
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
