"""The routes by which people sign in and out, and see who they are."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from signoff.errors import LoginFailed, NotFound, ProviderUnavailable
from signoff.server.auth.actors import ActorOf
from signoff.server.auth.oidc_flow import LoginDoor, own_path, page
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import example
from signoff.server.services import ServicesOf

PATH: Final = "/login"

router = APIRouter(tags=["login"])


async def _door(services: ServicesOf) -> LoginDoor:
    if services.login is None:
        raise NotFound("way to sign in", PATH)
    return services.login


DoorOf = Annotated[LoginDoor, Depends(_door)]


class Me(
    BaseModel,
    json_schema_extra=example(
        user_id="ana", groups=["finance"], roles=["responder"], way="login", namespace="default"
    ),
):
    """Who sends a request."""

    user_id: str | None
    groups: list[str]
    roles: list[str]
    way: str | None
    namespace: str


@router.get(PATH, include_in_schema=False)
async def begin_login(
    request: Request, door: DoorOf, next: Annotated[str, Query(description="A path of this server")] = ""
) -> Response:
    """Send a browser to the identity provider, to come back to ``next`` signed in."""
    try:
        return await door.begin(own_path(next, request.scope.get("root_path", "")))
    except ProviderUnavailable as error:
        return door.failed(request, error)


@router.get("/login/callback", include_in_schema=False)
async def finish_login(request: Request, door: DoorOf) -> Response:
    """Take whom the identity provider sends back, and sign them in."""
    try:
        return await door.finish(request)
    except (LoginFailed, ProviderUnavailable) as error:
        return door.failed(request, error)


@router.post("/logout", include_in_schema=False)
async def log_out(request: Request, door: DoorOf) -> Response:
    """Sign out. Who is not signed in may, too."""
    is_page = "text/html" in request.headers.get("accept", "")
    root = request.scope.get("root_path", "")
    answer = page("Signed out", "You are signed out.", 200, root) if is_page else reply({"signed_out": True})
    await door.logins.end(request.scope, answer)
    return answer


async def who_am_i(services: ServicesOf, actor: ActorOf) -> Response:
    """Say who sends this request, and what they are. Where the server asks nobody, ``user_id`` is null."""
    person, identity = actor.person, actor.identity
    return reply(
        {
            "user_id": None if person is None else person.user_id,
            "groups": [] if person is None else sorted(person.groups),
            "roles": [] if person is None else sorted(person.roles),
            "way": None if identity is None else identity.way,
            "namespace": services.store.namespace,
        }
    )


router.add_api_route("/v1/me", who_am_i, responses=gives(Me), route_class_override=ExactRoute)
