"""Routes of notification deliveries."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from signoff.errors import NotFound
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.paging import DeliveryFilter
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import ExactRoute, Text
from signoff.server.http.responses import After, Limit, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/deliveries", tags=["notifications"], route_class=ExactRoute)


@router.get("", responses=gives_page(Delivery))
async def list_deliveries(
    services: ServicesOf,
    state: DeliveryState | None = None,
    channel: Text | None = None,
    question_id: Text | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List deliveries, newest first. ``state=dead`` lists those that were given up."""
    which = DeliveryFilter(state, channel, question_id)
    return reply_page(await services.backend.list_deliveries(which, after=after, limit=limit))


@router.post("/{delivery_id}/redeliver", responses=gives(Delivery, NotFound))
async def redeliver(delivery_id: Id, services: ServicesOf) -> Response:
    """Send a finished delivery again."""
    return reply_with(await services.backend.redeliver(delivery_id))
