"""The routes of an agent: its card, and JSON-RPC for authenticated callers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urlsplit

from a2a.server.context import ServerCallContext
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.codec.strict_json import read_exactly
from signoff.integrations.a2a.agent import A2AAgent, Caller
from signoff.integrations.a2a.handler import CALLER, RunTasks

LARGEST_BODY: Final = 1024 * 1024
"""Bytes of a request."""

_MEDIA_TYPES: Final = ("application/json", "application/a2a+json")


def a2a_routes(agent: A2AAgent) -> list[Route]:
    """Return the routes of an agent, for a Starlette or FastAPI service.

    JSON-RPC (protocol versions 1.0 and 0.3) is served at the path of the agent's URL. Its card is public, at
    ``/.well-known/agent-card.json`` below that path: a client finds it by the agent's URL.

    Args:
        agent: The agent.

    Example::

        service = Starlette(routes=a2a_routes(agent))
    """
    path = urlsplit(agent.url).path.rstrip("/")
    calls = create_jsonrpc_routes(
        RunTasks(agent), path or "/", context_builder=_Contexts(), enable_v0_3_compat=True
    )
    checked = [
        Route(each.path, each.endpoint, methods=["POST"], middleware=[Middleware(_Checked, agent=agent)])
        for each in calls
    ]
    return [*create_agent_card_routes(agent.card(), card_url=path + AGENT_CARD_WELL_KNOWN_PATH), *checked]


class _Contexts(DefaultServerCallContextBuilder):
    """Hands the authenticated caller to the handler."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[CALLER] = request.scope[CALLER]
        return context


class _Checked:
    """Authenticates callers, and rejects bodies that are too large, ambiguous, or sent by a page of another site."""

    def __init__(self, app: ASGIApp, agent: A2AAgent) -> None:
        self._app = app
        self._agent = agent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        found = self._agent.caller(request)
        caller = await found if inspect.isawaitable(found) else found
        media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if not isinstance(caller, Caller):
            await Response("not authenticated", 401)(scope, receive, send)
        elif media_type not in _MEDIA_TYPES:
            await Response(f"expected Content-Type: {_MEDIA_TYPES[0]}", 415)(scope, receive, send)
        elif (body := await _body(request.stream())) is None:
            await Response(f"a request has at most {LARGEST_BODY} bytes", 413)(scope, receive, send)
        elif (problem := _problem(body)) is not None:
            await Response(problem, 400)(scope, receive, send)
        else:
            await self._app({**scope, CALLER: caller}, _replay(body, receive), send)


async def _body(stream: AsyncIterator[bytes]) -> bytes | None:
    """Read a body; None if it is too large."""
    parts: list[bytes] = []
    size = 0
    async for part in stream:
        size += len(part)
        if size > LARGEST_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _problem(body: bytes) -> str | None:
    """Return why a body is not strict JSON: the SDK takes the last of duplicate keys, a proxy may take the first."""
    try:
        read_exactly(body)
    except (ValueError, RecursionError) as error:
        return f"the body is not valid JSON: {error}"
    return None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a channel that has the body first, and then what comes after it, such as the client's disconnection."""
    unread = [body]

    async def read() -> Message:
        return {"type": "http.request", "body": unread.pop()} if unread else await receive()

    return read
