"""Routes for health checks: liveness and readiness."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from signoff.errors import StoreUnavailable
from signoff.server.http.responses import reply
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import example
from signoff.server.services import ServicesOf
from signoff.version import __version__

router = APIRouter(tags=["health"])


class Alive(BaseModel, json_schema_extra=example(status="ok", version="1.0.0")):
    """The process is alive."""

    status: str
    version: str


class Ready(BaseModel, json_schema_extra=example(status="ok")):
    """The server can work."""

    status: str


@router.get("/health", responses=gives(Alive))
async def health() -> Response:
    """Report that the process is alive. This does not access the store."""
    return reply({"status": "ok", "version": __version__})


@router.get("/ready", responses=gives(Ready, StoreUnavailable))
async def ready(services: ServicesOf) -> Response:
    """Report within two seconds that the store can be read and written and that deadlines fire, or 503 with the reason.

    It is 503 from the moment the server is asked to stop.
    """
    await services.readiness.check()
    return reply({"status": "ok"})
