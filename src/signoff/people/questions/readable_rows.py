"""Whether a question's row can be read. Lists and messages show unreadable rows and go on."""

from __future__ import annotations

from signoff.errors import QuestionTooNew, UnreadableRecord
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.records import Promise, PromiseKind


def why_unreadable(promise: Promise) -> str | None:
    """Return why a question cannot be read, with the field; None for readable questions and for other promises.

    A question of a newer version is not unreadable: that version reads it.

    Example::

        why_unreadable(promise) == "data: text: Input should be a valid string"
    """
    if promise.kind is not PromiseKind.QUESTION:
        return None
    try:
        Question.of(promise)
        QuestionState.of(promise, 0.0)
    except UnreadableRecord as error:
        return error.reason
    except QuestionTooNew:
        return None
    return None
