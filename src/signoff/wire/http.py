"""Connections to a ``signoff server``."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

import httpx

from signoff.errors import InvalidValue

CONNECT_SECONDS = 5.0
KEPT_SECONDS = 30.0
"""How long an idle connection is kept: less than servers keep theirs."""
SILENT_SECONDS = 60.0  # a stream says something every 15 s, if only a comment


def server_url(url: str) -> httpx.URL:
    """Return the URL of a server, parsed. Raises InvalidValue."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidValue("url", f"{url!r}: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidValue("url", f"{url!r} is no URL of a server, such as http://127.0.0.1:8000")
    return parsed


def shown_url(url: str) -> str:
    """Return a server's URL for messages and logs: without a user and a password for a proxy on the way."""
    parsed = server_url(url)
    return str(parsed.copy_with(userinfo=b"")) if parsed.userinfo else url


def key_headers(key: str | None) -> Mapping[str, str]:
    """Return what a request proves itself by, without a line's end from the file that the key was in.

    Raises:
        InvalidValue: It can be no key. The message does not say it.
    """
    stripped = (key or "").strip()
    if not re.fullmatch(r"[!-~]*", stripped):
        raise InvalidValue(
            "key", "neither an API key nor a worker key has spaces, line ends or special characters in it"
        )
    return {"authorization": f"Bearer {stripped}"} if stripped else {}


def new_client(
    base: httpx.URL, *, answer_seconds: float, headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    """Make an HTTP client.

    Args:
        base: The server.
        answer_seconds: How long it may be silent.
        headers: What every request carries.
    """
    # httpx logs each request's URL, so no password stays in it. A key goes before it: there is one such header.
    auth = httpx.BasicAuth(base.username, base.password) if base.userinfo and not headers else None
    return httpx.AsyncClient(
        base_url=base.copy_with(userinfo=b"") if base.userinfo else base,
        auth=auth,
        headers=headers,
        timeout=httpx.Timeout(answer_seconds, connect=CONNECT_SECONDS, pool=None),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=100, keepalive_expiry=KEPT_SECONDS
        ),
        verify=base.scheme == "https",  # or each client reads all certificates, for nothing
        trust_env=not is_loopback(base.host),  # no proxy leads back here
    )


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
