"""Routes of invocations: promises that workers of Resonate's SDKs execute, and the promises that these create."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from signoff.errors import NotFound
from signoff.records import PromiseState
from signoff.records.invocations import InvocationFilter, InvocationInfo
from signoff.records.tasks import TaskState
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import ExactRoute
from signoff.server.http.responses import After, Limit, reply_items, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.resonate.call_tree import to_info
from signoff.server.services import ServicesOf

router = APIRouter(prefix="/v1/invocations", tags=["invocations"], route_class=ExactRoute)


@router.get("", responses=gives_page(InvocationInfo))
async def list_invocations(
    services: ServicesOf,
    state: Annotated[PromiseState | None, Query(description="State of the promise")] = None,
    task: Annotated[TaskState | None, Query(description="State of the task")] = None,
    nested: Annotated[bool, Query(description="Also those that another invocation has created")] = False,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List invocations, newest first. A page may be short or empty and still have a ``next``."""
    which = InvocationFilter(state, task, nested)
    page = await services.backend.list_invocations(which, after=after, limit=limit)
    return reply_items(map(to_info, page.items), page.next)


@router.get("/{promise_id}", responses=gives(InvocationInfo, NotFound))
async def get_invocation(promise_id: Id, services: ServicesOf) -> Response:
    """Show any promise in the form of an invocation: with its function, arguments and task, if it has them."""
    return reply_with(to_info(await services.backend.get_invocation(promise_id)))


@router.get("/{promise_id}/calls", responses=gives_page(InvocationInfo, NotFound))
async def list_calls(
    promise_id: Id, services: ServicesOf, after: After = None, limit: Limit = 100
) -> Response:
    """List the promises that an invocation has created, by id, with the local calls of these."""
    page = await services.backend.list_calls(promise_id, after=after, limit=limit)
    return reply_items(map(to_info, page.items), page.next)
