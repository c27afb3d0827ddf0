"""The API's description of questions matches all questions that workflows ask."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from typing import Any

from pydantic import BaseModel

from signoff import Action, AsyncClient, Context, Escalation, Quorum, RunState, Signoff
from signoff.people.questions.policies import Policy
from signoff.people.questions.question import Question
from signoff.people.questions.question_schema import Asked, AskedPolicy
from signoff.testing import MemoryStore
from tests.server.described import description
from tests.server.schema_checks import check
from tests.support import in_asyncio, reaches

DESCRIBED = description()
ASKED = DESCRIBED["components"]["schemas"]["Asked"]


class Shipping(BaseModel):
    street: str
    parcels: int = 1


async def ask_everything(ctx: Context) -> None:
    """Ask all kinds of questions, each with every part that it can have."""
    await ctx.callback("Paid?", headers=["x-signature"])
    await asyncio.gather(
        ctx.wait_for_user("Plain?"),
        ctx.wait_for_user(
            "Send it?",
            help="It cannot be taken back.",
            proposal=Shipping(street="Main St"),
            proposal_type=Shipping,
            action=Action("ship", {"street": "Main St", "parcels": 1}),
            attachments=[
                {"name": "Label", "url": "https://example.com/a.pdf", "media_type": "application/pdf"}
            ],
            metadata={"order": {"id": 7}},
            skippable=True,
        ),
        ctx.wait_for_user(
            "Deploy?",
            assignees=["user:ana", "user:bob"],
            quorum=Quorum(2, of=2),
            exclude_requester=True,
            remind_every=60,
            escalations=[Escalation(3600, ["group:leads"], replace=True)],
            timeout_seconds=7200,
            timeout_answer=False,
        ),
        ctx.wait_for_user("Why?", input_type="text", default="because", min_length=3, max_length=50),
        ctx.wait_for_user(
            "Which?",
            input_type="select",
            options=["red", {"value": "blue", "label": "Blue", "help": "Of the sky"}],
            default="red",
            other="Another colour",
        ),
        ctx.wait_for_user("Which ones?", input_type="multiselect", options=["a", "b"], min_choices=1),
        ctx.wait_for_user("Where?", input_type="form", answer_type=Shipping, default={"street": "Main St"}),
    )


async def asked() -> list[dict[str, Any]]:
    app = Signoff(MemoryStore(), public_url="https://signoff.example.com")
    app.workflow(ask_everything)
    async with AsyncClient(app) as client, app.worker():
        await client.start(ask_everything, id="r", started_by="eve")
        await reaches(app, "r", RunState.PAUSED)
        return [json.loads(question.data or "null") for question in (await client.questions()).items]


@in_asyncio
async def test_every_kind_of_question_matches_the_description_exactly() -> None:
    every = await asked()
    for question in every:
        check(DESCRIBED, ASKED, question)
        assert question.keys() <= Asked.__annotations__.keys()
    assert {part for question in every for part in question} == Asked.__annotations__.keys()


def test_every_part_of_a_question_and_its_policy_is_described() -> None:
    written = {each.name for each in fields(Question)} - {"proposed"}
    assert written | {"digest", "policy"} == Asked.__annotations__.keys()
    assert {each.name for each in fields(Policy)} - {"assignees"} == AskedPolicy.__annotations__.keys()
