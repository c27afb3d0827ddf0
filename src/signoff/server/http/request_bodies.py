"""Reads request bodies up to a limit, and refuses parameters that a route does not take."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, Union, cast, get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)
from starlette.datastructures import QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from signoff.codec import MAX_BYTES
from signoff.codec.strict_json import read_exactly
from signoff.errors import InvalidValue, PayloadTooLarge
from signoff.records.request_ids import LONGEST_REQUEST_ID
from signoff.server.auth.roles import path_of
from signoff.server.http.problems import problem
from signoff.server.limits.long_bodies import LONG_BYTES
from signoff.server.limits.long_json import check_memory

LIMIT = MAX_BYTES + 64 * 1024
"""Maximum bytes of a body: the largest value, and the JSON around it."""

BATCH_LIMIT = 20 * 1024 * 1024
"""Maximum bytes of a remote store's batch, further limited by ``long_json``, which allows 15 MiB of ASCII."""

SNAPSHOT_LIMIT = 6 * 1024 * 1024
"""Maximum bytes of a snapshot saved or loaded through a server, which creates and checks it in memory."""

MOST_PARTS = 750_000
"""Maximum number of arrays, objects and members in a long body. Each takes about 70 bytes of memory. No value within
``MAX_BYTES`` has more.
"""

_PARTS_AT_ONCE = 1_000
_PARTS = re.compile(rb'(?:(?:[^"\[{,]++|"(?:[^"\\]++|\\.)*+")*+[\[{,]){1,%d}+' % _PARTS_AT_ONCE, re.DOTALL)
"""Matches the separators of the next parts, outside of strings."""


def _unicode(text: str) -> str:
    text.encode()  # fails at half of a surrogate pair, which JSON can escape
    return text


def storable(text: str) -> str:
    """Return a string that every store can keep. Raises ValueError for others."""
    _unicode(text)
    if "\0" in text:
        raise ValueError("it has a NUL character, which Postgres cannot keep; leave it out")
    return text


Text = Annotated[str, AfterValidator(storable)]
"""A string in a body or a query."""

RequestId = Annotated[Text, Field(max_length=LONGEST_REQUEST_ID)]
"""A request id, which identifies repeated requests."""

Compared = Annotated[str, AfterValidator(_unicode)]
"""A string that is compared with another one, and not stored."""


class Body(BaseModel):
    """Base model of request bodies: refuses unknown fields and values of other types.

    It leaves nothing in the JSON object that it is made of. So a route that has written a large value can release it:
    FastAPI keeps that object until the response is sent.

    Attributes:
        check_text: Checks the text of a body before it is parsed; None: nothing to check. A parsed body takes up to
            a hundred times the memory of its text.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    check_text: ClassVar[Callable[[bytes], None] | None] = None

    @model_validator(mode="wrap")
    @classmethod
    def _take(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(data)
        if isinstance(data, dict):
            cast("dict[str, Any]", data).clear()
        return made


class ExactRoute(APIRoute):
    """A route that refuses ambiguous requests, and requests of which it would ignore a part.

    It refuses unknown query parameters, repeated ones that are not lists, and JSON objects with duplicate keys, which
    a proxy may have read differently.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        taken = _query_parameters(self.dependant)
        check_text = _check_of(self)

        async def handle_exactly(request: Request) -> Response:
            if request.scope["query_string"]:
                _check_query(request.query_params, taken)
            exact = _ExactRequest(request.scope, request.receive)
            if check_text is not None:
                check_text(await exact.body())
            return await handle(exact)

        return handle_exactly


def _check_of(route: APIRoute) -> Callable[[bytes], None] | None:
    """Return the check of the text of a route's body."""
    model = None if route.body_field is None else route.body_field.field_info.annotation
    return model.check_text if isinstance(model, type) and issubclass(model, Body) else None


def _query_parameters(dependant: Dependant) -> dict[str, bool]:
    """Return the query parameters of a route and its dependencies by name, and whether they are lists."""
    taken = {each.alias: _is_list(each.field_info.annotation) for each in dependant.query_params}
    for inner in dependant.dependencies:
        taken |= _query_parameters(inner)
    return taken


def _is_list(annotation: Any) -> bool:
    """Whether a type, or a member of a union, is a list."""
    return get_origin(annotation) is list or any(
        _is_list(each) for each in get_args(annotation) if get_origin(annotation) in (Union, UnionType)
    )


def _check_query(query: QueryParams, taken: dict[str, bool]) -> None:
    """Check query parameters. Raises RequestValidationError."""
    problems: list[dict[str, Any]] = []
    for name, times in Counter(name for name, _ in query.multi_items()).items():
        if name not in taken:
            known = f"it has {', '.join(sorted(taken))}" if taken else "it has none"
            problems.append(_refused(name, f"this route has no such parameter; {known}"))
        elif times > 1 and not taken[name]:
            problems.append(_refused(name, f"it is given {times} times; give it once"))
    if problems:
        raise RequestValidationError(problems)


def _refused(parameter: str, message: str) -> dict[str, Any]:
    return {"type": "parameter", "loc": ("query", parameter), "msg": message}


class _ExactRequest(Request):
    async def json(self) -> Any:
        return read_exactly(await self.body())


async def read_batch(request: Request, enter: Callable[[int], Awaitable[None]]) -> bytearray:
    """Read a long body.

    Args:
        request: The request.
        enter: Waits until a body of that many bytes may be read; called once the body is known to be long.

    Raises:
        PayloadTooLarge: It is longer than ``BATCH_LIMIT``.
    """
    body = bytearray()
    has_entered = False
    async for part in request.stream():
        if len(body) + len(part) > BATCH_LIMIT:
            raise PayloadTooLarge("body", len(body) + len(part), BATCH_LIMIT)
        body += part
        if len(body) > LONG_BYTES and not has_entered:
            has_entered = True
            await enter(max(len(body), int(request.headers.get("content-length", BATCH_LIMIT))))
    return body


def check_parts(path: str, text: bytes | bytearray) -> None:
    """Raise InvalidValue for JSON that would take far more memory than its text."""
    if text.count(b"[") + text.count(b"{") + text.count(b",") <= MOST_PARTS:
        return
    parts = place = 0
    while parts <= MOST_PARTS and (found := _PARTS.match(text, place)) is not None:
        parts, place = parts + _PARTS_AT_ONCE, found.end()
    if parts > MOST_PARTS:
        raise InvalidValue(path, f"it has more than {MOST_PARTS:,} parts; send it in several")


def stated_size(scope: Scope) -> int | None:
    """Return the bytes of a request's body as its headers say; 0 if it comes in chunks, None without a body."""
    is_chunked = False
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) or None
        is_chunked = is_chunked or name == b"transfer-encoding"
    return 0 if is_chunked else None


class BodyLimit:
    """Middleware that reads the whole body before it passes the request on, or answers 413.

    Args:
        app: The next ASGI app.
        unread: Paths whose routes read the body themselves, after they authenticate the sender.
        long: Paths whose bodies may be as long as a snapshot.
    """

    def __init__(self, app: ASGIApp, unread: Container[str] = (), long: Container[str] = ()) -> None:
        self._app = app
        self._unread = unread
        self._long = long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = stated_size(scope) if scope["type"] == "http" else None
        if size is None or path_of(scope) in self._unread:
            await self._app(scope, receive, send)
            return
        limit = SNAPSHOT_LIMIT if path_of(scope) in self._long else LIMIT
        body = bytearray()
        more = True
        while more and size <= limit:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            size = max(size, len(body))
        if size > limit:
            await problem(PayloadTooLarge("body", size, limit))(scope, receive, send)
            return
        if len(body) > LIMIT:
            try:
                check_memory(body)
            except (InvalidValue, ValueError) as error:
                refusal = error if isinstance(error, InvalidValue) else InvalidValue("body", str(error))
                await problem(refusal)(scope, receive, send)
                return
        unread: list[Message] = [{"type": "http.request", "body": bytes(body)}]
        body.clear()

        async def replay() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, replay, send)
