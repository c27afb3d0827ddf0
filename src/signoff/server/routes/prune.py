"""The route that deletes old records."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from signoff.server.http.request_bodies import Body, ExactRoute
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import example
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/prune", tags=["runs"], route_class=ExactRoute)


class Prune(Body, json_schema_extra=example(older_than_seconds=2592000)):
    """The minimum age of the records to delete, and the most to delete of each kind."""

    older_than_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class Deleted(
    BaseModel, json_schema_extra=example(deleted=17, tokens=3, deliveries=0, workflows=1, promises=40)
):
    """The numbers of deleted runs, tokens (links, keys and logins), deliveries, workflow versions and promises."""

    deleted: int
    tokens: int
    deliveries: int
    workflows: int
    promises: int


@router.post("", responses=gives(Deleted))
async def prune(body: Prune, services: ServicesOf) -> Response:
    """Delete runs, tokens and deliveries that ended long ago, and workflows that no worker has announced since then.

    Promises without a run that were settled long ago are deleted, too. If ``limit`` of one kind or more were deleted,
    repeat the request. Workflows are kept for at least a week.
    """
    deleted = await services.backend.delete_ended(body.older_than_seconds, body.limit)
    return reply(
        {
            "deleted": deleted.runs,
            "tokens": deleted.tokens,
            "deliveries": deleted.deliveries,
            "workflows": deleted.workflows,
            "promises": deleted.promises,
        }
    )
