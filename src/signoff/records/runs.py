"""Runs: one execution of a registered workflow each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from signoff.records.record import record


class RunState(StrEnum):
    """State of a run. ``docs/state-machine.md`` shows the transitions."""

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED})


@record
class NewRun:
    """A run to be created.

    ``traceparent`` and ``started_by`` do not count when a second start with the same id is compared with the first.
    """

    id: str
    workflow: str
    group: str
    arguments: str  # JSON {"args": [...], "kwargs": {...}}
    parent_id: str | None = None  # the run that gets the outcome, as that of its call `parent_n`
    parent_n: int | None = None
    deadline_at: float | None = None
    priority: int = 0  # runs of higher priority are claimed first
    start_at: float | None = None  # the run does not start earlier
    # At most `concurrency_limit` runs with one key are running at a time. Set both or neither.
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    traceparent: str | None = None  # W3C trace context
    started_by: str | None = None  # such as user:ana
    session_id: str | None = None  # the run waits until all earlier runs of this session have ended


@record
class Run:
    """One execution of a registered workflow."""

    namespace: str
    id: str
    workflow: str
    group: str
    arguments: str  # JSON, of the first generation; empty if left out
    state: RunState
    created_at: float
    parent_id: str | None = None
    parent_n: int | None = None
    deadline_at: float | None = None
    ended_at: float | None = None
    result: str | None = None  # JSON, when succeeded
    error: str | None = None  # JSON of the error, when failed or cancelled
    retryable: bool = False  # a failed run that `retry` makes ready again
    epoch: int = 0  # counts leases; an append with an older epoch is refused
    wakes: int = 0  # counts messages from outside; `pause` compares it
    wake_at: float | None = None  # when a paused run's earliest timer is due, or a delayed run starts
    worker_id: str | None = None
    lease_until: float | None = None
    first_seq: int = 0  # where the journal of the current generation begins
    priority: int = 0
    start_at: float | None = None
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    traceparent: str | None = None
    started_by: str | None = None
    session_id: str | None = None
    position: int | None = None  # in its session, from 1
    takeovers: int = 0  # how many workers it has lost since its journal last grew
    suspended_at: float | None = None  # no worker claims it until an operator resumes it
    suspended_by: str | None = None  # None: Signoff suspended it
    suspended_reason: str | None = None
    # Sizes in bytes of the fields that a list omits because they are too large. get_run returns them.
    left_out: Mapping[str, int] | None = field(default=None, hash=False)

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for an operator: it is ``paused``, or about to be."""
        return self.suspended_at is not None

    @property
    def is_delayed(self) -> bool:
        """Whether it has not started yet: it waits for its start time, or for earlier runs of its session."""
        return self.state is RunState.PAUSED and self.epoch == 0 and self.suspended_at is None

    @property
    def awaits_turn(self) -> bool:
        """Whether it waits for earlier runs of its session."""
        return self.is_delayed and self.wake_at is None
