"""The HTTP API as tools call it: in this process, with the credentials of the MCP request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx
from pydantic_core import from_json, to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.server.mcp.request import KEY, McpRequest

_OWN: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "idempotency-key"}
    | {"if-none-match", "last-event-id", "origin", "transfer-encoding"}
)
"""Headers of an MCP request that describe that request alone."""


class Refused(Exception):
    """The HTTP API has refused a request.

    Args:
        status: The HTTP status.
        detail: The reason, for the caller.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Api:
    """Sends requests of one tool call to the HTTP API.

    Args:
        http: A client of the API.
        said: The user who acts, for the bodies of requests, where callers are not authenticated.
    """

    def __init__(self, http: httpx.AsyncClient, said: Mapping[str, Any] | None = None) -> None:
        self._http = http
        self.said = dict(said or {})

    @property
    def by(self) -> dict[str, Any]:
        """The member ``by`` of a body, where callers are not authenticated."""
        return {"by": self.said["user_id"]} if self.said.get("user_id") else {}

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        """Return the response to a GET. Raises Refused."""
        given = {name: value for name, value in query.items() if value is not None}
        return _read(await self._http.get(path, params=given))

    async def find(self, path: str) -> dict[str, Any] | None:
        """Return the response to a GET; None if there is nothing at the path. Raises Refused."""
        try:
            return await self.get(path)
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a POST. Raises Refused."""
        given = {name: value for name, value in body.items() if value is not None or name == "value"}
        content = to_json(given, inf_nan_mode="constants")  # the API refuses NaN; null would skip a question
        return _read(
            await self._http.post(path, content=content, headers={"content-type": "application/json"})
        )


def _read(response: httpx.Response) -> dict[str, Any]:
    read = from_json(response.content or b"{}")
    found = cast("dict[str, Any]", read if isinstance(read, dict) else {})
    if response.is_success:
        return found
    detail = found.get("detail")
    raise Refused(response.status_code, str(detail or f"the server answered {response.status_code}"))


@asynccontextmanager
async def api_within(
    app: ASGIApp, scope: Scope | None, request: McpRequest, said: Mapping[str, Any] | None = None
) -> AsyncGenerator[Api]:
    """Yield the HTTP API of an app in this process.

    Args:
        app: The whole app, with its authentication and its limits.
        scope: The MCP request, whose credentials are sent along; None for a local caller.
        request: The mark of the requests.
        said: The user who acts, where callers are not authenticated.
    """

    async def marked(inner: Scope, receive: Receive, send: Send) -> None:
        await app({**inner, KEY: request}, receive, send)

    headers = (
        []
        if scope is None
        else [(name, value) for name, value in scope["headers"] if name.decode("latin-1") not in _OWN]
    )
    client = None if scope is None else scope.get("client")
    transport = httpx.ASGITransport(marked, raise_app_exceptions=False, client=client or ("127.0.0.1", 123))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers, timeout=None
    ) as http:
        yield Api(http, said)
