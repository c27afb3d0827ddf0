"""What senders that talk HTTP have in common: one POST, and what its status means."""

from __future__ import annotations

import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import httpx

from signoff.errors import InvalidValue
from signoff.http_connection import new_client
from signoff.people.channels.channel import Undelivered
from signoff.people.channels.quiet import quiet

SILENT_SECONDS = 30.0  # an attempt's own limit is usually shorter
LONGEST_REPLY = 64 * 1024


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
                check(response)
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


def check(response: httpx.Response) -> None:
    """Raise Undelivered unless the status says that it was taken."""
    status = response.status_code
    if 200 <= status < 300:
        return
    if status == 410:
        raise Undelivered("HTTP 410: the other side is gone for good", is_final=True)
    if 300 <= status < 400:
        raise Undelivered(f"HTTP {status}: a redirect, which is not followed")
    retry_after = _seconds(response.headers.get("retry-after")) if status in (429, 503) else None
    raise Undelivered(f"HTTP {status}", retry_after=retry_after)


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
