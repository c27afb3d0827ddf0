"""Whether two JSON texts say the same, and whether what is there is what a call wants."""

from __future__ import annotations

import json

from signoff.errors import IdConflict
from signoff.records import NewPromise, NewRun, NewToken, PromiseKind, Run

OTHER_SESSION = "it is a run of another session"
NO_SESSION = "it is a run of no session"
OTHER_ACTIVE = "another run of its session is active"


def same_json(one: str | None, other: str | None) -> bool:
    """Whether two JSON texts hold the same value, however they are spaced and their keys ordered."""
    if one == other:
        return True
    if one is None or other is None:
        return False
    return canonical(one) == canonical(other)


def canonical(text: str) -> str:
    """Return the one text of all that hold this value."""
    return json.dumps(json.loads(text), sort_keys=True)


def may_join(new: NewPromise, found: PromiseKind) -> bool:
    """Whether a call that wants to open a promise may wait for another's of that id: never for a question.

    Who has made it would choose what is asked, and of whom.
    """
    return new.kind is found is PromiseKind.PROMISE


def refusal_of(new: NewPromise) -> IdConflict:
    """Return what a call is told that may not join what has the id of the promise it wants to open."""
    if new.kind is PromiseKind.QUESTION:
        return IdConflict(
            new.id, "another call, run or caller has it, and a question is asked by one call only"
        )
    return IdConflict(new.id, "it is a question, not a promise")


def taken_token(new: NewToken) -> IdConflict:
    """Return what a call is told whose token has the id or the hash of another one."""
    return IdConflict(new.id, "a token of this id has another secret, or one of another id has this secret")


def difference(run: Run, new: NewRun) -> str | None:
    """Say what makes a run another one than what is wanted under its id; None if it is that one."""
    if run.workflow != new.workflow:
        return f"it is a run of {run.workflow!r}, not of {new.workflow!r}"
    if not same_json(run.arguments, new.arguments):
        return f"it is a run of {run.workflow!r} with other arguments"
    if run.session_id != new.session_id:
        return OTHER_SESSION if run.session_id else NO_SESSION
    return None
