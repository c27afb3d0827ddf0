"""Routes of promises. They settle no questions: answers are checked, and have their own route."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from signoff import codec
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    InvalidValue,
    NotFound,
    NotSerializable,
    RequestConflict,
)
from signoff.people.schemas.promise_returns import data_of, warn_of_json_text
from signoff.people.schemas.validation_process import schema_problem_apart
from signoff.records import NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.records.paging import PromiseFilter
from signoff.records.start_options import check_id
from signoff.server.auth.actors import Actor, ActorOf
from signoff.server.http.idempotency_key import KeyOf, request_id_of
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, RequestId, Text
from signoff.server.http.responses import After, Limit, reply_page, reply_with
from signoff.server.openapi.declared_responses import gives, gives_page
from signoff.server.openapi.examples import example
from signoff.server.services import Services, ServicesOf

router = APIRouter(prefix="/v1/promises", tags=["promises"], route_class=ExactRoute)

_SETTLED = gives(Promise, NotFound, AlreadySettled, RequestConflict, NotSerializable, InvalidValue)


class CreatePromise(Body, json_schema_extra=example(id="payment-o-1", timeout_seconds=86400)):
    """A promise that does not belong to a run."""

    id: Text
    timeout_seconds: float | None = None
    data: Any = None
    returns: dict[str, Any] | None = None
    """A JSON Schema that its value must match."""

    def new_promise(self) -> NewPromise:
        """Return the record for the store. Blocks while a schema is checked."""
        returns = Any if self.returns is None else self.returns
        data = data_of(self.data, returns, has_data=self._has_data, find_problem=schema_problem_apart)
        return NewPromise(check_id(self.id), data=data)

    @property
    def _has_data(self) -> bool:
        return "data" in self.model_fields_set


class CancelPromise(Body, json_schema_extra=example(by="user:ana", note="not needed any more")):
    """The user who cancels a promise."""

    by: Text | None = None
    note: Text | None = None
    request_id: RequestId | None = None


class SettlePromise(CancelPromise, json_schema_extra=example(value={"cents": 7000}, request_id="bank-17")):
    """The value that a promise is settled with."""

    value: Any = None


@router.post(
    "",
    status_code=201,
    responses=gives(
        Promise,
        IdConflict,
        NotSerializable,
        statuses={201: "It was created now", 200: "It was created before"},
    ),
)
async def create_promise(body: CreatePromise, services: ServicesOf) -> Response:
    """Create a promise: 201, or 200 if it was created before."""
    new = body.new_promise() if body.returns is None else await asyncio.to_thread(body.new_promise)
    promise, created = await services.backend.create_promise(new, timeout_seconds=body.timeout_seconds)
    return reply_with(promise, 201 if created else 200)


@router.get("", responses=gives_page(Promise))
async def list_promises(
    services: ServicesOf,
    kind: PromiseKind | None = None,
    state: PromiseState | None = None,
    run_id: Text | None = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List promises, questions among them, oldest first."""
    which = PromiseFilter(kind, state, run_id)
    return reply_page(await services.backend.list_promises(which, after=after, limit=limit))


@router.get("/{promise_id}", responses=gives(Promise, NotFound))
async def get_promise(promise_id: Id, services: ServicesOf) -> Response:
    """Show a promise."""
    return reply_with(await services.backend.get_promise(promise_id))


@router.post("/{promise_id}/resolve", responses=_SETTLED)
async def resolve_promise(
    promise_id: Id, body: SettlePromise, services: ServicesOf, actor: ActorOf, key: KeyOf
) -> Response:
    """Settle a promise with a value."""
    warn_of_json_text(f"promise {promise_id!r}", body.value)
    return await _settle(services, actor, key, promise_id, PromiseState.RESOLVED, body, body.value)


@router.post("/{promise_id}/reject", responses=_SETTLED)
async def reject_promise(
    promise_id: Id, body: SettlePromise, services: ServicesOf, actor: ActorOf, key: KeyOf
) -> Response:
    """Reject a promise with a reason."""
    return await _settle(services, actor, key, promise_id, PromiseState.REJECTED, body, body.value)


@router.post("/{promise_id}/cancel", responses=_SETTLED)
async def cancel_promise(
    promise_id: Id, services: ServicesOf, actor: ActorOf, key: KeyOf, body: CancelPromise | None = None
) -> Response:
    """Cancel a promise."""
    return await _settle(
        services, actor, key, promise_id, PromiseState.CANCELLED, body or CancelPromise(), None
    )


async def _settle(
    services: Services,
    actor: Actor,
    key: str | None,
    promise_id: str,
    state: PromiseState,
    body: CancelPromise,
    value: Any,
) -> Response:
    by = actor.user_id("by", body.by)
    request_id = request_id_of(key, body.request_id)
    settlement = Settlement(state, codec.encode(value), by=by, note=body.note, request_id=request_id)
    return reply_with(await services.backend.settle(promise_id, settlement))
