"""Operations on questions: decide, view, claim, release, delegate, cancel, reassign, move the deadline.

They first apply changes that are due by time. They are safe for concurrent callers on any store.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    NotFound,
    RequestConflict,
    UnreadableRecord,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import check_texts
from signoff.people.questions.policies import check_deadline
from signoff.people.questions.question import digest_of
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.standing_approvals import search_rules
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewRule,
    NewSignal,
    Promise,
    PromiseKind,
    PromiseState,
    Settlement,
)
from signoff.records.responders import Responder, check_names
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.people")


async def decide(
    store: Store,
    state: QuestionState,
    responder: Responder,
    value: str,
    note: str | None,
    request_id: str | None,
    rule: NewRule | None = None,
    signal: NewSignal | None = None,
) -> Promise:
    """Give an answer that fits the question's form, subject to the question's policy.

    Args:
        store: The question's store.
        state: The question as just read.
        responder: The user who answers.
        value: The answer as JSON.
        note: The user's note.
        request_id: Makes repeating the same answer a success without effect.
        rule: Standing approval to create with it.
        signal: Signal to leave for a run with it.

    Returns:
        The question: settled, or still pending if more approvals are needed.

    Raises:
        NotAllowed, QuestionClaimed, AlreadyVoted: The answer does not count.
        AlreadySettled: It was answered before, or is closed.
        RequestConflict: The request id was used with another value.
        QuestionTooNew: A newer version asked it.
    """
    question = state.question
    settlement = Settlement(PromiseState.RESOLVED, value, responder.user_id, note, request_id)
    while rule is None and signal is None and _is_plain(state):
        made = replace(settlement, version=question.version)
        question, _ = await store.settle(question.id, PromiseKind.QUESTION, made)
        if question.state is not PromiseState.PENDING:
            return question
        state = QuestionState.of(question, state.now)

    def answer(state: QuestionState) -> Amendment | None:
        return state.answer(responder, value, note, request_id, rule, signal)

    try:
        return await _change(store, question, answer)
    except AlreadySettled:
        settled = await store.get_promise(question.id)
        state = QuestionState.of(settled, store.clock.now())
        vote = state.vote_of(responder)
        if vote is not None and request_id is not None and vote.request_id == request_id:
            if vote.approved == json.loads(value)["approved"]:
                return settled
            raise RequestConflict(request_id, question.id) from None
        return (await store.settle(question.id, PromiseKind.QUESTION, settlement))[0]


async def current_state(store: Store, question: Promise) -> QuestionState:
    """Apply what is due for a question, and return its state afterwards. Raises QuestionTooNew, UnreadableRecord."""
    state = QuestionState.of(question, store.clock.now())
    while state.question.state is PromiseState.PENDING:
        overdue = await overdue_amendment(store, state)
        if overdue is None:
            break
        question, _ = await store.amend(question.id, overdue)
        state = QuestionState.of(question, store.clock.now())
    return state


async def bring_up_to_date(store: Store, question: Promise) -> Promise:
    """Apply what is due for a question, and return it as it is afterwards."""
    return (
        (await current_state(store, question)).question
        if question.state is PromiseState.PENDING
        else question
    )


async def _brought_up_if_readable(store: Store, question: Promise) -> Promise:
    """Apply what is due for a question. Return an unreadable one unchanged, so that an operator can withdraw it."""
    try:
        return await bring_up_to_date(store, question)
    except UnreadableRecord:
        return question


async def overdue_amendment(store: Store, state: QuestionState) -> Amendment | None:
    """Return what is due for a question, including the search for standing approvals when it was just asked."""
    overdue = state.overdue()
    if not state.awaits_rules or (overdue is not None and overdue.settlement is not None):
        return overdue
    try:
        return await search_rules(store, state)
    except AccessDenied:  # a worker limited to some groups sees no rules; the server looks
        return overdue


async def view(store: Store, question_id: str, responder: Responder) -> Promise:
    """Return a question to a user who may answer it, and record that they have seen it.

    Raises:
        NotFound, NotAllowed
    """
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, responder.user_id, "view"):
        state = await current_state(store, question)
        state.check_asked(responder)
    question = state.question
    seen = json.dumps({"digest": digest_of(question)})
    new = NewAuditEvent(
        uuid.uuid4().hex, AuditKind.VIEWED, question.id, question.run_id, responder.user_id, seen
    )
    await store.record([new])
    return question


async def claim(store: Store, question_id: str, responder: Responder) -> Promise:
    """Claim a question: until it is released or escalated, only the claimant can answer.

    Raises:
        NotFound, NotAllowed, QuestionClaimed, AlreadySettled
    """
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, responder.user_id, "claim"):
        return await _change(store, question, lambda state: state.claim(responder))


async def release(store: Store, question_id: str, responder: Responder) -> Promise:
    """Give up a claim, so that others can answer again. Raises NotFound, NotAllowed, AlreadySettled."""
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, responder.user_id, "release"):
        return await _change(store, question, lambda state: state.release(responder))


async def delegate(
    store: Store, question_id: str, responder: Responder, to: Sequence[str], note: str | None = None
) -> Promise:
    """Hand a question over to others.

    Args:
        store: The question's store.
        question_id: The question's id.
        responder: The user who delegates. They must be allowed to answer.
        to: New assignees, such as ``["user:bob"]``. The former ones may no longer answer.
        note: The reason.

    Raises:
        NotFound, NotAllowed, QuestionClaimed, AlreadySettled
        InvalidValue: ``to`` is empty, or a name is invalid or excluded.
    """
    check_texts(note=note)
    names = check_names("to", to)
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, responder.user_id, "delegate"):
        return await _change(store, question, lambda state: state.delegate(responder, names, note))


async def cancel(
    store: Store,
    question_id: str,
    by: str | None = None,
    reason: str | None = None,
    request_id: str | None = None,
) -> Promise:
    """Withdraw a question: its run gets ``QuestionCancelled``, and it can no longer be answered.

    Args:
        store: The question's store.
        question_id: The question's id.
        by: The user who withdraws it. They need not be an assignee.
        reason: The reason. The run receives it.
        request_id: Makes a repetition a success without effect.

    Raises:
        NotFound, AlreadySettled
        InvalidValue: A name or a text is invalid.
    """
    check_texts(reason=reason, request_id=request_id)
    settlement = Settlement(
        PromiseState.CANCELLED, by=Responder(by).user_id, note=reason, request_id=request_id
    )
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, settlement.by, "cancel"):
        while True:
            question = await _brought_up_if_readable(store, question)
            made = replace(settlement, version=question.version)
            question, _ = await store.settle(question_id, PromiseKind.QUESTION, made)
            if question.state is not PromiseState.PENDING:
                return question


async def reassign(
    store: Store, question_id: str, to: Sequence[str], by: str | None = None, reason: str | None = None
) -> Promise:
    """Replace the assignees of a question.

    Args:
        store: The question's store.
        question_id: The question's id.
        to: New assignees, such as ``["user:bob"]``. The former ones may no longer answer; their votes stay.
        by: The user who reassigns it. They need not be an assignee.
        reason: The reason.

    Raises:
        NotFound, AlreadySettled
        InvalidValue: ``to`` is empty, a name is invalid or excluded, or there are too few users for the quorum.
    """
    check_texts(reason=reason)
    who, names = Responder(by).user_id, check_names("to", to)
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, who, "reassign"):
        return await _change(store, question, lambda state: state.reassign(who, names, reason))


async def move_deadline(
    store: Store,
    question_id: str,
    timeout_seconds: float,
    by: str | None = None,
    reason: str | None = None,
) -> Promise:
    """Move the deadline of a question.

    Args:
        store: The question's store.
        question_id: The question's id.
        timeout_seconds: New time from now, in seconds of any time, not only of working time.
        by: The user who moves it. They need not be an assignee.
        reason: The reason.

    Raises:
        NotFound, AlreadySettled
        InvalidValue: It has no deadline, or a time, a name or a text is invalid.
    """
    check_texts(reason=reason)
    who, seconds = Responder(by).user_id, check_deadline(timeout_seconds)
    question = await _get(store, question_id)
    async with RefusalRecorder(store, question, who, "move_deadline"):
        return await _change(store, question, lambda state: state.move_deadline(who, seconds, reason))


async def _change(
    store: Store, question: Promise, make: Callable[[QuestionState], Amendment | None]
) -> Promise:
    """Apply what is due for a question, then amend it as ``make`` says. Retries after concurrent changes."""
    while True:
        if question.state is not PromiseState.PENDING:
            raise AlreadySettled(question.id, question.state.value, question.settled_by, question.settled_at)
        state = QuestionState.of(question, store.clock.now())
        overdue = await overdue_amendment(store, state)
        amendment = make(state) if overdue is None else overdue
        if amendment is None:
            return question
        question, done = await store.amend(question.id, amendment)
        if done and overdue is None:
            return question


async def _get(store: Store, question_id: str) -> Promise:
    try:
        question = await store.get_promise(question_id)
    except NotFound:
        raise NotFound("question", question_id) from None
    if question.kind is not PromiseKind.QUESTION:
        raise NotFound("question", question_id)
    return question


def _is_plain(state: QuestionState) -> bool:
    """Whether the question has no policy: any answer that fits its form settles it."""
    return state.policy.is_plain and not (state.question.assignees or state.question.progress)
