"""Rejects oversized request headers and URLs."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import InvalidValue
from signoff.server.http.problems import problem

LONGEST_URL: Final = 32 * 1024
"""Bytes of path and query. Enough for the inbox of a user in 200 groups."""

LONGEST_HEADERS: Final = 64 * 1024
"""Bytes of all names and values."""

MOST_HEADERS: Final = 100


class HeaderLimit:
    """Middleware that answers 414 or 431 if a request's URL or headers are too long.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope) if scope["type"] == "http" else None
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await problem(*refusal)(scope, receive, send)


def _refusal(scope: Scope) -> tuple[InvalidValue, int] | None:
    size = len(scope["raw_path"]) + len(scope["query_string"])
    if size > LONGEST_URL:
        return InvalidValue("url", f"{size:,} bytes are more than {LONGEST_URL:,}"), 414
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if len(headers) > MOST_HEADERS:
        return InvalidValue("headers", f"{len(headers)} are more than {MOST_HEADERS}"), 431
    size = sum(len(name) + len(value) for name, value in headers)
    if size > LONGEST_HEADERS:
        return InvalidValue("headers", f"{size:,} bytes are more than {LONGEST_HEADERS:,}"), 431
    return None
