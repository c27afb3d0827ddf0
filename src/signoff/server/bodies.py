"""Bodies of requests: read up to a limit before anybody parses them, and refused if they say too much."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.codec import MAX_BYTES
from signoff.errors import PayloadTooLarge
from signoff.server.problems import problem

LIMIT = MAX_BYTES + 64 * 1024
"""How long a body may be in bytes: the largest value, and what is around it."""


def _unicode(text: str) -> str:
    text.encode()  # fails at half of a surrogate pair, which JSON can escape and no store can hold
    return text


Text = Annotated[str, AfterValidator(_unicode)]


class Body(BaseModel):
    """Base of what bodies hold: unknown fields and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class BodyLimit:
    """Reads the body and passes it on whole, or answers 413.

    Args:
        app: What comes next.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "content-length" not in headers and "transfer-encoding" not in headers:
            await self._app(scope, receive, send)
            return
        size = int(headers.get("content-length", "0"))
        body = b""
        more = True
        while more and size <= LIMIT:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            size = max(size, len(body))
        if size > LIMIT:
            await problem(PayloadTooLarge("body", size, LIMIT))(scope, receive, send)
            return
        unread: list[Message] = [{"type": "http.request", "body": body}]

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)
