"""Serves MCP on stdin and stdout, for clients that start a program: on a database, or as a bridge to a server."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
)
from mcp.types.version import LATEST_MODERN_VERSION

from signoff.records import Origin, OriginWay
from signoff.records.origins import of_command
from signoff.server.app import create_server_app
from signoff.server.mcp.api import api_within
from signoff.server.mcp.protocol import TOOLS, Caller, declared, mcp_server
from signoff.server.mcp.request import PATH, McpRequest
from signoff.server.mcp.settings import McpSettings
from signoff.stores.contract.store import Store
from signoff.version import __version__

CONNECT_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 60.0
"""How long a call that may be repeated is tried again after the connection to the server is lost."""

_PERMISSION: Final = "permission_prompt"
_REPEATABLE: Final = (_PERMISSION, "ask_person", "await_answer")

T = TypeVar("T")


async def serve_store(
    store: Store, *, settings: McpSettings, said: Mapping[str, Any], assignees: Sequence[str] = ()
) -> None:
    """Serve a database until stdin ends. The caller has the database, so it is not authenticated.

    Args:
        store: An open store.
        settings: What callers may do.
        said: The user who acts, with groups and roles, as the members of a body.
        assignees: Who may answer the caller's questions, unless it names assignees.
    """
    app = create_server_app(store, mcp_settings=settings)
    known = of_command()
    request = McpRequest(Origin(OriginWay.MCP, known.credential, address=known.address))
    user: str | None = said.get("user_id")

    @asynccontextmanager
    async def connect(_: ServerRequestContext[Any, Any]) -> AsyncGenerator[Caller]:
        async with api_within(app, None, request, said) as api:
            yield Caller(api, user, assignees=assignees, now=store.clock.now)

    async with app.router.lifespan_context(app):
        await _serve(mcp_server(connect))


async def bridge(
    url: str, *, key: str | None, assignees: Sequence[str] = (), retry_seconds: float = RETRY_SECONDS
) -> None:
    """Pass calls on to the MCP server of a ``signoff server``, until stdin ends. The server authenticates the key.

    Args:
        url: The server, such as ``https://signoff.example.com``.
        key: An API key, or an access token of the server's identity provider.
        assignees: Who may answer the caller's questions, unless it names assignees.
        retry_seconds: How long a question is asked again after the connection was lost.
    """
    query = httpx2.QueryParams([("assignee", each) for each in assignees])
    target = f"{url.rstrip('/')}{PATH}" + (f"?{query}" if assignees else "")
    headers = {"authorization": f"Bearer {key}"} if key else {}
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)

    async def ask(work: Callable[[Client], Awaitable[T]]) -> T:
        refusals: list[int] = []

        async def note(response: httpx2.Response) -> None:
            if response.is_error:
                refusals.append(response.status_code)

        hooks = {"response": [note]}
        try:
            async with httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as http:
                transport = streamable_http_client(target, http_client=http)
                async with Client(transport, mode=LATEST_MODERN_VERSION) as client:
                    return await work(client)
        except Exception as error:
            if refusals:
                raise MCPError(INTERNAL_ERROR, _refused(url, refusals[-1])) from error
            raise

    async def list_tools(
        _: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        cursor = None if params is None else params.cursor
        try:
            return await ask(lambda client: client.list_tools(cursor=cursor))
        except Exception as error:
            if _is_lost(error) and cursor is None:  # the server may be back when a tool is called
                return ListToolsResult(tools=[declared(tool) for tool in TOOLS.values()])
            raise MCPError(INTERNAL_ERROR, _reason(url, error)) from None

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        arguments = dict(params.arguments or {})
        if params.name == _PERMISSION:
            arguments.setdefault("tool_use_id", uuid.uuid4().hex)

        async def pass_on(progress: float, total: float | None, message: str | None) -> None:
            await ctx.session.report_progress(progress, total, message)

        async def call(client: Client) -> CallToolResult:
            return await client.call_tool(params.name, arguments, progress_callback=pass_on)

        try:
            return await _repeated(lambda: ask(call), retry_seconds if params.name in _REPEATABLE else 0.0)
        except Exception as error:
            return _failed(params.name, _reason(url, error))

    await _serve(
        Server(
            "signoff", title="Signoff", version=__version__, on_list_tools=list_tools, on_call_tool=call_tool
        )
    )


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _repeated(call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return what a call returns. After a lost connection, repeat it for some seconds."""
    pause, loop = 0.5, asyncio.get_running_loop()
    until: float | None = None
    while True:
        began = loop.time()
        try:
            return await call()
        except Exception as error:
            if not _is_lost(error):
                raise
            if until is None or loop.time() - began > seconds:
                until, pause = loop.time() + seconds, 0.5
            if loop.time() + pause > until:
                raise
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)


def _is_lost(error: BaseException) -> bool:
    """Whether the connection was lost or refused, rather than the call."""
    error = _first(error)
    return isinstance(error, httpx2.TransportError) or (
        isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
    )


def _refused(url: str, status: int) -> str:
    advice = {
        401: "it needs a valid key: set SIGNOFF_KEY",
        403: "the key has no role with access",
        404: "it has no MCP server",
        501: "its MCP server needs the extra `mcp`",
    }
    return f"{url} answered HTTP {status}: {advice.get(status, 'see its log')}"


def _reason(url: str, error: BaseException) -> str:
    """Return the reason of a failure in words."""
    error = _first(error)
    if isinstance(error, MCPError):
        return error.message
    return f"the server {url} cannot be reached: {str(error) or type(error).__name__}"


def _first(error: BaseException) -> BaseException:
    """Return the error in a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def _failed(tool: str, reason: str) -> CallToolResult:
    """Return an error. A permission that could not be asked for is denied."""
    if tool == _PERMISSION:
        denied = json.dumps({"behavior": "deny", "message": reason})
        return CallToolResult(content=[TextContent(type="text", text=denied)])
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
