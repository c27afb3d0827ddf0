"""The reference model of the store contract in plain Python, without any storage technique.

Every store is compared with it, and ``MemoryStore`` wraps it. Each operation checks first and changes afterwards, so
that it happens completely or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from signoff.codec import encode_error
from signoff.errors import (
    CircularWait,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    RequestConflict,
    RunCancelled,
    RunTerminated,
    RunTimeout,
    SignoffError,
)
from signoff.records import (
    EntryKind,
    MessageKind,
    NewAuditEvent,
    NewRun,
    Promise,
    PromiseState,
    Run,
    RunState,
)
from signoff.runtime.clock import Clock
from signoff.stores.contract import retries
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.validation import check_promise, check_run
from signoff.stores.shared.equality import OTHER_ACTIVE, difference, same_json
from signoff.stores.shared.settled_promises import after as settled_after
from signoff.stores.shared.settled_promises import callers_of, place_of
from signoff.stores.shared.wait_cycles import cycle_of
from signoff.testing.model.audit import Audit
from signoff.testing.model.checkpoints import Checkpoints
from signoff.testing.model.groups import Groups
from signoff.testing.model.live import Live
from signoff.testing.model.messages import Messages
from signoff.testing.model.outbox import Outbox
from signoff.testing.model.promise_schedules import PromiseSchedules
from signoff.testing.model.promises import Promises
from signoff.testing.model.rules import Rules
from signoff.testing.model.schedules import Schedules
from signoff.testing.model.snapshots import Snapshots
from signoff.testing.model.state import State
from signoff.testing.model.tables import Commit
from signoff.testing.model.task_states import TaskStates
from signoff.testing.model.tasks import Tasks
from signoff.testing.model.timers import Timers
from signoff.testing.model.tokens import Tokens
from signoff.testing.model.workers import Workers
from signoff.testing.model.workflows import Workflows


class Model:
    """A store in memory with all namespaces: its runs and leases. Other nouns are attributes.

    Args:
        clock: The business time.
        lease_clock: Measures leases.
        lease_seconds: How long a claim or a heartbeat holds a run.

    Attributes:
        state: All stored data, and the changes since ``take_commit``.
        tables: The tables of the state.
        audit: The contract's operations on the audit trail.
        rules: The contract's operations on rules.
        promises: The contract's operations on promises.
        groups: The contract's operations on groups.
        workers: The contract's operations on workers and their leases.
        schedules: The contract's operations on schedules.
        promise_schedules: The contract's operations on schedules of promises.
        checkpoints: The contract's operations on checkpoints.
        tokens: The contract's operations on tokens.
        workflows: The contract's operations on the list of workflows.
        live: The contract's operations on live text.
        outbox: The contract's operations on notifications.
        snapshots: The contract's operations on snapshots.
        timers: Due deadlines, timers and leases.
    """

    def __init__(self, clock: Clock, lease_clock: Clock, lease_seconds: float) -> None:
        self.state = State(clock, lease_clock, lease_seconds)
        self.tables = self.state.tables
        self._task_states = TaskStates(self.state)
        self._messages = Messages(self.state, self._task_states)
        self.audit = Audit(self.state)
        self.rules = Rules(self.state, self.audit)
        self.tokens = Tokens(self.state)
        self.promises = Promises(self.state, self._messages, self.audit, self.rules, self.tokens)
        self.groups = Groups(self.state)
        self.workers = Workers(self.state, self.groups)
        self.schedules = Schedules(self.state)
        self.promise_schedules = PromiseSchedules(self.state)
        self.checkpoints = Checkpoints(self.state)
        self.workflows = Workflows(self.state)
        self.live = Live(self.state)
        self.outbox = Outbox(self.state)
        self.snapshots = Snapshots(self.state, self.audit)
        self.tasks = Tasks(self.state, self.promises, self._task_states)
        self.timers = Timers(self.state, self._messages, self.promises, self.tasks, self._expire)

    def take_commit(self) -> Commit | None:
        """Return the changes since the last call, if a listener needs them."""
        commit = self.state.commit
        if not (commit.runs or commit.due or commit.ready or commit.settled):
            return None
        self.state.commit = Commit()
        return commit

    # Runs

    def create_run(self, namespace: str, new: NewRun, token: str | None = None) -> tuple[Run, bool]:
        check_run(new)
        if (namespace, new.id) not in self.tables.runs:
            self.state.remember(namespace, "create_run", new.id, token)
            return self.state.add_run(namespace, new), True
        run = self.tables.runs[namespace, new.id]
        differs = difference(run, new)
        if differs is not None:
            raise IdConflict(new.id, differs)
        return run, self.state.is_known(namespace, "create_run", new.id, token)

    def cancel(self, namespace: str, run_id: str, reason: str | None = None, by: str | None = None) -> Run:
        run, facts = self.state.find_run(namespace, run_id)
        if (run.epoch == 0 and run.ended_at is None) or run.retryable:
            self._end(run, RunState.CANCELLED, encode_error(RunCancelled(run_id, reason)))
        elif not facts.cancel_asked and run.ended_at is None:
            facts.cancel_asked = True
            self._messages.leave(namespace, run_id, MessageKind.CANCEL, by=by, note=reason)
        return self.state.find_run(namespace, run_id)[0]

    def retry(
        self,
        namespace: str,
        run_id: str,
        how: retries.Retry | None = None,
        event: NewAuditEvent | None = None,
        token: str | None = None,
    ) -> Run:
        run, facts = self.state.find_run(namespace, run_id)
        if self.state.is_known(namespace, "retry", run_id, token):
            return run
        events = [] if event is None else [event]
        if event is not None and self._is_recorded(namespace, event):
            return run
        if run.is_suspended:
            resumed = self._resume(run)
            self.audit.record(namespace, events)
            return resumed
        if not retries.may_retry(run, how):
            raise InvalidState(run_id, run.state.value, "retry")
        if run.retryable:
            how = None
        elif run.session_id is not None and self.state.active_run(namespace, run.session_id) is not None:
            raise InvalidState(run_id, run.state.value, "retry", OTHER_ACTIVE)
        self.state.remember(namespace, "retry", run_id, token)
        facts.ready_at = self.state.now
        self.state.add_entry(run, EntryKind.RETRIED, details=retries.details_of(token, how))
        self.state.commit.ready.add(namespace)
        is_late = not run.retryable and run.deadline_at is not None and run.deadline_at <= self.state.now
        run = self.state.change(
            run,
            state=RunState.READY,
            retryable=False,
            ended_at=None,
            error=None,
            takeovers=0,
            deadline_at=None if is_late else run.deadline_at,
        )
        self.state.commit.due |= run.deadline_at is not None
        for n in () if how is None else how.open:
            self._notify_again(run, n)
        self.audit.record(namespace, events)
        return self.state.find_run(namespace, run_id)[0]

    def suspend(
        self,
        namespace: str,
        run_id: str,
        event: NewAuditEvent,
        reason: str | None = None,
        epoch: int | None = None,
    ) -> Run:
        run, _ = self.state.find_run(namespace, run_id)
        if epoch is not None and (run.epoch, run.state) != (epoch, RunState.RUNNING):
            if run.epoch == epoch and run.is_suspended:
                return run
            raise LeaseLost(run_id, epoch)
        if run.ended_at is not None:
            raise InvalidState(run_id, run.state.value, "suspend")
        if run.is_suspended:
            return run
        suspension = {"suspended_at": self.state.now, "suspended_by": event.by, "suspended_reason": reason}
        if run.state is not RunState.RUNNING or epoch is not None:
            gone = {"state": RunState.PAUSED, "worker_id": None, "lease_until": None}
            self.state.change(run, **suspension, **gone, wake_at=None)
        else:
            self.state.change(run, **suspension)
            self._messages.leave(namespace, run_id, MessageKind.SUSPEND, by=event.by, note=reason)
        self.audit.record(namespace, [event])
        return self.state.find_run(namespace, run_id)[0]

    def resume(self, namespace: str, run_id: str, event: NewAuditEvent) -> Run:
        run, _ = self.state.find_run(namespace, run_id)
        if run.ended_at is not None:
            raise InvalidState(run_id, run.state.value, "resume")
        if not run.is_suspended:
            return run
        self.audit.record(namespace, [event])
        return self._resume(run)

    def terminate(self, namespace: str, run_id: str, event: NewAuditEvent, reason: str | None = None) -> Run:
        run, _ = self.state.find_run(namespace, run_id)
        if run.ended_at is not None and not run.retryable:
            if self._is_recorded(namespace, event):
                return run
            raise InvalidState(run_id, run.state.value, "terminate")
        error = encode_error(RunTerminated(run_id, reason))
        self._end(
            run,
            RunState.CANCELLED,
            error,
            json.dumps({"by": event.by, "reason": reason}, separators=(",", ":")),
        )
        self._give_up(namespace, run_id)
        self.audit.record(namespace, [event])
        return self.state.find_run(namespace, run_id)[0]

    def _give_up(self, namespace: str, run_id: str) -> None:
        self.live.delete(namespace, run_id)
        self._messages.unjoin_all(namespace, run_id)
        for child in list(self.tables.runs.values()):
            is_child = (child.namespace, child.parent_id) == (
                namespace,
                run_id,
            ) and child.parent_n is not None
            if is_child and (child.ended_at is None or child.retryable):
                self.cancel(namespace, child.id, None, f"run:{run_id}")

    def _is_recorded(self, namespace: str, event: NewAuditEvent) -> bool:
        return any((known.namespace, known.id) == (namespace, event.id) for known in self.tables.audit)

    def _resume(self, run: Run) -> Run:
        left = self.tables.messages[run.namespace, run.id]
        left[:] = [message for message in left if message.kind is not MessageKind.SUSPEND]
        self.tables.facts[run.namespace, run.id].ready_at = self.state.now
        run = self.state.change(run, takeovers=0, suspended_at=None, suspended_by=None, suspended_reason=None)
        if run.state is not RunState.PAUSED:
            return run
        waits = run.session_id is not None and (
            (active := self.state.active_run(run.namespace, run.session_id)) is not None
            and active.id != run.id
        )
        if run.epoch == 0 and waits:
            return run
        if run.epoch == 0 and run.start_at is not None and run.start_at > self.state.now:
            self.state.commit.due = True
            return self.state.change(run, wake_at=run.start_at)
        self.state.make_ready(run)
        return self.state.find_run(run.namespace, run.id)[0]

    def _notify_again(self, run: Run, n: int) -> None:
        settled = [
            promise
            for promise in self.tables.promises.values()
            if (promise.namespace, promise.run_id, promise.n) == (run.namespace, run.id, n)
            and promise.state is not PromiseState.PENDING
        ]
        for promise in settled[-1:]:
            self._messages.notify_of_promise(promise, run.id, n)
        for child in list(self.tables.runs.values()):
            if (child.namespace, child.parent_id, child.parent_n) == (run.namespace, run.id, n) and (
                child.ended_at is not None and not child.retryable
            ):
                outcome = Outcome(child.state, child.result, child.error)
                self._messages.notify_of_run(run.namespace, run.id, n, child.id, outcome)

    def _expire(self, run: Run) -> None:
        self._end(run, RunState.FAILED, encode_error(RunTimeout(run.id)))
        self._give_up(run.namespace, run.id)

    def _end(self, run: Run, state: RunState, error: str, details: str | None = None) -> None:
        """End a run without running its code."""
        self.state.change(
            run,
            state=state,
            retryable=False,
            error=error,
            ended_at=self.state.now,
            wake_at=None,
            worker_id=None,
            lease_until=None,
            suspended_at=None,
            suspended_by=None,
            suspended_reason=None,
        )
        self.state.commit.ended.add((run.namespace, run.id))
        kind = EntryKind.CANCELLED if state is RunState.CANCELLED else EntryKind.FAILED
        self.state.add_entry(run, kind, error, details)
        self._finish(run.namespace, run.id, Outcome(state, error=error))

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
        if self.state.is_known(namespace, "signal", run_id, token):
            return True
        request = (namespace, run_id, request_id or "")
        if request_id is not None and request in self.tables.requests:
            known, value_then = self.tables.requests[request]
            if value_then is None:
                raise RequestConflict(request_id, run_id, known)
            if known != name or not same_json(value_then, value):
                raise RequestConflict(request_id, run_id)
            return False
        run, _ = self.state.find_run(namespace, run_id)
        if run.ended_at is not None and not run.retryable:
            raise InvalidState(run_id, run.state.value, "signal")
        if request_id is not None:
            self.tables.requests[request] = (name, value)
        self.state.remember(namespace, "signal", run_id, token)
        self._messages.leave(namespace, run_id, MessageKind.SIGNAL, name=name, value=value, by=by)
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
            run = min(ended, key=lambda run: run.ended_at or 0.0)
            for key, promise in self.tables.promises.items():
                if (promise.namespace, promise.run_id) == (run.namespace, run.id):
                    self._task_states.delete(key)
            self.state.delete(run)
        return limit

    def delete_settled(
        self, namespace: str, before: float, limit: int, after: str | None = None
    ) -> tuple[int, str | None]:
        place = place_of(after)
        places = {
            (promise.settled_at, self.tables.promise_numbers[key]): promise
            for key, promise in self.tables.promises.items()
            if promise.namespace == namespace
            and promise.run_id is None
            and promise.settled_at is not None
            and promise.settled_at < before
        }
        examined = [each for each in sorted(places) if each > place][:limit]
        unused = [places[each] for each in examined if not self._is_kept(places[each])]
        for promise in unused:
            self._task_states.delete((namespace, promise.id))
            self.state.delete_promise(promise)
        return len(unused), settled_after(examined[-1]) if examined and len(examined) == limit else None

    def _is_kept(self, promise: Promise) -> bool:
        key = promise.namespace, promise.id
        if key in self.tables.runs or self.tables.waiters.get((promise.namespace, "promise", promise.id)):
            return True
        branches = {each[1] for each in self.tables.promise_branches if (each[0], each[2]) == key}
        callers = [
            self.tables.promises.get((promise.namespace, caller))
            for caller in {*branches, *callers_of(promise.id)}
        ]
        return any(caller is not None and caller.state is PromiseState.PENDING for caller in callers)

    # Operations of a lease's holder

    def append(self, namespace: str, write: Write) -> None:
        self._write(namespace, write)

    def pause(self, namespace: str, write: Write, wakes: int, wake_at: float | None) -> bool:
        is_new = self._write(namespace, write)
        run, _ = self.state.find_run(namespace, write.run_id)
        if not is_new and run.state is not RunState.RUNNING:
            return True
        if is_new:
            self.live.delete(namespace, run.id)
        if run.wakes != wakes and not run.is_suspended:
            return False
        wake_at = None if run.is_suspended else wake_at
        self.state.change(
            run,
            state=RunState.PAUSED,
            wake_at=wake_at,
            worker_id=None,
            lease_until=None,
            takeovers=self.state.takeovers(run),
        )
        self.state.commit.due |= wake_at is not None
        return True

    def complete(self, namespace: str, write: Write, outcome: Outcome) -> None:
        if not outcome.state.is_final:
            raise InvalidValue("outcome.state", f"{outcome.state.value} is not an end")
        if not self._write(namespace, write):
            return
        self.live.delete(namespace, write.run_id)
        run, _ = self.state.find_run(namespace, write.run_id)
        self.state.change(
            run,
            state=outcome.state,
            result=outcome.result,
            error=outcome.error,
            retryable=outcome.retryable,
            ended_at=self.state.now,
            worker_id=None,
            lease_until=None,
            suspended_at=None,
            suspended_by=None,
            suspended_reason=None,
        )
        self.state.commit.ended.add((namespace, run.id))
        if not outcome.retryable:
            self._finish(namespace, run.id, outcome)

    # Internal

    def _write(self, namespace: str, write: Write) -> bool:
        """Apply a write. Returns whether it is new."""
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
            self.state.commit.runs.add((namespace, run.id))
        left = self.tables.messages[namespace, run.id]
        left[:] = [message for message in left if message.id not in write.taken]
        for promise in write.opens:
            self.promises.open(namespace, run.id, promise)
        for promise_id in write.closes:
            self.promises.close(namespace, run.id, promise_id)
        for child in write.starts:
            self._start(namespace, run.id, child)
        for child_id in write.cancels:
            self._cancel_child(namespace, run.id, child_id)
        if write.first_seq is not None:
            self.state.change(self.state.find_run(namespace, run.id)[0], first_seq=write.first_seq)
        for n in write.unpublishes:
            self.live.delete_of_call(namespace, run.id, n)
        return True

    def _start(self, namespace: str, parent_id: str, new: NewRun) -> None:
        run = self.tables.runs.get((namespace, new.id))
        if run is None:
            self.state.add_run(namespace, new)
        elif new.parent_n is None or (run.parent_id, run.parent_n) == (parent_id, new.parent_n):
            pass
        elif (differs := difference(run, new)) is not None:
            conflict = IdConflict(new.id, differs)
            self._refuse(namespace, parent_id, new.parent_n, new.id, conflict)
        elif not (run.state.is_final and not run.retryable) and (
            cycle := cycle_of(parent_id, new.id, lambda id: self._waiting_for(namespace, id))
        ):
            self._refuse(namespace, parent_id, new.parent_n, new.id, CircularWait(cycle))
        elif self._messages.join(namespace, "run", new.id, parent_id, new.parent_n) and (
            run.state.is_final and not run.retryable
        ):
            outcome = Outcome(run.state, run.result, run.error)
            self._messages.notify_of_run(namespace, parent_id, new.parent_n, run.id, outcome)

    def _refuse(self, namespace: str, parent_id: str, n: int, run_id: str, error: SignoffError) -> None:
        self._messages.refuse(namespace, parent_id, n, run_id, RunState.FAILED.value, error)

    def _waiting_for(self, namespace: str, run_id: str) -> set[str]:
        run = self.tables.runs[namespace, run_id]
        waiting = {waiter for waiter, _ in self._messages.waiters(namespace, "run", run_id)}
        if run.parent_id is not None and run.parent_n is not None:
            waiting.add(run.parent_id)
        found = (self.tables.runs.get((namespace, id)) for id in waiting)
        return {each.id for each in found if each is not None and (each.ended_at is None or each.retryable)}

    def _cancel_child(self, namespace: str, parent_id: str, run_id: str) -> None:
        run = self.tables.runs.get((namespace, run_id))
        if run is not None and run.parent_id == parent_id:
            self.cancel(namespace, run_id, None, f"run:{parent_id}")
        else:
            self._messages.unjoin(namespace, "run", run_id, parent_id)

    def _finish(self, namespace: str, run_id: str, outcome: Outcome) -> None:
        self.tables.messages[namespace, run_id].clear()
        self.promises.close_all(namespace, run_id)
        run = self.tables.runs[namespace, run_id]
        if run.parent_id is not None and run.parent_n is not None:
            self._messages.notify_of_run(namespace, run.parent_id, run.parent_n, run_id, outcome)
        for waiter, n in self._messages.waiters(namespace, "run", run_id):
            self._messages.notify_of_run(namespace, waiter, n, run_id, outcome)
        if run.session_id is not None:
            self.state.pass_turn(namespace, run.session_id)


def _check(write: Write, length: int) -> None:
    """Check that a write continues a journal of this length, and opens promises for calls only.

    Raises:
        InvalidValue: It does not.
    """
    for seq, entry in enumerate(write.entries, length):
        if entry.seq != seq:
            raise InvalidValue(
                "entries", f"seq {entry.seq} where the journal of {write.run_id!r} goes on at {seq}"
            )
    for new_run in write.starts:
        check_run(new_run)
    for new in write.opens:
        check_promise(new)
        if new.n is None:
            raise InvalidValue("opens", f"promise {new.id!r} does not say which call of the run waits for it")
