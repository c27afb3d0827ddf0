"""The store contract once more, in plain Python: what every store must do, without saying how.

It is the reference that every other store is compared with, and ``MemoryStore`` is made of it. Each operation
refuses first and changes afterwards, so that it happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from signoff.clock import Clock
from signoff.codec import encode_error
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    NotFound,
    RequestConflict,
    RunCancelled,
)
from signoff.records import (
    Entry,
    EntryKind,
    Group,
    Message,
    MessageKind,
    NewPromise,
    NewRun,
    NewSchedule,
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Run,
    RunState,
    Schedule,
    Settlement,
    WorkerInfo,
)
from signoff.stores.base import FORGET_SECONDS, Change, Claim, Outcome, Write
from signoff.stores.limits import check_limits, check_run
from signoff.stores.same import same_json

Key = tuple[str, str]  # namespace and id


@dataclass
class Facts:
    """What no reader sees of a run."""

    number: int
    ready_at: float
    cancel_asked: bool = False
    deadline_passed: bool = False
    claim_token: str | None = None


@dataclass
class Limits:
    """What limits a group, and what its rate has left: see GCRA."""

    is_paused: bool = False
    max_running: int | None = None
    starts_per: Rate | None = None
    whole_at: float = 0.0
    opens_at: float | None = None

    def may_start(self, now: float) -> bool:
        if self.starts_per is None:
            return True
        each = self.starts_per.seconds / self.starts_per.count
        return max(self.whole_at, now) + each <= now + self.starts_per.seconds + 1e-6

    def note_start(self, now: float) -> None:
        if self.starts_per is not None:
            self.whole_at = max(self.whole_at, now) + self.starts_per.seconds / self.starts_per.count

    def hold_back(self) -> bool:
        """Have the next start become due. Returns whether that is news."""
        assert self.starts_per is not None
        rate, known = self.starts_per, self.opens_at
        self.opens_at = self.whole_at + rate.seconds / rate.count - rate.seconds
        return self.opens_at != known


@dataclass
class Tables:
    """Everything that is stored. Runs and promises are in the order of their creation."""

    runs: dict[Key, Run] = field(default_factory=dict[Key, Run])
    facts: dict[Key, Facts] = field(default_factory=dict[Key, Facts])
    journals: dict[Key, list[Entry]] = field(default_factory=dict[Key, list[Entry]])
    messages: dict[Key, list[Message]] = field(default_factory=dict[Key, list[Message]])
    promises: dict[Key, Promise] = field(default_factory=dict[Key, Promise])
    waiters: dict[tuple[str, str, str], set[tuple[str, int]]] = field(
        default_factory=dict[tuple[str, str, str], set[tuple[str, int]]]
    )
    requests: dict[tuple[str, str, str], tuple[str, str]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str, str]]
    )
    made: int = 0  # how many runs and promises were ever created
    promise_numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    tokens: set[tuple[str, str, str, str]] = field(default_factory=set[tuple[str, str, str, str]])
    groups: dict[Key, Limits] = field(default_factory=dict[Key, Limits])
    schedules: dict[Key, Schedule] = field(default_factory=dict[Key, Schedule])
    workers: dict[str, WorkerInfo] = field(default_factory=dict[str, WorkerInfo])


@dataclass
class Commit:
    """What an operation has touched so far."""

    runs: set[Key] = field(default_factory=set[Key])
    woken: set[Key] = field(default_factory=set[Key])
    ended: set[Key] = field(default_factory=set[Key])
    ready: set[str] = field(default_factory=set[str])  # namespaces in which a run may have become claimable
    due: bool = False

    def of(self, namespace: str) -> Change:
        """What listeners of a namespace are told."""
        return Change(
            runs=_ids(self.runs, namespace),
            woken=_ids(self.woken, namespace),
            ended=_ids(self.ended, namespace),
            ready=namespace in self.ready,
            due=self.due,
        )


class Model:
    """A store in memory, of all namespaces.

    Args:
        clock: Stamps and compares business times.
        lease_clock: Measures leases.
        lease_seconds: How long a claim or a heartbeat holds a run.

    Attributes:
        tables: Everything that is stored.
        commit: What was touched since ``take_commit``.
    """

    def __init__(self, clock: Clock, lease_clock: Clock, lease_seconds: float) -> None:
        self.tables = Tables()
        self.commit = Commit()
        self._clock = clock
        self._lease_clock = lease_clock
        self._lease_seconds = lease_seconds

    def take_commit(self) -> Commit | None:
        """Return what was touched since the last time, if it concerns anybody."""
        commit = self.commit
        if not commit.runs and not commit.due and not commit.ready:
            return None
        self.commit = Commit()
        return commit

    # Runs

    def create_run(self, namespace: str, new: NewRun, token: str | None = None) -> tuple[Run, bool]:
        check_run(new)
        if (namespace, new.id) not in self.tables.runs:
            self._remember(namespace, "create_run", new.id, token)
            return self._add_run(namespace, new), True
        run = self.tables.runs[namespace, new.id]
        differs = _difference(run, new)
        if differs is not None:
            raise IdConflict(new.id, differs)
        return run, self._is_known(namespace, "create_run", new.id, token)

    def cancel(self, namespace: str, run_id: str, reason: str | None = None, by: str | None = None) -> Run:
        run, facts = self._run(namespace, run_id)
        if (run.epoch == 0 and run.ended_at is None) or run.retryable:
            error = encode_error(RunCancelled(run_id, reason))
            self._change(
                run,
                state=RunState.CANCELLED,
                retryable=False,
                error=error,
                ended_at=self._now,
                wake_at=None,
            )
            self.commit.ended.add((namespace, run_id))
            self._add_entry(run, EntryKind.CANCELLED, error)
            self._finish(namespace, run_id, Outcome(RunState.CANCELLED, error=error))
        elif not facts.cancel_asked and run.ended_at is None:
            facts.cancel_asked = True
            self._leave(namespace, run_id, MessageKind.CANCEL, by=by, note=reason)
        return self._run(namespace, run_id)[0]

    def retry(self, namespace: str, run_id: str, token: str | None = None) -> Run:
        run, facts = self._run(namespace, run_id)
        if self._is_known(namespace, "retry", run_id, token):
            return run
        if not run.retryable:
            raise InvalidState(run_id, run.state.value, "retry")
        self._remember(namespace, "retry", run_id, token)
        facts.ready_at = self._now
        self._add_entry(run, EntryKind.RETRIED, details=None if token is None else f'{{"token":"{token}"}}')
        self.commit.ready.add(namespace)
        self.commit.due |= run.deadline_at is not None
        return self._change(run, state=RunState.READY, retryable=False, ended_at=None, error=None)

    def signal(
        self,
        namespace: str,
        run_id: str,
        name: str,
        value: str,
        by: str | None = None,
        request_id: str | None = None,
        token: str | None = None,
    ) -> bool:
        if self._is_known(namespace, "signal", run_id, token):
            return True
        request = (namespace, run_id, request_id or "")
        if request_id is not None and request in self.tables.requests:
            known, value_then = self.tables.requests[request]
            if known != name or not same_json(value_then, value):
                raise RequestConflict(request_id, run_id)
            return False
        run, _ = self._run(namespace, run_id)
        if run.ended_at is not None and not run.retryable:
            raise InvalidState(run_id, run.state.value, "signal")
        if request_id is not None:
            self.tables.requests[request] = (name, value)
        self._remember(namespace, "signal", run_id, token)
        self._leave(namespace, run_id, MessageKind.SIGNAL, name=name, value=value, by=by)
        return True

    def ended(self, namespace: str, run_ids: Sequence[str]) -> set[str]:
        return {id for id in run_ids if (run := self.tables.runs.get((namespace, id))) and run.state.is_final}

    def delete_ended(self, namespace: str, before: float, limit: int) -> int:
        for deleted in range(limit):
            ended = [
                run
                for run in self.tables.runs.values()
                if run.namespace == namespace
                and run.parent_id is None
                and run.ended_at is not None
                and run.ended_at < before
                and not run.retryable
            ]
            if not ended:
                return deleted
            self._delete(min(ended, key=lambda run: run.ended_at or 0.0))
        return limit

    def _delete(self, run: Run) -> None:
        key = (run.namespace, run.id)
        tables = self.tables
        for child in list(tables.runs.values()):
            if (child.namespace, child.parent_id) == key:
                self._change(child, parent_id=None, parent_n=None)
        for name, promise in list(tables.promises.items()):
            if (promise.namespace, promise.run_id) == key:
                del tables.promises[name], tables.promise_numbers[name]
                self._forget(run.namespace, promise.id, "settle")
                tables.waiters.pop((run.namespace, "promise", promise.id), None)
        tables.waiters.pop((run.namespace, "run", run.id), None)
        for (namespace, _, _), waiters in tables.waiters.items():
            if namespace == run.namespace:
                waiters -= {waiter for waiter in waiters if waiter[0] == run.id}
        for request in [request for request in tables.requests if request[:2] == key]:
            del tables.requests[request]
        for table in (tables.runs, tables.facts, tables.journals, tables.messages):
            del table[key]
        self._forget(run.namespace, run.id, "create_run", "retry", "signal")
        self.commit.runs.add(key)

    def _forget(self, namespace: str, id: str, *operations: str) -> None:
        known = {token for token in self.tables.tokens if (token[0], token[2]) == (namespace, id)}
        self.tables.tokens -= {token for token in known if token[1] in operations}

    # What the holder of a lease does

    def claim(
        self,
        namespace: str,
        worker_id: str,
        group: str,
        workflows: Sequence[str],
        limit: int,
        token: str | None = None,
    ) -> list[Claim]:
        by_ready = sorted(
            self.tables.runs.values(),
            key=lambda run: (-run.priority, self.tables.facts[run.namespace, run.id].ready_at),
        )
        claimed = [
            run
            for run in by_ready
            if (run.namespace, run.worker_id, run.state) == (namespace, worker_id, RunState.RUNNING)
            and token is not None
            and self.tables.facts[namespace, run.id].claim_token == token
        ]
        if not claimed:
            ready = [
                run
                for run in by_ready
                if (run.namespace, run.group, run.state) == (namespace, group, RunState.READY)
                and run.workflow in workflows
            ]
            claimed = self._lease_some(namespace, group, ready, limit, worker_id, token)
        return [Claim(run, tuple(self.tables.messages[namespace, run.id])) for run in claimed]

    def _lease_some(
        self, namespace: str, group: str, ready: Sequence[Run], limit: int, worker_id: str, token: str | None
    ) -> list[Run]:
        limits = self.tables.groups.get((namespace, group), Limits())
        leased: list[Run] = []
        for run in ready:
            if len(leased) == limit or limits.is_paused or self._is_full(namespace, group, limits):
                break
            if self._key_is_full(run):
                continue
            if run.epoch == 0 and not limits.may_start(self._now):
                self.commit.due |= limits.hold_back()
                continue
            if run.epoch == 0:
                limits.note_start(self._now)
            leased.append(self._lease(run, worker_id, token))
        return leased

    def _is_full(self, namespace: str, group: str, limits: Limits) -> bool:
        running = self._in_state(namespace, group, RunState.RUNNING)
        return limits.max_running is not None and running >= limits.max_running

    def _key_is_full(self, run: Run) -> bool:
        def of(other: Run) -> tuple[str, ...]:
            return (other.namespace, other.group, other.workflow, other.concurrency_key or "")

        if run.concurrency_key is None or run.concurrency_limit is None:
            return False
        running = [
            other
            for other in self.tables.runs.values()
            if other.state is RunState.RUNNING and other.concurrency_key is not None and of(other) == of(run)
        ]
        return len(running) >= run.concurrency_limit

    def _in_state(self, namespace: str, group: str, state: RunState) -> int:
        runs = self.tables.runs.values()
        return sum((run.namespace, run.group, run.state) == (namespace, group, state) for run in runs)

    def append(self, namespace: str, write: Write) -> None:
        self._write(namespace, write)

    def _write(self, namespace: str, write: Write) -> bool:
        """Return whether it is new."""
        run = self.tables.runs.get((namespace, write.run_id))
        if run is None or run.epoch != write.epoch:
            raise LeaseLost(write.run_id, write.epoch)
        journal = self.tables.journals[namespace, run.id]
        if write.entries:
            begin = write.entries[0].seq
            if begin >= 0 and journal[begin : begin + len(write.entries)] == list(write.entries):
                return False
        if run.state is not RunState.RUNNING:
            raise LeaseLost(write.run_id, write.epoch)
        _check(write, len(journal))
        if write.entries:
            journal.extend(write.entries)
            self.commit.runs.add((namespace, run.id))
        left = self.tables.messages[namespace, run.id]
        left[:] = [message for message in left if message.id not in write.taken]
        for promise in write.opens:
            self._open(namespace, run.id, promise)
        for promise_id in write.closes:
            self._close(namespace, run.id, promise_id)
        for child in write.starts:
            self._start(namespace, run.id, child)
        for child_id in write.cancels:
            self._cancel_child(namespace, run.id, child_id)
        if write.first_seq is not None:
            self._change(self._run(namespace, run.id)[0], first_seq=write.first_seq)
        return True

    def pause(self, namespace: str, write: Write, wakes: int, wake_at: float | None) -> bool:
        is_new = self._write(namespace, write)
        run, _ = self._run(namespace, write.run_id)
        if not is_new and run.state is not RunState.RUNNING:
            return True
        if run.wakes != wakes:
            return False
        self._change(run, state=RunState.PAUSED, wake_at=wake_at, worker_id=None, lease_until=None)
        self.commit.due |= wake_at is not None
        return True

    def complete(self, namespace: str, write: Write, outcome: Outcome) -> None:
        if not outcome.state.is_final:
            raise InvalidValue("outcome.state", f"{outcome.state.value} is not an end")
        if not self._write(namespace, write):
            return
        run, _ = self._run(namespace, write.run_id)
        self._change(
            run,
            state=outcome.state,
            result=outcome.result,
            error=outcome.error,
            retryable=outcome.retryable,
            ended_at=self._now,
            worker_id=None,
            lease_until=None,
        )
        self.commit.ended.add((namespace, run.id))
        if not outcome.retryable:
            self._finish(namespace, run.id, outcome)

    # Promises

    def create_promise(
        self, namespace: str, new: NewPromise, token: str | None = None
    ) -> tuple[Promise, bool]:
        if (namespace, new.id) not in self.tables.promises:
            self._remember(namespace, "create_promise", new.id, token)
            return self._add_promise(namespace, replace(new, run_id=None, n=None)), True
        promise = self.tables.promises[namespace, new.id]
        if promise.kind is not new.kind:
            raise IdConflict(new.id, f"it is a {promise.kind.value}, not a {new.kind.value}")
        if promise.run_id is not None:
            raise IdConflict(new.id, f"it belongs to run {promise.run_id!r}")
        return promise, self._is_known(namespace, "create_promise", new.id, token)

    def settle(
        self,
        namespace: str,
        promise_id: str,
        kind: PromiseKind,
        settlement: Settlement,
        token: str | None = None,
    ) -> tuple[Promise, bool]:
        if settlement.state is PromiseState.PENDING:
            raise InvalidValue("settlement.state", "a promise cannot be settled as pending")
        promise = self.tables.promises.get((namespace, promise_id))
        if promise is None or promise.kind is not kind:
            raise NotFound(kind.value, promise_id)
        if self._is_overdue(promise):
            late = self._settle(promise, PromiseState.TIMED_OUT)
            self._tell_all(late)
            raise AlreadySettled(promise_id, late.state.value, None, late.settled_at)
        if promise.state is PromiseState.PENDING:
            settled = self._settle(
                promise,
                settlement.state,
                value=settlement.value,
                settled_by=settlement.by,
                note=settlement.note,
                request_id=settlement.request_id,
            )
            self._tell_all(settled)
            self._remember(namespace, "settle", promise_id, token)
            return settled, True
        if self._is_known(namespace, "settle", promise_id, token):
            return promise, True
        if settlement.request_id is not None and promise.request_id == settlement.request_id:
            if promise.state is settlement.state and same_json(promise.value, settlement.value):
                return promise, False
            raise RequestConflict(settlement.request_id, promise_id)
        raise AlreadySettled(promise_id, promise.state.value, promise.settled_by, promise.settled_at)

    # Time and leases

    def due(self, limit: int = 1000) -> float | None:
        now, lease_now = self._now, self._lease_clock.now()
        late = sorted(
            filter(self._is_overdue, self.tables.promises.values()), key=lambda late: late.due_at or 0
        )
        for promise in late[:limit]:
            self._tell_all(self._settle(promise, PromiseState.TIMED_OUT))
        for run in self._first(limit, lambda run: run.wake_at if run.state is RunState.PAUSED else None, now):
            self._make_ready(run, wake_at=None)
        for run in self._first(limit, lambda run: run.deadline_at if self._has_deadline(run) else None, now):
            self.tables.facts[run.namespace, run.id].deadline_passed = True
            self._leave(run.namespace, run.id, MessageKind.DEADLINE)
        for run in self._first(limit, lambda run: run.lease_until, lease_now):
            self._make_ready(run, worker_id=None, lease_until=None)
        for (namespace, _), limits in self.tables.groups.items():
            if limits.opens_at is not None and limits.opens_at <= now:
                limits.opens_at = None
                self.commit.ready.add(namespace)
        for worker in list(self.tables.workers.values()):
            if worker.seen_at is not None and worker.seen_at <= lease_now - FORGET_SECONDS:
                del self.tables.workers[worker.id]
        return self.next_due()

    # Schedules

    def put_schedule(self, namespace: str, new: NewSchedule) -> Schedule:
        old = self.tables.schedules.get((namespace, new.id))
        said = {field: getattr(new, field) for field in NewSchedule.__dataclass_fields__}
        if old is None:
            put = Schedule(namespace, created_at=self._now, **said)
        else:
            if (old.cron, old.timezone) == (new.cron, new.timezone):
                said["next_at"] = old.next_at
            put = replace(old, **said)
        self.tables.schedules[namespace, new.id] = put
        self.commit.due = True
        return put

    def get_schedule(self, namespace: str, schedule_id: str) -> Schedule:
        if (namespace, schedule_id) not in self.tables.schedules:
            raise NotFound("schedule", schedule_id)
        return self.tables.schedules[namespace, schedule_id]

    def pause_schedule(self, namespace: str, schedule_id: str) -> Schedule:
        paused = replace(self.get_schedule(namespace, schedule_id), is_paused=True)
        self.tables.schedules[namespace, schedule_id] = paused
        return paused

    def resume_schedule(self, namespace: str, schedule_id: str, next_at: float) -> Schedule:
        found = self.get_schedule(namespace, schedule_id)
        if found.is_paused:
            found = replace(found, is_paused=False, next_at=next_at)
        self.tables.schedules[namespace, schedule_id] = found
        self.commit.due = True
        return found

    def delete_schedule(self, namespace: str, schedule_id: str) -> None:
        self.get_schedule(namespace, schedule_id)
        del self.tables.schedules[namespace, schedule_id]

    def list_schedules(self, namespace: str) -> list[Schedule]:
        found = [each for each in self.tables.schedules.values() if each.namespace == namespace]
        return sorted(found, key=lambda each: each.id)

    def due_schedules(self, limit: int) -> tuple[list[Schedule], float | None]:
        waiting = [each for each in self.tables.schedules.values() if not each.is_paused]
        waiting.sort(key=lambda each: each.next_at)
        due = [each for each in waiting if each.next_at <= self._now]
        return due[:limit], min((each.next_at for each in waiting), default=None)

    def fire_schedule(
        self, namespace: str, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        found = self.tables.schedules.get((namespace, schedule_id))
        if found is None or found.is_paused or found.next_at != expected:
            return False
        for new in runs:
            check_run(new)
        self.commit.due = True
        found = replace(found, next_at=next_at)
        if runs:
            found = replace(found, last_at=self._now, last_run_id=runs[-1].id)
        for new in runs:
            if (namespace, new.id) not in self.tables.runs:
                self._add_run(namespace, new)
        self.tables.schedules[namespace, schedule_id] = found
        return True

    # Groups

    def pause_group(self, namespace: str, name: str) -> None:
        self.tables.groups.setdefault((namespace, name), Limits()).is_paused = True
        self.commit.ready.add(namespace)

    def resume_group(self, namespace: str, name: str) -> None:
        self.tables.groups.setdefault((namespace, name), Limits()).is_paused = False
        self.commit.ready.add(namespace)

    def limit_group(
        self, namespace: str, name: str, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_limits(max_running, starts_per)
        self.commit.ready.add(namespace)
        old = self.tables.groups.get((namespace, name), Limits())
        self.tables.groups[namespace, name] = Limits(old.is_paused, max_running, starts_per)

    def list_groups(self, namespace: str) -> list[Group]:
        names = {name for known, name in self.tables.groups if known == namespace}
        names |= {run.group for run in self.tables.runs.values() if run.namespace == namespace}
        return [self._group(namespace, name) for name in sorted(names)]

    def _group(self, namespace: str, name: str) -> Group:
        limits = self.tables.groups.get((namespace, name), Limits())
        counts = [
            self._in_state(namespace, name, state)
            for state in (RunState.READY, RunState.RUNNING, RunState.PAUSED)
        ]
        return Group(name, limits.is_paused, limits.max_running, limits.starts_per, *counts)

    # Workers

    def enlist(self, worker: WorkerInfo) -> None:
        self.commit.due |= not self.tables.workers
        self.tables.workers[worker.id] = replace(worker, seen_at=self._lease_clock.now(), held=0)

    def list_workers(self) -> list[WorkerInfo]:
        runs = self.tables.runs.values()
        return [
            replace(worker, held=sum(run.worker_id == worker.id for run in runs))
            for _, worker in sorted(self.tables.workers.items())
        ]

    def heartbeat(self, namespace: str, worker_id: str, held: Mapping[str, int]) -> set[str]:
        lost: set[str] = set()
        for run_id, epoch in held.items():
            run = self.tables.runs.get((namespace, run_id))
            if run is not None and (run.worker_id, run.epoch) == (worker_id, epoch):
                lease_until = self._lease_clock.now() + self._lease_seconds
                self.tables.runs[namespace, run_id] = replace(run, lease_until=lease_until)
            else:
                lost.add(run_id)
        return lost

    def release(self, worker_id: str) -> int:
        self.tables.workers.pop(worker_id, None)
        held = [run for run in self.tables.runs.values() if run.worker_id == worker_id]
        for run in held:
            self._make_ready(run, worker_id=None, lease_until=None)
        return len(held)

    # Inside

    @property
    def _now(self) -> float:
        return self._clock.now()

    def _run(self, namespace: str, run_id: str) -> tuple[Run, Facts]:
        if (namespace, run_id) not in self.tables.runs:
            raise NotFound("run", run_id)
        return self.tables.runs[namespace, run_id], self.tables.facts[namespace, run_id]

    def _remember(self, namespace: str, operation: str, id: str, token: str | None) -> None:
        if token is not None:
            self.tables.tokens.add((namespace, operation, id, token))

    def _is_known(self, namespace: str, operation: str, id: str, token: str | None) -> bool:
        return token is not None and (namespace, operation, id, token) in self.tables.tokens

    def _lease(self, run: Run, worker_id: str, token: str | None) -> Run:
        self.tables.facts[run.namespace, run.id].claim_token = token
        until = self._lease_clock.now() + self._lease_seconds
        return self._change(
            run, state=RunState.RUNNING, epoch=run.epoch + 1, worker_id=worker_id, lease_until=until
        )

    def _change(self, run: Run, **changes: Any) -> Run:
        changed = self.tables.runs[run.namespace, run.id] = replace(run, **changes)
        self.commit.runs.add((run.namespace, run.id))
        if changed.state is not run.state:
            self._note_free_slot(run)
        return changed

    def _note_free_slot(self, run: Run) -> None:
        """A limited slot is free, or those that wait for one have moved up."""
        limits = self.tables.groups.get((run.namespace, run.group), Limits())
        freed = run.state is RunState.RUNNING and limits.max_running is not None
        if freed or run.concurrency_key is not None:
            self.commit.ready.add(run.namespace)

    def _make_ready(self, run: Run, **changes: Any) -> None:
        self.tables.facts[run.namespace, run.id].ready_at = self._now
        self._change(run, state=RunState.READY, **changes)
        self.commit.ready.add(run.namespace)

    def _first(self, limit: int, time_of: Callable[[Run], float | None], now: float) -> list[Run]:
        """The runs whose time has come, the earliest ones."""
        due = [
            (at, run) for run in self.tables.runs.values() if (at := time_of(run)) is not None and at <= now
        ]
        due.sort(key=lambda each: each[0])
        return [run for _, run in due[:limit]]

    def _is_overdue(self, promise: Promise) -> bool:
        is_pending = promise.state is PromiseState.PENDING
        return is_pending and promise.due_at is not None and promise.due_at <= self._now

    def _has_deadline(self, run: Run) -> bool:
        passed = self.tables.facts[run.namespace, run.id].deadline_passed
        return run.deadline_at is not None and not passed and run.ended_at is None

    def next_due(self) -> float | None:
        """When the next deadline, timer or lease is due, or a worker is forgotten, by the business clock."""
        leases = [run.lease_until for run in self.tables.runs.values() if run.lease_until is not None]
        seen = [worker.seen_at for worker in self.tables.workers.values() if worker.seen_at is not None]
        times = [self.next_deadline()]
        for lease_times in (leases, [at + FORGET_SECONDS for at in seen]):
            times += [self._now + (min(lease_times) - self._lease_clock.now())] if lease_times else []
        return min((time for time in times if time is not None), default=None)

    def next_deadline(self) -> float | None:
        """When the next deadline or timer is due."""
        runs, promises = self.tables.runs.values(), self.tables.promises.values()
        times = [promise.due_at for promise in promises if promise.state is PromiseState.PENDING]
        times += [run.wake_at for run in runs if run.state is RunState.PAUSED]
        times += [limits.opens_at for limits in self.tables.groups.values()]
        times += [run.deadline_at for run in runs if self._has_deadline(run)]
        return min((time for time in times if time is not None), default=None)

    def _add_run(self, namespace: str, new: NewRun) -> Run:
        key = (namespace, new.id)
        delayed = new.start_at is not None and new.start_at > self._now
        run = Run(
            namespace,
            new.id,
            new.workflow,
            new.group,
            new.arguments,
            RunState.PAUSED if delayed else RunState.READY,
            self._now,
            new.parent_id,
            new.parent_n,
            new.deadline_at,
            wake_at=new.start_at if delayed else None,
            priority=new.priority,
            start_at=new.start_at,
            concurrency_key=new.concurrency_key,
            concurrency_limit=new.concurrency_limit,
            traceparent=new.traceparent,
        )
        self.tables.runs[key], self.tables.facts[key] = run, Facts(self._number(), self._now)
        self.tables.journals[key], self.tables.messages[key] = [], []
        self.commit.runs.add(key)
        if not delayed:
            self.commit.ready.add(namespace)
        self.commit.due |= delayed or new.deadline_at is not None
        return run

    def _number(self) -> int:
        self.tables.made += 1
        return self.tables.made

    def _add_entry(
        self, run: Run, kind: EntryKind, error: str | None = None, details: str | None = None
    ) -> None:
        journal = self.tables.journals[run.namespace, run.id]
        journal.append(Entry(len(journal), self._now, kind, error=error, details=details))

    def _add_promise(self, namespace: str, new: NewPromise) -> Promise:
        promise = Promise(
            namespace,
            new.id,
            new.kind,
            PromiseState.PENDING,
            self._now,
            new.run_id,
            new.n,
            new.due_at,
            new.data,
        )
        self.tables.promises[namespace, new.id] = promise
        self.tables.promise_numbers[namespace, new.id] = self._number()
        self.commit.due |= new.due_at is not None
        return promise

    def _settle(self, promise: Promise, state: PromiseState, **told: Any) -> Promise:
        settled = replace(promise, state=state, settled_at=self._now, **told)
        self.tables.promises[promise.namespace, promise.id] = settled
        return settled

    def _finish(self, namespace: str, run_id: str, outcome: Outcome) -> None:
        self.tables.messages[namespace, run_id].clear()
        for promise in list(self.tables.promises.values()):
            if (promise.namespace, promise.run_id) == (namespace, run_id) and (
                promise.state is PromiseState.PENDING
            ):
                self._tell_waiters(self._settle(promise, PromiseState.CANCELLED))
        run = self.tables.runs[namespace, run_id]
        if run.parent_id is not None and run.parent_n is not None:
            self._tell_of_run(namespace, run.parent_id, run.parent_n, run_id, outcome)
        for waiter, n in self._waiters(namespace, "run", run_id):
            self._tell_of_run(namespace, waiter, n, run_id, outcome)

    def _open(self, namespace: str, run_id: str, new: NewPromise) -> None:
        assert new.n is not None
        promise = self.tables.promises.get((namespace, new.id))
        if promise is None:
            self._add_promise(namespace, replace(new, run_id=run_id))
        elif (promise.run_id, promise.n) == (run_id, new.n):
            pass
        elif promise.kind is not new.kind:
            differs = f"it is a {promise.kind.value}, not a {new.kind.value}"
            self._refuse(namespace, run_id, new.n, new.id, PromiseState.REJECTED.value, differs)
        elif self._join(namespace, "promise", new.id, run_id, new.n) and (
            promise.state is not PromiseState.PENDING
        ):
            self._tell_of_promise(promise, run_id, new.n)

    def _close(self, namespace: str, run_id: str, promise_id: str) -> None:
        promise = self.tables.promises.get((namespace, promise_id))
        if promise is not None and promise.run_id == run_id and promise.state is PromiseState.PENDING:
            self._tell_waiters(self._settle(promise, PromiseState.CANCELLED))
        else:
            self._unjoin(namespace, "promise", promise_id, run_id)

    def _start(self, namespace: str, parent_id: str, new: NewRun) -> None:
        run = self.tables.runs.get((namespace, new.id))
        if run is None:
            self._add_run(namespace, new)
        elif new.parent_n is None or (run.parent_id, run.parent_n) == (parent_id, new.parent_n):
            pass
        elif (differs := _difference(run, new)) is not None:
            self._refuse(namespace, parent_id, new.parent_n, new.id, RunState.FAILED.value, differs)
        elif self._join(namespace, "run", new.id, parent_id, new.parent_n) and (
            run.state.is_final and not run.retryable
        ):
            outcome = Outcome(run.state, run.result, run.error)
            self._tell_of_run(namespace, parent_id, new.parent_n, run.id, outcome)

    def _cancel_child(self, namespace: str, parent_id: str, run_id: str) -> None:
        run = self.tables.runs.get((namespace, run_id))
        if run is not None and run.parent_id == parent_id:
            self.cancel(namespace, run_id, None, f"run:{parent_id}")
        else:
            self._unjoin(namespace, "run", run_id, parent_id)

    def _join(self, namespace: str, target: str, target_id: str, run_id: str, n: int) -> bool:
        waiters = self.tables.waiters.setdefault((namespace, target, target_id), set())
        is_new = (run_id, n) not in waiters
        waiters.add((run_id, n))
        return is_new

    def _unjoin(self, namespace: str, target: str, target_id: str, run_id: str) -> None:
        waiters = self.tables.waiters.get((namespace, target, target_id), set())
        waiters -= {waiter for waiter in waiters if waiter[0] == run_id}

    def _waiters(self, namespace: str, target: str, target_id: str) -> list[tuple[str, int]]:
        return sorted(self.tables.waiters.get((namespace, target, target_id), ()))

    # Messages

    def _tell_all(self, promise: Promise) -> None:
        if promise.run_id is not None and promise.n is not None:
            self._tell_of_promise(promise, promise.run_id, promise.n)
        self._tell_waiters(promise)

    def _tell_waiters(self, promise: Promise) -> None:
        for run_id, n in self._waiters(promise.namespace, "promise", promise.id):
            self._tell_of_promise(promise, run_id, n)

    def _tell_of_promise(self, promise: Promise, run_id: str, n: int) -> None:
        self._leave(
            promise.namespace,
            run_id,
            MessageKind.SETTLED,
            n=n,
            name=promise.id,
            state=promise.state.value,
            value=promise.value,
            by=promise.settled_by,
            note=promise.note,
        )

    def _tell_of_run(self, namespace: str, waiter: str, n: int, run_id: str, outcome: Outcome) -> None:
        self._leave(
            namespace,
            waiter,
            MessageKind.SETTLED,
            n=n,
            name=run_id,
            state=outcome.state.value,
            value=outcome.result,
            error=outcome.error,
        )

    def _refuse(self, namespace: str, run_id: str, n: int, name: str, state: str, differs: str) -> None:
        left = self.tables.messages[namespace, run_id]
        if any((each.kind, each.n, each.name) == (MessageKind.SETTLED, n, name) for each in left):
            return
        error = encode_error(IdConflict(name, differs))
        self._leave(namespace, run_id, MessageKind.SETTLED, n=n, name=name, state=state, error=error)

    def _leave(self, namespace: str, run_id: str, kind: MessageKind, **what: Any) -> None:
        run = self.tables.runs.get((namespace, run_id))
        if run is None or (run.ended_at is not None and not run.retryable):
            return
        run = self._change(run, wakes=run.wakes + 1)
        self.commit.woken.add((namespace, run_id))
        if run.state is RunState.READY:
            self.commit.ready.add(namespace)
        if run.state is RunState.PAUSED and run.epoch > 0:
            self._make_ready(run, wake_at=None)
        self.tables.messages[namespace, run_id].append(Message(run.wakes, run_id, kind, self._now, **what))


def _check(write: Write, length: int) -> None:
    """Refuse a write that does not go on where a journal of this length ends, or opens what no call waits for."""
    for seq, entry in enumerate(write.entries, length):
        if entry.seq != seq:
            raise InvalidValue(
                "entries", f"seq {entry.seq} where the journal of {write.run_id!r} goes on at {seq}"
            )
    for new_run in write.starts:
        check_run(new_run)
    for new in write.opens:
        if new.n is None:
            raise InvalidValue("opens", f"promise {new.id!r} does not say which call of the run waits for it")


def _difference(run: Run, new: NewRun) -> str | None:
    if run.workflow != new.workflow:
        return f"it is a run of {run.workflow!r}, not of {new.workflow!r}"
    if not same_json(run.arguments, new.arguments):
        return f"it is a run of {run.workflow!r} with other arguments"
    return None


def _ids(keys: set[Key], namespace: str) -> frozenset[str]:
    return frozenset(id for owner, id in keys if owner == namespace)
