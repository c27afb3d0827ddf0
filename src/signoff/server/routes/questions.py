"""Routes of questions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response, StreamingResponse
from typing_extensions import TypedDict

from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    AlreadyVoted,
    NotAllowed,
    NotFound,
    NotSerializable,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    SignoffError,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.questions.answer_checks import check_containers
from signoff.people.questions.bulk_answers import MOST_ANSWERS, GivenAnswer, answer_each
from signoff.people.questions.search import QuestionSearch, search_questions
from signoff.people.questions.standing_approvals import Alike
from signoff.records import AuditEvent, Promise
from signoff.records.paging import AuditFilter
from signoff.records.responders import Responder, check_names
from signoff.server.auth.actors import Actor, ActorOf, events_of
from signoff.server.feeds.commit_feed import UNBUFFERED
from signoff.server.feeds.inbox_feed import Interest, begun
from signoff.server.http.idempotency_key import KeyOf, request_id_of
from signoff.server.http.path_ids import Id
from signoff.server.http.problems import status_of, to_body
from signoff.server.http.request_bodies import Body, Compared, ExactRoute, RequestId, Text
from signoff.server.http.responses import After, Limit, Seq, reply_bytes, reply_page, reply_with, written_json
from signoff.server.mcp.answer_check import check_mcp_answer
from signoff.server.openapi.declared_responses import gives, gives_page, gives_text
from signoff.server.openapi.examples import QUESTION, QUESTION_ID, example
from signoff.server.openapi.record_schemas import shape_of
from signoff.server.services import CallerOf, Services, ServicesOf
from signoff.stores.shared.listed_payloads import PAGE_BYTES
from signoff.wire.records import to_wire

router = APIRouter(prefix="/v1/questions", tags=["questions"], route_class=ExactRoute)

_CHANGED: Final = gives(
    Promise, NotFound, NotAllowed, QuestionClaimed, AlreadySettled, QuestionTooNew, UnreadableRecord
)
_OPERATED: Final = gives(Promise, NotFound, AlreadySettled, QuestionTooNew, UnreadableRecord)

if TYPE_CHECKING:
    _Question = dict[str, Any]
else:
    _Question = shape_of(Promise)

MANY_NAMES: Final = 200
"""The most assignees in a request for an inbox."""

_BESIDE: Final = 16
"""The most lists and objects of a body beside the answer: itself, groups, roles, ``alike``."""

Assignees = Annotated[
    list[str] | None, Query(max_length=MANY_NAMES, description="user:ana, group:finance, role:approver")
]

_EXAMPLE: Final = f"id: 17\nevent: asked\ndata: {to_json(to_wire(QUESTION)).decode()}\n\n"


class Said(Body, json_schema_extra=example(user_id="ana", groups=["finance"])):
    """The user who acts on a question, with groups and roles. May be left out if the request is authenticated."""

    user_id: Text | None = None
    groups: list[Text] = Field(default_factory=list[Text])
    roles: list[Text] = Field(default_factory=list[Text])

    @property
    def responder(self) -> Responder:
        """The user as a responder. Raises InvalidValue."""
        return Responder(self.user_id, frozenset(self.groups), frozenset(self.roles))


class Delegate(
    Said, json_schema_extra=example(user_id="ana", groups=["finance"], to=["user:bob"], note="away")
):
    """The new assignees, and the reason."""

    to: list[Text]
    note: Text | None = None


class Comment(
    Said, json_schema_extra=example(user_id="ana", text="Is that the order of May?", request_id="mobile-18")
):
    """A comment on a question."""

    text: Text
    request_id: RequestId | None = None


class SayAlike(Body, json_schema_extra=example(seconds=3600, same=["order"], max_uses=5)):
    """A rule that approves further questions about the same action, for some time."""

    seconds: float | None = None
    same: list[Text] | None = None
    any_arguments: bool = False
    everywhere: bool = False
    max_uses: int | None = None
    session: bool = False

    @property
    def alike(self) -> Alike:
        """The rule as the client's class. Raises InvalidValue."""
        return Alike(
            self.seconds, self.same, self.any_arguments, self.everywhere, self.max_uses, self.session
        )


class GiveAnswer(
    Said,
    json_schema_extra=example(
        value={"approved": True}, user_id="ana", groups=["finance"], note="as agreed", request_id="mobile-17"
    ),
):
    """An answer. Its value must match the question's ``answer_schema``; null skips the question, where that is allowed.

    An approval also accepts ``true`` and ``false``. With a proposal it accepts ``{"approved": true, "edited": ...}``,
    which approves another value. If the question has ``other``, ``{"other": "..."}`` may replace an option.
    """

    check_text = staticmethod(partial(check_containers, beside=_BESIDE))
    value: Any
    note: Text | None = None
    request_id: RequestId | None = None
    digest: Compared | None = None
    alike: SayAlike | None = None


class OneAnswer(Body, json_schema_extra=example(question_id=QUESTION_ID, value={"approved": True})):
    """One of several answers; see ``GiveAnswer``."""

    question_id: Text
    value: Any
    note: Text | None = None
    request_id: RequestId | None = None
    digest: Text | None = None

    @property
    def given(self) -> GivenAnswer:
        """The answer."""
        return GivenAnswer(self.question_id, self.value, self.note, self.request_id, self.digest)


class GiveAnswers(
    Said,
    json_schema_extra=example(
        user_id="ana",
        groups=["finance"],
        answers=[
            {"question_id": QUESTION_ID, "value": {"approved": True}, "request_id": "mobile-17"},
            {"question_id": "refund-o-2.1", "value": {"approved": False}, "note": "it was refunded before"},
        ],
    ),
):
    """One user's answers to several questions. Each is given on its own."""

    answers: list[OneAnswer] = Field(max_length=MOST_ANSWERS)


class Result(TypedDict):
    """The result of one of several answers: the question, or the problem if the answer was refused."""

    question_id: str
    question: NotRequired[_Question]
    problem: NotRequired[Annotated[dict[str, Any], Field(description="The problem, as for a single answer")]]


class Results(
    BaseModel,
    json_schema_extra=example(
        items=[
            {"question_id": QUESTION_ID, "question": to_wire(QUESTION)},
            {"question_id": "refund-o-2.1", "problem": to_body(404, NotFound("question", "refund-o-2.1"))},
        ]
    ),
):
    """The results of several answers, in the order of the answers."""

    items: list[Result]


class CancelQuestion(Body, json_schema_extra=example(by="user:req", reason="the order is gone")):
    """The user who withdraws a question, and the reason, which the workflow receives."""

    by: Text | None = None
    reason: Text | None = None
    request_id: RequestId | None = None


class Reassign(Body, json_schema_extra=example(to=["user:bob"], by="user:req", reason="ana is away")):
    """The new assignees, the user who reassigns the question, and the reason."""

    to: list[Text]
    by: Text | None = None
    reason: Text | None = None


def _inbox(actor: Actor, assignee: list[str] | None, run_id: str | None) -> frozenset[str] | None:
    """Return the assignees whose questions to list. Raises InvalidValue, AccessDenied."""
    names = None if assignee is None else frozenset(check_names("assignee", assignee))
    return actor.inbox(names, run_id)


class MoveDeadline(
    Body, json_schema_extra=example(timeout_seconds=86400, by="user:req", reason="ana is back tomorrow")
):
    """The new deadline in seconds from now, the user who moves it, and the reason."""

    timeout_seconds: float
    by: Text | None = None
    reason: Text | None = None


@router.get("", responses=gives_page(Promise))
async def list_questions(
    services: ServicesOf,
    actor: ActorOf,
    run_id: Text | None = None,
    assignee: Assignees = None,
    workflow: Annotated[Text | None, Query(description="The workflow of the run that asks")] = None,
    group: Annotated[Text | None, Query(description="The group of the run that asks")] = None,
    text: Annotated[
        Text | None, Query(description="Words that must all occur in its text, id, run id or tool")
    ] = None,
    after: After = None,
    limit: Limit = 100,
) -> Response:
    """List open questions, oldest first.

    ``run_id`` limits the list to a run's questions, and ``assignee`` to those that one of the assignees or any user may
    answer. ``workflow``, ``group`` and ``text`` filter further. Users without full access get their own questions. A
    page may then be shorter than ``limit``, or empty, and still have a ``next``.
    """
    search = QuestionSearch(run_id, _inbox(actor, assignee, run_id), workflow, group, text)
    backend = services.backend
    page = await search_questions(
        search, backend.list_promises, after=after, limit=limit, is_seen=actor.sees_question
    )
    return reply_page(page)


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses=gives_text(["text/event-stream"], _EXAMPLE, AccessDenied),
)
async def follow_inbox(
    services: ServicesOf,
    actor: ActorOf,
    caller: CallerOf,
    run_id: Text | None = None,
    assignee: Assignees = None,
    last_event_id: Annotated[Seq | None, Header()] = None,
) -> Response:
    """Follow changes of the questions that ``GET /v1/questions`` lists for the same run and assignees.

    The events ``asked``, ``changed`` and ``settled`` hold the question; ``gone`` holds the ``id`` of a question that
    was reassigned to other users. Events arrive within seconds. Send ``Last-Event-ID`` to resume a lost stream. After a
    ``gap``, events were missed: list the inbox again. Open the stream before the first list, so that no change is
    missed.
    """
    names = _inbox(actor, assignee, run_id)
    _ = QuestionSearch(run_id, names).listed  # raises what the list would raise
    interest = Interest(actor, names, run_id)
    events = services.inboxes.of(services.store.namespace).events(
        interest, last_event_id, services.wait_for_event
    )
    # The response's headers tell the client that the stream is open. From then on it misses no event.
    events = services.streams.counted("inbox", caller, events)
    return StreamingResponse(await begun(events), media_type="text/event-stream", headers=UNBUFFERED)


@router.get("/{question_id}", responses=gives(Promise, NotFound, NotAllowed, UnreadableRecord))
async def show_question(question_id: Id, services: ServicesOf, actor: ActorOf) -> Response:
    """Show a question, open or closed."""
    return reply_with(await services.shown(await actor.question(services.store, question_id)))


@router.get(
    "/{question_id}/history", responses=gives_page(AuditEvent, NotFound, NotAllowed, UnreadableRecord)
)
async def list_history(
    question_id: Id, services: ServicesOf, actor: ActorOf, after: After = None, limit: Limit = 100
) -> Response:
    """List the audit events of a question, oldest first, to callers who may read the question.

    Events of an earlier question with the same id are in the audit trail only, so a page may be shorter than ``limit``
    and have a ``next``.
    """
    question = await actor.question(services.store, question_id)
    page = await services.backend.list_audit(AuditFilter(question_id), after=after, limit=limit)
    return reply_page(events_of(question, page))


@router.post(
    "/{question_id}/answer",
    responses=gives(
        Promise,
        NotFound,
        NotAllowed,
        QuestionClaimed,
        AlreadySettled,
        AlreadyVoted,
        RequestConflict,
        WrongAnswer,
        NotSerializable,
        QuestionTooNew,
        UnreadableRecord,
    ),
)
async def answer_question(
    question_id: Id, body: GiveAnswer, services: ServicesOf, actor: ActorOf, key: KeyOf
) -> Response:
    """Answer a question. A wrong answer is refused with 422, and the question stays open."""
    request_id = request_id_of(key, body.request_id)
    responder = await actor.responder(services.store, question_id, body.responder)
    if actor.mcp is not None:
        await check_mcp_answer(services.store, question_id, responder.user_id, services.mcp_settings)
    promise = await services.backend.answer(
        question_id,
        body.value,
        user_id=responder.user_id,
        groups=responder.groups,
        roles=responder.roles,
        note=body.note,
        request_id=request_id,
        digest=body.digest,
        alike=None if body.alike is None else body.alike.alike,
    )
    return reply_with(promise)


@router.post("/answers", responses=gives(Results))
async def answer_questions(body: GiveAnswers, services: ServicesOf, actor: ActorOf) -> Response:
    """Answer several questions. Each answer is given on its own: a refused one does not affect the others.

    ``items`` has the results in the same order: ``question``, or ``problem`` with its ``status``.
    """
    said = body.responder
    room = PAGE_BYTES

    async def answer_one(each: GivenAnswer) -> bytes | None:
        """Return the question as JSON, or None if the reply is full: the question is then read again later."""
        nonlocal room
        responder = await actor.responder(services.store, each.question_id, said)
        question = written_json(await services.backend.answer_one(each, responder))
        room -= len(question)
        return question if room >= 0 else None

    given = [each.given for each in body.answers]
    results = await answer_each(given, answer_one)
    items = _items(services, [each.question_id for each in given], results)
    if None in results:
        return StreamingResponse(items, media_type="application/json")
    return reply_bytes(b"".join([part async for part in items]))


async def _items(
    services: Services, ids: Sequence[str], results: Sequence[bytes | SignoffError | None]
) -> AsyncGenerator[bytes]:
    """Yield the results of answers as JSON, one by one. A question that is not in memory is read again."""
    start = b'{"items":['
    for id, result in zip(ids, results, strict=True):
        if isinstance(result, SignoffError):
            named, said = b"problem", to_json(to_body(status_of(type(result)), result), inf_nan_mode="null")
        else:
            named = b"question"
            said = result or written_json(await services.backend.get_promise(id))
        yield b'%b{"question_id":%b,"%b":%b}' % (start, to_json(id), named, said)
        start = b","
    yield b"]}" if start == b"," else start + b"]}"


@router.post("/{question_id}/view", responses=_CHANGED)
async def view_question(question_id: Id, body: Said, services: ServicesOf, actor: ActorOf) -> Response:
    """Show a question to a user who may answer it, and record that the user has seen it."""
    responder = await actor.responder(services.store, question_id, body.responder, "view")
    return reply_with(await services.backend.view_question(question_id, responder))


@router.post(
    "/{question_id}/comments",
    responses=gives(AuditEvent, NotFound, NotAllowed, RequestConflict, QuestionTooNew, UnreadableRecord),
)
async def comment_on_question(
    question_id: Id, body: Comment, services: ServicesOf, actor: ActorOf, key: KeyOf
) -> Response:
    """Comment on a question, open or closed, that the user may see. Comments are in the question's history."""
    request_id = request_id_of(key, body.request_id)
    responder = await actor.commenter(services.store, question_id, body.responder)
    return reply_with(
        await services.backend.comment_on_question(question_id, responder, body.text, request_id)
    )


@router.post("/{question_id}/claim", responses=_CHANGED)
async def claim_question(question_id: Id, body: Said, services: ServicesOf, actor: ActorOf) -> Response:
    """Claim a question: no other user can answer it until it is released, delegated or escalated."""
    responder = await actor.responder(services.store, question_id, body.responder, "claim")
    return reply_with(await services.backend.claim_question(question_id, responder))


@router.post("/{question_id}/release", responses=_CHANGED)
async def release_question(question_id: Id, body: Said, services: ServicesOf, actor: ActorOf) -> Response:
    """Release a claimed question, so that other users can answer it again."""
    responder = await actor.responder(services.store, question_id, body.responder, "release")
    return reply_with(await services.backend.release_question(question_id, responder))


@router.post("/{question_id}/delegate", responses=_CHANGED)
async def delegate_question(
    question_id: Id, body: Delegate, services: ServicesOf, actor: ActorOf
) -> Response:
    """Delegate a question: the new assignees replace all current ones."""
    responder = await actor.responder(services.store, question_id, body.responder, "delegate")
    return reply_with(await services.backend.delegate_question(question_id, responder, body.to, body.note))


@router.post(
    "/{question_id}/cancel",
    responses=gives(Promise, NotFound, AlreadySettled, RequestConflict, QuestionTooNew),
)
async def cancel_question(
    question_id: Id, services: ServicesOf, actor: ActorOf, body: CancelQuestion | None = None
) -> Response:
    """Withdraw a question, regardless of its assignees. Its workflow gets an error where it waits."""
    said = body or CancelQuestion()
    by = await actor.operator(services.store, question_id, said.by, "cancel")
    promise = await services.backend.cancel_question(
        question_id, by=by, reason=said.reason, request_id=said.request_id
    )
    return reply_with(promise)


@router.post("/{question_id}/reassign", responses=_OPERATED)
async def reassign_question(
    question_id: Id, body: Reassign, services: ServicesOf, actor: ActorOf
) -> Response:
    """Reassign a question, regardless of its assignees. A service's key needs ``act_as`` to assign a service."""
    if body.to:
        actor.check_names_people("a service as assignee", body.to)
    by = await actor.operator(services.store, question_id, body.by, "reassign")
    promise = await services.backend.reassign_question(question_id, body.to, by=by, reason=body.reason)
    return reply_with(promise)


@router.post("/{question_id}/deadline", responses=_OPERATED)
async def move_deadline(
    question_id: Id, body: MoveDeadline, services: ServicesOf, actor: ActorOf
) -> Response:
    """Move the deadline of a question that has one."""
    by = await actor.operator(services.store, question_id, body.by, "move_deadline")
    promise = await services.backend.move_deadline(
        question_id, body.timeout_seconds, by=by, reason=body.reason
    )
    return reply_with(promise)
