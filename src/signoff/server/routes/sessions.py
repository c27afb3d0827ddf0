"""Routes of sessions. A session exists from its first run on."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from signoff.errors import NotFound
from signoff.records import Session
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import After, Limit, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=ExactRoute)


@router.get("", responses=gives_page(Session))
async def list_sessions(services: ServicesOf, after: After = None, limit: Limit = 100) -> Response:
    """List sessions, the one with the newest run first."""
    return reply_page(await services.backend.list_sessions(after=after, limit=limit))


@router.get("/{session_id}", responses=gives(Session, NotFound))
async def get_session(session_id: Id, services: ServicesOf) -> Response:
    """Show a session and its active run. ``GET /v1/runs?session_id=`` lists its runs."""
    return reply_with(await services.backend.get_session(session_id))
