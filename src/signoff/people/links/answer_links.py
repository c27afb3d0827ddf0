"""Answer links: URLs with which one person answers one question, once, without signing in.

A link is a token; only its hash is stored. Its use is recorded only in the question: its answers carry a request id
made of the link's id, so a crash cannot leave a link half used.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from signoff.errors import (
    AlreadySettled,
    LinkEnded,
    NotFound,
    RequestConflict,
    UnknownLink,
    WrongAnswer,
)
from signoff.people.audit.refusals import RefusalRecorder, record_refusal
from signoff.people.links.html_values import SubmittedForm, answer_of, normal
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.people.questions.redacted_answers import restored_answer
from signoff.records import (
    AuditKind,
    NewAuditEvent,
    Origin,
    OriginWay,
    Promise,
    PromiseState,
    Token,
    TokenKind,
)
from signoff.records.names import check_by, check_text, user_name
from signoff.records.responders import Responder
from signoff.records.start_options import positive_seconds
from signoff.redaction import Redaction, Redactor
from signoff.stores.contract.store import Store
from signoff.stores.tokens import find_token, new_token
from signoff.stores.wrappers.origin_stamping import origin_stamped

LIFETIME_SECONDS: Final = 7 * 24 * 3600.0
PATH: Final = "/l"
"""Path under which the server serves the pages of links, each with its secret."""


@dataclass(frozen=True, slots=True)
class NewLink:
    """A new link. Its secret is returned here once and is never stored.

    Attributes:
        token: The stored token.
        path: The link's path, which contains the secret.
        url: The link's whole URL, if a server created it.
    """

    token: Token
    path: str = field(repr=False)
    url: str | None = field(default=None, repr=False)

    def at(self, public_url: str) -> str:
        """Return the link's whole URL for a server at ``public_url``."""
        return public_url.rstrip("/") + self.path


@dataclass(frozen=True, slots=True)
class OpenedLink:
    """A link, its question, and the person it is for."""

    token: Token
    question: Promise
    responder: Responder

    @property
    def request_id(self) -> str:
        """The request id of its answers."""
        return f"link:{self.token.id}"

    def origin(self, address: str | None) -> Origin:
        """Return the origin of answers from an IP address."""
        return Origin(OriginWay.LINK, self.token.id, address=address)


async def create_link(
    store: Store,
    question_id: str,
    *,
    user_id: str,
    groups: Collection[str] = (),
    roles: Collection[str] = (),
    lifetime_seconds: float = LIFETIME_SECONDS,
    by: str | None = None,
    id: str | None = None,
) -> NewLink:
    """Create a link with which a person can answer a question once.

    Args:
        store: The question's store.
        question_id: The question's id.
        user_id: The user who answers. Anyone who has the link can answer as this user.
        groups: The user's groups. The caller vouches for them.
        roles: The user's roles; likewise.
        lifetime_seconds: Lifetime of the link. It never outlives the question's deadline.
        by: The user who creates it.
        id: Its id; None: a random one.

    Raises:
        NotFound: There is no such question.
        AlreadySettled: The question is closed.
        NotAllowed: The user may not answer it.
        InvalidValue: A name is invalid, or the lifetime is not a number of seconds above 0.
        IdConflict: The id is in use.
    """
    positive_seconds("lifetime_seconds", lifetime_seconds)
    check_text("user_id", user_id)
    check_by(by)
    responder = Responder.of(user_id, groups, roles)
    question = await get_question(store, question_id)
    now = store.clock.now()
    state = QuestionState.of(question, now)
    _check_open(state)
    state.check_asked(responder)
    expires_at = now + lifetime_seconds
    if state.deadline_at is not None:
        expires_at = min(expires_at, state.deadline_at)
    secret, new = new_token(
        TokenKind.LINK,
        user_id,
        id=id,
        question_id=question_id,
        data=json.dumps({"groups": sorted(responder.groups), "roles": sorted(responder.roles)}),
        created_by=by,
        expires_at=expires_at,
    )
    token = await store.create_token(new)
    details = {"link": token.id, "for": user_id, "groups": sorted(groups), "roles": sorted(roles)}
    await _record(store, token, question, AuditKind.LINKED, by, {**details, "expires_at": expires_at})
    return NewLink(token, f"{PATH}/{secret}")


async def revoke_link(store: Store, link_id: str, *, by: str | None = None) -> Token:
    """Revoke a link; once revoked it stays as it is. Raises NotFound, and InvalidValue for an invalid name."""
    check_by(by)
    token = await _get_link(store, link_id)
    was_open = token.revoked_at is None
    token = await store.revoke_token(link_id)
    if was_open:
        try:
            question = await store.get_promise(token.question_id or "")
        except NotFound:
            return token
        await _record(
            store, token, question, AuditKind.UNLINKED, by, {"link": token.id, "for": token.subject}
        )
    return token


async def find_link(store: Store, secret: str) -> OpenedLink:
    """Return a link that has neither expired nor been revoked, in whatever state its question is.

    Nothing is changed, because programs that scan mail open links, too.

    Raises:
        UnknownLink: This namespace has no link with this secret.
        LinkEnded: It has expired, was revoked, or its question was deleted.
    """
    token = await find_token(store, TokenKind.LINK, secret)
    if token is None or token.namespace != store.namespace or token.question_id is None:
        raise UnknownLink
    if token.revoked_at is not None:
        raise LinkEnded("revoked")
    if not token.is_open(store.clock.now()):
        raise LinkEnded("expired")
    try:
        question = await get_question(store, token.question_id)
    except NotFound:
        raise LinkEnded("gone") from None
    if question.created_at > token.created_at:  # a newer question reuses the id of a deleted one
        raise LinkEnded("gone")
    said: dict[str, list[str]] = json.loads(token.data or "{}")
    groups, roles = (frozenset(said.get(name, ())) for name in ("groups", "roles"))
    return OpenedLink(token, question, Responder(token.subject, groups, roles))


async def record_ended(store: Store, secret: str, error: LinkEnded, address: str | None) -> None:
    """Record the attempt to answer with an ended link, if its question still exists.

    Args:
        store: The question's store.
        secret: The link's secret.
        error: The reason for the refusal.
        address: The client's IP address.
    """
    token = await find_token(store, TokenKind.LINK, secret)
    if token is None or token.namespace != store.namespace or token.question_id is None:
        return
    try:
        question = await get_question(store, token.question_id)
    except NotFound:
        return
    if question.created_at <= token.created_at:
        link = OpenedLink(token, question, Responder(token.subject))
        at = origin_stamped(store, link.origin(address))
        await record_refusal(at, question, token.subject, error, request_id=link.request_id)


def check_usable(link: OpenedLink, now: float) -> None:
    """Check that a link can answer its question at a given time. Nothing is changed.

    Raises:
        LinkEnded: The link was used.
        AlreadySettled: The question was closed in another way.
        NotAllowed: The person may no longer answer.
    """
    if is_used(link):
        raise LinkEnded("used")
    state = QuestionState.of(link.question, now)
    _check_open(state)
    state.check_asked(link.responder)


async def answer_by_link(
    store: Store,
    link: OpenedLink,
    value: Any,
    *,
    note: str | None = None,
    digest: str | None = None,
    address: str | None = None,
) -> Promise:
    """Answer a question by a link. Repeating the same answer is a success without effect.

    Args:
        store: The question's store.
        link: The link, from ``find_link``.
        value: As in ``signoff.people.questions.answers.answer``.
        note: The user's note.
        digest: Digest of the question that the user saw.
        address: The client's IP address.

    Raises:
        LinkEnded: It was used for another answer.
        SignoffError: ``answer`` refused the answer. The link can still be used.
    """
    try:
        settled = await answer(
            origin_stamped(store, link.origin(address)),
            link.question.id,
            value,
            user_id=link.responder.user_id,
            groups=link.responder.groups,
            roles=link.responder.roles,
            note=note,
            request_id=link.request_id,
            digest=digest,
        )
    except RequestConflict:
        raise LinkEnded("used") from None
    except WrongAnswer:
        if is_used(link):
            raise LinkEnded("used") from None
        raise
    await store.touch_token(link.token.id)
    return settled


async def answer_by_form(
    store: Store, link: OpenedLink, filled: SubmittedForm, redaction: Redaction, address: str | None = None
) -> Promise:
    """Answer a question with its submitted page; see ``answer_by_link``.

    Args:
        store: The question's store.
        link: The link, from ``find_link``.
        filled: The submitted form. It has the digest of the question shown.
        redaction: The redaction of that page.
        address: The client's IP address.
    """
    store = origin_stamped(store, link.origin(address))
    state = QuestionState.of(link.question, store.clock.now())
    redactor = Redactor(store, redaction)
    question = Question.of(await redactor.shown(link.question))
    value, wrong = answer_of(question, filled, can_edit=state.policy.quorum is None)
    if wrong:
        async with RefusalRecorder(store, link.question, link.responder.user_id, request_id=link.request_id):
            check_usable(link, state.now)
            raise WrongAnswer(link.question.id, wrong)
    note, digest = (normal("".join(filled.get(name, ())[:1])) for name in ("note", "digest"))
    async with restored_answer(redactor, store, link.question, value, link.responder) as meant:
        return await answer_by_link(
            store, link, meant, note=note.strip() or None, digest=digest, address=address
        )


def is_used(link: OpenedLink) -> bool:
    """Whether the link's user has answered with it."""
    question, by = link.question, link.question.settled_by
    if question.request_id == link.request_id and by is not None and user_name(by) == link.responder.user:
        return True
    vote = QuestionState.of(question, 0.0).vote_of(link.responder)
    return vote is not None and vote.request_id == link.request_id


async def _get_link(store: Store, link_id: str) -> Token:
    try:
        token = await store.get_token(link_id)
    except NotFound:
        raise NotFound("link", link_id) from None
    if token.kind is not TokenKind.LINK:
        raise NotFound("link", link_id)
    return token


def _check_open(state: QuestionState) -> None:
    question = state.question
    if question.state is not PromiseState.PENDING:
        raise AlreadySettled(question.id, question.state.value, question.settled_by, question.settled_at)
    if state.deadline_at is not None and state.deadline_at <= state.now:
        raise AlreadySettled(question.id, PromiseState.TIMED_OUT.value, None, state.deadline_at)


async def _record(
    store: Store, token: Token, question: Promise, kind: AuditKind, by: str | None, details: dict[str, Any]
) -> None:
    id = f"{kind.value}-{token.id}"
    await store.record([NewAuditEvent(id, kind, question.id, question.run_id, by, json.dumps(details))])
