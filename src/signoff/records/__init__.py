"""The nouns of Signoff as frozen records, and the states they can be in.

Times are unix seconds. Fields that hold JSON text are named in their comment; ``codec`` turns
them into Python values. A record never knows the store it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, TypeVar, dataclass_transform

from signoff.codec.strict_json import read_object
from signoff.records.question_text import unpacked

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make a frozen dataclass with slots of a class of which many objects are made.

    The type checker alone keeps it frozen. A check at run time makes it three times as long to make: a step makes four.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


class RunState(StrEnum):
    """Where a run is; drawn in docs/state-machine.md."""

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


class PromiseState(StrEnum):
    """Where a promise is; it leaves ``pending`` once."""

    PENDING = "pending"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class PromiseKind(StrEnum):
    """Who settles a promise: any caller of the API, or a person whose answer is checked first."""

    PROMISE = "promise"
    QUESTION = "question"


class CallKind(StrEnum):
    """What a run asked of its context."""

    STEP = "step"
    PROMISE = "promise"
    QUESTION = "question"
    SIGNAL = "signal"
    TIMER = "timer"
    CHILD = "child"
    DETACHED = "detached"
    PROGRESS = "progress"


class EntryKind(StrEnum):
    """What a journal entry records.

    ``COMPLETED``, ``SIGNALLED``, ``CANCEL_REQUESTED`` and ``DEADLINE_PASSED`` are delivered to the code, at the
    first run and at each replay, in journal order. The others are facts the replay checks or people read.
    """

    STARTED = "started"
    CONTINUED = "continued"
    OPENED = "opened"
    STEP_STARTED = "step_started"
    ATTEMPT_FAILED = "attempt_failed"
    COMPLETED = "completed"
    SIGNALLED = "signalled"
    PATCHED = "patched"
    BRANCHED = "branched"
    PROGRESSED = "progressed"
    CANCEL_REQUESTED = "cancel_requested"
    DEADLINE_PASSED = "deadline_passed"
    RETRIED = "retried"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class MessageKind(StrEnum):
    """What came for a run from outside and waits to be journaled by its worker."""

    SETTLED = "settled"
    SIGNAL = "signal"
    CANCEL = "cancel"
    DEADLINE = "deadline"
    SUSPEND = "suspend"


class _Growing(StrEnum):
    """An enum of texts that newer versions add to: what a newer one has written is kept as it is."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown


class AuditKind(_Growing):
    """What an audit event tells of a question.

    The store itself records ``ASKED`` and how the question was settled, in the transaction that does it.
    """

    ASKED = "asked"
    RESOLVED = "resolved"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    VIEWED = "viewed"
    COMMENTED = "commented"
    VOTED = "voted"
    REFUSED = "refused"
    CLAIMED = "claimed"
    RELEASED = "released"
    DELEGATED = "delegated"
    REASSIGNED = "reassigned"
    DEADLINE_MOVED = "deadline_moved"
    RULE_MADE = "rule_made"
    RULE_USED = "rule_used"
    RULE_REVOKED = "rule_revoked"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    DEFAULTED = "defaulted"
    LINKED = "linked"
    UNLINKED = "unlinked"
    SAVED = "saved"
    LOADED = "loaded"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    TERMINATED = "terminated"
    RETRIED = "retried"


class TokenKind(_Growing):
    """What a token is good for."""

    API_KEY = "api_key"
    WORKER_KEY = "worker_key"
    LINK = "link"
    LOGIN = "login"
    CALLBACK = "callback"
    RESUME = "resume"


class OriginWay(_Growing):
    """The way on which something came."""

    KEY = "key"  # the HTTP API, with the API key of a service
    LOGIN = "login"  # the HTTP API, signed in
    PROXY = "proxy"  # the HTTP API, by the word of a proxy that has signed somebody in
    OPEN = "open"  # the HTTP API, which asked nobody who they are
    LINK = "link"
    SLACK = "slack"
    CALLBACK = "callback"
    WORKER = "worker"  # a store over HTTP
    APP = "app"  # a program with the database
    CLI = "cli"  # the command line, with the database
    RULE = "rule"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Origin:
    """From where something was done, as whoever took it saw it: no caller says it of themselves."""

    way: OriginWay
    credential: str | None = (
        None  # id of the key, login, link, callback or rule; user of Slack or of the host
    )
    service: str | None = None  # whose key it was, also where it acted for a person
    address: str | None = None  # of the client; of a program with the database, the name of its host


@record
class NewRun:
    """What a caller says when it starts a run."""

    id: str
    workflow: str
    group: str
    arguments: str  # JSON {"args": [...], "kwargs": {...}}
    parent_id: str | None = None  # the run to tell of the end, as call `parent_n` of it
    parent_n: int | None = None
    deadline_at: float | None = None
    priority: int = 0  # higher ones are claimed sooner
    start_at: float | None = None  # not before then
    concurrency_key: str | None = (
        None  # at most `concurrency_limit` runs of a key run at once; both or neither
    )
    concurrency_limit: int | None = None
    traceparent: str | None = (
        None  # the trace it belongs to, as W3C writes it; no part of what makes it this run
    )
    started_by: str | None = (
        None  # who asked for it, such as user:ana; no part of what makes it this run either
    )
    session_id: str | None = None  # it waits until the runs of this session before it have ended


@record
class Run:
    """One execution of a registered workflow."""

    namespace: str
    id: str
    workflow: str
    group: str
    arguments: str  # JSON, of the first generation; empty if it is left out
    state: RunState
    created_at: float
    parent_id: str | None = None
    parent_n: int | None = None
    deadline_at: float | None = None
    ended_at: float | None = None
    result: str | None = None  # JSON, when succeeded
    error: str | None = None  # JSON of the error, when failed or cancelled
    retryable: bool = False  # failed, but kept whole: `retry` makes it ready again
    epoch: int = 0  # counts leases; an append of an older epoch is refused
    wakes: int = 0  # counts what came from outside; `pause` compares it
    wake_at: float | None = None  # when the earliest timer of a paused run is due, or a delayed one starts
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
    takeovers: int = 0  # how often its worker was lost since its journal last grew
    suspended_at: float | None = None  # no worker gets it until an operator resumes it
    suspended_by: str | None = None  # None: Signoff itself
    suspended_reason: str | None = None
    left_out: Mapping[str, int] | None = field(default=None, hash=False)
    # of what is too large for a list its size in bytes, by field; get_run has it

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for an operator: ``paused``, or about to be."""
        return self.suspended_at is not None

    @property
    def is_delayed(self) -> bool:
        """Whether it waits for its start: for its time, or for its turn."""
        return self.state is RunState.PAUSED and self.epoch == 0 and self.suspended_at is None

    @property
    def awaits_turn(self) -> bool:
        """Whether it waits for runs of its session that come before it."""
        return self.is_delayed and self.wake_at is None


@dataclass(frozen=True, slots=True)
class Session:
    """An ordered chain of runs of which one at most is active at a time, such as a conversation."""

    namespace: str
    id: str
    created_at: float
    last_at: float  # when the last run was started in it
    last_position: int  # that run's: so many runs were ever started in it
    active_run_id: str | None = None  # whose turn it is; None: all of its runs have ended


@record
class Entry:
    """One thing that happened to a run: row ``seq`` of its journal."""

    seq: int
    at: float
    kind: EntryKind
    n: int | None = None
    call: CallKind | None = None
    name: str | None = None
    value: str | None = None  # JSON
    error: str | None = None  # JSON of an error
    details: str | None = None  # JSON object, by kind

    def fact(self, key: str) -> Any:
        """Return one of the details, or None."""
        # A replay asks for many that are not there: looking for the word is quicker than reading the JSON.
        if self.details is None or key not in self.details:
            return None
        return read_object(self.details).get(key)

    @property
    def state(self) -> str | None:
        """The final state of the promise or child run that this entry completes."""
        return self.fact("state")


@dataclass(frozen=True, slots=True)
class LiveText:
    """A piece of what an attempt at a step has said so far, see ``StepInfo.live``. No journal holds it.

    Attributes:
        run_id: The run.
        epoch: The lease under which it was said.
        seq: Its place among all pieces of that lease. They ascend, with gaps.
        n: The number of the step's call.
        name: The step's name.
        attempt: Which attempt says it, from 1.
        position: How many characters the attempt had said before, of all kinds. 0: it begins anew.
        kind: What it is, such as ``text``.
        text: What was said.
    """

    run_id: str
    epoch: int
    seq: int
    n: int
    name: str
    attempt: int
    position: int
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class NewPromise:
    """What a run or an API caller says when it creates a promise."""

    id: str
    kind: PromiseKind = PromiseKind.PROMISE
    run_id: str | None = None  # the run that waits, as call `n` of it
    n: int | None = None
    due_at: float | None = None
    data: str | None = None  # JSON: a question's text, form, metadata; or what the creator wants to show
    assignees: tuple[
        str, ...
    ] = ()  # of a question: who may answer, such as user:ana, group:finance; () is anybody
    act_at: float | None = None  # of a question: when its policy has something to do
    callback: str | None = field(default=None, repr=False)
    # of a question: SHA-256, in hex, of the secret of its callback; kept as a token, not in the promise


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
    data: str | None = None  # JSON
    value: str | None = None  # JSON: the resolution, or the reason of a rejection
    settled_at: float | None = None
    settled_by: str | None = None
    note: str | None = None
    request_id: str | None = None
    assignees: tuple[str, ...] = ()
    act_at: float | None = None
    version: int = 0  # counts amendments
    progress: str | None = None  # JSON: what a question's policy keeps, such as votes
    origin: Origin | None = None  # from where it was settled; None: by the end of its run
    left_out: Mapping[str, int] | None = field(default=None, hash=False)
    # of what is too large for a list its size in bytes, by field; get_promise has it

    def __post_init__(self) -> None:
        if self.data is not None and self.data is not (whole := unpacked(self.data)):
            object.__setattr__(self, "data", whole)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What somebody says when they settle a promise."""

    state: PromiseState
    value: str | None = None  # JSON
    by: str | None = None
    note: str | None = None
    request_id: str | None = None
    version: int | None = None  # of the question, for which it was made; None: whichever it has
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class NewAuditEvent:
    """What is to be recorded of a question for ever."""

    id: str  # unique in its namespace; recorded twice, it is there once
    kind: AuditKind
    question_id: str
    run_id: str | None = None
    by: str | None = None
    details: str | None = None  # JSON object
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One thing that happened to a question: a row that nothing changes."""

    namespace: str
    id: str
    at: float
    kind: AuditKind
    question_id: str
    run_id: str | None = None
    by: str | None = None
    details: str | None = None  # JSON object
    seq: int | None = None  # its place in the namespace's chain, once it is sealed
    hash: str | None = None  # of it and all before it in the chain
    redacted: bool | None = None  # whether something of it was hidden on its way out; no store keeps it
    origin: Origin | None = None  # None: Signoff itself or the run, or it was recorded before this was


@dataclass(frozen=True, slots=True)
class Seal:
    """The place of an audit event in its namespace's chain."""

    seq: int
    event_id: str
    hash: str


@dataclass(frozen=True, slots=True)
class NewRule:
    """What a person has approved in their name for some time: questions about one tool, with these arguments."""

    id: str
    by: str  # who made it, without `user:`
    tool: str
    arguments: str  # JSON object: JSON Pointers, and what the arguments of a question must have there
    expires_at: float | None  # None, for a session: at no time
    question_id: str  # it was made with the answer to this one
    run_id: str | None = None  # only what this run asks; None: whoever asks
    groups: tuple[str, ...] = ()  # its maker's, when they made it
    roles: tuple[str, ...] = ()  # likewise
    max_uses: int | None = None
    session_id: str | None = None  # only what runs of this session ask


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it is kept. It is in force until it expires, is revoked, or was used as often as it may be."""

    namespace: str
    id: str
    created_at: float
    by: str
    tool: str
    arguments: str  # JSON
    question_id: str
    expires_at: float | None = None
    run_id: str | None = None
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    max_uses: int | None = None
    uses: int = 0
    revoked_at: float | None = None
    revoked_by: str | None = None
    session_id: str | None = None

    def is_in_force(self, now: float) -> bool:
        """Whether it approves anything at that time, in unix seconds."""
        is_used_up = self.max_uses is not None and self.uses >= self.max_uses
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_over and not is_used_up


@dataclass(frozen=True, slots=True)
class NewSignal:
    """A signal that is left for a run together with something else."""

    run_id: str
    name: str
    value: str  # JSON
    by: str | None = None


@dataclass(frozen=True, slots=True)
class Amendment:
    """What changes about a pending question, and is recorded of it, in one step.

    Attributes:
        version: The version it was made for; if the question has another one, nothing is done.
        progress: What its policy keeps from now on (JSON).
        assignees: Who may answer from now on.
        act_at: When its policy has something to do next.
        settlement: How it is settled, if it is.
        events: What is recorded.
        rule: A rule that is made with the settlement; if its id is taken, nothing is done.
        by_rule: The id of a rule that the settlement is made by; if it is not in force, nothing is done.
        due_at: When it times out from now on; None leaves that as it is.
        signal: What is left for a run with it, before anybody is told of the settlement; an ended run gets none.
        request_id: The request id of a vote, which its execution remembers; that of a settlement is in there.
    """

    version: int
    progress: str | None
    assignees: tuple[str, ...]
    act_at: float | None
    settlement: Settlement | None = None
    events: tuple[NewAuditEvent, ...] = ()
    rule: NewRule | None = None
    by_rule: str | None = None
    due_at: float | None = None
    signal: NewSignal | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """Something from outside that a run has yet to journal.

    A ``SETTLED`` message carries the outcome of call ``n``: a promise's or a child run's. ``state`` is then
    the promise's or the child's final state.
    """

    id: int
    run_id: str
    kind: MessageKind
    at: float
    n: int | None = None
    name: str | None = None  # of the signal; of the promise or child run that settled
    state: str | None = None
    value: str | None = None  # JSON
    error: str | None = None  # JSON of an error
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in so many seconds: ``Rate(10, 60)`` is ten a minute."""

    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Group:
    """The name workers poll under and runs are routed to, what limits it, and how many runs it has."""

    name: str
    is_paused: bool = False  # none of its runs is claimed
    max_running: int | None = None  # how many may be running at once; None: any number
    starts_per: Rate | None = None  # how often runs may start that never did; None: without limit
    ready: int = 0
    running: int = 0
    paused: int = 0
    suspended: int = 0  # of these, how many wait for an operator
    set_aside: int = 0  # of these, how many Signoff has suspended itself, after takeovers without progress


class CatchUp(StrEnum):
    """Which of its missed times a schedule makes up for."""

    SKIP = "skip"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """What a caller says of a workflow that is to be started again and again."""

    id: str
    workflow: str
    group: str
    arguments: str  # JSON {"args": [...], "kwargs": {...}}
    cron: str
    timezone: str
    catch_up: CatchUp = CatchUp.LATEST
    next_at: float = 0.0  # the first time
    priority: int = 0
    concurrency_key: str | None = None
    concurrency_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A workflow that is started at the times of a cron expression."""

    namespace: str
    id: str
    workflow: str
    group: str
    arguments: str  # JSON; empty if it is left out
    cron: str
    timezone: str
    catch_up: CatchUp
    next_at: float
    priority: int = 0
    concurrency_key: str | None = None
    concurrency_limit: int | None = None
    created_at: float = 0.0
    is_paused: bool = False
    last_at: float | None = None  # when it last started a run
    last_run_id: str | None = None
    left_out: Mapping[str, int] | None = field(default=None, hash=False)
    # of what is too large for a list its size in bytes, by field; get_schedule has it


@dataclass(frozen=True, slots=True)
class Due:
    """Reference to a schedule or a question that is due. Its record is read separately."""

    namespace: str
    id: str
    at: float  # in unix seconds


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A process that holds leases, and how to tell on its host whether it still lives."""

    id: str
    host: str
    pid: int
    process_started_at: float
    group: str
    namespace: str = "default"
    signoff_version: str | None = None  # None: it is of before workers told
    python_version: str | None = None
    build: str | None = None  # what its code was built from, such as a commit, if it was told
    threads: int | None = None  # how many steps that are plain functions run at once; None: it has not said
    threads_busy: int = 0  # how many of these ran when it last said that it lives
    threads_waiting: int = 0  # how many steps waited for a thread then
    seen_at: float | None = None  # when it last said that it lives
    held: int = 0  # how many runs it holds


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """A workflow, in one version, that workers of a group run, as the last of them to begin has described it."""

    group: str
    name: str
    version: str
    is_current: bool  # whether new runs got this version where it was announced
    description: str | None = None  # the first paragraph of its docstring
    parameters: str | None = None  # JSON Schema of an object; None: nobody can say, or it is too long
    namespace: str = "default"
    seen_at: float | None = None  # when a worker last announced it


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to be stored: the hash of a secret that stands for a user or a resource. See ``stores.tokens``."""

    id: str  # public and random
    kind: TokenKind
    hash: str = field(repr=False)  # SHA-256 of the secret, in hex
    subject: str  # who or what it stands for, such as user:ana
    question_id: str | None = None  # of a link: what it answers
    data: str | None = None  # JSON object: what the kind needs, such as scopes
    label: str | None = None  # what people call it
    created_by: str | None = None
    expires_at: float | None = None  # None: never


@dataclass(frozen=True, slots=True)
class Token:
    """A stored token: a secret that stands for a user or a resource. The secret itself is not stored."""

    namespace: str
    id: str
    kind: TokenKind
    hash: str = field(repr=False)  # empty where it came over the HTTP API
    subject: str
    created_at: float
    question_id: str | None = None
    data: str | None = None  # JSON object
    label: str | None = None
    created_by: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None  # when it was last used, give or take a minute

    def is_open(self, now: float) -> bool:
        """Whether it is good for anything at a time: not revoked, and not expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
