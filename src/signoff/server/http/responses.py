"""Responses made from records, and the query parameters of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from pydantic_core import to_json
from starlette.responses import Response

from signoff.people.questions.readable_rows import why_unreadable
from signoff.records import AuditEvent, Promise, Rule, Run, Schedule, Session, Token, WorkflowInfo
from signoff.records.deliveries import Delivery
from signoff.records.paging import Page
from signoff.server.http.request_bodies import Text
from signoff.wire.records import Record, to_wire, to_wire_json

After = Annotated[Text | None, Query(description="The `next` of the previous page")]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items", examples=[100])]

Seq = Annotated[int, Field(ge=-1, lt=2**63, description="The seq of a journal entry; -1 is before the first")]


def reply(content: object, status: int = 200) -> Response:
    """Return plain JSON data as a response. Numbers that JSON lacks, such as NaN, become null, so that one such row
    does not make a list unreadable."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def written(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON data. In an unreadable question, ``unreadable`` says why."""
    return to_wire(record, _unreadable(record))


def written_json(record: Record) -> bytes:
    """Return the same as JSON text, which takes less memory."""
    return to_wire_json(record, _unreadable(record))


def _unreadable(record: Record) -> list[tuple[str, str]]:
    reason = why_unreadable(record) if isinstance(record, Promise) else None
    if reason is None:
        return []
    field, _, message = reason.partition(": ")
    return [(field, message)]


def reply_with(record: Record, status: int = 200) -> Response:
    """Return a record as a response."""
    return reply_bytes(written_json(record), status)


def reply_page(
    page: Page[Run]
    | Page[Promise]
    | Page[AuditEvent]
    | Page[Delivery]
    | Page[Rule]
    | Page[Token]
    | Page[Session]
    | Page[Schedule]
    | Page[WorkflowInfo],
) -> Response:
    """Return a page as a response: ``{"items": [...], "next": ... or null}``."""
    return reply_items(page.items, page.next)


def reply_bytes(content: bytes, status: int = 200) -> Response:
    """Return JSON as a response."""
    return Response(content, status, media_type="application/json")


def reply_items(items: Iterable[Record], next_page: str | int | None) -> Response:
    """Return records as a response: ``{"items": [...], "next": ... or null}``."""
    written_items = b",".join(map(written_json, items))
    return reply_bytes(b'{"items":[%b],"next":%b}' % (written_items, to_json(next_page)))
