"""Webhooks, signed as specified by https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import floor
from typing import Any, Final

from pydantic_core import to_json
from standardwebhooks import Webhook

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.notices import Notice
from signoff.wire.records import to_wire

SHORTEST_SECRET: Final = 24  # bytes, from the specification
LONGEST_SECRET: Final = 64


class WebhookSender:
    """Posts each event to a URL.

    Args:
        url: The URL.
        secrets: Signing secrets, ``whsec_`` and base64; during a rotation the old and the new one.

    Raises:
        InvalidValue: The URL or a secret is invalid.
    """

    is_shared = True
    is_record = True
    is_mailbox = False

    def __init__(self, url: str, secrets: Sequence[str]) -> None:
        self._signatures = Signatures(secrets)
        self._post = Post(url)

    def address_of(self, assignee: str) -> str | None:
        return None

    async def send(self, notice: Notice) -> None:
        body = to_json(_body(notice))
        await self._post.send(body, self._signatures.headers(notice.delivery.id, notice.now, body))

    async def close(self) -> None:
        await self._post.close()


class Signatures:
    """Signs requests.

    Args:
        secrets: The signing secrets. The receiver has one of them.

    Raises:
        InvalidValue: The list is empty, or a secret is invalid.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        if not secrets:
            raise InvalidValue("secrets", "at least one is needed to sign the webhook")
        self._signers = [_signer(secret) for secret in secrets]

    def headers(self, id: str, now: float, body: bytes) -> dict[str, str]:
        """Return the headers of a request.

        Args:
            id: Id that lets the receiver recognize a repeated delivery.
            now: The time, in unix seconds.
            body: JSON.
        """
        at = datetime.fromtimestamp(now, UTC)
        return {
            "content-type": "application/json",
            "user-agent": "signoff",
            "webhook-id": id,
            "webhook-timestamp": str(floor(now)),
            "webhook-signature": " ".join(signer.sign(id, at, body.decode()) for signer in self._signers),
        }


def _signer(secret: str) -> Webhook:
    """Return the signer of a secret. Checks it, because the library accepts text that is hardly base64."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        key = b""
    if not SHORTEST_SECRET <= len(key) <= LONGEST_SECRET:
        raise InvalidValue("secrets", "a secret is not whsec_ and the base64 of 24 to 64 bytes")
    return Webhook(key)


def _body(notice: Notice) -> dict[str, Any]:
    event, question = notice.event, notice.question
    details = dict(notice.details)
    if question is not None:
        details.pop("data", None)  # it is part of the question
    return {
        "type": f"question.{event.kind.value}",
        "timestamp": datetime.fromtimestamp(event.at, UTC).isoformat(),
        "data": {
            "delivery_id": notice.delivery.id,
            "namespace": event.namespace,
            "event_id": event.id,
            "seq": notice.delivery.seq,
            "question_id": event.question_id,
            "run_id": event.run_id,
            "by": event.by,
            "details": details,
            # the IP address of an actor is for the audit trail only
            "question": None if question is None else to_wire(replace(question, origin=None)),
            "url": notice.url,
        },
    }
