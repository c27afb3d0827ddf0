"""Errors as ``application/problem+json`` responses, and their status codes."""

from __future__ import annotations

from http import HTTPStatus
from traceback import clear_frames
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    AlreadyVoted,
    IdConflict,
    InvalidState,
    InvalidValue,
    LeaseLost,
    LinkEnded,
    LoginFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    ProviderUnavailable,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    ResumeRefused,
    SignoffError,
    SnapshotRefused,
    StoreUnavailable,
    TaskConflict,
    TooManyRequests,
    UnknownLink,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.server.auth.roles import methods_on, path_of
from signoff.server.http.response_headers import SAFE_HEADERS
from signoff.wire.records import to_problem

STATUS: dict[type[SignoffError], int] = {
    NotAuthenticated: 401,
    AccessDenied: 403,
    LoginFailed: 403,
    NotAllowed: 403,
    ResumeRefused: 403,
    NotFound: 404,
    AlreadySettled: 409,
    AlreadyVoted: 409,
    QuestionClaimed: 409,
    IdConflict: 409,
    InvalidState: 409,
    LeaseLost: 409,
    RequestConflict: 409,
    TaskConflict: 409,
    UnreadableRecord: 409,
    SnapshotRefused: 409,
    UnknownLink: 404,
    LinkEnded: 410,
    PayloadTooLarge: 413,
    InvalidValue: 422,
    NotSerializable: 422,
    WrongAnswer: 422,
    TooManyRequests: 429,
    ProviderUnavailable: 503,
    StoreUnavailable: 503,
    QuestionTooNew: 503,
}

RETRY_AFTER_SECONDS = 1


def problem(error: SignoffError, status: int | None = None) -> Response:
    """Return the response for an error. ``status`` overrides the error's own status."""
    found = status or status_of(type(error))
    response = _response(to_body(found, error))
    if isinstance(error, TooManyRequests):
        response.headers["retry-after"] = str(error.retry_after_seconds)
    return response


def status_of(kind: type[SignoffError]) -> int:
    """Return the HTTP status of an error class."""
    return next((STATUS[each] for each in kind.__mro__ if each in STATUS), 500)


def to_body(status: int, error: SignoffError) -> dict[str, Any]:
    """Return the problem document of an error."""
    return {**to_problem(error), "status": status}


def plain_body(status: int, detail: str) -> dict[str, Any]:
    """Return the problem document of a plain HTTP error (``about:blank``)."""
    return {**_plain(status, detail), "status": status}


def plain_problem(status: int, detail: str) -> Response:
    """Return the response for a plain HTTP error."""
    return _response(plain_body(status, detail))


def add_handlers(app: FastAPI) -> None:
    """Register the handlers that turn errors into problem responses."""
    app.add_exception_handler(SignoffError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, SignoffError)
    clear_frames(
        error.__traceback__
    )  # frames hold the data that was read, and form a reference cycle with the error
    return problem(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    fields = [{"field": _field(each["loc"]), "message": _message(each)} for each in error.errors()]
    first = InvalidValue(fields[0]["field"], fields[0]["message"])
    return _response({**to_body(422, first), "fields": fields})


def _field(location: tuple[str | int, ...]) -> str:
    if not all(isinstance(part, str) for part in location[:2]):
        return str(location[0])  # not JSON: the position is in the message
    return ".".join(str(part) for part in location[1:]) or str(location[0])


def _message(problem: dict[str, Any]) -> str:
    if problem["type"] == "json_invalid":
        return f"it is not valid JSON: {problem['ctx']['error']}"
    return problem["msg"]


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = plain_problem(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    if error.status_code == 405 and (methods := methods_on(path_of(request.scope))):
        response.headers["allow"] = ", ".join(
            methods
        )  # the methods of all matching routes, not only the first
    return response


async def _unexpected(_: Request, error: Exception) -> Response:
    response = _response({**UNEXPECTED, "status": 500})
    response.headers.update(SAFE_HEADERS)  # this response bypasses the middleware that adds them
    return response


async def _gone(_: Request, error: Exception) -> Response:
    # The client is gone. Without a response, the error would be logged as a server fault.
    return Response(status_code=400)


def _plain(status: int, detail: str) -> dict[str, Any]:
    return {"type": "about:blank", "title": HTTPStatus(status).phrase, "detail": detail}


UNEXPECTED = _plain(500, "the server's log says more")
"""The problem document of an unexpected error."""


def _response(body: dict[str, Any]) -> Response:
    status = body["status"]
    headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 503 else None
    return Response(
        to_json(body, inf_nan_mode="null"), status, headers, media_type="application/problem+json"
    )
