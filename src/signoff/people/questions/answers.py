"""Answers: checks an answer against its question, then settles the question once."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Final, cast

from signoff import codec
from signoff.errors import NotFound, RegistrationError
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import (
    check_received,
    check_texts,
    free_text,
    read_value,
    settlement_value,
)
from signoff.people.questions.answer_events import Announcement
from signoff.people.questions.edits import Edit
from signoff.people.questions.policies import Policy
from signoff.people.questions.progress import Vote
from signoff.people.questions.question import Question
from signoff.people.questions.question_operations import current_state, decide
from signoff.people.questions.question_state import TIMEOUT
from signoff.people.questions.standing_approvals import Alike, new_rule, session_of
from signoff.people.schemas.answer_schemas import form_of
from signoff.people.schemas.validation import problems
from signoff.records import Entry, NewRule, NewSignal, Promise, PromiseKind, PromiseState
from signoff.records.responders import Responder
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import CALLBACK

log = own_logger("signoff.people")


@dataclass(frozen=True, slots=True)
class Answer(Mapping[str, Any]):
    """The answer to a question. It is also a mapping of its fields: ``answer["approved"]``, ``{**answer}``.

    ``json.dumps(answer.plain())`` writes it as JSON. ``bool(answer)`` is false for rejected and skipped questions.

    Attributes:
        value: The chosen, written or filled-in value; an instance of ``answer_type`` if the question has one. For an
            approval the same as ``approved``.
        approved: Whether an approval was approved. None for other questions, which is never a yes.
        user_id: The user who answered, if known.
        note: The user's note.
        answered_at: Time of the answer (UTC).
        skipped: Whether the user skipped a skippable question; ``value`` is None then.
        others: The parts of ``value`` that are free texts instead of options.
        proposal: The approved value, for a question with a proposal: as proposed, or as edited. An instance of
            ``proposal_type`` if the question has one. None if it was rejected or skipped.
        edits: Changes made to the proposal; empty if there are none.
        votes: The individual votes, for a question with a quorum.
        timed_out: Whether there was no answer in time, and this is the ``timeout_answer``.
        rule: Id of the standing approval that answered in its creator's name, if one did.
    """

    value: Any
    approved: bool | None
    user_id: str | None
    note: str | None
    answered_at: datetime
    skipped: bool = False
    others: Sequence[str] = ()
    proposal: Any = None
    edits: Sequence[Edit] = ()
    votes: Sequence[Vote] = ()
    timed_out: bool = False
    rule: str | None = None

    @property
    def is_other(self) -> bool:
        """Whether the value contains free text instead of an option."""
        return bool(self.others)

    def __getitem__(self, key: str) -> Any:
        if key not in _FIELDS:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {**self} == {**other}  # like any mapping

    def __hash__(self) -> int:
        return hash(tuple(self.values()))

    def __bool__(self) -> bool:
        return self.approved is not False and not self.skipped  # ``if answer:`` must not pass a rejection

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, or ``default`` if it is None or there is no such field."""
        value = getattr(self, key, None) if key in _FIELDS else None
        return default if value is None else value

    def plain(self) -> dict[str, Any]:
        """Return the fields as plain JSON data: instances become dicts, times become text.

        Example::

            log.info("approved: %s", json.dumps(answer.plain()))
        """
        return json.loads(codec.encode({key: self[key] for key in self}, path="answer", limit=sys.maxsize))


_FIELDS: Final = tuple(field.name for field in fields(Answer))


def read_answer(question: Question, entry: Entry, declared: Any) -> Answer:
    """Build an answer from the journal entry that settled a question. See ``answer_of``."""
    settled = json.loads(entry.details or "{}")
    return answer_of(
        question, declared, value=entry.value, by=settled["by"], note=settled["note"], at=settled["at"]
    )


def answer_of(
    question: Question, declared: Any, *, value: str | None, by: str | None, note: str | None, at: float
) -> Answer:
    """Build an answer from the settlement of a question.

    Args:
        question: The question.
        declared: The type of the form or of the proposal. With None or a JSON Schema, values stay plain data.
        value: The value, as JSON.
        by: The user who answered.
        note: The user's note.
        at: Time of the answer, in unix seconds.

    Raises:
        InvalidValue: The value fits the schema, but the type's own validators reject it.
    """
    kept: Any = json.loads(value or "null")
    answer = Answer(
        value=kept,
        approved=None,
        user_id=None if by in (TIMEOUT, CALLBACK) else by,
        note=note,
        answered_at=datetime.fromtimestamp(at, UTC),
        timed_out=by == TIMEOUT,
    )
    if question.skippable and kept is None:
        return replace(answer, skipped=True)
    match question.input_type:
        case "approval":
            approved = kept["approved"] is True
            proposal = _approved(question, kept.get("proposal"), declared) if approved else None
            edits = kept.get("edits", ()) if approved else ()
            votes = tuple(Vote.of(vote) for vote in kept.get("votes", ()))
            answer = replace(answer, value=approved, approved=approved, votes=votes, rule=kept.get("rule"))
            return replace(answer, proposal=proposal, edits=edits)
        case "select":
            own, value = free_text(kept)
            return replace(answer, value=value, others=(value,) if own else ())
        case "multiselect":
            chosen = [free_text(each) for each in kept]
            others = tuple(value for own, value in chosen if own)
            return replace(answer, value=[value for _, value in chosen], others=others)
        case "form" | "external":
            return replace(answer, value=_instance(kept, declared, "value"))
        case "text":
            return answer


def _approved(question: Question, plain: Any, declared: Any) -> Any:
    if question.proposed is None:
        return _instance(plain, declared, "proposal")
    return question.proposed.approved(plain)


def _instance(plain: Any, declared: Any, path: str) -> Any:
    if plain is None or declared is None or isinstance(declared, dict):
        return plain
    return codec.decode(codec.encode(plain), cast("object", declared), path=path)


async def answer(
    store: Store,
    question_id: str,
    value: Any,
    *,
    user_id: str | None = None,
    groups: Collection[str] = (),
    roles: Collection[str] = (),
    note: str | None = None,
    request_id: str | None = None,
    digest: str | None = None,
    alike: Alike | None = None,
    signal: NewSignal | None = None,
) -> Promise:
    """Check an answer and settle its question with it. With a quorum, count it as a vote.

    Args:
        store: The question's store.
        question_id: The question's id.
        value: A value that fits the question's schema: ``{"approved": true}``, with ``"edited"`` to approve a value
            other than the proposed one; ``True`` and ``False`` are short for a decision. None skips a skippable
            question.
        user_id: The user who answers.
        groups: The user's groups. The caller vouches for them.
        roles: The user's roles; likewise.
        note: The user's note.
        request_id: Makes repeating the same answer a success without effect.
        digest: Digest of the question that the user saw. The answer is refused if the question differs.
        alike: Other questions to approve with it. A repeated answer does not approve more.
        signal: Signal to leave for a run if the answer counts, before the run is notified. A repeated answer
            leaves none.

    Raises:
        NotFound: There is no such question.
        NotAllowed: The user is not an assignee, is excluded, or is unknown. The question stays open.
        QuestionClaimed: Another user has claimed it.
        AlreadyVoted: The user has voted differently.
        WrongAnswer: The value does not fit, or the digest differs. The question stays open.
        AlreadySettled: It was answered before, or is closed.
        RequestConflict: The request id was used with another value.
        NotSerializable: The value is not JSON.
        PayloadTooLarge: The value, with its edits, is over the limit.
        InvalidValue: A text beside the value cannot be kept.
    """
    async with Announcement(store, question_id, user_id) as announcement:
        responder = Responder.of(user_id, groups, roles)
        check_texts(user_id=user_id, note=note, request_id=request_id)
        promise = announcement.question = await _get_promise(store, question_id)
        async with RefusalRecorder(store, promise, user_id, request_id=request_id):
            return await _settle(store, promise, value, responder, note, request_id, digest, alike, signal)


async def _settle(
    store: Store,
    promise: Promise,
    value: Any,
    responder: Responder,
    note: str | None,
    request_id: str | None,
    digest: str | None,
    alike: Alike | None,
    signal: NewSignal | None,
) -> Promise:
    _check_kind(promise)
    asked = Question.of(promise)
    plain = read_value(asked, value)
    state = await current_state(store, promise)
    promise = state.question
    if promise.state is PromiseState.PENDING:  # otherwise ``decide`` raises the right error
        state.check_responder(responder)
        await check_received(promise.id, asked, plain, digest)
    rule: NewRule | None = None
    if alike is not None and promise.state is PromiseState.PENDING:
        session_id = await session_of(store, promise) if alike.session else None
        rule = new_rule(promise, asked, plain, responder, alike, store.clock.now(), session_id)
    text = codec.encode(settlement_value(asked, plain), path="value")
    return await decide(store, state, responder, text, note, request_id, rule, signal)


async def get_question(store: Store, question_id: str) -> Promise:
    """Return a question, open or closed. Raises NotFound."""
    promise = await _get_promise(store, question_id)
    _check_kind(promise)
    return promise


async def _get_promise(store: Store, question_id: str) -> Promise:
    try:
        return await store.get_promise(question_id)
    except NotFound:
        raise NotFound("question", question_id) from None


def _check_kind(promise: Promise) -> None:
    if promise.kind is not PromiseKind.QUESTION:
        raise NotFound("question", promise.id)


def outcome_question(
    step_name: str,
    run_id: str,
    returns: Any,
    *,
    key: str,
    assignees: tuple[str, ...] = (),
    refused: str | None = None,
    shown: Mapping[str, Any] | None = None,
) -> str:
    """Return the data of the question about a step whose outcome is unknown.

    Args:
        step_name: The step's name.
        run_id: The run's id.
        returns: The type of the step's value. A user who reports the step as done enters its value.
        key: The attempt's idempotency key, to look the step up in the other system.
        assignees: Assignees; empty: any user may answer.
        refused: Why the last answer was refused, if one was.
        shown: Additional facts that the step's code has shown.
    """
    result = {} if returns is Any else _schema_or_any(returns)
    needs_result = problems(result, None) != []
    definitions = result.pop("$defs", {})
    metadata = {**(shown or {}), "run_id": run_id, "step": step_name, "idempotency_key": key}
    question = Question.make(
        f"Step {step_name!r} was interrupted: it may or may not have happened. What is true?",
        input_type="form",
        answer_type={
            "type": "object",
            "properties": {
                "action": {
                    "enum": ["retry", "done", "fail"],
                    "description": "retry: run it again; done: it happened, with this result; fail: it did not",
                },
                "result": result,
            },
            "required": ["action"],
            "additionalProperties": False,
            **(_DONE_HAS_RESULT if needs_result else {}),
            "$defs": definitions,
        },
        metadata=metadata if refused is None else {**metadata, "last_answer_refused": refused},
    )
    return question.to_json(Policy(assignees=assignees))


_DONE_HAS_RESULT: Final = {
    "if": {"properties": {"action": {"const": "done"}}, "required": ["action"]},
    "then": {"required": ["result"]},
}


def _schema_or_any(returns: Any) -> dict[str, Any]:
    try:
        return form_of("", "returns", returns)
    except RegistrationError:
        return {}
