"""HTTP to a ``signoff server``: sends requests, repeats them when a connection breaks, and reads the responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from pydantic_core import PydanticSerializationError, from_json, to_json

from signoff.client.request_bodies import without_none
from signoff.errors import InvalidValue, SignoffError, StoreUnavailable
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    Promise,
    Rule,
    Run,
    Schedule,
    Session,
    Token,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery
from signoff.records.paging import (
    Page,
    check_page,
)
from signoff.runtime import forks
from signoff.wire.http import (
    CONNECT_SECONDS,
    SILENT_SECONDS,
    key_headers,
    new_client,
    server_url,
    shown_url,
)
from signoff.wire.records import from_problem, from_wire

R = TypeVar(
    "R",
    Run,
    Promise,
    Entry,
    Group,
    WorkerInfo,
    WorkflowInfo,
    Schedule,
    AuditEvent,
    Delivery,
    Rule,
    Session,
    Token,
)
T = TypeVar("T")

ANSWER_SECONDS = 60.0
PAGE = 1000  # the server's page size

NEVER: Sequence[float] = ()
QUICK: Sequence[float] = (0.1, 0.3, 0.9)
"""Pauses in seconds between attempts at a repeatable call."""
PATIENT: Sequence[float] = (*QUICK, 2.0, 4.0, 8.0, 15.0)
"""The same, for callers that wait for a run and have reached the server before."""

_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)


class HttpTransport:
    """Connections to a server. Repeatable requests are retried when a connection breaks.

    Args:
        url: The server, such as ``http://127.0.0.1:8000``.
        key: An API key.

    Raises:
        InvalidValue: The URL or the key is not valid.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = shown_url(url)
        self._base = server_url(url)
        self._headers = key_headers(key)
        self._opened: httpx.AsyncClient | None = None
        forks.in_child(self)

    def forked(self) -> None:
        """Drop the parent's connections in a forked child without closing them."""
        forks.keep(self._opened)
        self._opened = None

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    @property
    def _client(self) -> httpx.AsyncClient:
        if self._opened is None:
            self._opened = new_client(self._base, answer_seconds=ANSWER_SECONDS, headers=self._headers)
        return self._opened

    async def get(
        self, path: str, query: Mapping[str, Any] | None = None, *, pauses: Sequence[float] = QUICK
    ) -> httpx.Response:
        """Send a GET request. Returns a successful response."""
        return await self._send(
            self._client.build_request("GET", path, params=without_none(query or {})), pauses
        )

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        pauses: Sequence[float] = NEVER,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Send a POST request. Returns a successful response. ``pauses`` are those before repetitions."""
        request = self._client.build_request(
            "POST",
            path,
            content=_json(without_none(body, "value", "data", "timeout_answer")),
            headers={"content-type": "application/json", **(headers or {})},
        )
        return await self._send(request, pauses)

    async def get_record(
        self,
        kind: type[R],
        path: str,
        query: Mapping[str, Any] | None = None,
        *,
        pauses: Sequence[float] = QUICK,
    ) -> R:
        """Send a GET request, and return the record in the response."""
        return self.record(kind, await self.get(path, query, pauses=pauses))

    async def post_record(
        self, kind: type[R], path: str, body: Mapping[str, Any], *, pauses: Sequence[float] = NEVER
    ) -> R:
        """Send a POST request, and return the record in the response."""
        return self.record(kind, await self.post(path, body, pauses=pauses))

    async def _send(self, request: httpx.Request, pauses: Sequence[float]) -> httpx.Response:
        for pause in (*pauses, None):
            try:
                response = await self._client.send(request)
            except _BROKEN as error:
                if pause is None:
                    raise self.unreachable(error, request.method) from error
                await asyncio.sleep(pause)
            except httpx.TransportError as error:
                raise self.unreachable(error, request.method) from error
            else:
                if not response.is_success:
                    raise self._refused(response)
                return response
        raise AssertionError

    @asynccontextmanager
    async def stream(
        self, path: str, headers: dict[str, str], query: dict[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Provide the body of a response, as it arrives."""
        timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS, pool=None)
        request = self._client.stream("GET", path, headers=headers, params=query, timeout=timeout)
        async with request as response:
            if not response.is_success:
                await response.aread()
                raise self._refused(response)
            yield response.aiter_bytes()

    async def list_records(
        self, kind: type[R], path: str, query: dict[str, Any], after: str | None, limit: int
    ) -> Page[R]:
        """Return one page of records, from as many requests as it takes."""
        check_page(after, limit)
        items: list[R] = []
        while True:
            part = {**query, "after": after, "limit": min(limit - len(items), PAGE)}
            page = self.page(kind, await self.get(path, part))
            items += page.items
            after = page.next
            if after is None or len(items) >= limit:
                return Page(tuple(items), after)

    def record(self, kind: type[R], response: httpx.Response) -> R:
        """Return the record in a response."""
        return self.read(response, lambda answer: from_wire(kind, answer))

    def page(self, kind: type[R], response: httpx.Response) -> Page[R]:
        """Return the page of records in a response."""
        return self.read(
            response,
            lambda answer: Page(tuple(from_wire(kind, item) for item in answer["items"]), answer["next"]),
        )

    def read(self, response: httpx.Response, read: Callable[[Any], T]) -> T:
        """Return the content of a response. Raises StoreUnavailable if it is not from a signoff server."""
        try:
            return read(from_json(response.content))
        except (ValueError, KeyError, TypeError):
            raise StoreUnavailable(self.url, "the response is not from a signoff server") from None

    def result(self, item: Any) -> Promise | SignoffError:
        """Return the result of one of several answers."""
        if "question" in item:
            return from_wire(Promise, item["question"])
        problem = item["problem"]
        return from_problem(problem) or StoreUnavailable(
            self.url, f"the server reported: {problem.get('detail')}"
        )

    def _refused(self, response: httpx.Response) -> SignoffError:
        """Return the error that a response describes."""
        try:
            problem = from_json(response.content)
            error = from_problem(problem)
        except (ValueError, KeyError, TypeError, AttributeError):
            return StoreUnavailable(
                self.url,
                f"it answered {response.status_code} {response.reason_phrase}, in a form that no signoff server uses",
            )
        return error or StoreUnavailable(
            self.url, f"it answered {response.status_code} {response.reason_phrase}: {problem.get('detail')}"
        )

    def unreachable(self, error: httpx.TransportError, method: str = "GET") -> StoreUnavailable:
        """Return the error for a request without a response."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return StoreUnavailable(
                self.url, f"no server answers there ({error}); start one with `signoff server`"
            )
        reason = f"the connection broke ({str(error) or type(error).__name__})"
        if method == "POST":
            reason += (
                ", so the call may or may not have taken effect; with a request id it can be repeated safely"
            )
        return StoreUnavailable(self.url, reason)


def _json(body: object) -> bytes:
    """Return a body as JSON.

    Raises:
        InvalidValue: A text in it is not Unicode.
    """
    try:
        return to_json(body)
    except PydanticSerializationError as error:
        raise InvalidValue("request", f"it cannot be sent as JSON: {error}") from None
