"""The route of items of periodic jobs that failed."""

from __future__ import annotations

from bisect import bisect_right

from fastapi import APIRouter
from starlette.responses import Response

from signoff.errors import InvalidValue
from signoff.records.failed_items import SetAsideItem
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import After, Limit, reply_items
from signoff.server.openapi.declared_responses import gives_page
from signoff.server.services import ServicesOf
from signoff.stores.shared.failed_items import items_of

router = APIRouter(prefix="/v1/set-aside", tags=["health"], route_class=ExactRoute)


@router.get("", responses=gives_page(SetAsideItem, InvalidValue))
async def list_set_aside(services: ServicesOf, after: After = None, limit: Limit = 100) -> Response:
    """List items of periodic jobs that failed in this process and will be retried, by job and id.

    Each process runs its own periodic jobs, so each of several servers lists its own failures.
    """
    items = items_of(services.store.location, services.store.namespace)
    if after is not None:
        job, mark, id = after.partition("/")
        if not mark:
            raise InvalidValue("after", "is not the `next` of a previous page")
        items = items[bisect_right(items, (job, id), key=lambda item: (item.job, item.id)) :]
    page = items[:limit]
    return reply_items(page, f"{page[-1].job}/{page[-1].id}" if len(items) > limit else None)
