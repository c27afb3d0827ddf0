"""Connections to a ``signoff server``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final

import httpx

from signoff.errors import InvalidValue

CONNECT_SECONDS = 5.0
KEPT_SECONDS = 30.0
"""How long an idle connection is kept open: shorter than servers keep theirs, so that none is closed in use."""
UNCOMPRESSED: Final = {"accept-encoding": "identity"}
"""The header that asks for a response without compression."""

SILENT_SECONDS = 60.0  # a stream sends at least a comment every 15 s


def server_url(url: str) -> httpx.URL:
    """Parse the URL of a server. Raises InvalidValue."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidValue("url", f"{url!r}: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidValue(
            "url", f"{url!r} is not a valid server URL; expected http://127.0.0.1:8000 or similar"
        )
    return parsed


def shown_url(url: str) -> str:
    """Return a server's URL for messages and logs, without credentials."""
    parsed = server_url(url)
    return str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url


def key_headers(key: str | None) -> Mapping[str, str]:
    """Return the headers that authenticate a request, empty without a key. Surrounding white space is removed.

    Raises:
        InvalidValue: The key has characters that no key has. The message does not quote it.
    """
    stripped = (key or "").strip()
    if not re.fullmatch(r"[!-~]*", stripped):
        raise InvalidValue(
            "key", "an API key or worker key has no spaces, line breaks or non-ASCII characters in it"
        )
    return {"authorization": f"Bearer {stripped}"} if stripped else {}


def new_client(
    base: httpx.URL, *, answer_seconds: float, headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    """Make an HTTP client.

    Args:
        base: The server.
        answer_seconds: How long the server may send nothing.
        headers: Headers of every request.
    """
    # httpx logs each request's URL, so the password must not stay in it. A key has precedence: both use one header.
    auth = httpx.BasicAuth(base.username, base.password) if base.userinfo and not headers else None
    return httpx.AsyncClient(
        base_url=base.copy_with(userinfo=b"") if base.userinfo else base,
        auth=auth,
        headers=headers,
        timeout=httpx.Timeout(answer_seconds, connect=CONNECT_SECONDS, pool=None),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=100, keepalive_expiry=KEPT_SECONDS
        ),
        verify=base.scheme == "https",  # loading all certificates is slow, and http needs none
        trust_env=not is_loopback(base.host),  # a proxy cannot reach this machine's loopback
    )


async def read_uncompressed(response: httpx.Response, most: int) -> bytes:
    """Read the body of a streamed response from a program that is not trusted, such as the receiver of a webhook.

    Args:
        response: The response to a request with ``UNCOMPRESSED``.
        most: How many bytes to read. The result is longer if there are more.

    Raises:
        httpx.DecodingError: It is compressed. A kilobyte may unpack to gigabytes, in a single step.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx.DecodingError("it is compressed", request=response.request)
    body = bytearray()
    async for part in response.aiter_raw():
        body += part
        if len(body) > most:
            break
    return bytes(body)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback address or ``localhost``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
