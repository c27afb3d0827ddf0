"""Signoff: durable execution for Python with people in the loop."""

from signoff.app import Signoff
from signoff.asking import ask
from signoff.client.async_client import AsyncClient, AsyncHandle
from signoff.client.blocking import Client, Handle, QuestionHandle
from signoff.client.questions import AsyncQuestionHandle, CallDecision
from signoff.engine.steps.attempt import current_step
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.worker.gc_tuning import relax_collector
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
from signoff.people.questions.actions import Action
from signoff.people.questions.answers import Answer
from signoff.people.questions.bulk_answers import GivenAnswer
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.callback_terms import Callback
from signoff.people.questions.policies import Escalation, Quorum
from signoff.people.questions.progress import Vote
from signoff.people.questions.question import Question
from signoff.people.questions.standing_approvals import Alike
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
from signoff.version import __version__ as __version__
from signoff.workflow.concurrency import Concurrency
from signoff.workflow.context import Context
from signoff.workflow.current_context import current_context

__all__ = [
    "Action",
    "Alike",
    "AlreadySettled",
    "AlreadyVoted",
    "Answer",
    "AsyncClient",
    "AsyncHandle",
    "AsyncQuestionHandle",
    "AuditEvent",
    "BusinessHours",
    "CallDecision",
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
    "Question",
    "QuestionCancelled",
    "QuestionClaimed",
    "QuestionHandle",
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
    "ask",
    "current_context",
    "current_step",
    "relax_collector",
]
