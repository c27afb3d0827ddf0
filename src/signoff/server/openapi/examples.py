"""Examples of the OpenAPI document. All belong to one story: a refund that a user in finance must approve."""

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
    LinkEnded,
    LoginFailed,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    NotSerializable,
    PayloadTooLarge,
    ProviderUnavailable,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    ResumeRefused,
    SignoffError,
    SnapshotRefused,
    StoreDamaged,
    StoreFull,
    StoreMoved,
    StoreReadOnly,
    StoreUnavailable,
    TooManyRequests,
    UnknownLink,
    UnreadableRecord,
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
    Origin,
    OriginWay,
    Promise,
    PromiseKind,
    PromiseState,
    Rate,
    Rule,
    Run,
    RunState,
    Schedule,
    Seal,
    Session,
    Token,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import Delivery, DeliveryState
from signoff.records.failed_items import SetAsideItem
from signoff.records.invocations import CallForm, InvocationInfo
from signoff.records.tasks import TaskState
from signoff.records.timeline import TimelineChange
from signoff.wire.records import Record

RUN_ID: Final = "refund-o-1"
QUESTION_ID: Final = "refund-o-1.1"
PROMISE_ID: Final = "payment-o-1"
SCHEDULE_ID: Final = "nightly"
SESSION_ID: Final = "c-1"
RULE_ID: Final = "5b0f0c3e9d6f4f0f8b1c2d3e4f5a6b7c"
LINK_ID: Final = "0d9f3c7be5a24c6a9f0e1d2c3b4a5968"
KEY_ID: Final = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
DELIVERY_ID: Final = "finance.e4c1b1d20f5d4d6fb6a3c6d2f4a70c11"
CHANNEL: Final = "finance"

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

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"title": "order", "type": "string"},
        "cents": {"title": "cents", "type": "integer"},
    },
    "required": ["order", "cents"],
    "additionalProperties": False,
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
    origin=Origin(OriginWay.LOGIN, "77f0a8c4d1e24b6f9a3c5d7e8f901234", address="203.0.113.7"),
)
KEY: Final = Token(
    namespace="default",
    id=KEY_ID,
    kind=TokenKind.API_KEY,
    hash="",
    subject="service:shop",
    created_at=_AT,
    data=json.dumps({"roles": ["operator"], "act_as": False, "groups": ["default"]}),
    created_by="root",
    expires_at=_AT + 90 * 86400,
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
    TimelineChange: TimelineChange(
        seq=1,
        row=1,
        state="open",
        at=_AT + 1,
        kind=CallKind.QUESTION,
        name="Refund o-1?",
        n=1,
        id=QUESTION_ID,
        due_at=_AT + 86401,
        opened=json.dumps(_ASKED),
    ),
    AuditEvent: EVENT,
    Group: Group("default", max_running=20, starts_per=Rate(10, 60.0), ready=3, running=20, paused=400),
    SetAsideItem: SetAsideItem(
        "schedule",
        "default",
        SCHEDULE_ID,
        failures=3,
        error="CHECK constraint failed: budget > 0",
        first_at=_AT,
        next_at=_AT + 7,
    ),
    WorkerInfo: WorkerInfo(
        id="worker-1",
        host="app-1",
        pid=4711,
        process_started_at=_AT - 60,
        group="default",
        signoff_version="0.1.0",
        python_version="3.13.1",
        build="8f3a9c1",
        threads=32,
        threads_busy=3,
        seen_at=_AT,
        held=20,
    ),
    WorkflowInfo: WorkflowInfo(
        group="default",
        name="refund",
        version="1",
        is_current=True,
        description="Pays an order back, if finance approves.",
        parameters=json.dumps(_PARAMETERS),
        seen_at=_AT,
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
    Token: Token(
        namespace="default",
        id=LINK_ID,
        kind=TokenKind.LINK,
        hash="",
        subject="ana",
        created_at=_AT + 2,
        question_id=QUESTION_ID,
        data=json.dumps({"groups": ["finance"], "roles": []}),
        created_by="user:req",
        expires_at=_AT + 86401,
    ),
    Delivery: Delivery(
        namespace="default",
        id=DELIVERY_ID,
        channel=CHANNEL,
        recipient="user:ana",
        event_id=EVENT.id,
        seq=SEAL.seq,
        kind=AuditKind.ASKED,
        question_id=QUESTION_ID,
        state=DeliveryState.DEAD,
        created_at=_AT + 2,
        run_id=RUN_ID,
        attempts=12,
        ended_at=_AT + 86400,
        error="connection refused",
    ),
    Rule: Rule(
        namespace="default",
        id=RULE_ID,
        created_at=_AT + 60,
        by="ana",
        tool="refund",
        arguments=json.dumps({"order": "o-1"}),
        expires_at=_AT + 3660,
        question_id=QUESTION_ID,
        run_id=RUN_ID,
        groups=("finance",),
        max_uses=5,
        uses=1,
    ),
    Session: Session(
        namespace="default",
        id=SESSION_ID,
        created_at=_AT,
        last_at=_AT + 60,
        last_position=3,
        active_run_id=RUN_ID,
    ),
    InvocationInfo: InvocationInfo(
        namespace="default",
        id=PROMISE_ID,
        kind=PromiseKind.PROMISE,
        state=PromiseState.PENDING,
        created_at=_AT,
        form=CallForm.REMOTE,
        has_calls=True,
        function="pay",
        tags={"resonate:target": "poll://any@payments"},
        data=json.dumps({"args": ["o-1", 7000], "kwargs": {}}),
        due_at=_AT + 86400,
        target="poll://any@payments",
        task=TaskState.SUSPENDED,
        version=1,
    ),
}  # fmt: skip
"""An example of each record."""

PROBLEMS: Final[Mapping[type[SignoffError], SignoffError]] = {
    type(error): error
    for error in (
        AccessDenied("POST /v1/runs", "'user:ana' needs a role with access: admin, operator"),
        AlreadySettled(QUESTION_ID, "resolved", "user:bob", _AT + 70),
        AlreadyVoted(QUESTION_ID, "user:ana"),
        IdConflict(RUN_ID, "it has other arguments"),
        InvalidState(RUN_ID, "succeeded", "retry"),
        SnapshotRefused(RUN_ID, "it is here already"),
        LinkEnded("used"),
        LoginFailed("it took too long"),
        InvalidValue("limit", "Input should be less than or equal to 1000"),
        NotAllowed(QUESTION_ID, "user:eve", "it is assigned to others"),
        NotAuthenticated("the proxy names no user: the header X-Forwarded-User is missing"),
        NotFound("run", RUN_ID),
        NotSerializable("args.0", "NaN is not JSON"),
        PayloadTooLarge("body", 2_000_000, 1_114_112),
        ProviderUnavailable("https://login.example.com", "it does not answer"),
        QuestionClaimed(QUESTION_ID, "user:bob"),
        QuestionTooNew(QUESTION_ID, "a policy 'lottery'"),
        RequestConflict("mobile-17", QUESTION_ID, "refund-o-1.0"),
        ResumeRefused("several", [QUESTION_ID, "refund-o-2.1"]),
        TooManyRequests(30),
        StoreDamaged("sqlite:///signoff.db", "database disk image is malformed"),
        StoreFull("sqlite:///signoff.db"),
        StoreMoved("sqlite:///signoff.db", "its file was deleted"),
        StoreReadOnly("sqlite:///signoff.db"),
        StoreUnavailable("postgresql://db/signoff", "connection refused"),
        UnknownLink(),
        UnreadableRecord("question", QUESTION_ID, "data: text: Input should be a valid string"),
        WrongAnswer(QUESTION_ID, [("approved", '"yes" is not of type "boolean"')]),
    )
}
"""An example of each error."""

PATH_EXAMPLES: Final = {
    "run_id": RUN_ID,
    "question_id": QUESTION_ID,
    "promise_id": PROMISE_ID,
    "schedule_id": SCHEDULE_ID,
    "rule_id": RULE_ID,
    "session_id": SESSION_ID,
    "link_id": LINK_ID,
    "key_id": KEY_ID,
    "delivery_id": DELIVERY_ID,
    "name": "default",
}
"""An example of each path parameter."""


def example(**members: Any) -> JsonDict:
    """Return a model's config for an example: ``class Sent(BaseModel, json_schema_extra=example(...))``."""
    return {"examples": [members]}
