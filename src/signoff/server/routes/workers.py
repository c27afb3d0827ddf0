"""The route of workers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from signoff.records import WorkerInfo
from signoff.server.auth.actors import ActorOf
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives_page
from signoff.server.services import ServicesOf
from signoff.wire.records import to_wire

router = APIRouter(prefix="/v1/workers", tags=["workers"], route_class=ExactRoute)


@router.get("", responses=gives_page(WorkerInfo))
async def list_workers(services: ServicesOf, actor: ActorOf) -> Response:
    """List workers: those of the namespace, or all of the database if the request is not authenticated."""
    found = actor.only_seen_workers(services.store.namespace, await services.backend.list_workers())
    return reply({"items": [to_wire(worker) for worker in found], "next": None})
