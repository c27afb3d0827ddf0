"""Routes of remote stores: batches of store operations, and a stream of commits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from signoff.codec import MAX_BYTES
from signoff.codec.strict_json import read_exactly
from signoff.errors import AccessDenied, InvalidValue, PayloadTooLarge, TooManyRequests
from signoff.records import Origin, Promise, Rule, Run, Schedule, Seal, Session, Token
from signoff.records.deliveries import Delivery
from signoff.server.auth.authenticators import RECHECK_SECONDS
from signoff.server.feeds.commit_feed import PING_SECONDS, UNBUFFERED
from signoff.server.http.request_bodies import read_batch
from signoff.server.http.responses import reply
from signoff.server.limits.long_bodies import LONG_BYTES, Place
from signoff.server.limits.long_json import read_long
from signoff.server.limits.snapshot_size import check_saved_size
from signoff.server.services import Services, ServicesOf
from signoff.server.store_api.access import Access, AccessOf, access_of, do_for
from signoff.server.store_api.item_limits import check_batch, check_items, count_items
from signoff.server.store_api.payload_checks import check_payloads
from signoff.server.store_api.remote_clients import Reply
from signoff.stores.contract.leases import Claim
from signoff.stores.contract.operations import OPERATIONS
from signoff.stores.contract.wire import CHANGES_PATH, NOW_HEADER, PATH
from signoff.stores.shared import failed_items
from signoff.stores.shared.listed_payloads import CLAIMED_BYTES, bytes_of
from signoff.stores.wrappers.origin_stamping import origin_stamped, without_origin

ROOM: Final = 4
"""The most records of any size that are held in memory for one request."""

MOST_OPERATIONS: Final = 1000
"""The most operations in one request."""

MOST_BYTES_OF_SEVERAL: Final = 4 * 1024 * 1024 + 64 * 1024
"""Maximum bytes of a request with several operations. Workers send at most 2 MiB; older versions 4 MiB."""

T = TypeVar("T")

LONGEST_CLIENT: Final = 200
"""Maximum length of a client's name, in characters."""

LONGEST_ARGUMENT: Final = 16 * 1024
"""Maximum length of an id, a name or a token, in characters."""

_LONG: Final = frozenset({"value", "error", "reason"})

READ_ON_LOOP: Final = 200
"""Operations with more items are read and checked in a thread."""

BATCH_READ_ON_LOOP: Final = 5_000
"""If a request has more items, or more bytes than the largest value, a thread reads and checks all its operations."""

MOST_ENTRIES: Final = 10_000
MOST_DUE: Final = failed_items.MOST + 1000
CLAIMS_AT_ONCE: Final = 6

# The protocol between remote stores and servers is private, so it is not in the OpenAPI document.
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
        client: The remote store's name.
        floor: The remote store has received all replies to ids below it.
        operations: The operations, in order.
    """

    client: str = Field(max_length=LONGEST_CLIENT)
    floor: int
    operations: list[Asked] = Field(max_length=MOST_OPERATIONS)


_reader = ThreadPoolExecutor(1, "signoff long requests")
"""A single thread, so that the event loop competes with at most one reading thread."""


async def _off_loop(read: Callable[[Any], T], given: Any) -> T:
    """Read a long request in a thread, so that the event loop is not blocked."""
    return await asyncio.get_running_loop().run_in_executor(_reader, read, given)


_Waiting = tuple[int, Callable[[], Awaitable[Reply] | None]]


_SMALL: Final[Set[Any]] = {type(None), bool, int, float, set[str], Seal, Session}
_RECORDS: Final[Set[Any]] = {Run, Promise, Rule, Schedule, Token, Delivery}


@cache
def _weight(name: str) -> int:
    """Return the room for an operation's result: 0 if it is always small, 1 for a record, all for a page of records.

    Operations with small results start at once, so that their commits are grouped.
    """
    returns = OPERATIONS[name].returns
    parts = set(get_args(returns)) if get_origin(returns) in (tuple, UnionType) else {returns}
    parts -= _SMALL
    return ROOM if parts - _RECORDS else len(parts)


class _Replies(Response):
    """Response with one line per operation, sent as soon as the operation has finished.

    Operations with possibly large results wait until earlier results are sent, so that at most ``ROOM`` records are
    held.

    Args:
        begun: The replies of the operations that have started.
        waiting: The other operations: the room that each takes, and a function that starts it.
        now: Business time.
        ended: Called when all operations have finished.
    """

    def __init__(
        self,
        begun: Sequence[Awaitable[Reply]],
        waiting: Sequence[_Waiting],
        now: float,
        ended: Callable[[], None],
    ) -> None:
        super().__init__(media_type="application/x-ndjson", headers={NOW_HEADER: repr(now), **UNBUFFERED})
        del self.headers["content-length"]
        self._tasks: dict[asyncio.Future[Reply], int] = {asyncio.ensure_future(each): 0 for each in begun}
        self._waiting = deque(waiting)
        self._room = ROOM
        self._ended = ended

    def _begin(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._room:
            weight, begin = self._waiting.popleft()
            reply = begin()
            if reply is not None:
                self._tasks[asyncio.ensure_future(reply)] = weight
                self._room -= weight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._begin()
            while self._tasks:
                ended, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                small = [task for task in ended if self._tasks[task] == 0]
                lines = b"".join([self._taken(task) for task in small])
                if lines:
                    await send({"type": "http.response.body", "body": lines, "more_body": True})
                for task in ended.difference(small):
                    weight = self._tasks[task]
                    await send({"type": "http.response.body", "body": self._taken(task), "more_body": True})
                    self._room += weight
                self._begin()
            await send({"type": "http.response.body", "body": b""})
        finally:
            for task in self._tasks:
                task.cancel()
            self._ended()

    def _taken(self, task: asyncio.Future[Reply]) -> bytes:
        del self._tasks[task]
        return b"" if task.cancelled() else task.result().line


@router.get(PATH)
async def greet(namespace: str, services: ServicesOf, access: AccessOf) -> Response:
    """Check a remote store's access, and return the server's time and lease."""
    access.check_namespace(namespace)
    store = services.store_of(namespace)
    return reply({"now": store.clock.now(), "lease_seconds": store.lease_seconds})


@router.post(PATH)
async def operate(request: Request, services: ServicesOf, access: AccessOf) -> Response:
    """Perform a batch of operations. Each reply is sent as soon as its operation has finished."""
    places: list[Place] = []

    async def enter(size: int) -> None:
        places.append(await services.long_bodies.enter(access.caller, size))

    try:
        return await _operate(await read_batch(request, enter), request, services, access, places)
    except BaseException:
        _leave(places)
        raise


async def _operate(
    body: bytearray, request: Request, services: Services, access: Access, places: list[Place]
) -> Response:
    size = len(body)
    try:
        # pydantic's own JSON parser would first build a tree ten times as large.
        read = await _off_loop(read_long, body) if size > LONG_BYTES else read_exactly(body)
        batch = Batch.model_validate(read)
    except InvalidValue:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidValue("body", f"it is not a batch of operations: {_said(error)}") from None
    del body, read
    if size > MOST_BYTES_OF_SEVERAL and len(batch.operations) > 1:
        raise PayloadTooLarge("body", size, MOST_BYTES_OF_SEVERAL)
    unknown = {asked.do for asked in batch.operations} - OPERATIONS.keys()
    if unknown:
        raise InvalidValue(
            "do", f"{', '.join(unknown)}: this server does not know the operation; upgrade the server"
        )
    items = check_batch([asked.arguments for asked in batch.operations])
    client = services.remote_clients.find(access.caller, batch.client)
    client.raise_floor(batch.floor)
    origin = access.origin(services.address_of(request.scope))
    is_long = items > BATCH_READ_ON_LOOP or size > MAX_BYTES
    begun: list[Awaitable[Reply]] = []
    waiting: list[_Waiting] = []
    for asked in batch.operations:
        work = partial(_do, services, access, origin, asked, is_of_long=is_long)
        begin = partial(client.begin, asked.id, OPERATIONS[asked.do], work)
        weight = _weight(asked.do)
        if weight:
            waiting.append((weight, begin))
        elif (reply := begin()) is not None:
            begun.append(reply)
    return _Replies(begun, waiting, services.store.clock.now(), partial(_leave, places))


def _leave(places: Sequence[Place]) -> None:
    for place in places:
        place.leave()


def _said(error: Exception) -> str:
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error) or "nested too deep"


async def _do(services: Services, access: Access, origin: Origin, asked: Asked, *, is_of_long: bool) -> Any:
    """Perform an operation. The server stamps its origin; a caller cannot forge it."""
    check_items(asked.do, asked.arguments)
    is_long = is_of_long or count_items(asked.arguments) > READ_ON_LOOP
    if _asks(asked):  # a costly schema is checked in another process: the thread waits for it
        said = await asyncio.to_thread(_read, asked)
    elif is_long:
        said = await _off_loop(_read, asked)
    else:
        said = _read(asked)
    store = origin_stamped(services.store_of(asked.namespace), origin)
    do = partial(do_for, access, store, asked.do)
    match asked.do:
        case "read_journal" if said.get("limit") is None:
            return await _whole_journal(do, said)
        case "claim":
            return await _claim(do, said)
        case "due_questions" | "due_schedules":
            return await do({**said, "limit": min(said["limit"], MOST_DUE)})
        case "save_run":
            access.check_namespace(asked.namespace)
            await check_saved_size(store, said["run_id"])
            return await do(said)
        case _:
            return await do(said)


def _asks(asked: Asked) -> bool:
    """Whether an operation may create questions."""
    write = asked.arguments.get("write")
    opens = cast("dict[str, Any]", write).get("opens") if isinstance(write, dict) else None
    return asked.do in ("create_promise", "load_run") or bool(opens)


def _read(asked: Asked) -> dict[str, Any]:
    """Read and check the arguments of an operation."""
    arguments = OPERATIONS[asked.do].read_arguments(asked.arguments)
    _check_lengths(arguments)
    check_payloads(asked.do, arguments)
    return {name: without_origin(each) for name, each in arguments.items()}


def _check_lengths(arguments: dict[str, Any]) -> None:
    """Raise InvalidValue for overlong ids and names, which error messages would repeat."""
    for name, value in arguments.items():
        if isinstance(value, str) and name not in _LONG and len(value) > LONGEST_ARGUMENT:
            raise InvalidValue(name, f"it has {len(value):,} characters, more than {LONGEST_ARGUMENT:,}")


async def _whole_journal(do: Callable[[dict[str, Any]], Awaitable[Any]], said: dict[str, Any]) -> Any:
    """Read a whole journal for an older client that does not page."""
    entries = await do({**said, "limit": MOST_ENTRIES})
    if entries and await do({**said, "after": entries[-1].seq, "limit": 1}):
        raise InvalidValue(
            "limit", "the journal is too long for one reply: read it in pages, or upgrade this worker"
        )
    return entries


async def _claim(do: Callable[[dict[str, Any]], Awaitable[Any]], said: dict[str, Any]) -> list[Claim]:
    """Claim runs in parts, up to the requested number or the size of a reply."""
    claims: list[Claim] = []
    token: str | None = said.get("token")
    for part in range(said["limit"]):
        room = min(CLAIMS_AT_ONCE, said["limit"] - len(claims))
        part_token = token if part == 0 or token is None else f"{token}/{part}"
        claimed: Sequence[Claim] = await do({**said, "limit": room, "token": part_token})
        claims += claimed
        size = sum(bytes_of(each.run) + bytes_of(each.messages) for each in claims)
        if len(claimed) < room or len(claims) >= said["limit"] or size >= CLAIMED_BYTES:
            break
    return claims


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
    """Stream commits: an event ``change`` per commit, or ``gap`` if commits were missed."""
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

    services.streams.check("changes", access.caller)
    events = services.feeds.of(namespace).events(last_event_id, wait)
    events = services.streams.counted("changes", access.caller, events)
    return StreamingResponse(events, media_type="text/event-stream", headers=UNBUFFERED)
