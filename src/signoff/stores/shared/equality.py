"""Equality of JSON texts, and of existing records with those that a call wants to create."""

from __future__ import annotations

import json

from signoff.errors import AlreadySettled, IdConflict, RequestConflict
from signoff.records import NewPromise, NewRun, NewToken, Promise, PromiseKind, Run, Settlement

OTHER_SESSION = "it is a run of another session"
NO_SESSION = "it is a run of no session"
OTHER_ACTIVE = "another run of its session is active"


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts have the same value, regardless of spacing and key order."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    return canonical(one) == canonical(other)


def canonical(text: str) -> str:
    """Return the canonical text of a JSON value."""
    return json.dumps(json.loads(text), sort_keys=True)


def settled_before(promise: Promise, settlement: Settlement, *, is_repeated: bool) -> tuple[Promise, bool]:
    """Return the result of a call that settles a settled promise, if it repeats the request with which that happened.

    Raises:
        RequestConflict: The request had another value.
        AlreadySettled: It was another request.
    """
    if settlement.request_id is None or not is_repeated:
        raise AlreadySettled(promise.id, promise.state.value, promise.settled_by, promise.settled_at)
    if promise.state is not settlement.state or not same_json(promise.value, settlement.value):
        raise RequestConflict(settlement.request_id, promise.id)
    return promise, False


def may_join(new: NewPromise, found: PromiseKind) -> bool:
    """Whether a call that wants to open a promise may join an existing one with its id: never for a question.

    Its creator would determine the question and its assignees.
    """
    return new.kind is found is PromiseKind.PROMISE


def refusal_of(new: NewPromise) -> IdConflict:
    """Return the error for a call that may not join the record with its promise's id."""
    if new.kind is PromiseKind.QUESTION:
        return IdConflict(
            new.id, "it belongs to another call, run or caller, and a question belongs to one call only"
        )
    return IdConflict(new.id, "it is a question, not a promise")


def taken_token(new: NewToken) -> IdConflict:
    """Return the error for a token whose id or hash belongs to another one."""
    return IdConflict(new.id, "a token of this id has another secret, or one of another id has this secret")


def difference(run: Run, new: NewRun) -> str | None:
    """Return how an existing run differs from the one to start under its id; None if it does not."""
    if run.workflow != new.workflow:
        return f"it is a run of {run.workflow!r}, not of {new.workflow!r}"
    if not same_json(run.arguments, new.arguments):
        return f"it is a run of {run.workflow!r} with other arguments"
    if run.session_id != new.session_id:
        return OTHER_SESSION if run.session_id else NO_SESSION
    return None
