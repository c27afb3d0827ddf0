"""An answer: checked against its question before anything is consumed, then settled once."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from signoff import codec, telemetry
from signoff.errors import NotFound, RegistrationError, SignoffError, WrongAnswer
from signoff.people.questions import Question, form_schema
from signoff.people.schemas import problems
from signoff.records import Entry, Promise, PromiseKind, PromiseState, Run, Settlement
from signoff.stores.base import Store
from signoff.telemetry import AnswerGiven
from signoff.traceparent import traceparent_of

log = logging.getLogger("signoff.people")

READ_SECONDS: Final = 1.0
"""How long an answer waits for what subscribers are told of its run."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What settled a question.

    Attributes:
        value: What was chosen, written or filled in; an instance of ``answer_type`` if there is one.
        approved: For an approval: whether it was approved. None for other questions, which is never a yes.
        user_id: Who answered, if they said.
        note: What they added in words.
        answered_at: When (UTC).
        skipped: Whether they skipped a skippable question; ``value`` is None then.

    ``answer["approved"]`` and ``answer.get("note", "")`` read the same fields.
    """

    value: Any
    approved: bool | None
    user_id: str | None
    note: str | None
    answered_at: datetime
    skipped: bool = False

    def __getitem__(self, key: str) -> Any:
        if key not in self.__slots__:
            raise KeyError(key)
        return getattr(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field, or ``default`` if it is None or there is none of that name."""
        value = getattr(self, key, None) if key in self.__slots__ else None
        return default if value is None else value


def read_answer(question: Question, entry: Entry, answer_type: Any) -> Answer:
    """Make an answer of the journal entry that settled ``question``."""
    value: Any = json.loads(entry.value or "null")
    skipped = question.skippable and entry.value in (None, "null")
    approved: bool | None = None
    if question.input_type == "approval" and not skipped:
        value = approved = value["approved"] is True
    elif question.input_type == "form" and not skipped and not isinstance(answer_type, dict):
        value = codec.decode(entry.value or "null", answer_type)
    settled = json.loads(entry.details or "{}")
    return Answer(
        value=value,
        approved=approved,
        user_id=settled["by"],
        note=settled["note"],
        answered_at=datetime.fromtimestamp(settled["at"], UTC),
        skipped=skipped,
    )


async def answer(
    store: Store,
    question_id: str,
    value: Any,
    *,
    user_id: str | None = None,
    note: str | None = None,
    request_id: str | None = None,
    digest: str | None = None,
) -> Promise:
    """Check an answer and settle its question with it.

    Args:
        store: Where the question is.
        question_id: The question.
        value: ``{"approved": true}`` or ``true`` for an approval, else what the question's schema describes; None
            skips a skippable question.
        user_id: Who answers.
        note: What they add in words.
        request_id: Makes a repetition of this very answer a success without effect.
        digest: What the answerer saw; refused if the question is another one.

    Raises:
        NotFound: There is no such question.
        WrongAnswer: The value does not fit, or the digest is another. The question stays open.
        AlreadySettled: Somebody was first, or it is closed.
        RequestConflict: The request id was used with another value.
    """
    began = time.perf_counter()
    promise: Promise | None = None
    try:
        promise = await _get_promise(store, question_id)
        settled = await _settle(store, promise, value, user_id, note, request_id, digest)
    except SignoffError as error:
        seconds = time.perf_counter() - began
        await _announce(store, question_id, promise, user_id, type(error).__name__, seconds)
        raise
    await _announce(store, question_id, promise, user_id, "accepted", time.perf_counter() - began)
    return settled


async def _announce(
    store: Store,
    question_id: str,
    promise: Promise | None,
    user_id: str | None,
    outcome: str,
    seconds: float,
) -> None:
    """Tell subscribers of an answer, with what is known of its run."""
    if not telemetry.subscribers:
        return
    run: Run | None = None
    if promise is not None and promise.run_id is not None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                run = await store.get_run(promise.run_id)
        except Exception:  # the answer stands, whatever became of the store
            log.debug("telling of answer %s (%s), not of its run", question_id, outcome, exc_info=True)
    given = AnswerGiven(
        store.namespace,
        question_id,
        None if run is None else run.id,
        None if run is None else run.workflow,
        None if run is None else traceparent_of(run.namespace, run.id, run.traceparent),
        user_id,
        outcome,
        seconds,
    )
    telemetry.announce(given)


async def _settle(
    store: Store,
    promise: Promise,
    value: Any,
    user_id: str | None,
    note: str | None,
    request_id: str | None,
    digest: str | None,
) -> Promise:
    _check_kind(promise)
    asked = Question.from_json(promise.data or "null")
    plain = _as_asked(asked, json.loads(codec.encode(value, path="value")))
    if promise.state is PromiseState.PENDING:  # else ``settle`` says what became of it
        check_answer(promise.id, asked, plain, digest)
    text = codec.encode(plain, path="value")
    settlement = Settlement(PromiseState.RESOLVED, text, by=user_id, note=note, request_id=request_id)
    settled, _ = await store.settle(promise.id, PromiseKind.QUESTION, settlement)
    return settled


def _as_asked(question: Question, value: object) -> object:
    """Give a bare decision the form that an approval's schema asks for."""
    skips = value is None and question.skippable
    bare = question.input_type == "approval" and not isinstance(value, dict)
    return {"approved": value} if bare and not skips else value  # pyright: ignore[reportUnknownVariableType]


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


def check_answer(question_id: str, question: Question, value: Any, digest: str | None = None) -> None:
    """Raise WrongAnswer, naming each field that is wrong, unless the question accepts ``value``."""
    if digest is not None and digest != question.digest:
        raise WrongAnswer(
            question_id, [("digest", "what you saw is not what is asked; look at the question again")]
        )
    if value is None and question.skippable:
        return
    if _plainly_fits(question, value):
        return
    wrong = problems(question.answer_schema, value)
    if wrong:
        raise WrongAnswer(question_id, wrong)


def _plainly_fits(question: Question, value: Any) -> bool:
    """Whether a simple question accepts a simple answer. A no is for the schema's validator to explain."""
    match question.input_type:
        case "approval":
            return type(value) is dict and value.keys() == {"approved"} and type(value["approved"]) is bool  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        case "text":
            return type(value) is str and value != ""
        case "select":
            return type(value) is str and any(value == option["value"] for option in question.options)
        case _:
            return False


def unclear_outcome(step_name: str, run_id: str, returns: Any) -> str:
    """Return the data of the question about a step that may or may not have happened."""
    result = {} if returns is Any else _schema_or_any(returns)
    definitions = result.pop("$defs", {})
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
            "$defs": definitions,
        },
        metadata={"run_id": run_id, "step": step_name},
    )
    return question.to_json()


def _schema_or_any(returns: Any) -> dict[str, Any]:
    try:
        return form_schema("", returns)
    except RegistrationError:
        return {}
