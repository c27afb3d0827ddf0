"""Ids in paths: any printable characters, slashes too, each percent-encoded by the caller."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import Path
from pydantic import AfterValidator
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.server.http.request_bodies import storable

Id = Annotated[
    str,
    Path(min_length=1, description="Percent-encoded, slashes too"),
    AfterValidator(unquote),
    AfterValidator(storable),
]
"""A path parameter that holds an id."""


class EncodedPaths:
    """Has paths matched as they were sent: an encoded slash is part of an id, not the end of it.

    Args:
        app: What comes next.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self._app(scope, receive, send)
