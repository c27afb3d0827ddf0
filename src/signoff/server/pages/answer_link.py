"""The page behind an answer link: HTML without scripts. All data in it is escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from signoff.people.links.answer_links import OpenedLink
from signoff.people.links.html_fields import (
    HtmlField,
    decision_field,
    html_fields_of,
    note_field,
    visible,
    visible_json,
)
from signoff.people.links.html_values import Shown, SubmittedForm, begin, returned
from signoff.people.questions.actions import action_rows
from signoff.people.questions.attachments import Attachment, is_web
from signoff.people.questions.question import Question, digest_of
from signoff.people.questions.question_state import QuestionState
from signoff.records import Promise
from signoff.wire import timestamps

MOST_RADIOS: Final = 12
"""The most options shown as radio buttons; more become a menu."""

STYLE: Final = (resources.files("signoff.server.pages") / "templates" / "page.css").read_text(
    encoding="utf-8"
)

_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}
"""Headers of every response at a link's address: the address is secret, and other sites may not frame the page."""


@dataclass(frozen=True, slots=True)
class Row:
    """A control on the page.

    Attributes:
        control: The control.
        shown: The value that it shows.
        errors: The problems with that value.
    """

    control: HtmlField
    shown: Shown
    errors: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The element id that other parts of the page refer to."""
        return f"in-{self.control.name}"

    @property
    def box(self) -> str:
        """The input type of an option."""
        return "radio" if self.control.kind == "one" else "checkbox"

    @property
    def is_menu(self) -> bool:
        """Whether its options are a menu."""
        return self.control.kind == "one" and len(self.control.choices) > MOST_RADIOS

    @property
    def rows(self) -> int:
        """The height of a text area, in lines."""
        return min(self.shown.text.count("\n") + 2, 20)

    @property
    def described_by(self) -> str:
        """The ids of the elements that describe it (``aria-describedby``)."""
        control, parts = self.control, list[str]()
        if control.help:
            parts.append(f"{control.name}-help")
        if control.hint:
            parts.append(f"{control.name}-hint")
        parts += [f"{control.name}-error-{number}" for number in range(1, len(self.errors) + 1)]
        return " ".join(parts)


def question_page(
    link: OpenedLink,
    shown: Promise,
    now: float,
    filled: SubmittedForm | None = None,
    problems: Sequence[tuple[str, str]] = (),
    status: int = 200,
) -> Response:
    """Return the page on which a question is answered.

    Args:
        link: The link.
        shown: Its question, redacted.
        now: The time, in unix seconds.
        filled: The submitted values; None: the page is shown for the first time.
        problems: One ``(field, message)`` per problem in the submitted values.
        status: The status of the response.
    """
    question = Question.of(shown)
    state = QuestionState.of(link.question, now)
    page = _Page(filled, problems)
    can_edit = state.policy.quorum is None
    made = html_fields_of(question) if can_edit or question.proposal is None else ()
    groups = [(group.legend, [page.row(control) for control in group.fields]) for group in made]
    decision = None
    if question.input_type == "approval":
        decision = page.row(decision_field(question, can_edit=can_edit))
    note = page.row(note_field())
    listed = page.listed([row for _, rows in groups for row in rows], decision, note)
    return _page(
        "question.html",
        status,
        text=question.text,
        help=question.help,
        metadata=_written(question.metadata.items()),
        attachments=[attachment_parts(each) for each in question.attachments],
        user=link.responder.user_id,
        deadline=None if state.deadline_at is None else _moment(state.deadline_at),
        quorum=state.policy.quorum,
        action=_written(action_rows(question.proposal, question.action)),
        proposal=None if question.proposal is None else visible_json(question.proposal),
        groups=groups,
        decision=decision,
        note=note,
        digest=digest_of(link.question),
        is_skippable=question.skippable,
        problems=listed,
    )


def message_page(title: str, text: str, status: int = 200) -> Response:
    """Return a page with a title and a message."""
    return _page("message.html", status, title=title, text=text)


class _Page:
    """Builds the rows of a page from submitted values and their problems."""

    def __init__(self, filled: SubmittedForm | None, problems: Sequence[tuple[str, str]]) -> None:
        self._filled = filled
        self._problems = problems

    def row(self, control: HtmlField) -> Row:
        shown = begin(control) if self._filled is None else returned(control, self._filled)
        errors = (
            _within(field, message, control) for field, message in self._problems if _is_of(field, control)
        )
        return Row(control, shown, tuple(errors))

    def listed(self, rows: list[Row], *more: Row | None) -> list[dict[str, str | None]]:
        """Return all problems, each with its row, if it has one."""
        shown = [*rows, *(row for row in more if row is not None)]
        listed: list[dict[str, str | None]] = []
        for field, message in self._problems:
            row = next((row for row in shown if _is_of(field, row.control)), None)
            said = message if not field else f"{field}: {message}"
            if row is not None:
                said = _within(field, message, row.control)
            listed.append({"id": row and row.id, "label": row and row.control.label, "message": said})
        return listed


def _within(field: str, message: str, control: HtmlField) -> str:
    """Return a problem's message, prefixed with the part of the control's value that it concerns."""
    part = field.removeprefix(".".join(control.path)).removeprefix(".")
    return f"{part}: {message}" if part else message


def _is_of(field: str, control: HtmlField) -> bool:
    """Whether a problem concerns the value of a control, or a part of it."""
    path = ".".join(control.path)
    if not path:
        return field not in ("digest", *note_field().path)
    return field == path or field.startswith(f"{path}.")


def _written(parts: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, value if isinstance(value, str) else visible_json(value)) for name, value in parts]


def attachment_parts(attachment: Attachment) -> dict[str, str | None]:
    """Return the parts of an attachment for the page. It becomes a link only if its address is a web address."""
    url = attachment["url"] if is_web(attachment["url"]) else None
    host = None if url is None else urlsplit(url).hostname
    where = " ".join(filter(None, (host, attachment.get("media_type"))))
    return {"name": attachment["name"], "url": url, "where": where}


def _moment(at: float) -> str:
    return timestamps.spell(at, "%Y-%m-%d %H:%M UTC")


def _page(template: str, status: int, **more: Any) -> Response:
    html = _templates().get_template(template).render(style=Markup(STYLE), **more)
    return HTMLResponse(html, status, HEADERS)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("signoff.server.pages", "templates"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["typed"] = _typed
    return made


def _finalize(value: Any) -> Any:
    """Make invisible characters visible in all template values."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _typed(text: str) -> Markup:
    """Return submitted text unchanged but for HTML escapes."""
    return escape(text)
