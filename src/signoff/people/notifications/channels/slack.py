"""Slack: a message for each notice, with buttons that answer or open a form."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from signoff.errors import InvalidValue, QuestionTooNew, UnreadableRecord
from signoff.people.notifications.channels.channel import CALLS, Undelivered
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.channels.slack_inputs import NoInput, can_edit_in_slack, inputs_of
from signoff.people.notifications.channels.slack_text import (
    LONGEST_BUTTON,
    LONGEST_PART,
    button,
    escaped,
    fitted,
    length,
    section,
)
from signoff.people.notifications.notices import Notice
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.records.responders import Responder
from signoff.wire import timestamps

API_URL: Final = "https://slack.com/api"
METHODS: Final = ("chat.postMessage", "chat.update", "views.open")
"""The methods of Slack's API that a bot token calls."""
LONGEST_REPLY: Final = 1024 * 1024  # a reply repeats the modal
JSON: Final = "application/json; charset=utf-8"
APPROVE: Final = "signoff_approve"
REJECT: Final = "signoff_reject"
OPEN: Final = "signoff_open"
ANSWER: Final = "signoff_answer"
MODAL: Final = "signoff_modal"
"""Callback id of modals."""

LONGEST_URL: Final = 3_000  # of a button, in characters as ``length`` counts
LONGEST_MESSAGE: Final = 12_000
"""Length of all blocks together. Slack documents no such limit, but returns ``msg_blocks_too_long`` above 13,000."""
KEPT_FOR_EACH: Final = LONGEST_MESSAGE // 100
"""Space reserved for each later part, however long the earlier ones are."""
MOST_BLOCKS: Final = 50

_FINAL: Final = frozenset(
    {
        "as_user_not_supported",
        "cant_update_message",
        "cannot_reply_to_message",
        "channel_is_archived",
        "channel_not_found",
        "channel_type_not_supported",
        "edit_window_closed",
        "invalid_arg_name",
        "invalid_arguments",
        "invalid_array_arg",
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_charset",
        "invalid_form_data",
        "invalid_json",
        "invalid_metadata_format",
        "invalid_post_type",
        "is_archived",
        "json_not_object",
        "markdown_text_conflict",
        "message_not_found",
        "messages_tab_disabled",
        "method_deprecated",
        "missing_post_type",
        "missing_text_or_fallback_or_attachments",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "too_many_attachments",
        "user_disabled",
        "user_not_found",
        "user_not_visible",
    }
)
"""Slack's errors for messages it will never accept. Errors that an administrator can resolve are retried."""


@dataclass(frozen=True)
class Answering:
    """How answers come back from Slack.

    Attributes:
        signing_secret: The secret with which Slack signs its requests.
        users: Responders by Slack user id.
        team: Id of the only team whose users may answer; None: any team that Slack signs for, such as one that shares
            the channel.
    """

    signing_secret: str
    users: Mapping[str, Responder] = field(default_factory=dict[str, Responder])
    team: str | None = None

    def responder(self, team: str, user: str) -> Responder | None:
        """Return the responder of a Slack user; None if the user is not configured."""
        return self.users.get(user) if self.team is None or team == self.team else None


class SlackReply(BaseModel):
    """The reply of a method of Slack's API, with the place of a posted message."""

    ok: bool
    error: str = ""
    channel: str = ""
    ts: str = ""


class SlackError(Undelivered):
    """Slack refused a request. ``word`` is its error, such as ``channel_not_found``."""

    def __init__(self, word: str) -> None:
        super().__init__(f"Slack returned: {word}", is_final=word in _FINAL)
        self.word = word


class SlackSender:
    """Posts to one place by an incoming webhook, or to channels and people by a bot token.

    Args:
        webhook_url: URL of an incoming webhook.
        token: Bot token with the scope ``chat:write``.
        answering: How answers come back; None: messages have no buttons.
        api_url: Base URL of Slack's API.

    Raises:
        InvalidValue: Neither a URL nor a token is given, or both.
    """

    is_record = False
    is_mailbox = False

    def __init__(
        self,
        *,
        webhook_url: str | None = None,
        token: str | None = None,
        answering: Answering | None = None,
        api_url: str = API_URL,
    ) -> None:
        if (webhook_url is None) == (token is None):
            raise InvalidValue("token", "pass either token or webhook_url")
        self.answering = answering
        self.urls = (webhook_url or api_url, api_url)
        self.is_shared = webhook_url is not None
        self._token = token
        self._post = Post(webhook_url or api_url)
        self._methods = {} if token is None else {each: Post(f"{api_url}/{each}") for each in METHODS}

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> str | None:
        message = {"text": escaped(fitted(notice.title, LONGEST_PART)), "blocks": self._blocks(notice)}
        if self._token is None:
            await self._post.send(to_json(message), {"content-type": JSON})
            return None
        sent = await self.call("chat.postMessage", {**message, "channel": notice.address})
        return f"{sent.channel}:{sent.ts}" if sent.channel and sent.ts else None

    async def update(self, notice: Notice, message: str) -> None:
        """Show a notice in place of a message, without buttons."""
        channel, _, ts = message.partition(":")
        text = escaped(fitted(notice.title, LONGEST_PART))
        body = {"channel": channel, "ts": ts, "text": text, "blocks": [*blocks_of(notice), *_closed(notice)]}
        await self.call("chat.update", body)

    @property
    def can_update(self) -> bool:
        """Whether it can update messages: only a bot token can."""
        return self._token is not None

    @property
    def has_modals(self) -> bool:
        """Whether it can open modals: these need a bot token, and a way for their answers to come back."""
        return self._token is not None and self.answering is not None

    async def call(self, method: str, body: Mapping[str, Any]) -> SlackReply:
        """Call one of ``METHODS`` with the bot token, and return the reply. Raises Undelivered."""
        headers = {"content-type": JSON, "authorization": f"Bearer {self._token}"}
        reply = await self._methods[method].send(to_json(body), headers, most=LONGEST_REPLY)
        try:
            said = SlackReply.model_validate_json(reply)
        except ValidationError:
            raise Undelivered("the response is not one of Slack's") from None
        if not said.ok:
            raise SlackError(said.error[:100] or "not ok")
        return said

    async def close(self) -> None:
        for post in (self._post, *self._methods.values()):
            await post.close()

    def _blocks(self, notice: Notice) -> list[dict[str, Any]]:
        blocks = blocks_of(notice)
        blocks[0]["block_id"] = f"signoff:{notice.delivery.id}"  # identifies a repeated message
        buttons = self._decisions(notice) if self.answering is not None else []
        if notice.url is not None:
            needs_page = self.has_modals and notice.is_open and not buttons
            buttons += _links(notice.url, "Answer on its page" if needs_page else "Look and answer")
        return [*blocks, {"type": "actions", "elements": buttons}] if buttons else blocks

    def _decisions(self, notice: Notice) -> list[dict[str, Any]]:
        """Return the buttons that answer, if the message shows the whole question."""
        value = json.dumps({"id": notice.event.question_id, "digest": notice.data.get("digest")})
        is_whole = notice.is_whole and list(_fitting(notice)) == _texts(notice)
        if not (is_whole and notice.is_open) or notice.event.kind not in CALLS:
            return []
        if len(value) > LONGEST_BUTTON:
            return []
        is_approval = notice.data.get("input_type") == "approval"
        buttons: list[dict[str, Any]] = []
        if is_approval and notice.data.get("proposal") is None:
            buttons = [{**button("Approve", APPROVE), "style": "primary"}]
            buttons.append({**button("Reject", REJECT), "style": "danger"})
        if self.has_modals and _has_inputs(notice):
            buttons.append(button("With a note …" if buttons else "Answer …", ANSWER))
        return [{**each, "value": value} for each in buttons]


def _closed(notice: Notice) -> list[dict[str, Any]]:
    """Return when the question was closed."""
    at = None if notice.question is None else notice.question.settled_at
    return [] if at is None else [section(f"Closed: {timestamps.spell(at, '%Y-%m-%d %H:%M UTC')}")]


def _has_inputs(notice: Notice) -> bool:
    """Whether a modal can answer the question."""
    state = None if notice.question is None else QuestionState.readable(notice.question, notice.now)
    if notice.question is None or state is None or notice.data.get("input_type") == "external":
        return False
    try:
        question = Question.of(notice.question)
        inputs_of(question, can_edit=can_edit_in_slack(question, can_edit=state.policy.quorum is None))
    except (NoInput, UnreadableRecord, QuestionTooNew):
        return False
    return True


def blocks_of(notice: Notice) -> list[dict[str, Any]]:
    """Return a notice as blocks of plain text, so that people's texts cannot contain markup or mentions."""
    return [section(text) for text in _fitting(notice)]


def _texts(notice: Notice) -> list[str]:
    return [notice.title, *(f"{label}: {text}" if label else text for label, text in notice.parts)]


def _fitting(notice: Notice) -> Iterator[str]:
    """Yield the texts of a notice, cut to fit into one message."""
    texts = _texts(notice)[: MOST_BLOCKS - 1]  # one block is for the buttons
    left = LONGEST_MESSAGE
    for following, text in zip(reversed(range(len(texts))), texts, strict=True):
        fitting = fitted(text, min(LONGEST_PART, left - following * KEPT_FOR_EACH))
        left -= length(fitting)
        if fitting.strip():  # Slack refuses a block without text
            yield fitting


def _links(url: str, text: str) -> list[dict[str, Any]]:
    """Return a link button to the question's page, or to the inbox if the URL is too long for Slack."""
    if len(url) <= LONGEST_URL:
        return [{**button(text, OPEN), "url": url}]
    inbox = url.rpartition("/")[0]  # the id is one segment
    return (
        [{**button("Look and answer in the inbox", OPEN), "url": inbox}] if len(inbox) <= LONGEST_URL else []
    )
