"""Limits how many bytes of one sender's long bodies the ports of Resonate's protocols read and parse at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import SignoffError, TooManyRequests
from signoff.server.http.problems import problem
from signoff.server.http.request_bodies import SNAPSHOT_LIMIT
from signoff.server.limits.long_bodies import LONG_BYTES, LongBodies
from signoff.server.resonate.access import sender_of
from signoff.server.resonate.basic_auth import with_bearer

if TYPE_CHECKING:
    from signoff.server.services import Services

MOST_WAITING: Final = 400
"""How many long bodies of one sender wait. Further ones are refused: each keeps its connection and a part of itself."""


class LongRequests:
    """Middleware that makes long bodies of one sender wait for each other, and never for those of another sender.

    Senders without a valid key in a header count by their addresses.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._bodies = LongBodies(SNAPSHOT_LIMIT, MOST_WAITING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = _size(scope) if scope["type"] == "http" else 0
        if size <= LONG_BYTES:
            await self._app(scope, receive, send)
            return
        try:
            place = await self._bodies.enter(await _caller(scope["app"].state.services, scope), size)
        except TooManyRequests as refusal:
            await problem(refusal)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            place.leave()


def _size(scope: Scope) -> int:
    headers = Headers(scope=scope)
    return SNAPSHOT_LIMIT if "transfer-encoding" in headers else int(headers.get("content-length", "0"))


async def _caller(services: Services, scope: Scope) -> str:
    address = services.address_of(scope)
    try:
        return (await sender_of(services, with_bearer(scope))).caller(address)
    except SignoffError:
        return f"address {address}"
