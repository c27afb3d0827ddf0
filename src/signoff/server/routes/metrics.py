"""The route of metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response

from signoff.server.openapi.declared_responses import gives_text
from signoff.server.services import ServicesOf

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses=gives_text(["text/plain", "application/openmetrics-text"], "signoff_store_up 1.0\n"),
)
async def metrics(services: ServicesOf, accept: Annotated[str, Header()] = "") -> Response:
    """Return metrics of this process and of the store for Prometheus."""
    return await services.scrape.answer(accept)
