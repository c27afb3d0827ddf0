"""The route of the MCP server."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from signoff.people.questions.answer_checks import check_containers
from signoff.server.auth.access_tokens import METADATA, metadata
from signoff.server.http.problems import plain_problem
from signoff.server.mcp.request import PATH
from signoff.server.services import Services

router = APIRouter()

_BESIDE: Final = 64
"""The most lists and objects of a message beside a tool's arguments."""


class _Endpoint:
    """Answers POST. There are no sessions, and so no stream of the server's own messages to GET."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            refusal = plain_problem(405, "this MCP server has no sessions: POST each request")
            refusal.headers["allow"] = "POST"
            await refusal(scope, receive, send)
            return
        services: Services = scope["app"].state.services
        if services.mcp_settings is None:
            await plain_problem(404, "this server has no MCP server")(scope, receive, send)
            return
        caller = scope["signoff.actor"].caller(services.address_of(scope))
        with services.streams.opened("mcp", caller):
            message = await receive()  # the whole body
            check_containers(message.get("body", b""), path="body", beside=_BESIDE)
            unread: list[Message] = [message]
            del message

            async def replay() -> Message:
                return unread.pop() if unread else await receive()

            try:
                await services.mcp.handle(scope, replay, send)
            except ModuleNotFoundError:
                missing = "the MCP server needs the extra `mcp`: pip install 'signoff[mcp]'"
                await plain_problem(501, missing)(scope, receive, send)


@router.get(METADATA, include_in_schema=False)
@router.get(f"{METADATA}{PATH}", include_in_schema=False)
async def describe_resource(request: Request) -> Response:
    """Describe the MCP server as a resource (RFC 9728), so that clients find the provider that signs users in."""
    services: Services = request.app.state.services
    if services.login is None:
        return plain_problem(404, "no identity provider signs users in to this server")
    return JSONResponse(metadata(services.login.settings))


router.routes.append(Route(PATH, _Endpoint(), methods=["GET", "POST"], include_in_schema=False))
