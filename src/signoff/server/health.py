"""Whether the server lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from signoff.errors import StoreUnavailable
from signoff.server.replies import reply
from signoff.server.services import ServicesOf

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> Response:
    """Say that the process answers."""
    return reply({"status": "ok"})


@router.get("/ready")
async def ready(services: ServicesOf) -> Response:
    """Say that the store can be read and deadlines fire; else 503."""
    await services.store.list_workers()
    if services.timers.done():
        raise StoreUnavailable(services.store.location, "deadlines no longer fire, restart the server")
    return reply({"status": "ok"})
