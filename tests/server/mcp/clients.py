"""Real clients of the ``mcp`` SDK, signed in to a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

T = TypeVar("T")

MODES = ("legacy", "2026-07-28")
"""A client of the protocol with a handshake, and one of the protocol without."""


@asynccontextmanager
async def mcp_client(
    url: str,
    key: str | None = None,
    *,
    mode: str = MODES[-1],
    headers: dict[str, str] | None = None,
    query: str = "",
    **more: Any,
) -> AsyncIterator[Client]:
    """A client that sends a key, or what a proxy sends for a user."""
    own = {**({"authorization": f"Bearer {key}"} if key else {}), **(headers or {})}
    async with (
        httpx2.AsyncClient(headers=own, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp{query}", http_client=http), mode=mode, **more) as client,
    ):
        yield client


def user(name: str, roles: str = "responder", groups: str = "") -> dict[str, str]:
    """The headers that the proxy sends for a user."""
    said = {"X-Forwarded-User": name, "X-Forwarded-Roles": roles, "X-Forwarded-Groups": groups}
    return {header: value for header, value in said.items() if value}


def with_client(work: Callable[[Client], Awaitable[T]], url: str, key: str | None = None, **more: Any) -> T:
    """Return what ``work`` makes of a client."""

    async def run() -> T:
        async with mcp_client(url, key, **more) as client:
            return await work(client)

    return asyncio.run(run())


def told(result: CallToolResult) -> Any:
    """The JSON of a result that is no error."""
    [content] = result.content
    assert not result.is_error, content
    return json.loads(content.text)  # type: ignore[union-attr]


def refused(result: CallToolResult) -> str:
    """The text of an error. It has no structured content: clients would check that against a schema."""
    [content] = result.content
    assert result.is_error, content
    assert result.structured_content is None
    return content.text  # type: ignore[union-attr]


def posted(
    http: httpx.Client,
    method: str,
    params: dict[str, Any],
    change: Callable[[str], str] = lambda text: text,
    **headers: str,
) -> str:
    """Post a message of the older protocol as a program without the SDK does, and return the reply's text."""
    accepted = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return http.post("/mcp", content=change(message), headers={**accepted, **headers}).text
