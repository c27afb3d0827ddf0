"""The public URL of a server, and its host."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from signoff.errors import InvalidValue

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]]+)(:[0-9]*)?")


def checked_public_url(url: str) -> tuple[str, str]:
    """Return a public URL and its host. Raises InvalidValue."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    host = host_of(parts.netloc)
    if parts.scheme not in ("http", "https") or host is None or parts.query or parts.fragment:
        raise InvalidValue("public_url", f"{url!r} is not written as https://signoff.example.com")
    return url.rstrip("/"), host


def host_of(netloc: str) -> str | None:
    """Return a host without its port, or None if it is malformed."""
    match = _HOST.fullmatch(netloc.lower())
    return None if match is None else match[1]
