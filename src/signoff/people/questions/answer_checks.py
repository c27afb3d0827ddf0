"""What is done with an answer before it counts: it is read, checked, and made into what is kept of it."""

from __future__ import annotations

import json
from typing import Any, cast

from signoff import codec
from signoff.codec.ciphers import MARK
from signoff.errors import InvalidValue, RegistrationError, WrongAnswer
from signoff.people.questions.edits import edits_between
from signoff.people.questions.question import Question
from signoff.people.schemas.shown_values import written
from signoff.people.schemas.validation import problems
from signoff.records.names import check_text
from signoff.records.request_ids import check_length

LONGEST_NOTE = 10_000
"""How many characters a note has at most: those of all who vote are kept with the answer."""

_WORDS = ("note", "reason", "text")

EXACT = 2**53
"""From here on a number written with an exponent is read as the integer that it is: 1e20 is one for every reader."""


def read_value(question: Question, value: Any) -> Any:
    """Return what somebody answered as plain data, a bare decision in the form that an approval's schema asks for.

    Raises:
        NotSerializable: It is not JSON.
        PayloadTooLarge: It is over the limit.
    """
    plain: object = json.loads(written_answer(value), parse_float=_number)
    skips = plain is None and question.skippable
    if question.input_type != "approval" or isinstance(plain, dict) or skips:
        return cast("Any", plain)
    return {"approved": plain}


def written_answer(value: Any) -> str:
    """Write an answer as JSON text, a model's fields by the names that its form has.

    Raises:
        NotSerializable: It is not JSON, or would not come back as its own type.
        PayloadTooLarge: It is over the limit.
    """
    return written(value, codec.encode_for("the question", value, path="value", warns=False), "value")


def check_answer(question_id: str, question: Question, value: Any, digest: str | None = None) -> None:
    """Raise WrongAnswer, naming each field that is wrong, unless the question accepts ``value``.

    Args:
        question_id: The question's id.
        question: What was asked.
        value: An answer as ``read_value`` returned it.
        digest: What the answerer saw, if they say it.
    """
    if digest is not None and digest != question.digest:
        raise WrongAnswer(
            question_id, [("digest", "what you saw is not what is asked; look at the question again")]
        )
    if value is None and question.skippable:
        return
    wrong = problems(question.answer_schema, value)
    if wrong:
        raise WrongAnswer(question_id, wrong)


def checked_default(question: Question, value: object) -> str:
    """Return as JSON what stands as the answer to a workflow's question if nobody gives one.

    Raises:
        RegistrationError: It does not fit.
        NotSerializable: It is not JSON.
    """
    plain = read_value(question, value)
    try:
        check_answer("timeout_answer", question, plain)
    except WrongAnswer as error:
        raise RegistrationError(f"question {question.text!r}: timeout_answer: {error}") from None
    return codec.encode(to_keep(question, plain), path="timeout_answer")


def check_texts(**texts: str | None) -> None:
    """Raise InvalidValue if a text beside the answer's value is none that every store can keep."""
    for name, text in texts.items():
        if text is None:
            continue
        check_text(name, text)
        if name == "request_id":
            check_length(text)
        if name in _WORDS and len(text) > LONGEST_NOTE:
            raise InvalidValue(name, f"has {len(text):,} characters, over the limit of {LONGEST_NOTE:,}")
        if name in _WORDS and text.startswith(MARK):
            raise InvalidValue(name, f"it begins with {MARK!r}, as encrypted texts do")


def to_keep(question: Question, value: Any) -> Any:
    """Return what a checked answer settles its question with.

    Of an approved proposal it says what was approved and how that differs from what was proposed:
    ``{"approved": true, "proposal": ..., "edits": [...]}``. Any other answer is kept as it was given.
    """
    if question.proposal is None or not isinstance(value, dict):
        return value
    decision = cast("dict[str, Any]", value)
    if decision.get("approved") is not True:
        return decision
    approved = decision.get("edited", question.proposal)
    edits = edits_between(question.proposal, approved)
    return {"approved": True, "proposal": approved, "edits": edits}


def own_text(chosen: str | dict[str, str]) -> tuple[bool, str]:
    """Return whether something chosen is a text of one's own, and the text or the option's value."""
    return (False, chosen) if isinstance(chosen, str) else (True, chosen["other"])


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) >= EXACT else number
