"""Limits how much one caller's requests may take of the server's memory at once. Further requests wait."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.errors import TooManyRequests
from signoff.server.auth.roles import path_of
from signoff.server.http.problems import problem
from signoff.server.http.request_bodies import LIMIT
from signoff.server.limits.long_bodies import LongBodies
from signoff.stores.contract.wire import PATH

READS_AT_ONCE: Final = 4
"""A read takes this part of a caller's budget: a page has up to 4 MiB."""

LEAST_BYTES: Final = 16 * 1024
"""What a request with a short body takes of the budget."""

LONGEST_WAIT_SECONDS: Final = 60.0
"""How long one request waits for the end of a run, or for an answer."""

MOST_WAITING: Final = 400
"""How many requests of one caller wait. Further ones are refused: each keeps its connection and a part of its body."""

_HEAVY: Final = ("/save", "/retry")
"""Ends of paths whose requests read much."""

_WAITING: Final = ("/result", "/health", "/ready", "/metrics")
"""Ends of paths whose requests take little, and may wait for long."""


class RequestLimit:
    """Middleware that makes the requests of one caller wait for each other, and never for those of another caller.

    A caller is a key, a signed-in user, or the address of an unauthenticated client. Batches of workers have limits of
    their own, and so do open streams.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._rooms = LongBodies(LIMIT, MOST_WAITING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_limited(path_of(scope)):
            await self._app(scope, receive, send)
            return
        address = scope["app"].state.services.address_of(scope)
        try:
            place = await self._rooms.enter(scope["signoff.actor"].caller(address), _size(scope))
        except TooManyRequests as refusal:
            await problem(refusal)(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_stream(message):
                place.leave()
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            place.leave()


def _is_limited(path: str) -> bool:
    return path.startswith("/v1/") and not path.startswith(PATH) and not path.endswith(_WAITING)


def _size(scope: Scope) -> int:
    """Return what a request takes of its caller's budget."""
    if path_of(scope).endswith(_HEAVY):
        return LIMIT
    if scope["method"] in ("GET", "HEAD"):
        return LIMIT // READS_AT_ONCE
    headers = Headers(scope=scope)
    unknown = LIMIT if "transfer-encoding" in headers else 0
    return max(LEAST_BYTES, int(headers.get("content-length", unknown)))


def _is_stream(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
