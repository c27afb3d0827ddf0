"""Limits how many bytes of one sender's long bodies the ports of Resonate's protocols read and parse at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import SignoffError, TooManyRequests
from signoff.server.http.problems import problem
from signoff.server.http.request_bodies import SNAPSHOT_LIMIT, stated_size
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
        size = stated_size(scope) if scope["type"] == "http" else None
        if size is None or 0 < size <= LONG_BYTES:
            await self._app(scope, receive, send)
            return
        try:
            caller = await _caller(scope["app"].state.services, scope)
            place = await self._bodies.enter(caller, size or SNAPSHOT_LIMIT)
        except TooManyRequests as refusal:
            await problem(refusal)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            place.leave()


async def _caller(services: Services, scope: Scope) -> str:
    address = services.address_of(scope)
    try:
        return (await sender_of(services, with_bearer(scope))).caller(address)
    except SignoffError:
        return f"address {address}"
