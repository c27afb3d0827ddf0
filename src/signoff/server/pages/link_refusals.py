"""Shows refusals by middleware at an answer link, such as a body that is too long, as pages for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.errors import UnknownLink
from signoff.server.auth.roles import path_of
from signoff.server.pages.answer_link import message_page
from signoff.server.routes.links import FORMS, wants_problem, words

_WORDS: Final[Mapping[int, tuple[str, str]]] = {
    404: words(UnknownLink()),
    413: (
        "This is too long",
        "Nothing was changed. Go back and shorten it to less than about a million characters.",
    ),
    429: ("Too many requests", "Nothing was changed. Try again in a moment."),
}


class LinkRefusals:
    """Middleware that turns problem responses at answer links into pages, unless the client accepts JSON and not HTML.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_link = scope["type"] == "http" and path_of(scope).startswith(FORMS)
        if not is_link or wants_problem(Headers(scope=scope).get("accept", "")):
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        body = b""

        async def send_page(message: Message) -> None:
            nonlocal begun, body
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind == "application/problem+json":
                    begun = message
                    return
            elif begun is not None:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    await _page(begun, body)(scope, receive, send)
                return
            await send(message)

        await self._app(scope, receive, send_page)


def _page(begun: Message, body: bytes) -> ASGIApp:
    status: int = begun["status"]
    said: dict[str, Any] = json.loads(body or b"{}")
    known = (
        ("This cannot be done now", "Nothing was changed. Try again in a moment.") if status >= 500 else None
    )
    detail = said.get("detail", HTTPStatus(status).phrase)
    title, text = _WORDS.get(status) or known or ("This was refused", f"Nothing was changed: {detail}")
    page = message_page(title, text, status)
    for name in ("retry-after", "allow", "vary"):
        if (value := Headers(raw=begun["headers"]).get(name)) is not None:
            page.headers[name] = value
    return page
