"""Ids in paths. They may have any printable characters, slashes too; the caller percent-encodes them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.server.http.request_bodies import storable

Id = Annotated[
    str,
    Path(min_length=1, description="Percent-encoded, slashes included"),
    AfterValidator(unquote),
    AfterValidator(storable),
]
"""A path parameter that holds an id."""


class EncodedPaths:
    """Matches routes against the path as it was sent: an encoded slash is part of an id, not a separator.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self._app(scope, receive, send)
