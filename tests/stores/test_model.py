"""Random sequences of operations have the same effects on the reference model and on each store."""

from __future__ import annotations

import asyncio
import copy
import tempfile
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from signoff import codec
from signoff.errors import AlreadySettled, SignoffError
from signoff.records import (
    Amendment,
    AuditEvent,
    AuditKind,
    Due,
    Entry,
    EntryKind,
    Group,
    LiveText,
    Message,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    NewSignal,
    NewToken,
    Origin,
    OriginWay,
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Run,
    RunState,
    Schedule,
    Seal,
    Session,
    Settlement,
    Token,
    TokenKind,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, DeliveryState, NewDelivery, Report
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.paging import (
    AuditFilter,
    DeliveryFilter,
    PromiseFilter,
    RuleFilter,
    RunFilter,
    TokenFilter,
    WorkflowFilter,
)
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.records.tasks import (
    Listener,
    NewInvocation,
    Task,
    TaskLease,
    TaskMessage,
    TaskRef,
    TaskState,
    queue_of,
)
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.contract.retries import Retry
from signoff.stores.contract.store import Store
from signoff.stores.shared.equality import canonical
from signoff.stores.tokens import hash_of
from signoff.stores.wrappers.origin_stamping import origin_stamped, without_origin
from signoff.testing import MemoryStore
from signoff.testing.model.tables import Tables
from tests.halves import sample
from tests.stores.scene import STORES, Scene
from tests.stores.trails import Creation, Pairs, Trails, check_chain, check_pairs, paired

NAMESPACES = ("default", "acme")
WORKFLOWS = ("refund", "deploy")
FINAL = (PromiseState.RESOLVED, PromiseState.REJECTED, PromiseState.CANCELLED)

namespaces = st.sampled_from((NAMESPACES[0],) * 8 + NAMESPACES)
run_ids = st.sampled_from(("r0", "r1", "r2", "r3", "r4"))
promise_ids = st.sampled_from(("p0", "p1", "p2", "q"))
calls = st.integers(1, 2)
workers = st.sampled_from(("w0", "w1"))
groups = st.sampled_from(("g", "g", "g", "night"))
arguments = st.sampled_from(('{"args": []}', '{"args": []}', '{ "args":[] }', '{"args": [1]}'))
delays = st.none() | st.sampled_from((-1.0, 5.0, 20.0, 60.0))
starts = st.sampled_from((None, None, None, -1.0, 0.0, 5.0, 60.0))
schedule_ids = st.sampled_from(("s0", "s1"))
channels = st.sampled_from(("mail", "mail", "chat"))
deliveries = st.sampled_from(("d0", "d1", "d2", "d3"))
assignees_told = st.sampled_from(("user:ana", "user:ben"))
moments = st.sampled_from((-1.0, 0.0, 5.0, 60.0))
token_ids = st.sampled_from(("t0", "t1", "t2"))
token_kinds = st.sampled_from((TokenKind.LINK, TokenKind.LINK, TokenKind.LOGIN))
rates = st.sampled_from((None, None, Rate(1, 10.0), Rate(2, 10.0), Rate(3, 0.7)))
slots = st.sampled_from((None, None, ("k", 1), ("k", 1), ("k", 2), ("", 1)))
sessions = st.sampled_from((None, "c0", "c0", "c1"))
priorities = st.sampled_from((0, 0, 0, 0, 5, -5))
traceparents = st.sampled_from((None, f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'c' * 32}-{'d' * 16}-00"))
live_positions = st.sampled_from((0, 2, KEPT_CHARACTERS, KEPT_CHARACTERS + 1, 2 * KEPT_CHARACTERS))
people = st.none() | st.sampled_from(("ana", "ben"))
some_workflows = st.sampled_from((WORKFLOWS, WORKFLOWS, WORKFLOWS, WORKFLOWS[:1]))
rule_ids = st.sampled_from(("x0", "x1"))
requests = st.none() | st.sampled_from(("q0", "q1"))
values = st.sampled_from(("1", "2"))
kinds = st.sampled_from((PromiseKind.QUESTION, PromiseKind.QUESTION, PromiseKind.PROMISE))
assignees = st.sampled_from(((), ("user:ana",), ("user:ana", "group:x"), ("user:ben", "user:ben")))
acts = st.none() | st.sampled_from((-1.0, 5.0, 60.0))
places = st.lists(st.integers(0, 9), max_size=2)
origins = st.none() | st.just(Origin(OriginWay.LINK, "l0", address="10.0.0.7"))
settlements = st.builds(
    Settlement,
    st.sampled_from(FINAL),
    st.none() | values,
    by=people,
    note=people,
    request_id=requests,
    origin=origins,
)
task_ids = st.sampled_from(("k0", "k0", "k1", "k1", "k2", "p0"))
awaitable_ids = st.sampled_from(("k0", "k1", "k2", "p0", "p1", "unknown"))
addresses = st.sampled_from(("poll://any@g/a", "poll://any@g/b", "poll://uni@g/a"))
queues = ("poll://any@g", "poll://uni@g/a")
task_leases = st.builds(TaskLease, st.sampled_from(("pid0", "pid1")), st.sampled_from((1_000, 20_000)))
branches = st.none() | st.sampled_from(("b0", "k0"))
versions = st.sampled_from((None, None, None, 0, 1))
NAMES = (frozenset[str](), frozenset({"user:ana"}), frozenset({"user:ben", "group:x"}))
INBOX = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING)
outcomes = st.sampled_from(
    (
        Outcome(RunState.SUCCEEDED, result="1"),
        Outcome(RunState.FAILED, error=codec.encode_error(ValueError("no"))),
        Outcome(RunState.FAILED, error=codec.encode_error(ValueError("no")), retryable=True),
        Outcome(RunState.CANCELLED, error=codec.encode_error(ValueError("no"))),
    )
)


@dataclass(frozen=True)
class Seen:
    """All that a store shows of a namespace."""

    runs: Sequence[Run]
    ended: set[str]
    messages: Sequence[tuple[Message, int]]
    promises: Sequence[Promise]
    journals: Sequence[Sequence[Entry]]
    live: Sequence[Sequence[LiveText]]
    groups: Sequence[Group]
    schedules: Sequence[Schedule]
    promise_schedules: Sequence[PromiseSchedule]
    links: Sequence[Token]
    deliveries: Sequence[Delivery]
    sessions: Sequence[Session]
    workflows: Sequence[WorkflowInfo]
    tasks: Sequence[Task]
    invocations: Sequence[InvocationNode]
    calls: Sequence[Sequence[InvocationNode]]


class SideBySide(RuleBasedStateMachine):
    """Does each operation on the model and on a store, and looks at everything after it."""

    store_name: str

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-model-")))
        opening = self._stack.enter_async_context(STORES[self.store_name](folder))
        self.scene: Scene = self._do(opening)
        self.reference = MemoryStore(
            clock=self.scene.clock,
            lease_clock=self.scene.lease_clock,
            lease_seconds=self.scene.store.lease_seconds,
        )
        self.model = self.reference.model
        self.settled: dict[tuple[str, str], Any] = {}
        self.done: list[tuple[str, str, tuple[Any, ...], dict[str, Any], Any]] = []
        self.tokens = count()
        self.trails = Trails()
        self.looked_at: dict[str, Any] = {}
        self.task_versions: dict[tuple[str, str], int] = {}
        self.holders: dict[tuple[str, str, int], str] = {}  # by namespace, task and version

    def teardown(self) -> None:
        self._do(self._stack.aclose())
        self._runner.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    def both(self, namespace: str, operation: str, *args: Any, **kwargs: Any) -> Any:
        """Do an operation of one namespace on both, and return what it returned."""
        outcomes: list[Any] = []
        if self.store_name == "encrypted":
            args = tuple(map(_canonical, args))
        reference, said = cast("Store", self.reference.within(namespace)), args
        if self.scene.origin is not None:
            reference = origin_stamped(reference, self.scene.origin)
            said = tuple(map(without_origin, args))
        for store, given in ((reference, said), (self.scene.within(namespace).store, args)):
            method = getattr(store, operation)
            outcomes.append(_outcome(lambda: self._do(method(*given, **kwargs))))  # noqa: B023
        expected, found = outcomes
        assert found == expected
        self.done.append((namespace, operation, args, kwargs, found))
        return found

    def once(self, namespace: str, operation: str, *args: Any, **kwargs: Any) -> Any:
        """Do an operation of one namespace on both, under a token of its own."""
        return self.both(namespace, operation, *args, token=f"t{next(self.tokens)}", **kwargs)

    @precondition(lambda self: self.done)
    @rule(ago=st.integers(1, 3))
    def repeat(self, ago: int) -> None:
        """Repeat one of the last operations, as a caller does who was cut off before the reply."""
        namespace, operation, args, kwargs, first = self.done[-min(ago, len(self.done))]
        before = copy.deepcopy(self.model.tables)
        again = self.both(namespace, operation, *args, **kwargs)
        self.done.pop()
        was_done = not isinstance(first, type) and (
            "token" in kwargs or operation == "record" or (args and _has_entries(args[0]))
        )
        if operation in ("amend", "settle") and isinstance(first, list):
            was_done = first[1] is True  # pyright: ignore[reportUnknownMemberType]
        if was_done and not (operation == "claim" and self._leased_anew(before)):
            assert self.model.tables == before
        if (
            was_done
            and operation in ("create_run", "create_promise", "settle", "amend")
            and isinstance(first, list)
        ):
            assert again[1] == first[1]  # pyright: ignore[reportUnknownMemberType]
        if was_done and operation == "signal":
            assert again == first

    def _leased_anew(self, before: Tables) -> bool:
        """Whether all runs of a former claim had been let go, so that the repetition was a claim of its own."""
        return all(
            before.runs[key].epoch < run.epoch
            for key, run in self.model.tables.runs.items()
            if run != before.runs[key]
        )

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        for id in ("r0", "r1", "r2"):
            self.both("default", "create_run", NewRun(id, data.draw(st.sampled_from(WORKFLOWS)), "g", "{}"))
        self.once("default", "claim", "w0", "g", WORKFLOWS, 3)
        asked = NewPromise("q", PromiseKind.QUESTION, assignees=data.draw(assignees))
        self.once("default", "create_promise", asked)

    # Time

    @rule(seconds=st.sampled_from((1.0, 5.0, 30.0, 300.0)), of_leases=st.booleans())
    def time_passes(self, seconds: float, of_leases: bool) -> None:
        (self.scene.lease_clock if of_leases else self.scene.clock).advance(seconds)

    @rule()
    def due(self) -> None:
        next_at, expected = self._do(self.scene.store.due()), self._do(self.reference.due())
        assert next_at == (expected and pytest.approx(expected, abs=1e-6))  # a rate's next start is computed
        assert all(
            promise.due_at is None or promise.due_at > self.scene.clock.now() for promise in self._pending()
        )

    # From outside

    @rule(
        namespace=namespaces,
        id=run_ids,
        workflow=st.sampled_from(WORKFLOWS),
        group=groups,
        text=arguments,
        due=delays,
        priority=priorities,
        start=starts,
        slot=slots,
        traceparent=traceparents,
        by=people,
        session=sessions,
    )
    def create_run(
        self,
        namespace: str,
        id: str,
        workflow: str,
        group: str,
        text: str,
        due: float | None,
        priority: int,
        start: float | None,
        slot: tuple[str, int] | None,
        traceparent: str | None,
        by: str | None,
        session: str | None,
    ) -> None:
        new = NewRun(
            id,
            workflow,
            group,
            text,
            deadline_at=self._after(due),
            priority=priority,
            start_at=self._after(start),
            concurrency_key=slot and slot[0],
            concurrency_limit=slot and slot[1],
            traceparent=traceparent,
            started_by=by,
            session_id=session,
        )
        self.once(namespace, "create_run", new)

    @rule(namespace=namespaces, id=run_ids, by=people)
    def cancel(self, namespace: str, id: str, by: str | None) -> None:
        self.both(namespace, "cancel", id, reason=by, by=by)

    @rule(namespace=namespaces, id=run_ids)
    def retry(self, namespace: str, id: str) -> None:
        self.once(namespace, "retry", id)

    @rule(
        namespace=namespaces,
        id=run_ids,
        how=st.sampled_from(("suspend", "resume", "terminate", "retry")),
        place=st.integers(0, 9),
        by=people,
    )
    def intervene(self, namespace: str, id: str, how: str, place: int, by: str | None) -> None:
        event = NewAuditEvent(f"{how}/{place}", AuditKind.SUSPENDED, "", id, by)
        run = self.model.tables.runs.get((namespace, id))
        if how == "retry":
            plan = None if run is None else Retry(run.epoch, 0, None, (0, 1, 2))
            self.once(namespace, "retry", id, how=plan, event=event)
        elif how == "resume":
            self.both(namespace, "resume", id, event)
        else:
            self.both(namespace, how, id, event, reason=by)

    @rule(namespace=namespaces, id=run_ids, name=values, value=values, by=people, request=requests)
    def signal(
        self, namespace: str, id: str, name: str, value: str, by: str | None, request: str | None
    ) -> None:
        self.once(namespace, "signal", id, name, value, by=by, request_id=request)

    @rule(namespace=namespaces, data=st.data())
    def create_promise(self, namespace: str, data: st.DataObject) -> None:
        self.once(namespace, "create_promise", self.draw_promise(data, data.draw(promise_ids)))

    @rule(namespace=namespaces, id=promise_ids, kind=kinds, settlement=settlements, version=versions)
    def settle(
        self, namespace: str, id: str, kind: PromiseKind, settlement: Settlement, version: int | None
    ) -> None:
        before = self.model.tables.promises.get((namespace, id))
        owner = self.model.tables.runs.get((namespace, (before and before.run_id) or ""))
        found = self.once(namespace, "settle", id, kind, replace(settlement, version=version))
        is_settled_now = isinstance(found, list) and found[1] is True  # pyright: ignore[reportUnknownMemberType]
        waits = owner is not None and owner.state is RunState.PAUSED and not owner.is_suspended
        if is_settled_now and owner is not None and waits and owner.epoch > 0:
            assert self._do(self.scene.within(namespace).state(owner.id)) is RunState.READY

    # Tasks

    @rule(
        namespace=namespaces,
        id=task_ids,
        address=st.none() | addresses | addresses,
        due=delays,
        lease=st.none() | task_leases,
        branch=branches,
        parent=branches,
        starts=st.sampled_from((None, None, -5.0, 5.0)),
        is_held=st.booleans(),
        data=st.data(),
    )
    def open_invocation(
        self,
        namespace: str,
        id: str,
        address: str | None,
        due: float | None,
        lease: TaskLease | None,
        branch: str | None,
        parent: str | None,
        starts: float | None,
        is_held: bool,
        data: st.DataObject,
    ) -> None:
        promise = NewPromise(
            id, data.draw(st.sampled_from((PromiseKind.PROMISE,) * 9 + (PromiseKind.QUESTION,)))
        )
        new = NewInvocation(
            replace(promise, due_at=self._after(due), data="{}"),
            address,
            branch,
            parent,
            self._after(starts),
            lease,
            self.draw_task(data, namespace) if is_held else None,
        )
        self.both(namespace, "open_invocation", new)

    @rule(namespace=namespaces, lease=task_leases, takes_one=st.booleans(), data=st.data())
    def acquire_task(self, namespace: str, lease: TaskLease, takes_one: bool, data: st.DataObject) -> None:
        ref = self.draw_task(data, namespace, TaskState.PENDING)
        self.both(namespace, "acquire_task", ref, lease, takes_one=takes_one)

    @rule(namespace=namespaces, promise_id=awaitable_ids, settlement=settlements, data=st.data())
    def settle_held(
        self, namespace: str, promise_id: str, settlement: Settlement, data: st.DataObject
    ) -> None:
        ref = self.draw_task(data, namespace, TaskState.ACQUIRED)
        promise_id = data.draw(st.sampled_from((ref.id, promise_id)))
        self.both(namespace, "settle_held", ref, promise_id, replace(settlement, request_id=None))

    @rule(namespace=namespaces, data=st.data())
    def release_task(self, namespace: str, data: st.DataObject) -> None:
        self.both(namespace, "release_task", self.draw_task(data, namespace, TaskState.ACQUIRED))

    @rule(
        namespace=namespaces,
        awaited=st.lists(awaitable_ids, max_size=2),
        times=st.integers(1, 2),
        data=st.data(),
    )
    def suspend_task(self, namespace: str, awaited: Sequence[str], times: int, data: st.DataObject) -> None:
        for _ in range(times):
            ref = self.draw_task(data, namespace, TaskState.ACQUIRED)
            self.both(namespace, "suspend_task", ref, awaited)

    @rule(namespace=namespaces, is_all=st.booleans(), pid=st.sampled_from(("pid0", "pid1")), data=st.data())
    def heartbeat_tasks(self, namespace: str, is_all: bool, pid: str, data: st.DataObject) -> None:
        refs = [self.draw_task(data, namespace, TaskState.ACQUIRED) for _ in range(2)]
        self.both(namespace, "heartbeat_tasks", pid, None if is_all else refs)

    @rule(namespace=namespaces, id=task_ids, halts=st.booleans())
    def halt_or_continue_task(self, namespace: str, id: str, halts: bool) -> None:
        self.both(namespace, "halt_task" if halts else "continue_task", id)

    @rule(namespace=namespaces, awaited=awaitable_ids, awaiter=task_ids, address=st.none() | addresses)
    def await_promise(self, namespace: str, awaited: str, awaiter: str, address: str | None) -> None:
        self.both(namespace, "await_promise", awaited, awaiter, address=address)

    @rule(namespace=namespaces, id=awaitable_ids, address=addresses)
    def listen_promise(self, namespace: str, id: str, address: str) -> None:
        self.both(namespace, "listen_promise", id, address)

    @rule(namespace=namespaces, address=addresses, id=awaitable_ids)
    def take_messages(self, namespace: str, address: str, id: str) -> None:
        """Take all due messages of a queue, and finish some. Those of one time may come in any order."""
        found: list[Any] = []
        for store in (self.reference.within(namespace), self.scene.within(namespace).store):
            taken = self._do(store.take_task_messages([queue_of(address)], 100))
            found.append(sorted(taken, key=_named_message))
        assert found[0] == found[1]
        self.both(namespace, "finish_task_message", id, address)

    @rule(namespace=namespaces, address=addresses, id=awaitable_ids, data=st.data())
    def resend_messages(self, namespace: str, address: str, id: str, data: st.DataObject) -> None:
        refs = [self.draw_task(data, namespace, TaskState.PENDING) for _ in range(2)]
        self.both(namespace, "resend_task_messages", refs, [Listener(id, address)])

    def draw_task(self, data: st.DataObject, namespace: str, state: TaskState | None = None) -> TaskRef:
        """Choose a task: mostly one in a state, in its version."""
        known = [task for task in self.model.tables.tasks.values() if task.namespace == namespace]
        chosen = [task for task in known if state in (None, task.state)] * 5 + known
        if not chosen:
            return TaskRef("k0", 0)
        task = data.draw(st.sampled_from(chosen))
        return TaskRef(task.id, task.version - data.draw(st.sampled_from((0,) * 9 + (1,))))

    # Questions

    @precondition(lambda self: self.model.tables.promises)
    @rule(data=st.data(), stale=st.sampled_from((0, 0, 0, 0, 0, 0, 1, -1)), times=st.integers(1, 3))
    def amend(self, data: st.DataObject, stale: int, times: int) -> None:
        """Amend a question some times: mostly one that is open, in the version that it has."""
        pending = [each for each in self._questions() if each.state is PromiseState.PENDING]
        anything = list(self.model.tables.promises.values())
        chosen = data.draw(st.sampled_from([*pending * 9, *anything]))
        for _ in range(times):
            question = self.model.tables.promises[chosen.namespace, chosen.id]
            amendment = Amendment(
                question.version - stale,
                data.draw(values),
                data.draw(assignees),
                self._after(data.draw(acts)),
                data.draw(st.none() | st.none() | settlements),
                tuple(_voted(question.id, place) for place in data.draw(places)),
            )
            amendment = replace(amendment, due_at=self._after(data.draw(st.none() | acts)))
            if amendment.settlement is not None:
                amendment = self._with_rules(data, question, amendment)
            if data.draw(st.integers(0, 3)) == 0:
                signal = NewSignal(data.draw(run_ids), "context", data.draw(values), "ana")
                amendment = replace(amendment, signal=signal)
            self.once(question.namespace, "amend", question.id, amendment)

    @rule(namespace=namespaces, id=promise_ids)
    def amend_what_may_not_be_there(self, namespace: str, id: str) -> None:
        self.once(namespace, "amend", id, Amendment(0, None, (), None))

    def _with_rules(self, data: st.DataObject, question: Promise, amendment: Amendment) -> Amendment:
        """Have an amendment make a rule, or be made by one."""
        if data.draw(st.booleans()):
            return replace(amendment, by_rule=data.draw(st.none() | rule_ids))
        id, seconds, uses = (
            data.draw(rule_ids),
            data.draw(st.sampled_from((5.0, 60.0))),
            data.draw(st.none() | calls),
        )
        ends = self.scene.clock.now() + seconds
        made = NewRule(id, "ana", "mail", "{}", ends, question.id, question.run_id, max_uses=uses)
        if data.draw(st.booleans()):
            made = replace(made, run_id=None, session_id="c", expires_at=data.draw(st.none() | st.just(ends)))
        return replace(amendment, rule=made)

    @rule(namespace=namespaces, id=rule_ids, place=st.integers(0, 9), by=people)
    def revoke_rule(self, namespace: str, id: str, place: int, by: str | None) -> None:
        event = NewAuditEvent(f"{id}/{place}", AuditKind.RULE_REVOKED, "q", by=by)
        self.both(namespace, "revoke_rule", id, event)

    @rule(namespace=namespaces, id=rule_ids)
    def look_at_rules(self, namespace: str, id: str) -> None:
        self.both(namespace, "get_rule", id)
        for which in (
            RuleFilter(),
            RuleFilter(in_force=True),
            RuleFilter(by="ana"),
            RuleFilter(session_id="c", in_force=True),
            RuleFilter(session_id=""),
        ):
            mine, theirs = (
                self._do(store.list_rules(which)).items
                for store in (self.scene.within(namespace).store, self.reference.within(namespace))
            )
            assert mine == theirs

    @rule(namespace=namespaces, id=promise_ids, recorded=places)
    def record(self, namespace: str, id: str, recorded: list[int]) -> None:
        self.both(namespace, "record", [_voted(id, place) for place in recorded])

    @rule(namespace=namespaces, data=st.data(), skew=st.sampled_from((0, 0, 0, 0, 1, -1)))
    def seal(self, namespace: str, data: st.DataObject, skew: int) -> None:
        """Seal some events: mostly such as wait for it, now and then one that does not, or one twice."""
        listed = self._do(self.scene.within(namespace).store.list_audit(AuditFilter(), limit=1000))
        pairs = self._paired(namespace, listed.items)
        waiting = [pair for pair in pairs if pair[0].seq is None]
        chosen = data.draw(st.lists(st.sampled_from([*waiting * 5, *pairs]), max_size=3)) if pairs else []
        end = len(self.model.tables.chains.get(namespace, ())) + skew
        mine, theirs = (
            [Seal(end + place, pair[side].id, f"h{end + place}") for place, pair in enumerate(chosen)]
            for side in (0, 1)
        )
        done = self._do(self.scene.within(namespace).store.seal(mine))
        assert done is self._do(self.reference.within(namespace).seal(theirs))

    @rule()
    def due_questions(self) -> None:
        due, next_at = self._do(self.scene.store.due_questions(100))
        expected_due, expected_next = self.model.promises.due_questions(100)
        assert sorted(due, key=_place) == expected_due
        assert next_at == expected_next

    @rule(namespace=namespaces, age=st.sampled_from((0.0, 5.0, 30.0)), limit=st.integers(1, 3))
    def delete_ended(self, namespace: str, age: float, limit: int) -> None:
        self.both(namespace, "delete_ended", self.scene.clock.now() - age, limit)
        self._forget_deleted(namespace)

    @rule(namespace=namespaces, age=st.sampled_from((0.0, 5.0, 30.0)))
    def delete_settled(self, namespace: str, age: float) -> None:
        self.both(namespace, "delete_settled", self.scene.clock.now() - age, 10_000)
        self._forget_deleted(namespace)

    def _forget_deleted(self, namespace: str) -> None:
        """Forget that something was done: what was deleted can be created again."""
        self.done.clear()
        kept = {promise_id for known, promise_id in self.model.tables.promises if known == namespace}
        self.settled = {
            key: each for key, each in self.settled.items() if key[0] != namespace or key[1] in kept
        }

    # Schedules

    @rule(
        namespace=namespaces, id=schedule_ids, cron=values, workflow=st.sampled_from(WORKFLOWS), delay=moments
    )
    def put_schedule(self, namespace: str, id: str, cron: str, workflow: str, delay: float) -> None:
        next_at = self.scene.clock.now() + delay
        self.both(
            namespace, "put_schedule", NewSchedule(id, workflow, "g", "{}", cron, "UTC", next_at=next_at)
        )

    @rule(namespace=namespaces, id=schedule_ids, operation=st.sampled_from(("get", "pause", "delete")))
    def change_schedule(self, namespace: str, id: str, operation: str) -> None:
        self.both(namespace, f"{operation}_schedule", id)

    @rule(namespace=namespaces, id=schedule_ids, delay=moments)
    def resume_schedule(self, namespace: str, id: str, delay: float) -> None:
        self.both(namespace, "resume_schedule", id, self.scene.clock.now() + delay)

    @rule(delay=moments, runs=st.lists(run_ids, max_size=2), stale=st.booleans())
    def fire_schedules(self, delay: float, runs: list[str], stale: bool) -> None:
        due, next_at = self._do(self.scene.store.due_schedules(100))
        expected_due, expected_next = self.model.schedules.due(100)
        assert sorted(due, key=_place) == sorted(expected_due, key=_place)
        assert next_at == expected_next
        for each in due:
            schedule = self.model.tables.schedules[each.namespace, each.id]
            new = [NewRun(id, schedule.workflow, schedule.group, schedule.arguments) for id in runs]
            expected = each.at - stale
            self.both(each.namespace, "fire_schedule", each.id, expected, new, self.scene.clock.now() + delay)

    # Schedules of promises

    @rule(namespace=namespaces, id=schedule_ids, cron=values, delay=moments)
    def put_promise_schedule(self, namespace: str, id: str, cron: str, delay: float) -> None:
        new = NewPromiseSchedule(id, cron, "{}", self.scene.clock.now() + delay)
        self.both(namespace, "put_promise_schedule", new)

    @rule(namespace=namespaces, id=schedule_ids, operation=st.sampled_from(("get", "delete")))
    def change_promise_schedule(self, namespace: str, id: str, operation: str) -> None:
        self.both(namespace, f"{operation}_promise_schedule", id)

    @rule(delay=moments, promise=task_ids, stale=st.booleans())
    def fire_promise_schedules(self, delay: float, promise: str, stale: bool) -> None:
        due, next_at = self._do(self.scene.store.due_promise_schedules(100))
        expected_due, expected_next = self.model.promise_schedules.due(100)
        assert sorted(due, key=_place) == sorted(expected_due, key=_place)
        assert next_at == expected_next
        for each in due:
            new = NewInvocation(NewPromise(promise, PromiseKind.PROMISE, data="{}"), "poll://any@g")
            self.both(each.namespace, "open_invocation", new)
            times = (each.at - stale, self.scene.clock.now() + delay, each.at)
            self.both(each.namespace, "advance_promise_schedule", each.id, *times)

    # Tokens

    @rule(namespace=namespaces, id=token_ids, secret=token_ids, kind=token_kinds, delay=delays, by=people)
    def create_token(
        self, namespace: str, id: str, secret: str, kind: TokenKind, delay: float | None, by: str | None
    ) -> None:
        new = NewToken(id, kind, hash_of(secret), f"user:{by}", by, "{}", expires_at=self._after(delay))
        self.both(namespace, "create_token", new)

    @rule(namespace=namespaces, id=token_ids, operation=st.sampled_from(("get", "revoke", "touch")))
    def change_token(self, namespace: str, id: str, operation: str) -> None:
        self.both(namespace, f"{operation}_token", id)

    @rule(namespace=namespaces, id=token_ids, delay=st.sampled_from((-1.0, 5.0, 20.0)))
    def expire_token(self, namespace: str, id: str, delay: float) -> None:
        self.both(namespace, "expire_token", id, self.scene.clock.now() + delay)

    @rule(namespace=namespaces, secret=token_ids)
    def find_token(self, namespace: str, secret: str) -> None:
        self.both(namespace, "find_token", hash_of(secret))

    @rule(namespace=namespaces, kinds=st.lists(st.sampled_from(TokenKind), max_size=2))
    def has_token(self, namespace: str, kinds: list[TokenKind]) -> None:
        self.both(namespace, "has_token", kinds)

    @rule(namespace=namespaces, age=st.sampled_from((0.0, 5.0, 30.0)), limit=st.integers(1, 3))
    def delete_tokens(self, namespace: str, age: float, limit: int) -> None:
        self.both(namespace, "delete_tokens", self.scene.clock.now() - age, limit)

    # Notifications

    @rule(
        namespace=namespaces,
        channel=channels,
        stale=st.sampled_from((0, 0, 0, 1)),
        made=st.lists(st.tuples(deliveries, promise_ids, assignees_told), max_size=3),
    )
    def expand(self, namespace: str, channel: str, stale: int, made: Sequence[tuple[str, str, str]]) -> None:
        cursor = self.model.outbox.read_cursor(namespace, channel)
        assert self._do(self.scene.within(namespace).store.read_cursor(channel)) == cursor
        expected = None if cursor is None else cursor - stale
        new = [
            NewDelivery(f"{channel}/{id}", recipient, "e", 1, AuditKind.ASKED, question, "r0")
            for id, question, recipient in made
        ]
        self.both(namespace, "expand", channel, expected, (cursor or 0) + 1, new)

    @rule(namespace=namespaces, channel=channels, limit=st.integers(1, 3))
    def claim_deliveries(self, namespace: str, channel: str, limit: int) -> None:
        self.both(namespace, "claim_deliveries", channel, limit, 20.0)

    @rule(
        namespace=namespaces,
        channel=channels,
        id=deliveries,
        stale=st.sampled_from((0, 0, 0, 1)),
        state=st.sampled_from(DeliveryState),
        delay=moments,
    )
    def finish_delivery(
        self, namespace: str, channel: str, id: str, stale: int, state: DeliveryState, delay: float
    ) -> None:
        known = self.model.tables.deliveries.get((namespace, f"{channel}/{id}"))
        attempts = 1 if known is None else known[1].attempts - stale
        report = Report(state, self._after(delay) if state is DeliveryState.PENDING else None, "no")
        self.both(namespace, "finish_delivery", f"{channel}/{id}", attempts, report)

    @rule(namespace=namespaces, channel=channels, id=deliveries)
    def redeliver(self, namespace: str, channel: str, id: str) -> None:
        self.both(namespace, "redeliver", f"{channel}/{id}")

    @rule(namespace=namespaces, age=st.sampled_from((0.0, 5.0, 30.0)), limit=st.integers(1, 3))
    def delete_deliveries(self, namespace: str, age: float, limit: int) -> None:
        self.both(namespace, "delete_deliveries", self.scene.clock.now() - age, limit)

    # Workers

    @rule(
        namespace=namespaces, worker=workers, group=groups, limit=st.integers(1, 4), workflows=some_workflows
    )
    def claim(self, namespace: str, worker: str, group: str, limit: int, workflows: Sequence[str]) -> None:
        self.once(namespace, "claim", worker, group, workflows, limit)

    @rule(namespace=namespaces, group=groups, max_running=st.none() | st.integers(1, 2), rate=rates)
    def limit_group(self, namespace: str, group: str, max_running: int | None, rate: Rate | None) -> None:
        self.both(namespace, "limit_group", group, max_running=max_running, starts_per=rate)

    @rule(namespace=namespaces, group=groups, pause=st.sampled_from((True, False, False)))
    def pause_or_resume_group(self, namespace: str, group: str, pause: bool) -> None:
        self.both(namespace, "pause_group" if pause else "resume_group", group)

    @rule(namespace=namespaces, worker=workers, stale=st.booleans())
    def heartbeat(self, namespace: str, worker: str, stale: bool) -> None:
        held = {run.id: run.epoch - stale for run in self._runs(namespace)}
        self.both(namespace, "heartbeat", worker, {**held, "unknown": 1})

    @rule(
        namespace=namespaces,
        names=st.lists(st.sampled_from(("a", "b", "c")), unique=True),
        is_current=st.booleans(),
    )
    def announce(self, namespace: str, names: Sequence[str], is_current: bool) -> None:
        workflows = [WorkflowInfo("g", name, "1", is_current) for name in names]
        self.both(namespace, "announce", workflows)

    @rule(namespace=namespaces, age=st.sampled_from((0.0, 5.0, 30.0)), limit=st.integers(1, 3))
    def delete_workflows(self, namespace: str, age: float, limit: int) -> None:
        self.both(namespace, "delete_workflows", self.scene.clock.now() - age, limit)

    @rule(worker=workers)
    def release(self, worker: str) -> None:
        assert self._do(self.scene.store.release(worker)) == self._do(self.reference.release(worker))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), times=st.integers(1, 3))
    def append(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            run = self.draw_run(data)
            self.both(run.namespace, "append", self.draw_write(data, run))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), looked=st.sampled_from((0, 0, 0, 1)), delay=delays)
    def pause(self, data: st.DataObject, looked: int, delay: float | None) -> None:
        run = self.draw_run(data)
        write = self.draw_write(data, run)
        self.both(run.namespace, "pause", write, wakes=run.wakes - looked, wake_at=self._after(delay))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), outcome=outcomes)
    def complete(self, data: st.DataObject, outcome: Outcome) -> None:
        run = self.draw_run(data)
        self.both(run.namespace, "complete", self.draw_write(data, run), outcome)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), places=st.lists(st.tuples(calls, st.integers(0, 3), live_positions), max_size=3))
    def publish(self, data: st.DataObject, places: list[tuple[int, int, int]]) -> None:
        """Say something live: mostly under leases that hold. What has been said once is not said otherwise."""
        by_namespace: dict[str, dict[tuple[str, int, int], LiveText]] = {}
        for n, seq, position in places:
            run = self.draw_run(data)
            epoch = run.epoch - data.draw(st.sampled_from((0,) * 9 + (1,)))
            said = LiveText(run.id, epoch, seq, n, "answer", 1, position, "text", "Hi")
            by_namespace.setdefault(run.namespace, {}).setdefault((run.id, epoch, seq), said)
        for namespace, pieces in by_namespace.items():
            self.both(namespace, "publish", list(pieces.values()))

    def running(self) -> list[Run]:
        return [run for run in self.model.tables.runs.values() if run.state is RunState.RUNNING]

    def draw_run(self, data: st.DataObject) -> Run:
        """Choose a run to write to: mostly one that is running."""
        return data.draw(st.sampled_from(self.running() * 5 + list(self.model.tables.runs.values())))

    def draw_write(self, data: st.DataObject, run: Run) -> Write:
        """Make something that a worker may write: mostly in order, now and then by one that lost its lease."""
        stale, hole = (data.draw(st.sampled_from((0,) * 9 + (1,))) for _ in range(2))
        begin = len(self.model.tables.journals[run.namespace, run.id]) + hole
        entries = [self._entry(begin + number) for number in range(data.draw(st.integers(0, 2)))]
        left = [message.id for message in self.model.tables.messages[run.namespace, run.id]]
        some_runs, some_promises = st.lists(run_ids, max_size=1), st.lists(promise_ids, max_size=2)
        return Write(
            run.id,
            run.epoch - stale,
            entries=entries,
            opens=[
                replace(self.draw_promise(data, id), run_id=run.id, n=data.draw(calls))
                for id in data.draw(some_promises)
            ],
            closes=data.draw(some_promises),
            starts=[
                NewRun(
                    id,
                    data.draw(st.sampled_from(WORKFLOWS)),
                    "g",
                    data.draw(arguments),
                    run.id,
                    data.draw(calls),
                    priority=data.draw(priorities),
                    start_at=self._after(data.draw(starts)),
                    session_id=data.draw(sessions),
                )
                for id in data.draw(some_runs)
            ],
            cancels=data.draw(some_runs),
            taken=data.draw(st.lists(st.sampled_from(left), unique=True)) if left else [],
            first_seq=data.draw(st.sampled_from((None, None, None, begin))),
            unpublishes=data.draw(st.lists(calls, max_size=1)),
        )

    def draw_promise(self, data: st.DataObject, id: str) -> NewPromise:
        """Make a promise, or a question that some may answer, with a policy that may have something to do."""
        new = NewPromise(id, data.draw(kinds), due_at=self._after(data.draw(delays)), data="{}")
        if new.kind is PromiseKind.PROMISE:
            return new
        return replace(new, assignees=data.draw(assignees), act_at=self._after(data.draw(acts)))

    # What must hold

    @invariant()
    def everything_is_the_same(self) -> None:
        for namespace, seen in zip(NAMESPACES, self._do(self._look_at_all()), strict=True):
            expected = list(self._runs(namespace))
            ids = [run.id for run in expected]
            assert _comparable(list(reversed(seen.runs))) == _comparable(expected)
            assert seen.ended == self.model.ended(namespace, ids)
            for run, journal in zip(expected, seen.journals, strict=True):
                assert _comparable(journal) == _comparable(self.model.tables.journals[namespace, run.id])
                assert [entry.seq for entry in journal] == list(range(len(journal)))
            live = [self.model.live.read(namespace, run.id, 0, -1) for run in expected]
            assert seen.live == live
            known_sessions = self._do(self.reference.within(namespace).list_sessions())
            assert seen.sessions == known_sessions.items
            self._check_turns(seen)
            assert seen.groups == self.model.groups.list_groups(namespace)
            expected_deliveries = self.model.outbox.list_deliveries(namespace, DeliveryFilter())
            assert seen.deliveries == [each for _, each in expected_deliveries]
            assert seen.schedules == self.model.schedules.list_schedules(namespace)
            assert seen.promise_schedules == self.model.promise_schedules.list_schedules(namespace)
            assert seen.workflows == self.model.workflows.list_workflows(namespace, WorkflowFilter())
            links = self.model.tokens.list_tokens(namespace, TokenFilter(TokenKind.LINK))
            assert list(seen.links) == [token for _, token in links]
            assert list(seen.tasks) == self.model.tasks.list_tasks(namespace, None, None)
            invocations = self.model.tasks.list_invocations(namespace, InvocationFilter())
            assert list(seen.invocations) == [node for _, node in invocations]
            ids = [each.id for each in seen.promises]
            assert list(map(list, seen.calls)) == [self.model.tasks.list_calls(namespace, id) for id in ids]
            messages = [
                (message, run.wakes)
                for run in expected
                for message in self.model.tables.messages[namespace, run.id]
            ]
            messages.sort(key=lambda each: (each[0].run_id, each[0].id))
            assert _comparable(seen.messages) == _comparable(messages)
            promises = [each for each in self.model.tables.promises.values() if each.namespace == namespace]
            assert list(seen.promises) == promises
            for promise in promises:  # what is settled stays as it is
                if promise.state is not PromiseState.PENDING:
                    assert self.settled.setdefault((namespace, promise.id), promise) == promise

    @invariant()
    def tasks_keep_their_rules(self) -> None:
        tables = self.model.tables
        for key, task in tables.tasks.items():
            promise = tables.promises[key]
            is_settled = promise.state is not PromiseState.PENDING
            assert is_settled is (task.state is TaskState.FULFILLED)
            assert (task.pid is not None) is (task.state is TaskState.ACQUIRED)
            awaited = [each for each, awaiters in tables.task_awaits.items() if task.id in awaiters]
            assert all(
                tables.promises[each].state is PromiseState.PENDING for each in awaited if each[0] == key[0]
            )
            assert self.task_versions.get(key, 0) <= task.version, "versions only rise"
            self.task_versions[key] = task.version
            if task.pid is not None:
                holder = self.holders.setdefault((*key, task.version), task.pid)
                assert holder == task.pid, "a version has one holder"

    def _check_turns(self, seen: Seen) -> None:
        """Of the runs of a session the first that has not ended may be active; those behind it wait."""
        for session in seen.sessions:
            chain = [run for run in reversed(seen.runs) if run.session_id == session.id]
            places = [run.position or 0 for run in chain]
            assert places == sorted(set(places))
            going = [run for run in chain if run.ended_at is None or run.retryable]
            assert session.active_run_id == (going[0].id if going else None)
            assert not any(run.awaits_turn for run in going[:1])
            assert all(run.awaits_turn or run.is_suspended for run in going[1:])

    @invariant()
    def questions_are_the_same(self) -> None:
        for namespace in NAMESPACES:
            tables = self.model.tables
            questions: dict[Creation, Promise] = {
                (each.id, tables.promise_numbers[namespace, each.id]): each
                for each in self._questions()
                if each.namespace == namespace
            }
            now = (questions, len(tables.audit), len(tables.chains.get(namespace, ())))
            if self.looked_at.get(namespace) != now:
                self.looked_at[namespace] = now
                self._do(self._check_questions(namespace, questions))

    async def _check_questions(self, namespace: str, questions: Mapping[Creation, Promise]) -> None:
        store = self.scene.within(namespace).store
        listed, chain, last_seal, *inboxes = await asyncio.gather(
            store.list_audit(AuditFilter(), limit=1000),
            store.read_chain(limit=1000),
            store.last_seal(),
            *(store.list_promises(replace(INBOX, answerable_by=names), limit=100) for names in NAMES),
        )
        pending = [each for each in questions.values() if each.state is PromiseState.PENDING]
        for names, inbox in zip(NAMES, inboxes, strict=True):
            assert list(inbox.items) == [
                each for each in pending if not each.assignees or names.intersection(each.assignees)
            ]
        self.trails.check_questions(namespace, questions)
        self.trails.check_trail(namespace, listed.items, questions)
        pairs = self._paired(namespace, listed.items)
        check_pairs(pairs)
        check_chain(chain, pairs, self.model.tables.chains.get(namespace, ()))
        assert last_seal == (chain[-1][0] if chain else None)

    def _paired(self, namespace: str, trail: Sequence[AuditEvent]) -> Pairs:
        """The store's audit events and the model's."""
        expected = [event for _, event in self.model.audit.list_audit(namespace, AuditFilter())]
        return paired(trail, expected)

    async def _look_at_all(self) -> Sequence[Seen]:
        return await asyncio.gather(*(self._look_at(namespace) for namespace in NAMESPACES))

    async def _look_at(self, namespace: str) -> Seen:
        store = self.scene.within(namespace).store
        ids = [run.id for run in self._runs(namespace)]
        runs, ended, messages, promises, *journals = await asyncio.gather(
            store.list_runs(RunFilter(), limit=100),
            store.ended([*ids, "unknown"]),
            store.read_messages(ids),
            store.list_promises(PromiseFilter(), limit=100),
            *(store.read_journal(id) for id in ids),
        )
        live = [list(await store.read_live(id)) for id in ids]
        groups = await store.list_groups()
        schedules = list((await store.list_schedules()).items)
        links = (await store.list_tokens(TokenFilter(TokenKind.LINK))).items
        deliveries = list((await store.list_deliveries(DeliveryFilter())).items)
        return Seen(
            runs.items,
            ended,
            messages,
            promises.items,
            journals,
            live,
            groups,
            schedules,
            list((await store.list_promise_schedules()).items),
            links,
            deliveries,
            (await store.list_sessions()).items,
            list((await store.list_workflows(WorkflowFilter())).items),
            (await store.list_tasks()).items,
            (await store.list_invocations(InvocationFilter())).items,
            [(await store.list_calls(each.id)).items for each in promises.items],
        )

    # Inside

    def _after(self, seconds: float | None) -> float | None:
        return None if seconds is None else self.scene.clock.now() + seconds

    def _entry(self, seq: int) -> Entry:
        return Entry(seq, self.scene.clock.now(), EntryKind.PROGRESSED, value="1")

    def _runs(self, namespace: str) -> Sequence[Run]:
        return [run for run in self.model.tables.runs.values() if run.namespace == namespace]

    def _questions(self) -> Sequence[Promise]:
        return [each for each in self.model.tables.promises.values() if each.kind is PromiseKind.QUESTION]

    def _pending(self) -> Sequence[Any]:
        listed = self._do(
            self.scene.store.list_promises(PromiseFilter(state=PromiseState.PENDING), limit=100)
        )
        return listed.items


def _has_entries(write: Any) -> bool:
    return isinstance(write, Write) and bool(write.entries)


def _outcome(operation: Any) -> Any:
    """Return what an operation returned, or what it raised, in a form that can be compared."""
    try:
        return _comparable(operation())
    except AlreadySettled as error:
        return (AlreadySettled, vars(error))
    except SignoffError as error:
        return type(error)


def _canonical(argument: Any) -> Any:
    """Spell arguments of runs as an encrypted store returns them."""
    if isinstance(argument, NewRun):
        return replace(argument, arguments=canonical(argument.arguments))
    if isinstance(argument, Write):
        return replace(argument, starts=list(map(_canonical, argument.starts)))
    return list(map(_canonical, argument)) if isinstance(argument, list) else argument  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _voted(question_id: str, place: int) -> NewAuditEvent:
    origin = Origin(OriginWay.KEY, "k0", "service:shop", f"10.0.0.{place}") if place % 2 else None
    return NewAuditEvent(
        f"{question_id}/{place}", AuditKind.VOTED, question_id, "r0", f"user:{place}", "{}", origin
    )


def _named_message(message: TaskMessage) -> tuple[str, str]:
    found = message.task or message.promise
    assert found is not None
    return found.id, message.address


def _place(due: Due) -> tuple[float, str, str]:
    """The order of items of one time is the store's own."""
    return due.at, due.namespace, due.id


def _comparable(outcome: Any) -> Any:
    """Replace errors by their types: their words are each store's own."""
    if isinstance(outcome, list | tuple):
        return [_comparable(each) for each in outcome]
    if isinstance(outcome, Run | Message | Entry) and outcome.error is not None:
        return replace(outcome, error=type(codec.decode_error(outcome.error)).__name__)
    if hasattr(outcome, "messages"):
        return [_comparable(outcome.run), _comparable(outcome.messages)]
    return outcome


# Others at each run. The store in memory is the model.
EXAMPLES = [("sqlite", 8), ("sqlite", 35), ("postgres", 12), ("remote", 8), ("encrypted", 8)]


@pytest.mark.hypothesis
@pytest.mark.timeout(400)  # seconds; it takes 20 on an idle machine
@pytest.mark.parametrize("played", sample(EXAMPLES), ids=lambda played: f"{played[0]}-{played[1]}")
def test_a_store_does_what_the_model_does(played: tuple[str, int]) -> None:
    store_name, examples = played
    machine = type("SideBySide", (SideBySide,), {"store_name": store_name})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
