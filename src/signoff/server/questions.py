"""Routes of questions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from signoff.people.answers import get_question
from signoff.records import PromiseKind, PromiseState
from signoff.server.bodies import Body, ExactRoute, Text
from signoff.server.ids import Id
from signoff.server.replies import After, Limit, reply_page, reply_with
from signoff.server.services import ServicesOf
from signoff.stores.paging import PromiseFilter

router = APIRouter(prefix="/v1/questions", tags=["questions"], route_class=ExactRoute)


class GiveAnswer(Body):
    """An answer: its value must be what the question's ``answer_schema`` describes; null skips, where that is allowed.

    An approval takes ``true`` and ``false`` too. With a proposal it takes ``{"approved": true, "edited": ...}``, which
    approves another value. Where the question has ``other``, ``{"other": "..."}`` stands for an option.
    """

    value: Any
    user_id: Text | None = None
    note: Text | None = None
    request_id: Text | None = None
    digest: Text | None = None


@router.get("")
async def list_questions(
    services: ServicesOf, run_id: str | None = None, after: After = None, limit: Limit = 100
) -> Response:
    """List open questions, oldest first."""
    which = PromiseFilter(PromiseKind.QUESTION, PromiseState.PENDING, run_id)
    return reply_page(await services.backend.list_promises(which, after=after, limit=limit))


@router.get("/{question_id}")
async def show_question(question_id: Id, services: ServicesOf) -> Response:
    """Show a question, open or closed."""
    return reply_with(await get_question(services.store, question_id))


@router.post("/{question_id}/answer")
async def answer_question(question_id: Id, body: GiveAnswer, services: ServicesOf) -> Response:
    """Answer a question. A wrong answer is refused with 422 and leaves it open."""
    promise = await services.backend.answer(
        question_id,
        body.value,
        user_id=body.user_id,
        note=body.note,
        request_id=body.request_id,
        digest=body.digest,
    )
    return reply_with(promise)
