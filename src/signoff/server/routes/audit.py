"""Routes of the audit trail."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse

from signoff.errors import NotAllowed, NotFound
from signoff.records import AuditEvent, Seal
from signoff.records.paging import AuditFilter
from signoff.server.auth.actors import ActorOf
from signoff.server.http.request_bodies import ExactRoute, Text
from signoff.server.http.responses import After, Limit, Seq, reply_bytes, reply_page
from signoff.server.openapi.declared_responses import gives, gives_page, gives_text
from signoff.server.openapi.examples import EVENT, SEAL, example
from signoff.server.openapi.record_schemas import shape_of
from signoff.server.services import Services, ServicesOf
from signoff.wire.records import to_wire

AT_ONCE = 500

router = APIRouter(prefix="/v1/audit", tags=["audit"], route_class=ExactRoute)


@router.get("", responses=gives_page(AuditEvent, NotFound, NotAllowed))
async def list_audit(
    services: ServicesOf,
    actor: ActorOf,
    question_id: Text | None = None,
    run_id: Text | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List the audit events of a question, of a run's questions, or of all questions, oldest first."""
    which = AuditFilter(question_id, run_id)
    page = await services.backend.list_audit(which, after=after, limit=limit)
    return reply_page(await actor.only_seen_events(services.store, question_id, page))


def _link(seal: Seal, event: AuditEvent | None) -> dict[str, Any]:
    return {**asdict(seal), "event": None if event is None else to_wire(event)}


def _link_json(seal: Seal, event: AuditEvent | None) -> bytes:
    return to_json(_link(seal, event), inf_nan_mode="null")


_EXAMPLE = _link(SEAL, EVENT)

if TYPE_CHECKING:
    _Event = dict[str, Any]
else:
    _Event = shape_of(AuditEvent)


class Link(BaseModel, json_schema_extra=example(**_EXAMPLE)):
    """A sealed event in the audit chain."""

    seq: int
    event_id: str
    hash: str
    event: Annotated[_Event | None, Field(description="Null if the event was removed from the database")]


class Chain(BaseModel, json_schema_extra=example(items=[_EXAMPLE], end=SEAL.seq)):
    """A page of the chain. Its last ``seq`` is the ``after`` of the next page."""

    items: list[Link]
    end: Annotated[int, Field(description="The last `seq` of the chain; -1 if nothing was sealed yet")]


@router.get("/chain", responses=gives(Chain))
async def read_chain(services: ServicesOf, after: Seq = -1, limit: Limit = 100) -> Response:
    """List the sealed events after a ``seq``, with their hashes. A removed event is null."""
    last = await services.store.last_seal()
    links = await services.backend.read_chain(after=after, limit=limit)
    end = -1 if last is None else last.seq
    written = b",".join(_link_json(*link) for link in links)
    return reply_bytes(b'{"items":[%b],"end":%d}' % (written, end))


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses=gives_text(["application/x-ndjson"], to_json(_EXAMPLE).decode() + "\n"),
)
async def export_chain(services: ServicesOf, after: Seq = -1) -> Response:
    """Export all sealed events after a ``seq`` as JSON lines, in the format of the chain."""
    return StreamingResponse(_lines(services, after), media_type="application/x-ndjson")


async def _lines(services: Services, after: int) -> AsyncGenerator[bytes]:
    while links := await services.backend.read_chain(after=after, limit=AT_ONCE):
        for link in links:
            yield _link_json(*link) + b"\n"
        after = links[-1][0].seq
