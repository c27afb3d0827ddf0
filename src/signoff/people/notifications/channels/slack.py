"""Slack: a message for each notice, with buttons if one click can answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import CALLS, Undelivered
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.notices import Notice
from signoff.records.responders import Responder

API_URL: Final = "https://slack.com/api"
APPROVE: Final = "signoff_approve"
REJECT: Final = "signoff_reject"
OPEN: Final = "signoff_open"

LONGEST_VALUE: Final = 2_000  # of a button; this and the others in characters as ``length`` counts
LONGEST_PART: Final = 3_000  # of a section's text
LONGEST_URL: Final = 3_000  # of a button
LONGEST_MESSAGE: Final = 12_000
"""Length of all blocks together. Slack documents no such limit, but returns ``msg_blocks_too_long`` above 13,000."""
KEPT_FOR_EACH: Final = LONGEST_MESSAGE // 100
"""Space reserved for each later part, however long the earlier ones are."""
MOST_BLOCKS: Final = 50

_FINAL: Final = frozenset(
    {
        "as_user_not_supported",
        "cannot_reply_to_message",
        "channel_is_archived",
        "channel_not_found",
        "channel_type_not_supported",
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


class _Reply(BaseModel):
    ok: bool
    error: str = ""


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
        self._post = Post(webhook_url or f"{api_url}/chat.postMessage")

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        message = {"text": escaped(fitted(notice.title, LONGEST_PART)), "blocks": self._blocks(notice)}
        headers = {"content-type": "application/json; charset=utf-8"}
        if self._token is None:
            await self._post.send(to_json(message), headers)
            return
        headers["authorization"] = f"Bearer {self._token}"
        reply = await self._post.send(to_json({**message, "channel": notice.address}), headers)
        try:
            said = _Reply.model_validate_json(reply)
        except ValidationError:
            raise Undelivered("the response is not one of Slack's") from None
        if not said.ok:
            raise Undelivered(
                f"Slack returned: {said.error[:100] or 'not ok'}", is_final=said.error in _FINAL
            )

    async def close(self) -> None:
        await self._post.close()

    def _blocks(self, notice: Notice) -> list[dict[str, Any]]:
        blocks = blocks_of(notice)
        blocks[0]["block_id"] = f"signoff:{notice.delivery.id}"  # identifies a repeated message
        buttons = self._decisions(notice) if self.answering is not None else []
        if notice.url is not None:
            buttons += _links(notice.url)
        return [*blocks, {"type": "actions", "elements": buttons}] if buttons else blocks

    def _decisions(self, notice: Notice) -> list[dict[str, Any]]:
        """Return the decision buttons, if the message shows the whole question; editing a proposal needs a form."""
        data = notice.data
        is_simple = data.get("input_type") == "approval" and data.get("proposal") is None
        value = json.dumps({"id": notice.event.question_id, "digest": data.get("digest")})
        is_whole = notice.is_whole and list(_fitting(notice)) == _texts(notice)
        if not (is_simple and is_whole and notice.is_open) or notice.event.kind not in CALLS:
            return []
        if len(value) > LONGEST_VALUE:
            return []
        approve = {**_button("Approve", APPROVE), "value": value, "style": "primary"}
        return [approve, {**_button("Reject", REJECT), "value": value, "style": "danger"}]


def blocks_of(notice: Notice) -> list[dict[str, Any]]:
    """Return a notice as blocks of plain text, so that people's texts cannot contain markup or mentions."""
    return [section(text) for text in _fitting(notice)]


def section(text: str) -> dict[str, Any]:
    """Return a block of plain text, cut to Slack's limit."""
    fitting = fitted(text, LONGEST_PART)
    return {"type": "section", "text": {"type": "plain_text", "text": fitting, "emoji": False}}


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


def length(text: str) -> int:
    """Return the length of a text as Slack counts: in UTF-16 code units, with ``&``, ``<`` and ``>`` escaped."""
    return len(escaped(text).encode("utf-16-le", "surrogatepass")) // 2


def fitted(text: str, most: int) -> str:
    """Return a text cut to a length as Slack counts, with an ellipsis if it is cut."""
    if len(text) * 5 <= most or length(text) <= most:
        return text
    lengths = accumulate((length(each) for each in text), initial=1)  # of the ellipsis
    kept = sum(1 for _ in takewhile(lambda used: used <= most, lengths)) - 1
    return f"{text[:kept]}…" if kept >= 0 else ""


def escaped(text: str) -> str:
    """Return text escaped so that Slack shows it literally."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _links(url: str) -> list[dict[str, Any]]:
    """Return a link button to the question's page, or to the inbox if the URL is too long for Slack."""
    if len(url) <= LONGEST_URL:
        return [{**_button("Look and answer", OPEN), "url": url}]
    inbox = url.rpartition("/")[0]  # the id is one segment
    return (
        [{**_button("Look and answer in the inbox", OPEN), "url": inbox}] if len(inbox) <= LONGEST_URL else []
    )


def _button(text: str, action_id: str) -> dict[str, Any]:
    return {"type": "button", "text": {"type": "plain_text", "text": text}, "action_id": action_id}
