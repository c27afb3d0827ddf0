"""The errors of the protocol of 2024: ``{"error": {"code": 40900, "message": ..., "details": [...]}}``.

The first three digits of a code are the status of the response. The SDK repeats a request that is answered with 500,
and ends its process after any other error; so what may pass soon is answered with 500.
"""

from __future__ import annotations

from typing import Final

from pydantic_core import to_json
from starlette.responses import Response

from signoff.errors import NotFound, SignoffError, StoreUnavailable, TaskConflict, TooManyRequests
from signoff.records import Promise, PromiseState
from signoff.server.http.problems import status_of
from signoff.server.resonate.protocol import Refusal

INVALID: Final = 40000
ALREADY_RESOLVED: Final = 40300
ALREADY_REJECTED: Final = 40301
ALREADY_CANCELED: Final = 40302
ALREADY_TIMED_OUT: Final = 40303
ALREADY_CLAIMED: Final = 40305
ALREADY_COMPLETED: Final = 40306
WRONG_COUNTER: Final = 40307
WRONG_STATE: Final = 40308
FORBIDDEN: Final = 40399
NO_PROMISE: Final = 40400
NO_SCHEDULE: Final = 40401
NO_TASK: Final = 40403
PROMISE_EXISTS: Final = 40900
SCHEDULE_EXISTS: Final = 40901
KEY_REUSED: Final = 40999
FAILED: Final = 50000
UNAVAILABLE: Final = 50004

_MISSING: Final = {"task": NO_TASK, "schedule": NO_SCHEDULE, "promise schedule": NO_SCHEDULE}

_SETTLED: Final = {
    PromiseState.RESOLVED: ALREADY_RESOLVED,
    PromiseState.REJECTED: ALREADY_REJECTED,
    PromiseState.CANCELLED: ALREADY_CANCELED,
    PromiseState.TIMED_OUT: ALREADY_TIMED_OUT,
}

_OF_TASK: Final = {
    "acquired": (ALREADY_CLAIMED, "is already claimed"),
    "suspended": (ALREADY_COMPLETED, "is already completed"),
    "fulfilled": (ALREADY_COMPLETED, "is already completed"),
    "halted": (WRONG_STATE, "was halted by an operator"),
}


class LegacyRefusal(Exception):
    """A request that is answered with an error.

    Attributes:
        code: The code; its first three digits are the status.
        text: The reason, for people.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @classmethod
    def of(cls, error: SignoffError | Refusal) -> LegacyRefusal:
        """Return the refusal for an error."""
        return cls(_code_of(error), error.text if isinstance(error, Refusal) else str(error))

    @classmethod
    def settled(cls, promise: Promise, *, is_timer: bool) -> LegacyRefusal:
        """Return the refusal to settle a settled promise. A timer that has run out is resolved."""
        resolved = is_timer and promise.state is PromiseState.TIMED_OUT
        code = ALREADY_RESOLVED if resolved else _SETTLED[promise.state]
        return cls(code, f"promise {promise.id!r} is already {promise.state.value}")

    @classmethod
    def of_task(cls, conflict: TaskConflict) -> LegacyRefusal:
        """Return the refusal of an operation on a task that is in another state or version."""
        if conflict.state not in _OF_TASK:
            return cls.wrong_counter(conflict)
        code, reason = _OF_TASK[conflict.state]
        return cls(code, f"task {conflict.task_id!r} {reason}")

    @classmethod
    def wrong_counter(cls, conflict: TaskConflict) -> LegacyRefusal:
        """Return the refusal of an operation on a task that was claimed again since."""
        return cls(WRONG_COUNTER, f"task {conflict.task_id!r} has another counter")


def refuse(refusal: LegacyRefusal) -> Response:
    """Return the response for a refused request."""
    kind = "ServerError" if refusal.code >= FAILED else "RequestError"
    details = [{"@type": kind, "message": refusal.text}]
    error = {"code": refusal.code, "message": refusal.text, "details": details}
    headers = {"www-authenticate": 'Basic realm="Signoff"'} if refusal.code // 100 == 401 else None
    return Response(to_json({"error": error}), refusal.code // 100, headers, media_type="application/json")


def _code_of(error: SignoffError | Refusal) -> int:
    if isinstance(error, Refusal):
        return error.status * 100
    if isinstance(error, NotFound):
        return _MISSING.get(error.noun, NO_PROMISE)
    if isinstance(error, StoreUnavailable | TooManyRequests):
        return UNAVAILABLE
    status = status_of(type(error))
    return {403: FORBIDDEN, 422: INVALID, 503: UNAVAILABLE}.get(status, status * 100)
