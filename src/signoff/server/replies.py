"""Responses made of records, and what lists take."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from pydantic_core import to_json
from starlette.responses import Response

from signoff.deliveries import Delivery
from signoff.people.readable import why_unreadable
from signoff.records import AuditEvent, Promise, Rule, Run, Session, Token, WorkflowInfo
from signoff.server.bodies import Text
from signoff.stores.paging import Page
from signoff.wire import UNREADABLE, Record, to_wire

After = Annotated[Text | None, Query(description="A former page's `next`")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most", examples=[100])]

Seq = Annotated[int, Field(ge=-1, lt=2**63, description="A journal entry's seq; -1 is before the first")]


def reply(content: object, status: int = 200) -> Response:
    """Return plain JSON data as a response. A number that JSON does not have, such as NaN, is null: one row that holds
    one keeps no list from being read."""
    return Response(to_json(content, inf_nan_mode="null"), status, media_type="application/json")


def written(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON data. Of a question that cannot be read, ``unreadable`` says why."""
    said = to_wire(record)
    if isinstance(record, Promise) and UNREADABLE not in said:
        reason = why_unreadable(record)
        if reason is not None:
            field, _, message = reason.partition(": ")
            said[UNREADABLE] = [{"field": field, "message": message}]
    return said


def reply_with(record: Record, status: int = 200) -> Response:
    """Return a record as a response."""
    return reply(written(record), status)


def reply_page(
    page: Page[Run]
    | Page[Promise]
    | Page[AuditEvent]
    | Page[Delivery]
    | Page[Rule]
    | Page[Token]
    | Page[Session]
    | Page[WorkflowInfo],
) -> Response:
    """Return part of a list as a response: ``{"items": [...], "next": ... or null}``."""
    return reply({"items": [written(item) for item in page.items], "next": page.next})
