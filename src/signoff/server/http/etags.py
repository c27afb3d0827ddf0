"""ETags: a client that already has a response gets a short 304 instead."""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LENGTH: Final = 16  # bytes: enough to rule out that two responses to a request share a tag by chance


class ETags:
    """Adds an ``ETag``, a hash of the body, to JSON responses to GET, and answers 304 if the client sent the same tag.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def send_tagged(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_document(message):
                held.append(message)
                return
            if held:
                start = held.pop()
                if not message.get("more_body", False):
                    start, message = _tagged(start, message, Headers(scope=scope))
                await send(start)
            await send(message)

        await self._app(scope, receive, send_tagged)


def _is_document(start: Message) -> bool:
    return start["status"] == 200 and Headers(raw=start["headers"]).get("content-type") == "application/json"


def _tagged(start: Message, body: Message, asked: Headers) -> tuple[Message, Message]:
    tag = f'"{hashlib.blake2b(body["body"], digest_size=_LENGTH).hexdigest()}"'
    headers = MutableHeaders(scope=start)
    headers["etag"] = tag
    known = ",".join(asked.getlist("if-none-match"))
    if known.strip() != "*" and tag not in (each.strip().removeprefix("W/") for each in known.split(",")):
        return start, body
    for name in ("content-length", "content-type"):
        del headers[name]
    return {**start, "status": 304}, {**body, "body": b""}
