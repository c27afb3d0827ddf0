"""One story for all examples of the API's description: a refund that somebody in finance must approve."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic.config import JsonDict

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    AlreadyVoted,
    IdConflict,
    InvalidState,
    InvalidValue,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    SignoffError,
    StoreUnavailable,
    TooManyRequests,
    WrongAnswer,
)
from signoff.records import (
    AuditEvent,
    AuditKind,
    CallKind,
    CatchUp,
    Entry,
    EntryKind,
    Group,
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Run,
    RunState,
    Schedule,
    Seal,
    WorkerInfo,
)
from signoff.wire import Record

RUN_ID: Final = "refund-o-1"
QUESTION_ID: Final = "refund-o-1.1"
PROMISE_ID: Final = "payment-o-1"
SCHEDULE_ID: Final = "nightly"

_AT = 1795363664.5
_ARGUMENTS = json.dumps({"args": ["o-1", 7000], "kwargs": {}})
_ASKED: Mapping[str, Any] = {
    "text": "Refund o-1?",
    "input_type": "approval",
    "answer_schema": {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}},
        "required": ["approved"],
        "additionalProperties": False,
    },
    "options": [],
    "metadata": {"order": "o-1"},
    "skippable": False,
    "digest": "68d1207eecbd797eb48b06c3a05a78b567906766dee0d5237984ddc3ed4b18ea",
    "policy": {"asked_at": _AT + 1},
}

RUN: Final = Run(
    namespace="default",
    id=RUN_ID,
    workflow="refund",
    group="default",
    arguments=_ARGUMENTS,
    state=RunState.PAUSED,
    created_at=_AT,
    epoch=1,
    started_by="user:req",
)
QUESTION: Final = Promise(
    namespace="default",
    id=QUESTION_ID,
    kind=PromiseKind.QUESTION,
    state=PromiseState.PENDING,
    created_at=_AT + 1,
    run_id=RUN_ID,
    n=1,
    due_at=_AT + 86401,
    data=json.dumps(_ASKED),
    assignees=("group:finance",),
)
EVENT: Final = AuditEvent(
    namespace="default",
    id="e4c1b1d20f5d4d6fb6a3c6d2f4a70c11",
    at=_AT + 60,
    kind=AuditKind.CLAIMED,
    question_id=QUESTION_ID,
    run_id=RUN_ID,
    by="user:ana",
    details="{}",
    seq=1,
    hash="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
)
SEAL: Final = Seal(seq=1, event_id=EVENT.id, hash=EVENT.hash or "")

RECORDS: Final[Mapping[type[Record], Record]] = {
    Run: RUN,
    Promise: QUESTION,
    Entry: Entry(
        seq=1,
        at=_AT + 1,
        kind=EntryKind.OPENED,
        n=1,
        call=CallKind.QUESTION,
        name="Refund o-1?",
        value=json.dumps(_ASKED),
        details=json.dumps({"id": QUESTION_ID, "due_at": _AT + 86401}),
    ),
    AuditEvent: EVENT,
    Group: Group("default", max_running=20, starts_per=Rate(10, 60.0), ready=3, running=20, paused=400),
    WorkerInfo: WorkerInfo(
        id="worker-1", host="app-1", pid=4711, process_started_at=_AT - 60, group="default", seen_at=_AT, held=20
    ),
    Schedule: Schedule(
        namespace="default",
        id=SCHEDULE_ID,
        workflow="refund",
        group="default",
        arguments=_ARGUMENTS,
        cron="0 3 * * *",
        timezone="Europe/Vienna",
        catch_up=CatchUp.LATEST,
        next_at=_AT + 3600,
        created_at=_AT,
    ),
}  # fmt: skip
"""What replies are made of in the description."""

PROBLEMS: Final[Mapping[type[SignoffError], SignoffError]] = {
    type(error): error
    for error in (
        AccessDenied("POST /v1/runs", "'user:ana' has no role that may; it needs: admin, operator"),
        AlreadySettled(QUESTION_ID, "resolved", "user:bob", _AT + 70),
        AlreadyVoted(QUESTION_ID, "user:ana"),
        IdConflict(RUN_ID, "it has other arguments"),
        InvalidState(RUN_ID, "succeeded", "retry"),
        InvalidValue("limit", "Input should be less than or equal to 1000"),
        NotAllowed(QUESTION_ID, "user:eve", "it is assigned to others"),
        NotAuthenticated("the proxy names nobody: there is no X-Forwarded-User"),
        NotFound("run", RUN_ID),
        NotSerializable("args.0", "NaN is not JSON"),
        PayloadTooLarge("body", 2_000_000, 1_114_112),
        QuestionClaimed(QUESTION_ID, "user:bob"),
        QuestionTooNew(QUESTION_ID, "a policy 'lottery'"),
        RequestConflict("mobile-17", QUESTION_ID),
        TooManyRequests(30),
        StoreUnavailable("postgresql://db/signoff", "connection refused"),
        WrongAnswer(QUESTION_ID, [("approved", '"yes" is not of type "boolean"')]),
    )
}
"""What refusals are made of in the description."""

PATH_EXAMPLES: Final = {
    "run_id": RUN_ID,
    "question_id": QUESTION_ID,
    "promise_id": PROMISE_ID,
    "schedule_id": SCHEDULE_ID,
    "name": "default",
}
"""The parameters of paths."""


def example(**members: Any) -> JsonDict:
    """Return what has a model described with an example: ``class Sent(BaseModel, json_schema_extra=example(...))``."""
    return {"examples": [members]}
