"""The state of the reference model: stored data, and the transitions of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signoff.errors import NotFound
from signoff.records import Entry, EntryKind, NewRun, Promise, Run, RunState, Session, TokenKind
from signoff.runtime.clock import Clock
from signoff.testing.model.tables import Commit, Facts, Limits, Tables


class State:
    """All stored data, in all namespaces.

    Args:
        clock: The business time.
        lease_clock: Measures leases.
        lease_seconds: How long a claim or a heartbeat holds a run.

    Attributes:
        tables: The stored data.
        commit: The changes since the last operation.
    """

    def __init__(self, clock: Clock, lease_clock: Clock, lease_seconds: float) -> None:
        self.tables = Tables()
        self.commit = Commit()
        self.clock = clock
        self.lease_clock = lease_clock
        self.lease_seconds = lease_seconds

    @property
    def now(self) -> float:
        return self.clock.now()

    def find_run(self, namespace: str, run_id: str) -> tuple[Run, Facts]:
        """Return a run and its hidden facts.

        Raises:
            NotFound: The run does not exist.
        """
        if (namespace, run_id) not in self.tables.runs:
            raise NotFound("run", run_id)
        return self.tables.runs[namespace, run_id], self.tables.facts[namespace, run_id]

    def add_run(self, namespace: str, new: NewRun) -> Run:
        key = (namespace, new.id)
        number = self.next_number()
        waits = new.session_id is not None and self.active_run(namespace, new.session_id) is not None
        delayed = not waits and new.start_at is not None and new.start_at > self.now
        position = None if new.session_id is None else self._next_position(namespace, new.session_id, number)
        run = Run(
            namespace,
            new.id,
            new.workflow,
            new.group,
            new.arguments,
            RunState.PAUSED if waits or delayed else RunState.READY,
            self.now,
            new.parent_id,
            new.parent_n,
            new.deadline_at,
            wake_at=new.start_at if delayed else None,
            priority=new.priority,
            start_at=new.start_at,
            concurrency_key=new.concurrency_key,
            concurrency_limit=new.concurrency_limit,
            traceparent=new.traceparent,
            started_by=new.started_by,
            session_id=new.session_id,
            position=position,
        )
        self.tables.runs[key], self.tables.facts[key] = run, Facts(number, self.now)
        self.tables.journals[key], self.tables.messages[key] = [], []
        self.commit.runs.add(key)
        if run.state is RunState.READY:
            self.commit.ready.add(namespace)
        self.commit.due |= delayed or new.deadline_at is not None
        return run

    def active_run(self, namespace: str, session_id: str) -> Run | None:
        """Return the active run of a session: the first that has not ended, or may be retried."""
        runs = [
            run
            for run in self.tables.runs.values()
            if (run.namespace, run.session_id) == (namespace, session_id)
            and (run.ended_at is None or run.retryable)
        ]
        return min(runs, key=lambda run: run.position or 0, default=None)

    def pass_turn(self, namespace: str, session_id: str) -> None:
        """Make the next run of a session ready once it is active."""
        run = self.active_run(namespace, session_id)
        if run is None or not run.awaits_turn:
            return
        if run.start_at is not None and run.start_at > self.now:
            self.change(run, wake_at=run.start_at)
            self.commit.due = True
        else:
            self.make_ready(run)

    def _next_position(self, namespace: str, session_id: str, number: int) -> int:
        begun = Session(namespace, session_id, self.now, self.now, 0)
        _, session = self.tables.sessions.get((namespace, session_id), (0, begun))
        position = session.last_position + 1
        changed = replace(session, last_at=self.now, last_position=position)
        self.tables.sessions[namespace, session_id] = (number, changed)
        return position

    def next_number(self) -> int:
        """Return a number for a new item, for the order of lists."""
        self.tables.made += 1
        return self.tables.made

    def add_entry(
        self, run: Run, kind: EntryKind, error: str | None = None, details: str | None = None
    ) -> None:
        journal = self.tables.journals[run.namespace, run.id]
        journal.append(Entry(len(journal), self.now, kind, error=error, details=details))

    def change(self, run: Run, **changes: Any) -> Run:
        """Store changed fields of a run. Every transition of a run goes through this method."""
        changed = self.tables.runs[run.namespace, run.id] = replace(run, **changes)
        self.commit.runs.add((run.namespace, run.id))
        if changed.state is not run.state:
            self._note_free_slot(run)
        return changed

    def make_ready(self, run: Run, **changes: Any) -> None:
        """Add a run to the end of the ready queue."""
        self.tables.facts[run.namespace, run.id].ready_at = self.now
        self.change(run, state=RunState.READY, **changes)
        self.commit.ready.add(run.namespace)

    def let_go(self, run: Run, *, taken_over: bool) -> None:
        """Take a run from its worker."""
        facts = self.tables.facts[run.namespace, run.id]
        takeovers = self.takeovers(run)
        if taken_over:
            takeovers += 1
            facts.takeover_seq = len(self.tables.journals[run.namespace, run.id])
        facts.ready_at = self.now
        state = RunState.PAUSED if run.is_suspended else RunState.READY
        self.change(run, state=state, worker_id=None, lease_until=None, takeovers=takeovers)
        self.commit.ready.add(run.namespace)

    def takeovers(self, run: Run) -> int:
        """Return the takeovers of a run since its journal last grew."""
        key = (run.namespace, run.id)
        return 0 if len(self.tables.journals[key]) > self.tables.facts[key].takeover_seq else run.takeovers

    def _note_free_slot(self, run: Run) -> None:
        """Note that a concurrency slot is free, or its queue has advanced."""
        limits = self.tables.groups.get((run.namespace, run.group), Limits())
        freed = run.state is RunState.RUNNING and limits.max_running is not None
        if freed or run.concurrency_key is not None:
            self.commit.ready.add(run.namespace)

    def lease(self, run: Run, worker_id: str, token: str | None) -> Run:
        """Lease a run to a worker, with a new epoch."""
        self.tables.facts[run.namespace, run.id].claim_token = token
        until = self.lease_clock.now() + self.lease_seconds
        return self.change(
            run, state=RunState.RUNNING, epoch=run.epoch + 1, worker_id=worker_id, lease_until=until
        )

    def delete(self, run: Run) -> None:
        """Delete a run and everything that belongs to it. Its children stay, without a parent."""
        key = (run.namespace, run.id)
        tables = self.tables
        for child in list(tables.runs.values()):
            if (child.namespace, child.parent_id) == key:
                self.change(child, parent_id=None, parent_n=None)
        for promise in list(tables.promises.values()):
            if (promise.namespace, promise.run_id) == key:
                self.delete_promise(promise)
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

    def delete_promise(self, promise: Promise) -> None:
        """Delete a promise and everything that belongs to it, besides its task."""
        key = promise.namespace, promise.id
        del self.tables.promises[key], self.tables.promise_numbers[key]
        self._forget(promise.namespace, promise.id, "create_promise", "settle", "amend")
        self.tables.waiters.pop((promise.namespace, "promise", promise.id), None)
        self._delete_callbacks(promise)

    def _delete_callbacks(self, promise: Promise) -> None:
        tokens = self.tables.tokens
        for name, token in list(tokens.items()):
            of = (token.namespace, token.question_id)
            if token.kind is TokenKind.CALLBACK and of == (promise.namespace, promise.id):
                del tokens[name], self.tables.token_numbers[name]

    def remember(self, namespace: str, operation: str, id: str, token: str | None) -> None:
        """Record that the operation with this token has been done."""
        if token is not None:
            self.tables.calls.add((namespace, operation, id, token))

    def is_known(self, namespace: str, operation: str, id: str, token: str | None) -> bool:
        """Return whether the operation with this token has been done, and its reply was lost."""
        return token is not None and (namespace, operation, id, token) in self.tables.calls

    def _forget(self, namespace: str, id: str, *operations: str) -> None:
        known = {token for token in self.tables.calls if (token[0], token[2]) == (namespace, id)}
        self.tables.calls -= {token for token in known if token[1] in operations}
