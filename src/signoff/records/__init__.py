"""The nouns of Signoff as frozen records, with their states.

Times are unix seconds. A comment marks each field that holds JSON text; ``codec`` turns it into Python values.
A record does not know its store.
"""

from __future__ import annotations

from signoff.records.audit import AuditEvent, AuditKind, NewAuditEvent, Seal
from signoff.records.groups import Group, Rate
from signoff.records.journal import CallKind, Entry, EntryKind, LiveText
from signoff.records.messages import Message, MessageKind, NewSignal
from signoff.records.origins import Origin, OriginWay
from signoff.records.promises import NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.records.questions import Amendment
from signoff.records.record import record
from signoff.records.rules import NewRule, Rule
from signoff.records.runs import NewRun, Run, RunState
from signoff.records.schedules import CatchUp, Due, NewSchedule, Schedule
from signoff.records.sessions import Session
from signoff.records.tokens import NewToken, Token, TokenKind
from signoff.records.workers import WorkerInfo, WorkflowInfo

__all__ = [
    "Amendment",
    "AuditEvent",
    "AuditKind",
    "CallKind",
    "CatchUp",
    "Due",
    "Entry",
    "EntryKind",
    "Group",
    "LiveText",
    "Message",
    "MessageKind",
    "NewAuditEvent",
    "NewPromise",
    "NewRule",
    "NewRun",
    "NewSchedule",
    "NewSignal",
    "NewToken",
    "Origin",
    "OriginWay",
    "Promise",
    "PromiseKind",
    "PromiseState",
    "Rate",
    "Rule",
    "Run",
    "RunState",
    "Schedule",
    "Seal",
    "Session",
    "Settlement",
    "Token",
    "TokenKind",
    "WorkerInfo",
    "WorkflowInfo",
    "record",
]
