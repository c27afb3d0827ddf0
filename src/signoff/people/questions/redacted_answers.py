"""Answers to what was shown without what is hidden: they mean the very values, and their refusals quote none."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from signoff.codec.strict_json import read_object
from signoff.errors import SignoffError, WrongAnswer
from signoff.people.audit.trail import record_refusal
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
async def meaning(
    redactor: Redactor, store: Store, question: Promise, value: Any, responder: Responder
) -> AsyncGenerator[Any]:
    """Give an answer with what its placeholders stand for. A refusal of it meanwhile quotes nothing that is hidden.

    Args:
        redactor: What has shown the question to the answerer.
        store: Where the question is; a refusal is recorded there.
        question: The question as it is kept.
        value: What they answered.
        responder: Who answers.

    Raises:
        WrongAnswer: A placeholder stands for nothing where it is.
        NotAllowed, QuestionClaimed: It does, and they may not answer at all.
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
        return value  # a late answer is refused as one
    try:
        plain = read_value(Question.of(question), value)
    except SignoffError:
        return value  # it is refused, and that is recorded, where answers are checked
    asked: dict[str, Any] = read_object(question.data)
    work = partial(redactor.redaction.shown, question, secrets)
    shown: dict[str, Any] = read_object((await beside(work, question, secrets)).data)
    meant, wrong = restored(redactor.redaction.start, asked, plain, shown)
    if not wrong:
        return meant
    try:
        QuestionState.of(question, store.clock.now()).check_responder(responder)
        raise WrongAnswer(question.id, wrong)
    except SignoffError as refusal:
        await record_refusal(store, question, responder.user_id, refusal)
        raise
