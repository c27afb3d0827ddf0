"""Clicks on Slack buttons: finds the user, answers the question, and replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import httpx
from pydantic_core import to_json

from signoff.errors import (
    AlreadySettled,
    NotAllowed,
    NotFound,
    SignoffError,
    StoreError,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.notifications.channels.channel import Channel, Undelivered
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.people.notifications.channels.slack_requests import Click, SlackRequest
from signoff.people.notifications.channels.slack_text import LONGEST_PART, escaped, fitted, section
from signoff.people.notifications.notices import LONGEST_TEXT, settled_in_words, shown
from signoff.people.questions.answers import answer, get_question
from signoff.people.questions.question import Question
from signoff.records import Promise, PromiseState
from signoff.records.responders import Responder
from signoff.redaction import Redaction, Redactor
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.origin_stamping import origin_stamped

log = own_logger("signoff.notifications")

_HOSTS: Final = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})


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


def answering_of(channel: Channel | None, name: str) -> tuple[SlackSender, Answering]:
    """Return a channel's sender and its answer settings. Raises NotFound."""
    sender = None if channel is None else channel.sender
    if not isinstance(sender, SlackSender) or sender.answering is None:
        raise NotFound("Slack channel that takes answers", name)
    return sender, sender.answering


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
    store = origin_stamped(store, click.origin(address))
    try:
        return await _taken(store, answering, click, Redactor(store, redaction))
    except StoreError:
        raise
    except SignoffError as error:
        return ClickReply(click.response_url, shown(f"Not accepted: {error}", 1_000))


async def _taken(store: Store, answering: Answering, click: Click, redactor: Redactor) -> ClickReply:
    responder = await configured(store, answering, click)
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
        return too_late(click, await redactor.shown(await get_question(store, click.question_id)), error)
    return accepted(click, await redactor.shown(question), responder, approved=click.approved)


async def configured(store: Store, answering: Answering, request: SlackRequest) -> Responder:
    """Return the responder of the user who sent a request. Records the refusal of others, and raises NotAllowed."""
    responder = answering.responder(request.team, request.user)
    if responder is None or responder.user_id is None:
        question = await get_question(store, request.question_id)
        user = f"slack:{request.user}"
        async with RefusalRecorder(store, question, user, request_id=request.request_id):
            raise NotAllowed(question.id, user, "this Slack user is not configured")
    return responder


def too_late(request: SlackRequest, question: Promise, error: AlreadySettled) -> ClickReply:
    """Return the reply to a user who answers a closed question."""
    title, said = settled_in_words(error)
    text = f"{title}: {Question.of(question).text} {said}"
    return ClickReply(request.response_url, shown(text, LONGEST_TEXT), closes=True)


def accepted(
    request: SlackRequest, question: Promise, responder: Responder, *, approved: bool | None
) -> ClickReply:
    """Return the reply to an accepted answer; ``approved`` is None unless it is a decision."""
    said = "Answered" if approved is None else "Approved" if approved else "Rejected"
    by = f"{said} by {responder.user_id}"
    if question.state is PromiseState.PENDING:
        return ClickReply(request.response_url, f"{by}: more approvals are needed.")
    text = shown(f"{by}: {Question.of(question).text}", LONGEST_TEXT)
    return ClickReply(request.response_url, text, closes=True)


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
