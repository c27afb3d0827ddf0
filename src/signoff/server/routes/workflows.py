"""The route of workflows: what workers run, and what it takes."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from signoff.records import WorkflowInfo
from signoff.records.paging import WorkflowFilter
from signoff.server.http.request_bodies import ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply_page
from signoff.server.openapi.declared_responses import gives_page
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/workflows", tags=["workflows"], route_class=ExactRoute)


@router.get("", responses=gives_page(WorkflowInfo))
async def list_workflows(
    services: ServicesOf,
    name: Text | None = None,
    group: Text | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List what workers run, by name, group and version, as they last announced it.

    ``parameters`` is a JSON Schema of what a run takes by name. ``x-by-position`` names those that are passed by
    position instead, in this order; ``x-rest`` the list whose items follow them.
    """
    which = WorkflowFilter(name, group)
    return reply_page(await services.backend.list_workflows(which, after=after, limit=limit))
