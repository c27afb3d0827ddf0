"""Routes of the keys of services and workers."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response

from signoff.errors import InvalidState, InvalidValue, NotFound
from signoff.records import Token, TokenKind
from signoff.server.auth.actors import ActorOf
from signoff.server.auth.roles import Role
from signoff.server.auth.stored_keys import GRACE_SECONDS, StoredKeys, key_to_wire
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import KEY, example
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=ExactRoute)

Kind = Literal["service", "worker"]
_KINDS: dict[Kind, TokenKind] = {"service": TokenKind.API_KEY, "worker": TokenKind.WORKER_KEY}


class CreateKey(Body, json_schema_extra=example(name="shop", roles=["operator"], groups=["default"])):
    """A key for a service, with roles, or for workers. ``groups`` are the groups that the service may start runs in,
    or whose runs the workers may execute."""

    name: Text
    kind: Kind = "service"
    roles: list[Annotated[Role, Field(strict=False)]] = Field(default_factory=list[Role])
    groups: list[Text] | None = None
    act_as: bool = False
    lifetime_seconds: float | None = None


class RotateKey(Body, json_schema_extra=example(grace_seconds=3600)):
    """How long the old secret stays valid."""

    grace_seconds: float = GRACE_SECONDS


_KEY = key_to_wire(KEY)
_CREATED = {201: "The key was created"}


class Key(BaseModel, json_schema_extra=example(**_KEY)):
    """A key without its secret. ``groups`` null means all groups."""

    id: str
    kind: Kind
    name: str
    namespace: str
    roles: list[Role]
    groups: list[str] | None
    act_as: bool
    created_at: float
    created_by: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None


class NewKey(Key, json_schema_extra=example(**_KEY, secret="6tLx0lSWd6h3v0fW0v3V5pM9b8hUuWkqX1o2r4t5y6E")):
    """A key with its secret, which is returned once."""

    secret: str


async def _keys(services: ServicesOf) -> StoredKeys:
    return StoredKeys(services.store)


KeysOf = Annotated[StoredKeys, Depends(_keys)]


@router.post("", status_code=201, responses=gives(NewKey, statuses=_CREATED))
async def create_key(body: CreateKey, keys: KeysOf, actor: ActorOf) -> Response:
    """Create a key. Its secret is returned this once and never stored."""
    by = actor.user_id("created_by", None)
    if body.kind == "service":
        made = await keys.create_for_service(
            body.name,
            body.roles,
            start_groups=body.groups,
            act_as=body.act_as,
            lifetime_seconds=body.lifetime_seconds,
            created_by=by,
        )
    elif body.roles or body.act_as:
        raise InvalidValue("roles", "worker keys have no roles and no act_as")
    else:
        made = await keys.create_for_worker(
            body.name, groups=body.groups, lifetime_seconds=body.lifetime_seconds, created_by=by
        )
    return _with_secret(*made)


@router.get("", responses=gives_page(Key))
async def list_keys(
    keys: KeysOf, kind: Kind = "service", after: After = None, limit: Limit = 100
) -> Response:
    """List keys, oldest first. Keys that have ended stay in the list for some time."""
    page = await keys.list_keys(_KINDS[kind], after=after, limit=limit)
    return reply({"items": [key_to_wire(token) for token in page.items], "next": page.next})


@router.post(
    "/{key_id}/rotate", status_code=201, responses=gives(NewKey, NotFound, InvalidState, statuses=_CREATED)
)
async def rotate_key(key_id: Id, keys: KeysOf, actor: ActorOf, body: RotateKey | None = None) -> Response:
    """Create another key with the same access. The old one expires after ``grace_seconds``."""
    grace = (body or RotateKey()).grace_seconds
    return _with_secret(
        *await keys.rotate(key_id, grace_seconds=grace, created_by=actor.user_id("created_by", None))
    )


@router.post("/{key_id}/revoke", responses=gives(Key, NotFound))
async def revoke_key(key_id: Id, keys: KeysOf) -> Response:
    """Revoke a key."""
    return reply(key_to_wire(await keys.revoke(key_id)))


def _with_secret(secret: str, token: Token) -> Response:
    answer = reply({**key_to_wire(token), "secret": secret}, 201)
    answer.headers["cache-control"] = "no-store"
    return answer
