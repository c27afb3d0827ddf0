"""Answers to an agent's questions: approve, deny, edit, reply, and plain text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.errors import InvalidValue, WrongAnswer
from signoff.people.questions.question import Question
from signoff.people.questions.standing_approvals import Alike


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve the call as proposed.

    Attributes:
        note: A note.
        alike: Which calls like it are approved with it, for some time.
    """

    note: str | None = None
    alike: Alike | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny the call. The model reads the reason."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """Approve the call with other arguments.

    Attributes:
        arguments: All of them; they must fit the tool.
        note: A note.

    Raises:
        InvalidValue: The arguments are not a dict.
    """

    arguments: Mapping[str, Any]
    note: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.arguments), Mapping):
            raise InvalidValue(
                "arguments", f"expected the call's arguments, such as {{'path': 'b'}}, not {self.arguments!r}"
            )


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer any other question: with a text, an option's value, a list of values, or a form's fields."""

    value: Any
    note: str | None = None


Decision = Approve | Deny | Edit | Reply

YES: Final = frozenset({"approve", "approved", "yes", "y"})
NO: Final = frozenset({"deny", "denied", "reject", "rejected", "no", "n"})


@dataclass(frozen=True, slots=True)
class Said:
    """An answer as ``AsyncClient.answer`` takes it."""

    value: Any
    note: str | None = None
    alike: Alike | None = None


def said(question_id: str, question: Question, given: object) -> Said:
    """Return the answer that a decision, or a plain value, stands for.

    For an approval the plain values are bools and the words of ``YES`` and ``NO``. Nothing else is a decision.

    Raises:
        WrongAnswer: It does not say whether to approve, or is a class of decisions.
    """
    match given:
        case Approve(note, alike):
            return Said(True, note, alike)
        case Deny(reason):
            return Said(False, reason)
        case Edit(arguments, note):
            return Said({"approved": True, "edited": dict(arguments)}, note)
        case Reply(value, note):
            return Said(value, note)
        case str() if question.input_type == "approval":
            word = given.strip().rstrip(".!").lower()
            if word in YES or word in NO:
                return Said(word in YES)
            problem = f"{given!r} says neither yes nor no: say 'approved' or 'denied', or give Approve() or Deny(...)"
            raise WrongAnswer(question_id, [("", problem)])
        case type():
            problem = (
                f"{given.__name__} is a class: give Approve(), Deny(reason), Edit(arguments) or Reply(value)"
            )
            raise WrongAnswer(question_id, [("", problem)])
        case _:
            return Said(given)


def said_in_words(question_id: str, question: Question, text: str) -> Said:
    """Return the answer that a message stands for. To an approval, every message other than a yes is a denial.

    The model reads the message as the reason.
    """
    if question.input_type == "approval":
        try:
            return said(question_id, question, text)
        except WrongAnswer:
            return Said(False, text)
    return Said(text)
