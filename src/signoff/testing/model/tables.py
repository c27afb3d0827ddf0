"""The tables of the reference model, and the changes of one operation."""

from __future__ import annotations

from dataclasses import dataclass, field

from signoff.records import (
    AuditEvent,
    Entry,
    LiveText,
    Message,
    Promise,
    Rate,
    Rule,
    Run,
    Schedule,
    Seal,
    Session,
    Token,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.checkpoints import CheckpointWrite, NewCheckpoint, Serialized
from signoff.records.deliveries import Delivery
from signoff.records.promise_schedules import PromiseSchedule
from signoff.records.tasks import Task
from signoff.stores.contract.store import Change

Key = tuple[str, str]  # namespace and id


@dataclass
class Facts:
    """Facts about a run that readers do not see."""

    number: int
    ready_at: float
    cancel_asked: bool = False
    deadline_passed: bool = False
    claim_token: str | None = None
    takeover_seq: int = 0


@dataclass
class Limits:
    """The limits of a group, and the state of its rate limit (GCRA)."""

    is_paused: bool = False
    max_running: int | None = None
    starts_per: Rate | None = None
    whole_at: float = 0.0
    opens_at: float | None = None

    def may_start(self, now: float) -> bool:
        if self.starts_per is None:
            return True
        each = self.starts_per.seconds / self.starts_per.count
        return max(self.whole_at, now) + each <= now + self.starts_per.seconds + 1e-6

    def note_start(self, now: float) -> None:
        if self.starts_per is not None:
            self.whole_at = max(self.whole_at, now) + self.starts_per.seconds / self.starts_per.count

    def hold_back(self) -> bool:
        """Schedule the next start. Returns whether that is new."""
        assert self.starts_per is not None
        rate, known = self.starts_per, self.opens_at
        self.opens_at = self.whole_at + rate.seconds / rate.count - rate.seconds
        return self.opens_at != known


@dataclass
class TaskTimes:
    """When a pending task is sent, and when the lease of an acquired one expires."""

    send_at: float | None = None
    lease_until: float | None = None


@dataclass
class Tables:
    """All stored data. Runs, promises and tokens are in order of creation."""

    runs: dict[Key, Run] = field(default_factory=dict[Key, Run])
    facts: dict[Key, Facts] = field(default_factory=dict[Key, Facts])
    sessions: dict[Key, tuple[int, Session]] = field(
        default_factory=dict[Key, tuple[int, Session]]
    )  # with the number of the run started last
    journals: dict[Key, list[Entry]] = field(default_factory=dict[Key, list[Entry]])
    messages: dict[Key, list[Message]] = field(default_factory=dict[Key, list[Message]])
    promises: dict[Key, Promise] = field(default_factory=dict[Key, Promise])
    waiters: dict[tuple[str, str, str], set[tuple[str, int]]] = field(
        default_factory=dict[tuple[str, str, str], set[tuple[str, int]]]
    )
    requests: dict[tuple[str, str, str], tuple[str, str | None]] = field(
        default_factory=dict[tuple[str, str, str], tuple[str, str | None]]
    )  # the signal's name and value; for an answer, the promise
    made: int = 0  # the number of runs, promises and tokens created so far
    promise_numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    calls: set[tuple[str, str, str, str]] = field(
        default_factory=set[tuple[str, str, str, str]]
    )  # their tokens
    groups: dict[Key, Limits] = field(default_factory=dict[Key, Limits])
    schedules: dict[Key, Schedule] = field(default_factory=dict[Key, Schedule])
    promise_schedules: dict[Key, PromiseSchedule] = field(default_factory=dict[Key, PromiseSchedule])
    workers: dict[str, WorkerInfo] = field(default_factory=dict[str, WorkerInfo])
    workflows: dict[tuple[str, str, str, str], WorkflowInfo] = field(
        default_factory=dict[tuple[str, str, str, str], WorkflowInfo]
    )  # by namespace, name, group and version
    live: dict[Key, list[LiveText]] = field(default_factory=dict[Key, list[LiveText]])
    rules: dict[Key, Rule] = field(default_factory=dict[Key, Rule])
    audit: list[AuditEvent] = field(default_factory=list[AuditEvent])
    chains: dict[str, list[Seal]] = field(default_factory=dict[str, list[Seal]])
    tokens: dict[Key, Token] = field(default_factory=dict[Key, Token])
    token_numbers: dict[Key, int] = field(default_factory=dict[Key, int])
    cursors: dict[Key, int] = field(default_factory=dict[Key, int])  # by channel
    deliveries: dict[Key, tuple[int, Delivery]] = field(default_factory=dict[Key, tuple[int, Delivery]])
    tasks: dict[Key, Task] = field(default_factory=dict[Key, Task])
    task_times: dict[Key, TaskTimes] = field(default_factory=dict[Key, TaskTimes])
    task_awaits: dict[Key, dict[str, str | None]] = field(
        default_factory=dict[Key, dict[str, str | None]]
    )  # by the awaited promise: the awaiting tasks, and where they are sent then
    promise_listeners: dict[tuple[str, str, str], float | None] = field(
        default_factory=dict[tuple[str, str, str], float | None]
    )  # by namespace, promise and address: when it is sent
    promise_branches: set[tuple[str, str, str]] = field(
        default_factory=set[tuple[str, str, str]]
    )  # namespace, branch and promise
    checkpoints: dict[tuple[str, str, str, str], NewCheckpoint] = field(
        default_factory=dict[tuple[str, str, str, str], NewCheckpoint]
    )  # by namespace, thread, path and id
    channel_values: dict[tuple[str, str, str], dict[tuple[str, str], Serialized]] = field(
        default_factory=dict[tuple[str, str, str], dict[tuple[str, str], Serialized]]
    )  # by namespace, thread and path: by channel and version
    checkpoint_writes: dict[tuple[str, str, str, str], dict[tuple[str, int], CheckpointWrite]] = field(
        default_factory=dict[tuple[str, str, str, str], dict[tuple[str, int], CheckpointWrite]]
    )  # by namespace, thread, path and checkpoint: by task and index


@dataclass
class Commit:
    """The changes of an operation so far."""

    runs: set[Key] = field(default_factory=set[Key])
    woken: set[Key] = field(default_factory=set[Key])
    ended: set[Key] = field(default_factory=set[Key])
    ready: set[str] = field(default_factory=set[str])  # namespaces with possibly claimable runs
    due: bool = False
    settled: set[str] = field(default_factory=set[str])  # namespaces with settled promises of no run

    def of(self, namespace: str) -> Change:
        """Return the change for listeners of a namespace."""
        return Change(
            runs=_ids(self.runs, namespace),
            woken=_ids(self.woken, namespace),
            ended=_ids(self.ended, namespace),
            ready=namespace in self.ready,
            due=self.due,
            settled=namespace in self.settled,
        )


def _ids(keys: set[Key], namespace: str) -> frozenset[str]:
    return frozenset(id for owner, id in keys if owner == namespace)
