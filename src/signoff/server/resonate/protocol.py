"""The envelopes of the durable promise protocol: one JSON object for a request, and one for its reply."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeGuard, cast

from pydantic_core import to_json
from starlette.responses import Response

from signoff.codec.strict_json import read_exactly
from signoff.errors import (
    IdConflict,
    NotFound,
    PayloadTooLarge,
    SignoffError,
    TaskConflict,
    TooManyRequests,
    UnreadableRecord,
)
from signoff.server.http.problems import status_of

VERSION: Final = "2026-04-01"

LONGEST_ECHO: Final = 1_000
"""Characters of ``kind`` and ``corrId``, which each reply repeats."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")

DEBUG_TIME: Final = "resonate:debug_time"

UNKNOWN_KIND: Final = "unknown"
UNKNOWN_ID: Final = "0"

_STATUS: Final[dict[type[SignoffError], int]] = {
    NotFound: 404,
    TaskConflict: 409,
    IdConflict: 409,
    PayloadTooLarge: 422,  # clients repeat a request that is answered with 413
    UnreadableRecord: 422,
}


class Refusal(Exception):
    """A request that is answered with an error.

    Attributes:
        status: The status of the reply.
        text: The reason, for people.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text

    @classmethod
    def of(cls, error: SignoffError) -> Refusal:
        """Return the refusal for an error of Signoff."""
        known = next((_STATUS[each] for each in type(error).__mro__ if each in _STATUS), None)
        return cls(known or status_of(type(error)), str(error))


@dataclass(frozen=True, slots=True)
class Request:
    """A request.

    Attributes:
        kind: The operation, such as ``promise.get``.
        correlation_id: Chosen by the sender; the reply repeats it.
        data: The operation's arguments.
        auth: The sender's key, if the header ``Authorization`` does not carry it.
        has_debug_time: Whether it states a time for tests.
    """

    kind: str
    correlation_id: str
    data: dict[str, Any]
    auth: str | None = None
    has_debug_time: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a request: its status and data."""

    data: Any
    status: int = 200


def read_request(body: bytes) -> Request:
    """Read an envelope.

    Raises:
        BadEnvelope: It is not a valid envelope.
    """
    try:
        envelope: Any = read_exactly(body)
    except (ValueError, RecursionError) as error:
        raise BadEnvelope(f"the body is not valid JSON: {error}", UNKNOWN_KIND, UNKNOWN_ID) from None
    members = cast("dict[str, Any]", envelope) if isinstance(envelope, dict) else {}
    head = cast("dict[str, Any]", members["head"]) if isinstance(members.get("head"), dict) else {}
    kind, id = members.get("kind"), head.get("corrId")
    shown = (kind if _may_be_echoed(kind) else UNKNOWN_KIND, id if _may_be_echoed(id) else UNKNOWN_ID)
    auth, version = head.get("auth"), head.get("version")
    if not isinstance(envelope, dict):
        problem = "the body must be an object with kind, head and data"
    elif not _may_be_echoed(kind) or not kind:
        problem = "kind must be a string, such as promise.get"
    elif not _may_be_echoed(id):
        problem = f"head.corrId must be a string of at most {LONGEST_ECHO:,} characters"
    elif not isinstance(members.get("data"), dict):
        problem = "data must be an object"
    elif version != VERSION:
        said = repr(version[:100]) if isinstance(version, str) else f"a {type(version).__name__}"
        problem = f"head.version must be {VERSION!r}, the version that this server speaks, not {said}"
    elif auth is not None and not isinstance(auth, str):
        problem = "head.auth must be a string"
    else:
        return Request(kind, id, members["data"], auth, head.get(DEBUG_TIME) is not None)
    raise BadEnvelope(problem, *shown)


def _may_be_echoed(text: object) -> TypeGuard[str]:
    """Whether a reply can repeat a text: a half of a surrogate pair has no encoding."""
    if not isinstance(text, str) or len(text) > LONGEST_ECHO:
        return False
    return text.isascii() or _SURROGATE.search(text) is None


class BadEnvelope(Refusal):
    """A body that is not a valid envelope.

    Attributes:
        kind: Its kind, as far as it can be read.
        correlation_id: Likewise.
    """

    def __init__(self, problem: str, kind: str, correlation_id: str) -> None:
        super().__init__(400, f"invalid request: {problem}")
        self.kind = kind
        self.correlation_id = correlation_id


def to_envelope(kind: str, correlation_id: str, reply: Reply) -> dict[str, Any]:
    """Return a reply as plain JSON data."""
    head = {"corrId": correlation_id, "status": reply.status, "version": VERSION}
    return {"kind": kind, "head": head, "data": reply.data}


def respond(kind: str, correlation_id: str, reply: Reply) -> Response:
    """Return the HTTP response of a reply. It has the reply's status."""
    body = to_json(to_envelope(kind, correlation_id, reply), inf_nan_mode="null")
    return Response(body, reply.status, _headers(reply.status), media_type="application/json")


def refuse(kind: str, correlation_id: str, error: Refusal | SignoffError) -> Response:
    """Return the HTTP response of a refused request. Its data is the reason."""
    refusal = error if isinstance(error, Refusal) else Refusal.of(error)
    response = respond(kind, correlation_id, Reply(refusal.text, refusal.status))
    if isinstance(error, TooManyRequests):
        response.headers["retry-after"] = str(error.retry_after_seconds)
    return response


def _headers(status: int) -> dict[str, str] | None:
    match status:
        case 401:
            return {"www-authenticate": "Bearer"}
        case 503:
            return {"retry-after": "1"}
        case _:
            return None
