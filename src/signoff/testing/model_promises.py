"""Promises in the model of a store: creating, joining and settling them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound, RequestConflict
from signoff.records import NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.stores.same import same_json
from signoff.testing.model_messages import Messages
from signoff.testing.model_state import State


class Promises:
    """The promises of runs and of callers."""

    def __init__(self, state: State, messages: Messages) -> None:
        self._state = state
        self._tables = state.tables
        self._messages = messages

    def create(self, namespace: str, new: NewPromise, token: str | None = None) -> tuple[Promise, bool]:
        if (namespace, new.id) not in self._tables.promises:
            self._state.remember(namespace, "create_promise", new.id, token)
            return self._add(namespace, replace(new, run_id=None, n=None)), True
        promise = self._tables.promises[namespace, new.id]
        if promise.kind is not new.kind:
            raise IdConflict(new.id, f"it is a {promise.kind.value}, not a {new.kind.value}")
        if promise.run_id is not None:
            raise IdConflict(new.id, f"it belongs to run {promise.run_id!r}")
        return promise, self._state.is_known(namespace, "create_promise", new.id, token)

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
        promise = self._tables.promises.get((namespace, promise_id))
        if promise is None or promise.kind is not kind:
            raise NotFound(kind.value, promise_id)
        if self.is_overdue(promise):
            late = self.time_out(promise)
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
            self._messages.tell_all(settled)
            self._state.remember(namespace, "settle", promise_id, token)
            return settled, True
        if self._state.is_known(namespace, "settle", promise_id, token):
            return promise, True
        if settlement.request_id is not None and promise.request_id == settlement.request_id:
            if promise.state is settlement.state and same_json(promise.value, settlement.value):
                return promise, False
            raise RequestConflict(settlement.request_id, promise_id)
        raise AlreadySettled(promise_id, promise.state.value, promise.settled_by, promise.settled_at)

    def time_out(self, promise: Promise) -> Promise:
        """Settle a promise whose deadline has passed."""
        late = self._settle(promise, PromiseState.TIMED_OUT)
        self._messages.tell_all(late)
        return late

    def is_overdue(self, promise: Promise) -> bool:
        """Whether a promise is pending although its deadline has passed."""
        is_pending = promise.state is PromiseState.PENDING
        return is_pending and promise.due_at is not None and promise.due_at <= self._state.now

    def open(self, namespace: str, run_id: str, new: NewPromise) -> None:
        """Create a promise for a call of a run, or have the call wait for the one there is."""
        assert new.n is not None
        promise = self._tables.promises.get((namespace, new.id))
        if promise is None:
            self._add(namespace, replace(new, run_id=run_id))
        elif (promise.run_id, promise.n) == (run_id, new.n):
            pass
        elif promise.kind is not new.kind:
            differs = f"it is a {promise.kind.value}, not a {new.kind.value}"
            self._messages.refuse(namespace, run_id, new.n, new.id, PromiseState.REJECTED.value, differs)
        elif self._messages.join(namespace, "promise", new.id, run_id, new.n) and (
            promise.state is not PromiseState.PENDING
        ):
            self._messages.tell_of_promise(promise, run_id, new.n)

    def close(self, namespace: str, run_id: str, promise_id: str) -> None:
        """Cancel a promise of a run, or have the run no longer wait for somebody else's."""
        promise = self._tables.promises.get((namespace, promise_id))
        if promise is not None and promise.run_id == run_id and promise.state is PromiseState.PENDING:
            self._cancel(promise)
        else:
            self._messages.unjoin(namespace, "promise", promise_id, run_id)

    def close_all(self, namespace: str, run_id: str) -> None:
        """Cancel the promises of a run that are pending."""
        for promise in list(self._tables.promises.values()):
            if (promise.namespace, promise.run_id) == (namespace, run_id) and (
                promise.state is PromiseState.PENDING
            ):
                self._cancel(promise)

    def _add(self, namespace: str, new: NewPromise) -> Promise:
        promise = Promise(
            namespace,
            new.id,
            new.kind,
            PromiseState.PENDING,
            self._state.now,
            new.run_id,
            new.n,
            new.due_at,
            new.data,
        )
        self._tables.promises[namespace, new.id] = promise
        self._tables.promise_numbers[namespace, new.id] = self._state.next_number()
        self._state.commit.due |= new.due_at is not None
        return promise

    def _cancel(self, promise: Promise) -> None:
        self._messages.tell_waiters(self._settle(promise, PromiseState.CANCELLED))

    def _settle(self, promise: Promise, state: PromiseState, **told: Any) -> Promise:
        settled = replace(promise, state=state, settled_at=self._state.now, **told)
        self._tables.promises[promise.namespace, promise.id] = settled
        return settled
