"""The route of workflows: those that workers serve, and their parameters."""

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
    """List the workflows that workers serve, by name, group and version, as last announced.

    ``parameters`` is a JSON Schema of a run's keyword arguments. ``x-by-position`` names the parameters that are passed
    by position instead, in order; ``x-rest`` names the list whose items follow them.
    """
    which = WorkflowFilter(name, group)
    return reply_page(await services.backend.list_workflows(which, after=after, limit=limit))
