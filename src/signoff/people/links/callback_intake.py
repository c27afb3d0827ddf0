"""Receives callbacks: checks a request to an external question's URL like an answer, and settles the question once.

The URL's secret is stored only as a hash, like that of an answer link. A repeated callback is recognized by its
content, not its headers, because providers may sign each attempt anew: its request id is a keyed hash of the content.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import parse_qs

from signoff import codec
from signoff.codec.strict_json import read_exactly
from signoff.errors import (
    AlreadySettled,
    LinkEnded,
    NotFound,
    RequestConflict,
    UnknownLink,
    WrongAnswer,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import check_received, read_value
from signoff.people.questions.answer_events import Announcement
from signoff.people.questions.answers import get_question
from signoff.people.questions.callback_terms import FORM, MOST_FIELDS, Terms, media_type
from signoff.people.questions.question import Question
from signoff.people.schemas.validation_process import find_problems
from signoff.records import (
    Origin,
    OriginWay,
    Promise,
    PromiseKind,
    PromiseState,
    Settlement,
    Token,
    TokenKind,
)
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import CALLBACK
from signoff.stores.tokens import find_token
from signoff.stores.wrappers.origin_stamping import origin_stamped

STATE: Final = "state"
"""The parameter that OAuth servers return unchanged."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request to a callback's URL.

    Attributes:
        method: ``GET`` or ``POST``.
        query: The query string.
        headers: Headers by lower-case name.
        body: The body's bytes.
        address: The client's IP address.
    """

    method: str = "POST"
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    address: str | None = None

    @property
    def content_type(self) -> str | None:
        """The content type of the body."""
        return self.headers.get("content-type")


@dataclass(frozen=True, slots=True)
class FoundCallback:
    """A known callback URL.

    Attributes:
        store: The store, bound to the URL's namespace.
        token: The stored token.
        question: The question, open or closed.
        secret: The secret.
    """

    store: Store
    token: Token
    question: Promise
    secret: str = field(repr=False)

    @property
    def asked(self) -> Question:
        """The question."""
        return Question.of(self.question)

    @property
    def terms(self) -> Terms:
        """The terms of the callback."""
        return Terms.of(self.asked.callback or {})


async def find_callback(store: Store, secret: str) -> FoundCallback:
    """Return the question of a secret, from any namespace. Nothing is changed.

    Raises:
        UnknownLink: There is no callback with this secret.
        LinkEnded: The question was deleted.
    """
    token = await find_token(store, TokenKind.CALLBACK, secret)
    if token is None or token.question_id is None:
        raise UnknownLink
    within = store.within(token.namespace)
    try:
        question = await get_question(within, token.question_id)
    except NotFound:
        raise LinkEnded("gone") from None
    if question.created_at > token.created_at:  # a newer question reuses the id of a deleted one
        raise LinkEnded("gone")
    return FoundCallback(within, token, question, secret)


def check_open(found: FoundCallback) -> None:
    """Raise LinkEnded if the question timed out or was withdrawn, AlreadySettled if it was answered."""
    question, now = found.question, found.store.clock.now()
    if question.state is not PromiseState.PENDING:
        _refuse_ended(
            AlreadySettled(question.id, question.state.value, question.settled_by, question.settled_at)
        )
    if question.due_at is not None and question.due_at <= now:
        raise LinkEnded("expired")


async def receive(found: FoundCallback, incoming: Incoming) -> Promise:
    """Settle a question with a request to its URL. Repeating the same request is a success without effect.

    Args:
        found: The callback, from ``find_callback``.
        incoming: The request. Its method is one that the question accepts.

    Raises:
        WrongAnswer: It does not fit the question's schema. The question stays open.
        NotSerializable: It is not JSON that can be stored. The question stays open.
        PayloadTooLarge: It is over the limit. The question stays open.
        AlreadySettled: The question was answered before, or by another request.
        LinkEnded: The question timed out or was withdrawn.
    """
    origin = Origin(OriginWay.CALLBACK, found.token.id, address=incoming.address)
    found = replace(found, store=origin_stamped(found.store, origin))
    store, question = found.store, found.question
    request_id = _request_id(found, incoming)
    if question.request_id == request_id:
        return question
    async with (
        Announcement(store, question.id, CALLBACK, question),
        RefusalRecorder(store, question, CALLBACK),
    ):
        settled = await _settle(found, incoming, request_id)
    await store.touch_token(found.token.id)
    return settled


async def _settle(found: FoundCallback, incoming: Incoming, request_id: str) -> Promise:
    check_open(found)
    asked, id = found.asked, found.question.id
    value = _whole(found.terms, incoming) if found.terms.is_whole else await _said(id, asked, incoming)
    plain = read_value(asked, value)
    await check_received(id, asked, plain)
    text = codec.encode(plain, path="value")
    settlement = Settlement(PromiseState.RESOLVED, text, CALLBACK, request_id=request_id)
    try:
        settled, _ = await found.store.settle(id, PromiseKind.QUESTION, settlement)
    except RequestConflict:  # the same request arrived just now, with other headers
        return await found.store.get_promise(id)
    except AlreadySettled as error:
        _refuse_ended(error)
        raise
    return settled


def _refuse_ended(error: AlreadySettled) -> None:
    """Raise the error for a callback to a closed question."""
    if error.state == PromiseState.TIMED_OUT:
        raise LinkEnded("expired") from None
    if error.state == PromiseState.CANCELLED:
        raise LinkEnded("revoked") from None
    raise error


def _request_id(found: FoundCallback, incoming: Incoming) -> str:
    """Return a keyed hash of the content. Without the secret it reveals nothing of the content."""
    parts = (incoming.method.encode(), incoming.query.encode(), incoming.body)
    content = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return f"callback:{hmac.digest(found.secret.encode(), content, 'sha256').hex()}"


def _whole(terms: Terms, incoming: Incoming) -> dict[str, Any]:
    """Return the whole request as the plain data of a ``Callback``."""
    kept = {
        name: incoming.headers[name.lower()] for name in terms.headers if name.lower() in incoming.headers
    }
    try:
        body, encoding = incoming.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, encoding = incoming.body.decode("latin-1"), "latin-1"
    return {
        "method": incoming.method,
        "query": incoming.query,
        "headers": kept,
        "content_type": incoming.content_type,
        "body": body,
        "encoding": encoding,
    }


async def _said(question_id: str, asked: Question, incoming: Incoming) -> Any:
    """Return the value of the body, or for GET of the query. Raises WrongAnswer."""
    try:
        if incoming.method == "GET":
            return await _of_fields(asked, incoming.query)
        kind = media_type(incoming.content_type)
        if kind == FORM:
            return await _of_fields(asked, incoming.body.decode("ascii"))
        if kind == "multipart/form-data":
            raise ValueError("multipart forms are not supported")
        text = incoming.body.decode()
        return read_exactly(text) if kind.endswith(("/json", "+json")) else _of_text(text)
    except (ValueError, RecursionError) as error:
        raise WrongAnswer(question_id, [("", f"cannot be read: {error}")]) from None


async def _of_fields(asked: Question, text: str) -> dict[str, Any]:
    """Return the fields of a form. A field that does not fit the schema as text is parsed as JSON.

    Raises:
        ValueError: It is not a valid form.
    """
    found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    value: dict[str, Any] = {name: texts[0] if len(texts) == 1 else texts for name, texts in found.items()}
    wrong = {path.partition(".")[0] for path, _ in await find_problems(asked.answer_schema, value)}
    return {name: _literal(each) if name in wrong else each for name, each in value.items()}


def _literal(said: str | list[str]) -> Any:
    """Return the number, boolean or null that a text contains; else the text itself."""
    if isinstance(said, list):
        return [_literal(each) for each in said]
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        return said
    return value if value is None or isinstance(value, bool | int | float) else said


def _of_text(text: str) -> Any:
    """Return a body without a content type: parsed, if it is a JSON object or list, else as text."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return read_exactly(text)
    except (ValueError, RecursionError):
        return text
