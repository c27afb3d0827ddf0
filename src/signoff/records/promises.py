"""Promises, and how they are settled. A question is a promise that a person settles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from signoff.records.origins import Origin


class PromiseState(StrEnum):
    """State of a promise. It leaves ``pending`` once."""

    PENDING = "pending"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class PromiseKind(StrEnum):
    """Kind of a promise: any API caller settles a promise; a person settles a question, with a checked answer."""

    PROMISE = "promise"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class NewPromise:
    """A promise to be created, by a run or an API caller."""

    id: str
    kind: PromiseKind = PromiseKind.PROMISE
    run_id: str | None = None  # the run that waits for it, in its call `n`
    n: int | None = None
    due_at: float | None = None
    data: str | None = None  # JSON: a question's text, form and metadata; else whatever its creator adds
    assignees: tuple[str, ...] = ()  # of a question, such as user:ana, group:finance; (): anyone may answer
    act_at: float | None = None  # of a question: when its policy acts next
    # Hex SHA-256 of the secret of a question's callback. It is stored as a token, not with the promise.
    callback: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Promise:
    """An addressable durable future."""

    namespace: str
    id: str
    kind: PromiseKind
    state: PromiseState
    created_at: float
    run_id: str | None = None
    n: int | None = None
    due_at: float | None = None
    data: str | None = None  # JSON, in full: stores keep the packed form (``question_text``)
    value: str | None = None  # JSON: the resolution, or the reason of a rejection
    settled_at: float | None = None
    settled_by: str | None = None
    note: str | None = None
    request_id: str | None = None
    assignees: tuple[str, ...] = ()
    act_at: float | None = None
    version: int = 0  # counts amendments
    progress: str | None = None  # JSON: the state of a question's policy, such as its votes
    origin: Origin | None = None  # of the settlement; None: the end of its run settled it
    # Sizes in bytes of the fields that a list omits because they are too large. get_promise returns them.
    left_out: Mapping[str, int] | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a promise is to be settled."""

    state: PromiseState
    value: str | None = None  # JSON
    by: str | None = None
    note: str | None = None
    request_id: str | None = None
    version: int | None = None  # of the question that it was made for; None: any version
    origin: Origin | None = None
