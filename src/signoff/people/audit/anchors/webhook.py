"""An anchor that receives checkpoints by webhook, signed like those of notifications."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import httpx
from pydantic_core import to_json

from signoff.people.audit.anchors.anchor import AnchorUnavailable, Kept
from signoff.people.audit.anchors.checkpoint import Checkpoint
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.channels.http import Post
from signoff.people.notifications.channels.webhook import Signatures
from signoff.runtime.clock import Clock


class WebhookAnchor:
    """Posts each checkpoint to a URL. The receiver stores it; Signoff cannot read it back.

    Args:
        url: The URL.
        secrets: Signing secrets, ``whsec_`` and base64; during a rotation the old and the new one.
        clock: The clock for the time of signatures.

    Raises:
        InvalidValue: The URL or a secret is invalid.
    """

    def __init__(self, url: str, secrets: Sequence[str], clock: Clock) -> None:
        self._post = Post(url)
        self._signatures = Signatures(secrets)
        self._clock = clock
        parsed = httpx.URL(url)
        # The path and the query may contain a secret, so a digest of the whole URL distinguishes two of one host.
        digest = hashlib.sha256(url.encode()).hexdigest()[:8]
        port = "" if parsed.port is None else f":{parsed.port}"
        self._name = f"{parsed.scheme}://{parsed.host}{port}/...#{digest}"

    @property
    def name(self) -> str:
        return self._name

    async def keep(self, checkpoint: Checkpoint) -> None:
        id = delivery_id_of(checkpoint)
        body = to_json(
            {
                "type": "audit.anchored",
                "timestamp": datetime.fromtimestamp(checkpoint.at, UTC).isoformat(),
                "data": {
                    "delivery_id": id,
                    "origin": checkpoint.origin,
                    "namespace": checkpoint.namespace,
                    "seq": checkpoint.seq,
                    "hash": checkpoint.hash,
                    "restart": checkpoint.restart,
                    "note": checkpoint.text,
                },
            }
        )
        try:
            await self._post.send(body, self._signatures.headers(id, self._clock.now(), body))
        except Undelivered as error:
            raise AnchorUnavailable(self.name, str(error)) from None

    async def read(self, origin: str, namespace: str | None = None) -> Kept | None:
        return None

    async def close(self) -> None:
        await self._post.close()


def delivery_id_of(checkpoint: Checkpoint) -> str:
    """Return the id that lets the receiver recognize a repeated checkpoint."""
    facts = (checkpoint.origin, checkpoint.namespace, checkpoint.size, checkpoint.hash, checkpoint.restart)
    return f"anchor_{hashlib.sha256(to_json(facts)).hexdigest()[:32]}"
