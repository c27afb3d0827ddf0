"""Whether the server lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

import signoff
from signoff.server.replies import reply
from signoff.server.services import ServicesOf

router = APIRouter(tags=["health"])


@router.get("/health")
async def health() -> Response:
    """Say that the process answers. It asks no store."""
    return reply({"status": "ok", "version": signoff.__version__})


@router.get("/ready")
async def ready(services: ServicesOf) -> Response:
    """Say within two seconds that the store can be read and written and that deadlines fire; else 503 and why.

    From the moment on when the server is asked to stop it is 503.
    """
    await services.readiness.check()
    return reply({"status": "ok"})
