"""CORS: other sites whose pages the operator allows to read and write here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from signoff.errors import InvalidValue

_ORIGIN: Final = re.compile(r"https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def check_origins(origins: Iterable[str]) -> frozenset[str]:
    """Return origins as browsers write them.

    Raises:
        InvalidValue: An origin is not valid. ``*`` is not: each site must be named.
    """
    found = frozenset(origin.lower() for origin in origins)
    for origin in found:
        if _ORIGIN.fullmatch(origin) is None:
            raise InvalidValue(
                "allowed_origins",
                f"{origin!r} is not written as https://app.example.com or http://localhost:5173",
            )
    return found


def cross_origin_options(origins: frozenset[str]) -> dict[str, Any]:
    """Return the options of Starlette's ``CORSMiddleware``. Credentials are allowed: proxies need users' cookies."""
    return {
        "allow_origins": sorted(origins),
        "allow_methods": ["GET", "POST"],
        "allow_headers": [
            "authorization",
            "content-type",
            "idempotency-key",
            "if-none-match",
            "last-event-id",
            *("mcp-method", "mcp-name", "mcp-protocol-version"),
        ],
        "allow_credentials": True,
        "expose_headers": ["etag", "retry-after", "www-authenticate"],
        "max_age": 600,
    }
