"""Security headers of every response: other sites may not embed it, and caches may not store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE_HEADERS: Final[Mapping[str, str]] = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Defaults, which a route may override. ``strict-transport-security`` is left to the proxy that terminates TLS."""

_RAW: Final = [(name.encode(), value.encode()) for name, value in SAFE_HEADERS.items()]


class SafeHeaders:
    """Middleware that adds ``SAFE_HEADERS`` to each response that does not set them itself.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name.lower() for name, _ in headers}
                message["headers"] = headers + [each for each in _RAW if each[0] not in present]
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
