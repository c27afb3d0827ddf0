"""Answers to redacted questions: restores the values behind placeholders, and keeps them out of refusals."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from signoff.codec.strict_json import read_object
from signoff.errors import SignoffError, WrongAnswer
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import read_value
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.records import Promise, PromiseState
from signoff.records.responders import Responder
from signoff.redaction.answers import hidden_fields, restored, unquoted
from signoff.redaction.hiding_thread import beside
from signoff.redaction.redactor import Redactor
from signoff.stores.contract.store import Store


@asynccontextmanager
async def restored_answer(
    redactor: Redactor, store: Store, question: Promise, value: Any, responder: Responder
) -> AsyncGenerator[Any]:
    """Yield an answer with its placeholders restored. Removes hidden values from refusals raised in the block.

    Args:
        redactor: The redactor that showed the question to the user.
        store: The question's store. A refusal is recorded there.
        question: The question as stored.
        value: The answer.
        responder: The user who answers.

    Raises:
        WrongAnswer: A placeholder is in a place where nothing was hidden.
        NotAllowed, QuestionClaimed: The same, and the user may not answer at all.
    """
    if redactor.is_empty:
        yield value
        return
    secrets = await redactor.secrets(question.run_id) or frozenset()
    meant = await _meant(redactor, store, question, value, responder, secrets)
    try:
        yield meant
    except WrongAnswer as refusal:
        if refusal.question_id != question.id:
            raise
        asked: dict[str, Any] = read_object(question.data)
        hidden = hidden_fields(redactor.redaction.start, asked, meant)
        all_secrets = secrets | redactor.redaction.secrets_in(question)
        raise unquoted(refusal, hidden, all_secrets) from None


async def _meant(
    redactor: Redactor,
    store: Store,
    question: Promise,
    value: Any,
    responder: Responder,
    secrets: frozenset[str],
) -> Any:
    if question.state is not PromiseState.PENDING:
        return value  # a late answer is refused as late
    try:
        plain = read_value(Question.of(question), value)
    except SignoffError:
        return value  # the check of answers refuses it, and records that
    asked: dict[str, Any] = read_object(question.data)
    work = partial(redactor.redaction.shown, question, secrets)
    shown: dict[str, Any] = read_object((await beside(work, question, secrets)).data)
    meant, wrong = restored(redactor.redaction.start, asked, plain, shown)
    if not wrong:
        return meant
    async with RefusalRecorder(store, question, responder.user_id):
        QuestionState.of(question, store.clock.now()).check_responder(responder)
        raise WrongAnswer(question.id, wrong)
