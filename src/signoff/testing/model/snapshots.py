"""Snapshots in the reference model: runs with all their data, read and created at once."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from signoff.records import NewAuditEvent, Promise, PromiseState, Run, RunState, Session
from signoff.stores.contract.snapshots import (
    Joined,
    Saved,
    SavedRequest,
    SavedRun,
    loaded_run,
    taken_promise,
    taken_run,
    taken_session,
)
from signoff.testing.model.audit import Audit
from signoff.testing.model.state import State
from signoff.testing.model.tables import Facts


class Snapshots:
    """Saves and loads runs."""

    def __init__(self, state: State, audit: Audit) -> None:
        self._state = state
        self._tables = state.tables
        self._audit = audit

    def save_run(self, namespace: str, run_id: str) -> Saved:
        runs: list[SavedRun] = []
        left = deque([run_id])
        while left:
            saved = self._read(namespace, left.popleft())
            runs.append(saved)
            left.extend(self._open_children(saved.run))
        shared: dict[str, Promise] = {}
        for saved in runs:
            for joined in saved.awaited():
                promise = self._tables.promises.get((namespace, joined.id))
                if joined.target == "promise" and promise is not None and promise.run_id is None:
                    shared[promise.id] = promise
        return Saved(tuple(runs), tuple(shared.values()))

    def load_run(self, namespace: str, saved: Saved, event: NewAuditEvent) -> Run:
        if any((each.namespace, each.id) == (namespace, event.id) for each in self._tables.audit):
            return self._tables.runs[namespace, saved.id]
        saved = saved.within(namespace)
        firsts = saved.sessions()
        self._check(namespace, saved, firsts)
        for each in saved.by_position():
            self._add(each, firsts.get(each.run.session_id or ""))
            for promise in each.promises:
                self._add_promise(promise)
        for promise in saved.promises:
            self._add_promise(promise)
        self._audit.add(namespace, [event])
        self._state.commit.due = True
        return self._tables.runs[namespace, saved.id]

    def _read(self, namespace: str, run_id: str) -> SavedRun:
        run, facts = self._state.find_run(namespace, run_id)
        key = (namespace, run_id)
        requests = [
            SavedRequest(run_id, request[2], *request_details)
            for request, request_details in sorted(self._tables.requests.items())
            if request[:2] == key
        ]
        joined = [
            Joined("run" if target == "run" else "promise", id, n)
            for (owner, target, id), waiters in self._tables.waiters.items()
            for waiter, n in waiters
            if (owner, waiter) == key
        ]
        return SavedRun(
            run,
            tuple(self._tables.journals[key]),
            tuple(
                promise
                for promise in self._tables.promises.values()
                if (promise.namespace, promise.run_id) == key
            ),
            tuple(self._tables.messages[key]),
            tuple(requests),
            tuple(sorted(joined, key=lambda each: each.n)),
            cancel_asked=facts.cancel_asked,
            deadline_passed=facts.deadline_passed,
        )

    def _open_children(self, parent: Run) -> list[str]:
        return [
            run.id
            for run in self._tables.runs.values()
            if (run.namespace, run.parent_id) == (parent.namespace, parent.id)
            and run.parent_n is not None
            and (run.ended_at is None or run.retryable)
        ]

    def _check(self, namespace: str, saved: Saved, firsts: dict[str, str]) -> None:
        for session_id, first in firsts.items():
            if self._state.active_run(namespace, session_id) is not None:
                raise taken_session(first, session_id)
        for each in saved.by_position():
            if (namespace, each.id) in self._tables.runs:
                raise taken_run(each.id)
            for promise in each.promises:
                if (namespace, promise.id) in self._tables.promises:
                    raise taken_promise(saved.id, promise.id)
        for promise in saved.promises:
            if (namespace, promise.id) in self._tables.promises:
                raise taken_promise(saved.id, promise.id)

    def _add(self, saved: SavedRun, first_of_session: str | None) -> None:
        run = loaded_run(saved, first_of_session, self._state.now)
        key = (run.namespace, run.id)
        number = self._state.next_number()
        if run.session_id is not None:
            run = replace(run, position=self._place(run, run.session_id, number))
        self._tables.runs[key] = run
        self._tables.facts[key] = Facts(number, self._state.now, saved.cancel_asked, saved.deadline_passed)
        self._tables.journals[key] = list(saved.entries)
        self._tables.messages[key] = list(saved.messages)
        for request in saved.requests:
            self._tables.requests[*key, request.request_id] = (request.name, request.value)
        for joined in saved.awaited():
            waiters = self._tables.waiters.setdefault((run.namespace, joined.target, joined.id), set())
            waiters.add((run.id, joined.n))
        self._state.commit.runs.add(key)
        if run.state is RunState.READY:
            self._state.commit.ready.add(run.namespace)

    def _place(self, run: Run, session_id: str, number: int) -> int:
        now = self._state.now
        begun = Session(run.namespace, session_id, now, now, 0)
        _, session = self._tables.sessions.get((run.namespace, session_id), (0, begun))
        position = max(run.position or 0, session.last_position + 1)
        changed = replace(session, last_at=now, last_position=position)
        self._tables.sessions[run.namespace, session_id] = (number, changed)
        return position

    def _add_promise(self, promise: Promise) -> None:
        key = (promise.namespace, promise.id)
        self._tables.promises[key] = promise
        self._tables.promise_numbers[key] = self._state.next_number()
        if promise.state is PromiseState.PENDING:
            self._audit.record_state(promise)
