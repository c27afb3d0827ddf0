"""Notices: an event of a question, with the question's state at the time of sending."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from signoff.codec.strict_json import read_object
from signoff.errors import AlreadySettled
from signoff.people.questions.actions import action_rows
from signoff.people.questions.attachments import is_web
from signoff.people.questions.question_state import TIMEOUT, QuestionState
from signoff.people.questions.readable_rows import why_unreadable
from signoff.records import AuditEvent, AuditKind, Promise, PromiseState
from signoff.records.deliveries import Delivery
from signoff.wire import timestamps

LONGEST_TEXT: Final = 2_800  # characters of a question, its help or its proposal
LONGEST_TITLE: Final = 150

_TITLES: Final = {
    AuditKind.ASKED: "Question",
    AuditKind.REMINDED: "Reminder",
    AuditKind.ESCALATED: "Escalated",
    AuditKind.DELEGATED: "Delegated to you",
    AuditKind.RESOLVED: "Answered",
    AuditKind.REJECTED: "Rejected",
    AuditKind.CANCELLED: "Withdrawn",
    AuditKind.TIMED_OUT: "Timed out",
    AuditKind.CLAIMED: "Claimed",
    AuditKind.RELEASED: "Released",
    AuditKind.VOTED: "Vote",
    AuditKind.VIEWED: "Viewed",
    AuditKind.COMMENTED: "Comment",
    AuditKind.REFUSED: "Answer refused",
    AuditKind.DEFAULTED: "No answer in time",
}


@dataclass(frozen=True)
class Notice:
    """The contents of a delivery.

    Attributes:
        delivery: The delivery, with its recipient.
        address: The recipient's address for the channel's sender.
        event: The event.
        question: The question now; None if it was deleted with its run.
        url: URL of the question's page.
        now: Time of sending, in unix seconds.
        answer_url: URL with which the recipient can answer without signing in, if allowed. Anyone who has it can.
    """

    delivery: Delivery
    address: str
    event: AuditEvent
    question: Promise | None
    url: str | None
    now: float
    answer_url: str | None = field(default=None, repr=False)

    @property
    def title(self) -> str:
        """One line: the kind of event, and the question's first words."""
        what = _TITLES.get(self.event.kind, self.event.kind.value)
        return shown(f"{what}: {' '.join(self.text.split())}", LONGEST_TITLE).replace("\n", " ")

    @property
    def text(self) -> str:
        """The question's text."""
        return str(self.data.get("text", self.delivery.question_id))

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The body as (label, text), safe to show as plain text."""
        return [(label, shown(text, LONGEST_TEXT)) for label, text in self._said]

    @property
    def is_whole(self) -> bool:
        """Whether ``parts`` has everything uncut."""
        return all(len(text) <= LONGEST_TEXT and len(spelled(text)) <= LONGEST_TEXT for _, text in self._said)

    @cached_property
    def _said(self) -> list[tuple[str, str]]:
        data = self.data
        unreadable = None if self.question is None else why_unreadable(self.question)
        if unreadable is not None:
            return [("", self.text), ("Cannot be read", unreadable), ("Answered", self._state)]
        return [
            *question_rows({**data, "text": self.text}),
            *_filled([("Due", self._due), ("Answered", self._outcome)]),
        ]

    @cached_property
    def data(self) -> dict[str, Any]:
        """The question's JSON; for a deleted question the part in its event."""
        written = self.question.data if self.question is not None else self.details.get("data")
        return read_object(written) if isinstance(written, str) else {}

    @cached_property
    def details(self) -> dict[str, Any]:
        """The event's details."""
        return details_of(self.event)

    @property
    def is_open(self) -> bool:
        """Whether the question can still be answered."""
        return self.question is not None and self.question.state is PromiseState.PENDING

    @property
    def _due(self) -> str:
        if self.question is None or not self.is_open:
            return ""
        state = QuestionState.readable(self.question, self.now)
        due_at = None if state is None else state.deadline_at
        return "" if due_at is None else timestamps.spell(due_at, "%Y-%m-%d %H:%M UTC")

    @property
    def _state(self) -> str:
        return "" if self.question is None or self.is_open else self.question.state.value.replace("_", " ")

    @property
    def _outcome(self) -> str:
        question = self.question
        if question is None or self.is_open:
            return ""
        by = "" if question.settled_by is None else f" by {question.settled_by}"
        if question.settled_by == TIMEOUT:
            by = ", by default"
        said = self._state
        if question.state is PromiseState.RESOLVED and self.data.get("input_type") == "approval":
            said = "approved" if read_object(question.value).get("approved") is True else "not approved"
        note = "" if question.note is None else f": {question.note}"
        return f"{said}{by}{note}"


def question_rows(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a question's JSON as (label, text), uncut."""
    action = action_rows(data.get("proposal"), data.get("action"))
    return _filled(
        [
            ("", str(data.get("text", ""))),
            ("", data.get("help") or ""),
            ("Details", _written(data.get("metadata") or None)),
            *((label, part if isinstance(part, str) else _written(part)) for label, part in action),
            ("Proposed", _written(data.get("proposal"))),
            ("Options", "\n".join(map(_label, data.get("options", ())))),
            ("Attached", "\n".join(map(attachment_text, data.get("attachments", ())))),
        ]
    )


def _filled(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(label, text) for label, text in rows if text.strip()]


def attachment_text(attachment: Mapping[str, Any]) -> str:
    """Return an attachment's name and URL. A URL that could run in the page that shows it is left out."""
    name, url = attachment["name"], attachment["url"]
    return f"{name} {url}" if is_web(url) else f"{name} (not a web address)"


def url_of(public_url: str | None, question: Promise) -> str | None:
    """Return the URL of a question's page in Studio, which requires signing in; None without a ``public_url``."""
    if public_url is None:
        return None
    return f"{public_url.rstrip('/')}/inbox/{quote(question.id, safe='')}"


def details_of(event: AuditEvent) -> dict[str, Any]:
    """Return the details of an event; empty if they are not a JSON object."""
    return read_object(event.details)


def _label(option: Mapping[str, Any]) -> str:
    return str(option.get("label", option.get("value", "")))


def _written(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


def shown(text: str, most: int) -> str:
    """Return text that is safe to show: ``spelled``, and cut to ``most`` characters."""
    said = spelled(text[: most + 1])
    return said if len(said) <= most else f"{said[: most - 1]}…"


def spelled(text: str) -> str:
    """Return text with invisible characters and changes of the writing direction as escapes."""
    lines = text.replace("\r\n", "\n")  # line ends of Windows and of mails
    return "".join(each if each.isprintable() or each == "\n" else _spelled(each) for each in lines)


def _spelled(character: str) -> str:
    return " " if character == "\t" else character.encode("unicode_escape").decode()


def settled_in_words(error: AlreadySettled) -> tuple[str, str]:
    """Return a title and a text for a user whose answer came too late.

    Example::

        ("The question is answered", "ana was first. Nothing was changed.")
    """
    match error.state:
        case "timed_out":
            return "The time for an answer is over", "Nothing was changed."
        case "cancelled":
            return "The question was withdrawn", "Nothing was changed."
        case _:
            return (
                "The question is answered",
                f"{error.settled_by or 'Another user'} was first. Nothing was changed.",
            )
