"""Serves MCP at ``/mcp``: streamable HTTP without sessions, so that clients survive a restart of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from signoff.server.auth.actors import actor_of
from signoff.server.mcp.api import api_within
from signoff.server.mcp.request import McpRequest

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from signoff.server.mcp.protocol import Caller


class McpDoor:
    """The MCP endpoint of a running server. The SDK is imported at the first request."""

    def __init__(self) -> None:
        self._starting = asyncio.Lock()
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._manager: StreamableHTTPSessionManager | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a POST. Raises ModuleNotFoundError without the extra ``mcp``."""
        manager = await self._started()
        await manager.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End all calls."""
        self._stop.set()
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                made = await asyncio.to_thread(_manager)  # the import takes about a second
                listening = asyncio.Event()
                self._running = asyncio.create_task(self._run(made, listening), name="signoff mcp")
                await listening.wait()
                self._manager = made
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, listening: asyncio.Event) -> None:
        async with manager.run():
            listening.set()
            await self._stop.wait()


def _manager() -> StreamableHTTPSessionManager:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    from signoff.server.mcp.protocol import mcp_server

    return StreamableHTTPSessionManager(mcp_server(_connected), stateless=True)


@asynccontextmanager
async def _connected(ctx: ServerRequestContext[Any, Any]) -> AsyncGenerator[Caller]:
    from signoff.server.mcp.protocol import Caller

    request = cast("Request", ctx.request)
    person = actor_of(request).person
    name = None if person is None else person.user_id
    roles = None if person is None else person.roles
    assignees = request.query_params.getlist("assignee")
    async with api_within(request.app, request.scope, McpRequest()) as api:
        yield Caller(api, name, roles, assignees, request.app.state.services.store.clock.now)
