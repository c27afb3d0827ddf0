"""HTTP for senders: one POST, and the meaning of its status."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from signoff.errors import InvalidValue
from signoff.people.notifications.channels.channel import Undelivered
from signoff.people.notifications.channels.silenced_logging import silenced
from signoff.wire.http import UNCOMPRESSED, new_client, read_uncompressed

SILENT_SECONDS = 30.0  # an attempt's own limit is usually shorter
LONGEST_REPLY = 64 * 1024
LONGEST_WORD = 64

_WORD: Final = re.compile(b"[a-z]+(_[a-z]+)+")
_MOVED_PERMANENTLY: Final = (301, 308)
_TRIED_AGAIN: Final = frozenset({401, 402, 403, 407, 408, 409, 421, 423, 424, 425, 426, 428, 429})
"""Statuses that blame the request, but can be resolved by time or by an administrator."""


class Post:
    """Sends JSON to one URL from the configuration. Does not follow redirects.

    Args:
        url: The URL. It may contain secrets, so no error names it.

    Raises:
        InvalidValue: It is not an HTTP URL.
    """

    def __init__(self, url: str) -> None:
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            raise InvalidValue("url", "not a valid URL") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InvalidValue("url", "must begin with http:// or https://")
        self._url = parsed
        self._client = new_client(parsed, answer_seconds=SILENT_SECONDS)

    async def send(self, body: bytes, headers: Mapping[str, str], *, most: int = LONGEST_REPLY) -> bytes:
        """Return the body of a successful response, up to ``most`` bytes. Raises Undelivered."""
        try:
            request = self._client.build_request(
                "POST", self._url, content=body, headers={**headers, **UNCOMPRESSED}
            )
            with silenced():
                response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                check(response, await _first_word(response))
                return await _uncompressed(response, most)
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise Undelivered(f"no answer: {type(error).__name__}") from None

    async def close(self) -> None:
        """Close connections."""
        await self._client.aclose()


def check(response: httpx.Response, word: str = "") -> None:
    """Raise Undelivered for an unsuccessful status.

    Args:
        response: The response.
        word: Its body, if that is one word such as ``invalid_blocks``.
    """
    status = response.status_code
    if 200 <= status < 300:
        return
    if status == 410:
        raise Undelivered("HTTP 410: the receiver is permanently gone", is_final=True)
    if 300 <= status < 400:
        raise Undelivered(f"HTTP {status}: redirects are not followed", is_final=status in _MOVED_PERMANENTLY)
    retry_after = _seconds(response.headers.get("retry-after")) if status in (429, 503) else None
    is_final = 400 <= status < 500 and status not in _TRIED_AGAIN
    said = f": {word}" if word else ""
    raise Undelivered(f"HTTP {status}{said}", retry_after=retry_after, is_final=is_final)


async def _first_word(response: httpx.Response) -> str:
    """Return the body of an error response if it is one word. Other bodies must not be stored or logged."""
    if response.is_success:
        return ""
    body = await _uncompressed(response, LONGEST_WORD)
    return body.decode() if len(body) <= LONGEST_WORD and _WORD.fullmatch(body) else ""


async def _uncompressed(response: httpx.Response, most: int) -> bytes:
    """Return the body of a response, empty if it is compressed: the receiver has the message nevertheless."""
    try:
        return await read_uncompressed(response, most)
    except httpx.DecodingError:
        return b""


def _seconds(header: str | None) -> float | None:
    """Return the seconds until a retry, from a number or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header[:12])
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
