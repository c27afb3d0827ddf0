"""Creates the ASGI applications that speak the protocol of 2024: the store's, and that of the messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger
from signoff.server.http.host_check import HostCheck
from signoff.server.http.request_bodies import BodyLimit
from signoff.server.http.response_headers import SafeHeaders
from signoff.server.limits.headers import HeaderLimit
from signoff.server.resonate import poll
from signoff.server.resonate.access import Sender, sender_of
from signoff.server.resonate.basic_auth import with_bearer
from signoff.server.resonate.call import Call
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.legacy import messages, promises, requests, schedules, tasks
from signoff.server.resonate.legacy.errors import FAILED, LegacyRefusal, refuse
from signoff.server.resonate.long_requests import LongRequests
from signoff.server.resonate.protocol import Refusal, Reply
from signoff.server.resonate.push import Push
from signoff.server.services import Services

log = own_logger("signoff.server")

_NO_PUSH: Final = Push(())


@dataclass(frozen=True, slots=True)
class Operation:
    """A route of the protocol.

    Attributes:
        method: The HTTP method.
        path: The path; ids in it may have slashes.
        perform: Performs it.
        body: The model of its body; None without one.
    """

    method: str
    path: str
    perform: Callable[[Call, HttpRequest, Any], Awaitable[Reply]]
    body: type[BaseModel] | None = None


OPERATIONS: Final[Sequence[Operation]] = (
    Operation("POST", "/promises", promises.create, requests.CreatePromise),
    Operation("POST", "/promises/task", promises.create_with_task, requests.CreatePromiseAndTask),
    Operation("POST", "/promises/callback/{id:path}", promises.create_callback, requests.CreateCallback),
    Operation("POST", "/promises/subscribe/{id:path}", promises.subscribe, requests.CreateSubscription),
    Operation("POST", "/callbacks", promises.create_callback, requests.CreateCallback),
    Operation("POST", "/subscriptions", promises.subscribe, requests.CreateSubscription),
    Operation("GET", "/promises/{id:path}", promises.get),
    Operation("PATCH", "/promises/{id:path}", promises.complete, requests.CompletePromise),
    Operation("POST", "/schedules", schedules.create, requests.CreateSchedule),
    Operation("GET", "/schedules/{id:path}", schedules.get),
    Operation("DELETE", "/schedules/{id:path}", schedules.delete),
    Operation("POST", "/tasks/claim", tasks.claim, requests.ClaimTask),
    Operation("POST", "/tasks/complete", tasks.complete, requests.CompleteTask),
    Operation("POST", "/tasks/drop", tasks.drop, requests.CompleteTask),
    Operation("POST", "/tasks/heartbeat", tasks.heartbeat, requests.Heartbeat),
)


def create_legacy_app(services: Services, allowed_hosts: Iterable[str] = ()) -> Starlette:
    """Return the application of promises, tasks and schedules.

    Args:
        services: The services of a running server.
        allowed_hosts: Names that clients reach it by, besides the local ones.
    """
    routes = [Route(each.path, _handler(each), methods=[each.method]) for each in OPERATIONS]
    return _app(services, allowed_hosts, [Route("/ping", _ping, methods=["GET"]), *routes])


def create_messages_app(
    services: Services, deliveries: Deliveries, allowed_hosts: Iterable[str] = ()
) -> Starlette:
    """Return the application that processes receive their messages from.

    Args:
        services: The services of a running server.
        deliveries: Send the messages to processes.
        allowed_hosts: Names that clients reach it by, besides the local ones.
    """
    api = _app(services, allowed_hosts, [Route("/{group}/{pid:path}", _poll, methods=["GET"])])
    api.state.deliveries = deliveries
    return api


def _app(services: Services, allowed_hosts: Iterable[str], routes: list[Route]) -> Starlette:
    middleware = [
        Middleware(SafeHeaders),
        Middleware(HeaderLimit),
        Middleware(HostCheck, allowed_hosts=allowed_hosts),
        Middleware(LongRequests),
        Middleware(BodyLimit),
    ]
    api = Starlette(routes=routes, middleware=middleware)
    api.state.services = services
    return api


async def _ping(_: HttpRequest) -> Response:
    return Response(b'{"status":"ok"}', media_type="application/json")


def _handler(operation: Operation) -> Callable[[HttpRequest], Awaitable[Response]]:
    what = f"{operation.method} {operation.path}"

    async def handle(http: HttpRequest) -> Response:
        try:
            reply = await _perform(operation, what, http)
        except LegacyRefusal as refusal:
            return refuse(refusal)
        except (SignoffError, Refusal) as error:
            return refuse(LegacyRefusal.of(error))
        except Exception:
            log.exception("%s failed", what)
            return refuse(LegacyRefusal(FAILED, "the server's log says more"))
        if reply.status == 204:
            return Response(status_code=204)
        return Response(to_json(reply.data), reply.status, media_type="application/json")

    return handle


async def _perform(operation: Operation, what: str, http: HttpRequest) -> Reply:
    services: Services = http.app.state.services
    sender = await _sender(http, what, reads=operation.method == "GET")
    data = None if operation.body is None else requests.read_body(operation.body, await http.body())
    origin = sender.origin(services.address_of(http.scope))
    own = services.within(sender.namespace).with_origin(origin)
    return await operation.perform(Call(sender, own, "", _NO_PUSH), http, data)


async def _poll(http: HttpRequest) -> Response:
    """Stream the messages for a process."""
    try:
        return await poll.respond(http, lambda: _sender(http, poll.POLL, reads=False), messages.event_of)
    except SignoffError as error:
        return refuse(LegacyRefusal.of(error))


async def _sender(http: HttpRequest, what: str, *, reads: bool) -> Sender:
    sender = await sender_of(http.app.state.services, with_bearer(http.scope))
    sender.check_role(what, reads=reads)
    return sender
