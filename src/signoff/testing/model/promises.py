"""Promises in the reference model: creating, joining and settling them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound, RequestConflict
from signoff.records import (
    Amendment,
    Due,
    MessageKind,
    NewPromise,
    Promise,
    PromiseKind,
    PromiseState,
    Settlement,
)
from signoff.records.origins import TIMER
from signoff.records.question_text import unpacked
from signoff.stores.contract.tokens import callback_token
from signoff.stores.contract.validation import check_promise
from signoff.stores.shared.equality import may_join, refusal_of, settled_before
from signoff.testing.model.audit import Audit
from signoff.testing.model.messages import Messages
from signoff.testing.model.rules import Rules
from signoff.testing.model.state import State
from signoff.testing.model.tokens import Tokens


class Promises:
    """The promises of runs and of callers."""

    def __init__(self, state: State, messages: Messages, audit: Audit, rules: Rules, tokens: Tokens) -> None:
        self._state = state
        self._tables = state.tables
        self._messages = messages
        self._audit = audit
        self._rules = rules
        self._tokens = tokens

    def create(self, namespace: str, new: NewPromise, token: str | None = None) -> tuple[Promise, bool]:
        check_promise(new)
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
            if settlement.version not in (None, promise.version):
                return promise, False
            self._note_answer(promise, settlement.request_id)
            settled = self._settle_as(promise, settlement)
            self._state.remember(namespace, "settle", promise_id, token)
            return settled, True
        if self._state.is_known(namespace, "settle", promise_id, token):
            return promise, True
        is_repeated = promise.request_id == settlement.request_id
        return settled_before(promise, settlement, is_repeated=is_repeated)

    def amend(
        self, namespace: str, question_id: str, amendment: Amendment, token: str | None = None
    ) -> tuple[Promise, bool]:
        question = self._tables.promises.get((namespace, question_id))
        if question is None or question.kind is not PromiseKind.QUESTION:
            raise NotFound("question", question_id)
        if self._state.is_known(namespace, "amend", question_id, token):
            return question, True
        if self.is_overdue(question):
            return self.time_out(question), False
        if question.state is not PromiseState.PENDING or question.version != amendment.version:
            return question, False
        if not self._rules.allow(namespace, amendment):
            return question, False
        settlement = amendment.settlement
        self._note_answer(question, amendment.request_id or (settlement and settlement.request_id))
        self._state.remember(namespace, "amend", question_id, token)
        self._rules.note(namespace, amendment)
        self._audit.add(namespace, amendment.events)
        question = replace(
            question,
            version=question.version + 1,
            progress=amendment.progress,
            assignees=amendment.assignees,
            act_at=amendment.act_at,
            due_at=question.due_at if amendment.due_at is None else amendment.due_at,
        )
        self._tables.promises[namespace, question_id] = question
        self._state.commit.due |= amendment.act_at is not None or amendment.due_at is not None
        if question.run_id is not None:
            self._state.commit.runs.add((namespace, question.run_id))
        signal = amendment.signal
        if signal is not None:
            details: dict[str, Any] = {"name": signal.name, "value": signal.value, "by": signal.by}
            self._messages.leave(namespace, signal.run_id, MessageKind.SIGNAL, **details)
        if settlement is not None:
            question = self._settle_as(question, settlement)
        return question, True

    def due_questions(self, limit: int) -> tuple[list[Due], float | None]:
        questions = PromiseKind.QUESTION, PromiseState.PENDING
        pending = [each for each in self._tables.promises.values() if (each.kind, each.state) == questions]
        timed = sorted((each.act_at, each.namespace, each.id) for each in pending if each.act_at is not None)
        due = [Due(namespace, id, at) for at, namespace, id in timed if at <= self._state.now]
        return due[:limit], timed[0][0] if timed else None

    def time_out(self, promise: Promise) -> Promise:
        """Settle a promise whose deadline has passed."""
        late = self._settle(promise, PromiseState.TIMED_OUT, origin=TIMER)
        self._messages.notify_all(late)
        return late

    def is_overdue(self, promise: Promise) -> bool:
        """Return whether a promise is pending although its deadline has passed."""
        is_pending = promise.state is PromiseState.PENDING
        return is_pending and promise.due_at is not None and promise.due_at <= self._state.now

    def open(self, namespace: str, run_id: str, new: NewPromise) -> None:
        """Create a promise for a call of a run, or let the call wait for an existing plain promise."""
        assert new.n is not None
        promise = self._tables.promises.get((namespace, new.id))
        if promise is None:
            self._add(namespace, replace(new, run_id=run_id))
        elif (promise.run_id, promise.n) == (run_id, new.n):
            pass
        elif not may_join(new, promise.kind):
            refused = PromiseState.REJECTED.value
            self._messages.refuse(namespace, run_id, new.n, new.id, refused, refusal_of(new))
        elif self._messages.join(namespace, "promise", new.id, run_id, new.n) and (
            promise.state is not PromiseState.PENDING
        ):
            self._messages.notify_of_promise(promise, run_id, new.n)

    def close(self, namespace: str, run_id: str, promise_id: str) -> None:
        """Cancel a run's promise; for another owner's promise, end the run's wait."""
        promise = self._tables.promises.get((namespace, promise_id))
        if promise is not None and promise.run_id == run_id and promise.state is PromiseState.PENDING:
            self._cancel(promise)
        else:
            self._messages.unjoin(namespace, "promise", promise_id, run_id)

    def close_all(self, namespace: str, run_id: str) -> None:
        """Cancel a run's pending promises."""
        for promise in list(self._tables.promises.values()):
            if (promise.namespace, promise.run_id) == (namespace, run_id) and (
                promise.state is PromiseState.PENDING
            ):
                self._cancel(promise)

    def _note_answer(self, promise: Promise, request_id: str | None) -> None:
        """Record which promise a request id has answered, for its execution.

        Raises:
            RequestConflict: The request id was used otherwise.
        """
        namespace, run_id = promise.namespace, promise.run_id
        if request_id is None or run_id is None:
            return
        requests = self._tables.requests
        known = requests.get((namespace, run_id, request_id)) or self._answer_in_session(promise, request_id)
        if known not in (None, (promise.id, None)):
            raise RequestConflict(request_id, promise.id, known[0])
        requests[namespace, run_id, request_id] = (promise.id, None)

    def _answer_in_session(self, promise: Promise, request_id: str) -> tuple[str, str | None] | None:
        """Return the promise and value that a request id has answered in another run of the session."""
        runs, namespace = self._tables.runs, promise.namespace
        session_id = runs[namespace, promise.run_id or ""].session_id
        if session_id is None:
            return None
        for (owner, run_id, id), found in self._tables.requests.items():
            is_answer = (owner, id) == (namespace, request_id) and found[1] is None
            if is_answer and runs[namespace, run_id].session_id == session_id:
                return found
        return None

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
            unpacked(new.data),
            assignees=new.assignees,
            act_at=new.act_at,
        )
        self._tables.promises[namespace, new.id] = promise
        self._tables.promise_numbers[namespace, new.id] = self._state.next_number()
        self._state.commit.due |= new.due_at is not None or new.act_at is not None
        self._audit.record_state(promise)
        callback = callback_token(new)
        if callback is not None and self._tokens.find(callback.hash) is None:
            self._tokens.create(namespace, callback)
        return promise

    def _cancel(self, promise: Promise) -> None:
        self._messages.notify_waiters(self._settle(promise, PromiseState.CANCELLED))

    def _settle_as(self, promise: Promise, settlement: Settlement) -> Promise:
        settled = self._settle(
            promise,
            settlement.state,
            value=settlement.value,
            settled_by=settlement.by,
            note=settlement.note,
            request_id=settlement.request_id,
            origin=settlement.origin,
        )
        self._messages.notify_all(settled)
        return settled

    def _settle(self, promise: Promise, state: PromiseState, **details: Any) -> Promise:
        settled = replace(promise, state=state, settled_at=self._state.now, **details)
        self._tables.promises[promise.namespace, promise.id] = settled
        self._audit.record_state(settled)
        if settled.run_id is None:
            self._state.commit.settled.add(settled.namespace)
        return settled
