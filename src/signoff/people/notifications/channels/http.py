"""What senders that talk HTTP have in common: one POST, and what its status means."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.channels.silenced_logging import quiet
from signoff.wire.http import new_client

SILENT_SECONDS = 30.0  # an attempt's own limit is usually shorter
LONGEST_REPLY = 64 * 1024
LONGEST_WORD = 64

_WORD: Final = re.compile(b"[a-z]+(_[a-z]+)+")
_MOVED_PERMANENTLY: Final = (301, 308)
_TRIED_AGAIN: Final = frozenset({401, 402, 403, 407, 408, 409, 421, 423, 424, 425, 426, 428, 429})
"""Of the statuses that blame the request, those that time or an administrator mends without another message."""


class Post:
    """Sends JSON to one URL, which comes from the configuration. Redirects are not followed.

    Args:
        url: Where to. It may have secrets in it, so nothing that is said of a failure names it.

    Raises:
        InvalidValue: It is no such URL.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise InvalidValue("url", "it is no URL") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidValue("url", "it is no URL that begins with http:// or https://")
        self._url = parsed
        self._client = new_client(parsed, answer_seconds=SILENT_SECONDS)

    async def send(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Return the reply's body, if it says that all is well. Raises Undelivered."""
        try:
            request = self._client.build_request("POST", self._url, content=body, headers=dict(headers))
            with quiet():
                response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                check(response, await _first_word(response))
                reply = b""
                async for part in response.aiter_bytes():
                    reply += part
                    if len(reply) > LONGEST_REPLY:
                        break
                return reply
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise Undelivered(f"no answer: {type(error).__name__}") from None

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()


def check(response: httpx.Response, word: str = "") -> None:
    """Raise Undelivered unless the status says that it was taken.

    Args:
        response: The reply.
        word: Its body, if that is one word such as ``invalid_blocks``.
    """
    status = response.status_code
    if 200 <= status < 300:
        return
    if status == 410:
        raise Undelivered("HTTP 410: the other side is gone for good", is_final=True)
    if 300 <= status < 400:
        raise Undelivered(
            f"HTTP {status}: a redirect, which is not followed", is_final=status in _MOVED_PERMANENTLY
        )
    retry_after = _seconds(response.headers.get("retry-after")) if status in (429, 503) else None
    is_final = 400 <= status < 500 and status not in _TRIED_AGAIN
    said = f": {word}" if word else ""
    raise Undelivered(f"HTTP {status}{said}", retry_after=retry_after, is_final=is_final)


async def _first_word(response: httpx.Response) -> str:
    """Return the body of a refusal if it is one word; nothing else of it may be kept or logged."""
    if response.is_success:
        return ""
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > LONGEST_WORD:
            return ""
    return body.decode() if _WORD.fullmatch(body) else ""


def _seconds(header: str | None) -> float | None:
    """Return in how many seconds to try again: a number, or the time of a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header[:12])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
