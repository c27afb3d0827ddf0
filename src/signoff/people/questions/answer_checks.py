"""Reads and checks an answer, and converts it to the form that is stored."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from signoff import codec
from signoff.codec.ciphers import MARK
from signoff.errors import InvalidValue, RegistrationError, WrongAnswer
from signoff.people.questions.edits import edits_between
from signoff.people.questions.question import FindProblems, Question
from signoff.people.schemas.shown_values import written
from signoff.people.schemas.validation import problems
from signoff.people.schemas.validation_process import find_problems as find_problems_beside
from signoff.records.names import check_text
from signoff.records.request_ids import check_length

LONGEST_NOTE = 10_000
"""Maximum length of a note in characters. The notes of all voters are stored with the answer."""

MOST_PARTS = 100_000
"""Maximum number of lists and objects in an answer. Each takes up to a hundred times as much memory as its text, and an
answer is held several times while it is checked and written.
"""

_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)

_WORDS = ("note", "reason", "text")

EXACT = 2**53
"""From here on a number with an exponent is read as an integer: 1e20 is an integer in every JSON reader."""


def read_value(question: Question, value: Any) -> Any:
    """Return an answer as plain data. A bare decision is expanded to the form that an approval's schema asks for.

    Raises:
        NotSerializable: It is not JSON.
        PayloadTooLarge: It is over the limit.
        InvalidValue: It has more than ``MOST_PARTS`` lists and objects.
    """
    text = written_answer(value)
    check_containers(text.encode())
    plain: object = json.loads(text, parse_float=_number)
    skips = plain is None and question.skippable
    if question.input_type != "approval" or isinstance(plain, dict) or skips:
        return cast("Any", plain)
    return {"approved": plain}


def written_answer(value: Any) -> str:
    """Write an answer as JSON text. Fields of models get the names used in the form.

    Raises:
        NotSerializable: It is not JSON, or would not be read back as the same type.
        PayloadTooLarge: It is over the limit.
    """
    return written(value, codec.encode_for("the question", value, path="value", warns=False), "value")


def check_containers(text: bytes, *, path: str = "value", beside: int = 0, most: int = MOST_PARTS) -> None:
    """Check JSON before it is parsed.

    Args:
        text: The JSON.
        path: Its place in the request.
        beside: The most lists and objects that the text may have beside the value at ``path``.
        most: The most lists and objects of the value.

    Raises:
        InvalidValue: It has more than that.
    """
    if text.count(b"[") + text.count(b"{") > most + beside:
        bare = _TEXTS.sub(b"", text)
        if bare.count(b"[") + bare.count(b"{") > most + beside:
            raise InvalidValue(path, f"it has more than {most:,} lists and objects")


def check_answer(question_id: str, question: Question, value: Any, digest: str | None = None) -> None:
    """Raise WrongAnswer, listing each invalid field, unless the question accepts ``value``.

    Args:
        question_id: The question's id.
        question: The question.
        value: The answer, as returned by ``read_value``.
        digest: Digest of the question that the user saw, if they sent it.
    """
    if not _is_skip(question_id, question, value, digest):
        _refuse(question_id, problems(question.answer_schema, value))


async def check_received(question_id: str, question: Question, value: Any, digest: str | None = None) -> None:
    """Do what ``check_answer`` does. A costly check takes place in another process: the event loop continues."""
    if not _is_skip(question_id, question, value, digest):
        _refuse(question_id, await find_problems_beside(question.answer_schema, value))


def _is_skip(question_id: str, question: Question, value: Any, digest: str | None) -> bool:
    if digest is not None and digest != question.digest:
        raise WrongAnswer(question_id, [("digest", "the question is not the one you saw; look at it again")])
    return value is None and question.skippable


def _refuse(question_id: str, wrong: list[tuple[str, str]]) -> None:
    if wrong:
        raise WrongAnswer(question_id, wrong)


def checked_default(question: Question, value: object, find_problems: FindProblems = problems) -> str:
    """Check a workflow's ``timeout_answer``, and return it as JSON.

    Raises:
        RegistrationError: It does not fit the question.
        NotSerializable: It is not JSON.
    """
    plain = read_value(question, value)
    try:
        if not _is_skip("timeout_answer", question, plain, None):
            _refuse("timeout_answer", find_problems(question.answer_schema, plain))
    except WrongAnswer as error:
        raise RegistrationError(f"question {question.text!r}: timeout_answer: {error}") from None
    return codec.encode(settlement_value(question, plain), path="timeout_answer")


def check_texts(**texts: str | None) -> None:
    """Raise InvalidValue if a text beside the answer's value is too long, or cannot be kept by every store."""
    for name, text in texts.items():
        if text is None:
            continue
        check_text(name, text)
        if name == "request_id":
            check_length(text)
        if name in _WORDS and len(text) > LONGEST_NOTE:
            raise InvalidValue(name, f"has {len(text):,} characters, over the limit of {LONGEST_NOTE:,}")
        if name in _WORDS and text.startswith(MARK):
            raise InvalidValue(name, f"must not begin with {MARK!r}, which marks encrypted texts")


def settlement_value(question: Question, value: Any) -> Any:
    """Return a checked answer in the form that settles its question.

    For an approved proposal this is the approved value and its edits: ``{"approved": true, "proposal": ...,
    "edits": [...]}``. Any other answer is kept as given.
    """
    if question.proposal is None or not isinstance(value, dict):
        return value
    decision = cast("dict[str, Any]", value)
    if decision.get("approved") is not True:
        return decision
    approved = decision.get("edited", question.proposal)
    edits = edits_between(question.proposal, approved)
    return {"approved": True, "proposal": approved, "edits": edits}


def free_text(chosen: str | dict[str, str]) -> tuple[bool, str]:
    """Return whether a choice is free text instead of an option, and the text or the option's value."""
    return (False, chosen) if isinstance(chosen, str) else (True, chosen["other"])


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) >= EXACT else number
