"""Signoff: durable execution for Python with people in the loop."""

from signoff.app import Signoff
from signoff.blocking import Client, Handle
from signoff.client import AsyncClient, AsyncHandle
from signoff.concurrency import Concurrency
from signoff.context import Context, current_context
from signoff.engine.collector import relax_collector
from signoff.engine.retry import RetryPolicy
from signoff.engine.steps import current_step
from signoff.errors import (
    AlreadySettled,
    AlreadyVoted,
    IdConflict,
    NotAllowed,
    NotFound,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    QuestionCancelled,
    QuestionClaimed,
    RunCancelled,
    RunFailed,
    RunTerminated,
    RunTimeout,
    SignalTimeout,
    SignoffError,
    StepFailed,
    StepTimeout,
    WrongAnswer,
)
from signoff.people.actions import Action
from signoff.people.answers import Answer
from signoff.people.bulk import GivenAnswer
from signoff.people.callbacks import Callback
from signoff.people.cases import Vote
from signoff.people.hours import BusinessHours
from signoff.people.policies import Escalation, Quorum
from signoff.people.rules import Alike
from signoff.records import (
    AuditEvent,
    Entry,
    Group,
    LiveText,
    Origin,
    OriginWay,
    Promise,
    Rate,
    Rule,
    Run,
    RunState,
    Schedule,
    Session,
)

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Alike",
    "AlreadySettled",
    "AlreadyVoted",
    "Answer",
    "AsyncClient",
    "AsyncHandle",
    "AuditEvent",
    "BusinessHours",
    "Callback",
    "Client",
    "Concurrency",
    "Context",
    "Entry",
    "Escalation",
    "GivenAnswer",
    "Group",
    "Handle",
    "IdConflict",
    "LiveText",
    "NotAllowed",
    "NotFound",
    "Origin",
    "OriginWay",
    "Promise",
    "PromiseCancelled",
    "PromiseRejected",
    "PromiseTimeout",
    "QuestionCancelled",
    "QuestionClaimed",
    "Quorum",
    "Rate",
    "RetryPolicy",
    "Rule",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunState",
    "RunTerminated",
    "RunTimeout",
    "Schedule",
    "Session",
    "SignalTimeout",
    "Signoff",
    "SignoffError",
    "StepFailed",
    "StepTimeout",
    "Vote",
    "WrongAnswer",
    "current_context",
    "current_step",
    "relax_collector",
]
