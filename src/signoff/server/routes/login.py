"""Routes to sign in and out, and to read the current user."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from signoff.errors import LoginFailed, NotFound, ProviderUnavailable
from signoff.server.auth.actors import ActorOf
from signoff.server.auth.oidc_flow import OidcFlow, own_path, page
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import example
from signoff.server.services import ServicesOf

PATH: Final = "/login"

router = APIRouter(tags=["login"])


async def _oidc_flow(services: ServicesOf) -> OidcFlow:
    if services.login is None:
        raise NotFound("sign-in", PATH)
    return services.login


OidcFlowOf = Annotated[OidcFlow, Depends(_oidc_flow)]


class Me(
    BaseModel,
    json_schema_extra=example(
        user_id="ana", groups=["finance"], roles=["responder"], way="login", namespace="default"
    ),
):
    """The sender of a request."""

    user_id: str | None
    groups: list[str]
    roles: list[str]
    way: str | None
    namespace: str


@router.get(PATH, include_in_schema=False)
async def begin_login(
    request: Request,
    oidc_flow: OidcFlowOf,
    next: Annotated[str, Query(description="A path of this server")] = "",
) -> Response:
    """Redirect a browser to the identity provider. After sign-in it returns to ``next``."""
    try:
        return await oidc_flow.begin(own_path(next, request.scope.get("root_path", "")))
    except ProviderUnavailable as error:
        return oidc_flow.failed(request, error)


@router.get("/login/callback", include_in_schema=False)
async def finish_login(request: Request, oidc_flow: OidcFlowOf) -> Response:
    """Sign in a user whom the identity provider sent back."""
    try:
        return await oidc_flow.finish(request)
    except (LoginFailed, ProviderUnavailable) as error:
        return oidc_flow.failed(request, error)


@router.post("/logout", include_in_schema=False)
async def log_out(request: Request, oidc_flow: OidcFlowOf) -> Response:
    """Sign out. Without a login this does nothing."""
    is_page = "text/html" in request.headers.get("accept", "")
    root = request.scope.get("root_path", "")
    answer = page("Signed out", "You are signed out.", 200, root) if is_page else reply({"signed_out": True})
    await oidc_flow.logins.end(request.scope, answer)
    return answer


async def who_am_i(services: ServicesOf, actor: ActorOf) -> Response:
    """Return the sender of this request, with groups and roles. ``user_id`` is null for an unauthenticated request."""
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
