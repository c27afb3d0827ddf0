"""Answers to what was shown without what is hidden: they mean the very values, and their refusals quote none."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from signoff.errors import SignoffError, WrongAnswer
from signoff.people.audit import record_refusal
from signoff.people.cases import Case
from signoff.people.checks import read_value
from signoff.people.questions import Question
from signoff.people.responders import Responder
from signoff.records import Promise, PromiseState
from signoff.redaction import Redaction
from signoff.redaction.answers import hidden_fields, restored, unquoted
from signoff.stores.base import Store


async def meant_answer(
    store: Store, redaction: Redaction, question: Promise, value: Any, responder: Responder
) -> Any:
    """Return an answer with what its placeholders stand for.

    Args:
        store: Where the question is; a refusal is recorded there.
        redaction: What the answerer was not shown.
        question: The question.
        value: What they answered.
        responder: Who answers.

    Raises:
        WrongAnswer: A placeholder stands for nothing where it is.
        NotAllowed, QuestionClaimed: It does, and they may not answer at all.
    """
    if redaction.is_empty or question.state is not PromiseState.PENDING:
        return value  # whoever comes too late is told so
    try:
        plain = read_value(Question.from_json(question.data or "null"), value)
    except SignoffError:
        return value  # it is refused, and that is recorded, where answers are checked
    asked: dict[str, Any] = json.loads(question.data or "{}")
    meant, wrong = restored(redaction.start, asked, plain)
    if not wrong:
        return meant
    try:
        Case.of(question, store.clock.now()).check_responder(responder)
        raise WrongAnswer(question.id, wrong)
    except SignoffError as refusal:
        await record_refusal(store, question, responder.user_id, refusal)
        raise


@contextmanager
def unquoting(redaction: Redaction, question: Promise, value: Any) -> Generator[None]:
    """Have a refusal of an answer quote nothing that is hidden."""
    try:
        yield
    except WrongAnswer as refusal:
        asked: dict[str, Any] = json.loads(question.data or "{}")
        raise unquoted(refusal, hidden_fields(redaction.start, asked, value)) from None
