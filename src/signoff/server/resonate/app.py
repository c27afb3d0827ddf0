"""Creates the ASGI application that speaks the durable promise protocol."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger
from signoff.server.auth.roles import path_of
from signoff.server.http.host_check import HostCheck
from signoff.server.http.request_bodies import BodyLimit
from signoff.server.http.response_headers import SafeHeaders
from signoff.server.limits.headers import HeaderLimit
from signoff.server.resonate import debug, poll
from signoff.server.resonate.access import Sender, sender_of
from signoff.server.resonate.call import Call
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.long_requests import LongRequests
from signoff.server.resonate.messages import Messages
from signoff.server.resonate.operations import OPERATIONS
from signoff.server.resonate.protocol import (
    UNKNOWN_ID,
    BadEnvelope,
    Refusal,
    Reply,
    Request,
    read_request,
    refuse,
    respond,
)
from signoff.server.resonate.requests import read_data
from signoff.server.services import Services

log = own_logger("signoff.server")

PATH: Final = "/"

STAMPED: Final = 256
"""Senders whose services are kept for their next requests."""


def create_resonate_app(
    services: Services, deliveries: Deliveries, messages: Messages, allowed_hosts: Iterable[str] = ()
) -> Starlette:
    """Return the protocol's ASGI application.

    Args:
        services: The services of a running server.
        deliveries: Send the messages to processes.
        messages: Writes them.
        allowed_hosts: Names that clients reach it by, besides the local ones.
    """
    api = Starlette(
        routes=[
            Route(PATH, _operate, methods=["POST"]),
            Route("/poll/{group}/{pid}", _poll, methods=["GET"]),
            Route("/health", _health, methods=["GET"]),
        ],
        middleware=[
            Middleware(SafeHeaders),
            Middleware(HeaderLimit),
            Middleware(HostCheck, allowed_hosts=allowed_hosts),
            Middleware(LongRequests),
            Middleware(BodyLimit, long=(PATH,)),
            Middleware(_Shortcut),
        ],
    )
    api.state.services = services
    api.state.deliveries = deliveries
    api.state.messages = messages
    api.state.stamped = lru_cache(STAMPED)(Services.with_origin)
    return api


class _Shortcut:
    """Middleware that performs operations at once. Finding the route takes a tenth of a request's time.

    Args:
        app: The next ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and path_of(scope) == PATH:
            response = await _operate(HttpRequest(scope, receive))
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _health(_: HttpRequest) -> Response:
    return Response(b'{"status":"ok"}', media_type="application/json")


async def _operate(http: HttpRequest) -> Response:
    """Perform the operation of an envelope. Its reply has the same status in its head."""
    try:
        request = read_request((await http.receive()).get("body", b""))  # as a whole, see BodyLimit
    except BadEnvelope as error:
        return refuse(error.kind, error.correlation_id, error)
    kind, id = request.kind, request.correlation_id
    try:
        return respond(kind, id, await _perform(http, request))
    except (Refusal, SignoffError) as error:
        return refuse(kind, id, error)
    except Exception:
        log.exception("%s failed", kind)
        return refuse(kind, id, Refusal(500, "the server's log says more"))


async def _perform(http: HttpRequest, request: Request) -> Reply:
    state = http.app.state
    services: Services = state.services
    deliveries: Deliveries = state.deliveries
    sender = await sender_of(services, http.scope, request.auth)
    operation = OPERATIONS.get(request.kind)
    await debug.check_request(services, request)
    if operation is None:
        raise Refusal(400, f"unknown operation {request.kind!r}; this server knows {', '.join(OPERATIONS)}")
    sender.check_role(request.kind, reads=operation.reads)
    data = read_data(operation.data, request.data)
    origin = sender.origin(services.address_of(http.scope))
    own = services.within(sender.namespace)
    delivery = deliveries.of(own.store)
    call = Call(
        sender,
        state.stamped(own, origin),
        request.correlation_id,
        deliveries.push,
        delivery.acquired,
    )
    return await operation.perform(call, data)


async def _poll(http: HttpRequest) -> Response:
    """Stream the messages for a process."""
    messages: Messages = http.app.state.messages

    async def read_sender() -> Sender:
        sender = await sender_of(http.app.state.services, http.scope)
        sender.check_role(poll.POLL, reads=False)
        return sender

    try:
        return await poll.respond(http, read_sender, messages.event_of)
    except SignoffError as error:
        return refuse(poll.POLL, UNKNOWN_ID, error)
