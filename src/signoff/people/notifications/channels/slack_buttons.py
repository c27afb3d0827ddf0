"""Clicks on Slack buttons: verifies the signature, finds the user, and answers the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
from pydantic import BaseModel, Field
from pydantic_core import to_json
from slack_sdk.signature import SignatureVerifier

from signoff.codec.strict_json import read_exactly
from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    InvalidValue,
    NotAllowed,
    NotFound,
    SignoffError,
    StoreError,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.notifications.channels.channel import Channel, Undelivered
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.channels.slack import (
    APPROVE,
    LONGEST_PART,
    REJECT,
    Answering,
    SlackSender,
    escaped,
    fitted,
    section,
)
from signoff.people.notifications.notices import LONGEST_TEXT, settled_in_words, shown
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.question import Question
from signoff.records import Origin, OriginWay, Promise, PromiseState
from signoff.records.names import check_optional_text
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.origin_stamping import origin_stamped

log = own_logger("signoff.notifications")

LONGEST_BODY: Final = 256 * 1024
LONGEST_PIECE: Final = 64  # characters of each part of a request id
_HOSTS: Final = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})


class _User(BaseModel):
    id: str = Field(min_length=1, max_length=LONGEST_PIECE)
    team_id: str = Field(default="", max_length=LONGEST_PIECE)


class _Action(BaseModel):
    action_id: str = ""
    value: str = ""
    action_ts: str = Field(default="", max_length=LONGEST_PIECE)


class _Payload(BaseModel):
    type: str
    user: _User
    actions: list[_Action] = Field(default_factory=list[_Action])
    response_url: str = ""


class _Value(BaseModel):
    id: str
    digest: str


@dataclass(frozen=True)
class ClickReply:
    """Reply to a click in Slack.

    Attributes:
        url: URL to post it to.
        text: The text.
        closes: Whether the message's buttons can be removed.
    """

    url: str
    text: str
    closes: bool = False


@dataclass(frozen=True)
class Click:
    """A click on one of our buttons, signed by Slack.

    Attributes:
        team: Slack id of the user's team.
        user: Slack id of the user.
        question_id: The question's id.
        digest: Digest of the question that the user saw.
        approved: The decision.
        request_id: Stays the same if the request is sent again, by Slack or by anyone who recorded it.
        response_url: URL for the reply.
    """

    team: str
    user: str
    question_id: str
    digest: str
    approved: bool
    request_id: str
    response_url: str


def answering_of(channel: Channel | None, name: str) -> tuple[SlackSender, Answering]:
    """Return a channel's sender and its answer settings. Raises NotFound."""
    sender = None if channel is None else channel.sender
    if not isinstance(sender, SlackSender) or sender.answering is None:
        raise NotFound("Slack channel that takes answers", name)
    return sender, sender.answering


def check_signature(
    answering: Answering, body: bytes, timestamp: str | None, signature: str | None, now: float
) -> None:
    """Raise AccessDenied unless Slack has signed these bytes in the last five minutes."""

    class Now:
        def now(self) -> float:
            return now

    verifier = SignatureVerifier(answering.signing_secret, Now())  # pyright: ignore[reportArgumentType]
    try:
        is_valid = verifier.is_valid(body, timestamp, signature)
    except (ValueError, TypeError, OverflowError):  # malformed timestamp or signature
        is_valid = False
    if not is_valid:
        raise AccessDenied(
            "an answer from Slack", "the signature is missing, invalid, or older than 5 minutes"
        )


def read_click(body: bytes) -> Click | None:
    """Return the click in a signed request; None for requests about other things. Raises InvalidValue."""
    try:
        form = parse_qs(body.decode(), max_num_fields=10)
        payload = _Payload.model_validate(read_exactly(_only(form["payload"])))
        clicked = [each for each in payload.actions if each.action_id in (APPROVE, REJECT)]
        if payload.type != "block_actions" or not clicked:
            return None
        action = clicked[0]
        value = _Value.model_validate(read_exactly(action.value))
        check_optional_text("id", value.id)
    except (ValueError, KeyError, RecursionError):
        raise InvalidValue("payload", "not a valid Slack payload of Signoff's buttons") from None
    user = payload.user
    request_id = f"slack:{user.team_id}:{user.id}:{action.action_ts}"
    approved = action.action_id == APPROVE
    return Click(user.team_id, user.id, value.id, value.digest, approved, request_id, payload.response_url)


def _only(values: list[str]) -> str:
    """Return a field's only value. Raises ValueError if there are several."""
    [value] = values
    return value


async def answer_click(
    store: Store, answering: Answering, click: Click, redaction: Redaction, address: str | None = None
) -> ClickReply:
    """Answer the question as the user who clicked, and return the reply. A refusal is recorded like any other.

    Args:
        store: The question's store.
        answering: The channel's answer settings.
        click: The click.
        redaction: Hides payloads from the user.
        address: IP address of the request.

    Raises:
        StoreError: The store is not available.
    """
    store = origin_stamped(store, Origin(OriginWay.SLACK, f"{click.team}:{click.user}", address=address))
    try:
        return await _taken(store, answering, click, Redactor(store, redaction))
    except StoreError:
        raise
    except SignoffError as error:
        return ClickReply(click.response_url, shown(f"Not accepted: {error}", 1_000))


async def _taken(store: Store, answering: Answering, click: Click, redactor: Redactor) -> ClickReply:
    responder = answering.responder(click.team, click.user)
    if responder is None or responder.user_id is None:
        question = await get_question(store, click.question_id)
        user = f"slack:{click.user}"
        async with RefusalRecorder(store, question, user, request_id=click.request_id):
            raise NotAllowed(question.id, user, "this Slack user is not configured")
    try:
        question = await answer(
            store,
            click.question_id,
            click.approved,
            user_id=responder.user_id,
            groups=responder.groups,
            roles=responder.roles,
            request_id=click.request_id,
            digest=click.digest,
        )
    except AlreadySettled as error:
        return _too_late(click, await redactor.shown(await get_question(store, click.question_id)), error)
    return _accepted(click, await redactor.shown(question), responder.user_id)


def _too_late(click: Click, question: Promise, error: AlreadySettled) -> ClickReply:
    title, said = settled_in_words(error)
    text = f"{title}: {Question.of(question).text} {said}"
    return ClickReply(click.response_url, shown(text, LONGEST_TEXT), closes=True)


def _accepted(click: Click, question: Promise, user_id: str) -> ClickReply:
    said = "Approved" if click.approved else "Rejected"
    if question.state is PromiseState.PENDING:
        return ClickReply(click.response_url, f"{said} by {user_id}: more approvals are needed.")
    text = Question.of(question).text
    return ClickReply(click.response_url, shown(f"{said} by {user_id}: {text}", LONGEST_TEXT), closes=True)


async def post_reply(sender: SlackSender, reply: ClickReply) -> None:
    """Post the reply to a click. A failure is only logged: the answer is settled already."""
    if not _is_slacks(sender, reply.url):
        return
    message: dict[str, Any] = {
        "replace_original": reply.closes,
        "text": escaped(fitted(reply.text, LONGEST_PART)),
    }
    if reply.closes:
        message["blocks"] = [section(reply.text)]
    else:
        message["response_type"] = "ephemeral"
    post = Post(reply.url)
    try:
        await post.send(to_json(message), {"content-type": "application/json; charset=utf-8"})
    except Undelivered as failure:
        log.warning("a click in Slack was handled, but the reply could not be posted: %s", failure.reason)
    finally:
        await post.close()


def _is_slacks(sender: SlackSender, url: str) -> bool:
    """Whether a URL in a click is Slack's. This server must not connect to anything else."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    if parsed.scheme == "https" and parsed.host in _HOSTS and parsed.port is None:
        return True
    return any(_origin(parsed) == _origin(httpx.URL(own)) for own in sender.urls)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
