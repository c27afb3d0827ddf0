"""Clicks on Slack's buttons: who clicked, whether Slack says so, and the answer that it is."""

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
from signoff.people.audit.trail import record_refusal
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
LONGEST_PIECE: Final = 64  # characters of what a request id is made of
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
class Reaction:
    """What Slack's user is told of their click.

    Attributes:
        url: Where to say it.
        text: What to say.
        closes: Whether the message's buttons are of no more use.
    """

    url: str
    text: str
    closes: bool = False


@dataclass(frozen=True)
class Click:
    """A click on one of our buttons, which Slack has signed.

    Attributes:
        team: Slack's id of their team.
        user: Slack's id of who clicked.
        question_id: The question.
        digest: What they saw.
        approved: What they decided.
        request_id: The same if Slack, or somebody who has recorded it, sends it again.
        response_url: Where to tell them of it.
    """

    team: str
    user: str
    question_id: str
    digest: str
    approved: bool
    request_id: str
    response_url: str


def answering_of(channel: Channel | None, name: str) -> tuple[SlackSender, Answering]:
    """Return what sends to a channel, and how answers come through it. Raises NotFound."""
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
    except (ValueError, TypeError):  # no number, no ASCII, no UTF-8
        is_valid = False
    if not is_valid:
        raise AccessDenied("an answer from Slack", "its signature is missing, wrong, or older than 5 minutes")


def read_click(body: bytes) -> Click | None:
    """Return what a signed request says; None if it is of something else than our buttons. Raises InvalidValue."""
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
        raise InvalidValue("payload", "it is none that Slack sends of our buttons") from None
    user = payload.user
    request_id = f"slack:{user.team_id}:{user.id}:{action.action_ts}"
    approved = action.action_id == APPROVE
    return Click(user.team_id, user.id, value.id, value.digest, approved, request_id, payload.response_url)


def _only(values: list[str]) -> str:
    """Return the one value of a field. Raises ValueError if there are two."""
    [value] = values
    return value


async def react(
    store: Store, answering: Answering, click: Click, redaction: Redaction, address: str | None = None
) -> Reaction:
    """Answer the question as whoever clicked, and return what they are told. A refusal is recorded like any other.

    Args:
        store: Where the question is.
        answering: How answers come through the channel.
        click: What they clicked.
        redaction: What they are not shown.
        address: From which Slack has told of it.

    Raises:
        StoreError: The store is not available.
    """
    store = origin_stamped(store, Origin(OriginWay.SLACK, f"{click.team}:{click.user}", address=address))
    try:
        return await _taken(store, answering, click, Redactor(store, redaction))
    except StoreError:
        raise
    except SignoffError as error:
        return Reaction(click.response_url, shown(f"Not taken: {error}", 1_000))


async def _taken(store: Store, answering: Answering, click: Click, redactor: Redactor) -> Reaction:
    responder = answering.responder(click.team, click.user)
    if responder is None or responder.user_id is None:
        question = await get_question(store, click.question_id)
        user = f"slack:{click.user}"
        stranger = NotAllowed(question.id, user, "nobody has configured who this user of Slack is")
        await record_refusal(store, question, user, stranger, request_id=click.request_id)
        raise stranger
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


def _too_late(click: Click, question: Promise, error: AlreadySettled) -> Reaction:
    title, said = settled_in_words(error)
    text = f"{title}: {Question.of(question).text} {said}"
    return Reaction(click.response_url, shown(text, LONGEST_TEXT), closes=True)


def _accepted(click: Click, question: Promise, user_id: str) -> Reaction:
    said = "Approved" if click.approved else "Rejected"
    if question.state is PromiseState.PENDING:
        return Reaction(click.response_url, f"{said} by {user_id}: others have to agree.")
    text = Question.of(question).text
    return Reaction(click.response_url, shown(f"{said} by {user_id}: {text}", LONGEST_TEXT), closes=True)


async def tell(sender: SlackSender, reaction: Reaction) -> None:
    """Tell who clicked what came of it. The answer stands, whether they hear of it or not."""
    if not _is_slacks(sender, reaction.url):
        return
    message: dict[str, Any] = {
        "replace_original": reaction.closes,
        "text": escaped(fitted(reaction.text, LONGEST_PART)),
    }
    if reaction.closes:
        message["blocks"] = [section(reaction.text)]
    else:
        message["response_type"] = "ephemeral"
    post = Post(reaction.url)
    try:
        await post.send(to_json(message), {"content-type": "application/json; charset=utf-8"})
    except Undelivered as failure:
        log.warning("a click in Slack was taken, but who clicked could not be told: %s", failure.reason)
    finally:
        await post.close()


def _is_slacks(sender: SlackSender, url: str) -> bool:
    """Whether a URL that came with a click leads to Slack: this server connects to nothing else for it."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    if parsed.scheme == "https" and parsed.host in _HOSTS and parsed.port is None:
        return True
    return any(_origin(parsed) == _origin(httpx.URL(own)) for own in sender.urls)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
