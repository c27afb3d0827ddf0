"""Routes of questions that belong to no run: ask one, and wait for its answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from signoff.errors import (
    AccessDenied,
    IdConflict,
    NotAllowed,
    NotFound,
    NotSerializable,
    UnreadableRecord,
)
from signoff.people.questions.answer_checks import check_containers
from signoff.people.questions.question_schema import InputType
from signoff.people.questions.standalone_questions import StandaloneQuestion
from signoff.records import Promise, PromiseState
from signoff.server.auth.actors import ActorOf
from signoff.server.http.path_ids import Id
from signoff.server.http.request_bodies import Body, ExactRoute, Text
from signoff.server.http.responses import reply_with
from signoff.server.limits.requests import LONGEST_WAIT_SECONDS
from signoff.server.openapi.declared_responses import gives
from signoff.server.openapi.examples import example
from signoff.server.services import CallerOf, ServicesOf

router = APIRouter(prefix="/v1/questions", tags=["questions"], route_class=ExactRoute)

MOST_ASKED: Final = 30_000
"""The most lists and objects of a question. It is held several times while it is checked, compared and written."""


class AskQuestion(
    Body,
    json_schema_extra=example(
        id="refund-o-1",
        text="Refund 70 EUR?",
        assignees=["group:finance"],
        timeout_seconds=86400,
        action={"tool": "refund", "arguments": {"order": "o-1", "cents": 7000}},
    ),
):
    """A question that belongs to no run. The fields are the arguments of ``Context.wait_for_user``.

    A form has an ``answer_schema``; the edits of a ``proposal`` must match the ``proposal_schema``.
    """

    check_text = staticmethod(partial(check_containers, path="body", most=MOST_ASKED))
    id: Text
    text: Text
    input_type: InputType = "approval"
    options: list[Any] = Field(default_factory=list[Any])
    answer_schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    assignees: list[Text] = Field(default_factory=list[Text])
    quorum: int | dict[str, Any] = 1
    exclude_requester: bool = False
    requester: Text | None = None
    timeout_seconds: float | None = None
    timeout_answer: Any = None
    remind_every: float | None = None
    escalations: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    hours: dict[str, Any] | None = None
    skippable: bool = False
    help: Text | None = None
    default: Any = None
    attachments: list[Any] = Field(default_factory=list[Any])
    other: Text | None = None
    min_choices: int | None = None
    max_choices: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    proposal: Any = None
    proposal_schema: dict[str, Any] | None = None
    action: dict[str, Any] | None = None

    def asked(self, requester: str | None) -> StandaloneQuestion:
        """Return the question, on behalf of ``requester``. Blocks while schemas and values are checked."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"id", "requester"}}
        terms = {
            name: value for name, value in given.items() if value is not None or name == "timeout_answer"
        }
        return StandaloneQuestion.from_plain(
            terms if requester is None else {**terms, "requester": requester}
        )


@router.post(
    "",
    status_code=201,
    responses=gives(
        Promise,
        IdConflict,
        NotSerializable,
        AccessDenied,
        statuses={201: "It was asked now", 200: "It was asked before"},
    ),
)
async def ask_question(body: AskQuestion, services: ServicesOf, actor: ActorOf) -> Response:
    """Ask a question that belongs to no run: 201, or 200 if a question with this id and these terms exists."""
    asked = await asyncio.to_thread(body.asked, actor.user_id("requester", body.requester))
    named = asked.policy.everybody_named
    if named:
        actor.check_names_people(f"question {body.id!r}", named)
    question, created = await services.backend.ask(body.id, asked)
    return reply_with(question, 201 if created else 200)


@router.get(
    "/{question_id}/result",
    responses=gives(
        Promise,
        NotFound,
        NotAllowed,
        UnreadableRecord,
        statuses={200: "It was answered, or closed otherwise", 202: "It is open"},
    ),
)
async def get_answer(
    question_id: Id,
    services: ServicesOf,
    actor: ActorOf,
    caller: CallerOf,
    wait: Annotated[float, Query(ge=0, description="Seconds")] = 0,
) -> Response:
    """Wait up to ``wait`` seconds for the answer. Return the question with 200 if it is closed, or else with 202."""
    question = await actor.question(services.store, question_id)
    if wait and question.state is PromiseState.PENDING:
        del question  # saves memory: thousands of requests may wait
        with services.streams.opened("wait", caller):
            closed = services.backend.wait_for_answer(question_id)
            await services.wait_for(closed, seconds=min(wait, LONGEST_WAIT_SECONDS))
        question = await actor.question(services.store, question_id)
    return reply_with(await services.shown(question), 202 if question.state is PromiseState.PENDING else 200)
