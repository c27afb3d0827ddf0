"""Routes of remote stores: the operations of the store contract in batches, and word of commits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from signoff.errors import AccessDenied, InvalidValue, TooManyRequests
from signoff.records import Origin
from signoff.server.access import Access, AccessOf, access_of, do_for
from signoff.server.bodies import read_batch
from signoff.server.feeds import PING_SECONDS, UNBUFFERED
from signoff.server.payloads import check_payloads
from signoff.server.remote_clients import Reply
from signoff.server.replies import reply
from signoff.server.services import Services, ServicesOf
from signoff.server.ways import RECHECK_SECONDS
from signoff.stores.operations import CHANGES_PATH, NOW_HEADER, OPERATIONS, PATH
from signoff.stores.stated import stated, unstated

# What remote stores and servers say to each other is their own affair.
router = APIRouter(tags=["store"], include_in_schema=False)


class Asked(BaseModel):
    """One operation."""

    id: int
    namespace: str
    do: str
    arguments: dict[str, Any]


class Batch(BaseModel):
    """Operations of one remote store.

    Attributes:
        client: The name that the remote store goes by.
        floor: Below it there is no id whose reply it waits for.
        operations: What it asks for, in this order.
    """

    client: str
    floor: int
    operations: list[Asked]


class _Replies(Response):
    """A line for each operation, as soon as it has ended."""

    def __init__(self, tasks: Sequence[asyncio.Task[Reply]], now: float) -> None:
        super().__init__(media_type="application/x-ndjson", headers={NOW_HEADER: repr(now), **UNBUFFERED})
        del self.headers["content-length"]
        self._tasks = tasks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended: list[asyncio.Task[Reply]] = []
        wake = asyncio.Event()

        def end(task: asyncio.Task[Reply]) -> None:
            ended.append(task)
            wake.set()

        for task in self._tasks:
            task.add_done_callback(end)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        left = len(self._tasks)
        if not left:
            await send({"type": "http.response.body", "body": b""})
        while left:
            await wake.wait()
            wake.clear()
            lines = [task.result()[0] for task in ended if not task.cancelled()]
            left -= len(ended)
            ended.clear()
            await send({"type": "http.response.body", "body": b"".join(lines), "more_body": left > 0})


@router.get(PATH)
async def greet(namespace: str, services: ServicesOf, access: AccessOf) -> Response:
    """Tell a remote store that it may work here, and the terms."""
    access.check_namespace(namespace)
    store = services.store_of(namespace)
    return reply({"now": store.clock.now(), "lease_seconds": store.lease_seconds})


@router.post(PATH)
async def operate(request: Request, services: ServicesOf, access: AccessOf) -> Response:
    """Do a batch of operations. They begin together; each is answered as soon as it has ended."""
    try:
        batch = Batch.model_validate_json(await read_batch(request))
    except ValidationError as error:
        raise InvalidValue("body", f"it is no batch of operations: {error.errors()[0]['msg']}") from None
    unknown = {asked.do for asked in batch.operations} - OPERATIONS.keys()
    if unknown:
        raise InvalidValue("do", f"{', '.join(unknown)}: no operation of this server; upgrade it")
    client = services.remote_clients.find(access.caller, batch.client)
    client.raise_floor(batch.floor)
    origin = access.origin(services.address_of(request.scope))
    tasks: list[asyncio.Task[Reply]] = []
    for asked in batch.operations:
        task = client.begin(asked.id, OPERATIONS[asked.do], partial(_do, services, access, origin, asked))
        if task is not None:
            tasks.append(task)
    return _Replies(tasks, services.store.clock.now())


async def _do(services: Services, access: Access, origin: Origin, asked: Asked) -> Any:
    """Do an operation. Where it comes from the server sees, whatever the caller says."""
    arguments = OPERATIONS[asked.do].read_arguments(asked.arguments)
    check_payloads(asked.do, arguments)
    said = {name: unstated(each) for name, each in arguments.items()}
    return await do_for(access, stated(services.store_of(asked.namespace), origin), asked.do, said)


async def _is_still(request: Request, access: Access) -> bool:
    try:
        return await access_of(request) == access
    except (AccessDenied, TooManyRequests):
        return False


@router.get(CHANGES_PATH)
async def follow_changes(
    namespace: str,
    request: Request,
    services: ServicesOf,
    access: AccessOf,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Tell of commits as they come: an event ``change``, or ``gap`` if anything may have changed."""
    access.check_namespace(namespace)

    clock = services.store.clock
    checked_at = clock.now()

    async def wait(added: asyncio.Event) -> bool:
        nonlocal checked_at
        await services.wait_for(added.wait(), seconds=PING_SECONDS)
        if services.stopping.is_set():
            return False
        if clock.now() - checked_at < RECHECK_SECONDS:
            return True
        checked_at = clock.now()
        return await _is_still(request, access)

    events = services.feeds.of(namespace).events(last_event_id, wait)
    return StreamingResponse(events, media_type="text/event-stream", headers=UNBUFFERED)
