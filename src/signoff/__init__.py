"""Signoff: durable execution for Python with people in the loop."""

from signoff.app import Signoff
from signoff.blocking import Client, Handle
from signoff.client import AsyncClient, AsyncHandle
from signoff.concurrency import Concurrency
from signoff.context import Context
from signoff.engine.collector import relax_collector
from signoff.engine.retry import RetryPolicy
from signoff.engine.steps import current_step
from signoff.errors import (
    AlreadySettled,
    IdConflict,
    NotFound,
    PromiseCancelled,
    PromiseRejected,
    PromiseTimeout,
    RunCancelled,
    RunFailed,
    RunTimeout,
    SignalTimeout,
    SignoffError,
    StepFailed,
    StepTimeout,
    WrongAnswer,
)
from signoff.people.answers import Answer
from signoff.records import Entry, Group, Promise, Rate, Run, RunState, Schedule

__version__ = "0.1.0"

__all__ = [
    "AlreadySettled",
    "Answer",
    "AsyncClient",
    "AsyncHandle",
    "Client",
    "Concurrency",
    "Context",
    "Entry",
    "Group",
    "Handle",
    "IdConflict",
    "NotFound",
    "Promise",
    "PromiseCancelled",
    "PromiseRejected",
    "PromiseTimeout",
    "Rate",
    "RetryPolicy",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunState",
    "RunTimeout",
    "Schedule",
    "SignalTimeout",
    "Signoff",
    "SignoffError",
    "StepFailed",
    "StepTimeout",
    "WrongAnswer",
    "current_step",
    "relax_collector",
]
