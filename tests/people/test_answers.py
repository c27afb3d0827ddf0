"""Answers in a workflow: typed, the same at every replay, and with their edits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from signoff import Answer, Context, Signoff, WrongAnswer
from signoff.errors import InvalidValue, NonDeterminism, NotSerializable, RegistrationError
from signoff.records import EntryKind, PromiseState
from signoff.testing import Environment, MemoryStore, environment
from tests.support import in_asyncio


class Line(BaseModel):
    amount: Decimal
    due: date | None = None


class Invoice(BaseModel):
    to: str
    lines: list[Line]

    @field_validator("to")
    @classmethod
    def is_not_mallory(cls, to: str) -> str:
        if to == "mallory":
            raise ValueError("not to him")
        return to


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")
    lines: list[Line] = Field(default=[], validation_alias="positions", serialization_alias="rows")


class Stay(BaseModel):
    model_config = ConfigDict(strict=True)

    begins: datetime
    nights: timedelta
    tags: frozenset[str]
    photo: Annotated[bytes, Field(max_length=9)] = b""


class Keys(TypedDict, total=False):
    a: int
    b: str


class Hiding(BaseModel):
    shown: int
    hidden: int = Field(0, exclude=True)


STAY = Stay(
    begins=datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    nights=timedelta(days=2, microseconds=1),
    tags=frozenset({"sea"}),
)


@dataclass
class Point:
    x: int
    y: float = 0.0


INVOICE = Invoice(to="bob", lines=[Line(amount=Decimal("7.50"))])
PLAIN = {"to": "bob", "lines": [{"amount": "7.50", "due": None}]}
CHOICES = ["red", {"value": "blue", "label": "Blue"}]
WORDS = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}


@asynccontextmanager
async def asking(answers: list[Answer], **parts: Any) -> AsyncIterator[Environment]:
    """An app whose workflow ``ask`` puts a question; each time its code passes there it notes the answer."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> None:
        answers.append(await ctx.wait_for_user("What?", **parts))
        await ctx.sleep(60)

    async with environment(app, hot_runs=0) as env:
        yield env


async def answered(value: Any, **parts: Any) -> Answer:
    """What a workflow gets of an answer; the same again when it is replayed."""
    answers: list[Answer] = []
    async with asking(answers, **parts) as env:
        env.people.answer("*", value)
        await env.run("ask")
        assert [said.error for said in env.people.answers] == [None]
    assert len(answers) > 1, "it was never replayed"
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


async def refused(value: Any, **parts: Any) -> WrongAnswer:
    """The error of a refused answer; the question stays unchanged."""
    async with asking([], **parts) as env:
        await env.start("ask", id="r")
        await env.idle()
        before = await env.client.promises.get("r.1")
        with pytest.raises(WrongAnswer) as wrong:
            await env.client.answer("r.1", value)
        assert await env.client.promises.get("r.1") == before
        assert before.state is PromiseState.PENDING
    return wrong.value


@pytest.mark.parametrize(
    ("answer_type", "given", "value"),
    [
        (Invoice, PLAIN, INVOICE),
        (list[Line], [{"amount": 1, "due": "2026-03-01"}], [Line(amount=Decimal(1), due=date(2026, 3, 1))]),
        (Point, {"x": 1}, Point(1)),
        (list[Point], [{"x": 1, "y": 2}], [Point(1, 2.0)]),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (Point | None, None, None),
        (int, 1e20, 10**20),
        (Invoice, INVOICE, INVOICE),
        (Aliased, {"orderId": 1, "positions": []}, Aliased(orderId=1)),
        (Aliased, Aliased(orderId=1, positions=INVOICE.lines), Aliased(orderId=1, positions=INVOICE.lines)),
        (Stay, STAY, STAY),
        (Keys, {"a": 1}, {"a": 1}),
        (Point, Point(1, 2.5), Point(1, 2.5)),
        (WORDS, {"n": 1, "more": [None, 0.5]}, {"n": 1, "more": [None, 0.5]}),
    ],
    ids=repr,
)
@in_asyncio
async def test_the_value_of_a_form_is_an_instance_of_its_type(
    answer_type: Any, given: Any, value: Any
) -> None:
    answer = await answered(given, input_type="form", answer_type=answer_type)
    assert answer.value == value
    assert type(answer.value) is type(value)


@in_asyncio
async def test_an_instance_with_a_field_that_is_not_written_is_no_answer() -> None:
    async with asking([], input_type="form", answer_type=Hiding) as env:
        await env.start("ask", id="r")
        await env.idle()
        with pytest.raises(NotSerializable, match=r"value\.hidden"):
            await env.client.answer("r.1", Hiding(shown=1, hidden=2))
        assert (await env.client.promises.get("r.1")).state is PromiseState.PENDING
        await env.client.answer("r.1", Hiding(shown=1))


@in_asyncio
async def test_a_refusal_by_the_types_own_code_is_raised_where_it_is_awaited() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> str:
        with pytest.raises(InvalidValue, match="not to him"):
            await ctx.wait_for_user("What?", input_type="form", answer_type=Invoice)
        return (await ctx.wait_for_user("What?", input_type="form", answer_type=Invoice)).value.to

    async with environment(app) as env:
        env.people.answer("*", {**PLAIN, "to": "mallory"}, times=1)
        env.people.answer("*", PLAIN)
        assert await env.run("ask") == "bob"


# A text of one's own


@pytest.mark.parametrize(
    ("input_type", "given", "value", "others"),
    [
        ("select", "blue", "blue", ()),
        ("select", {"other": "pink"}, "pink", ("pink",)),
        ("multiselect", ["red", {"other": "pink"}], ["red", "pink"], ("pink",)),
        ("multiselect", ["red"], ["red"], ()),
        ("multiselect", [], [], ()),
    ],
    ids=repr,
)
@in_asyncio
async def test_the_answer_says_which_texts_are_their_own(
    input_type: str, given: Any, value: Any, others: tuple[str, ...]
) -> None:
    answer = await answered(given, input_type=input_type, options=CHOICES, other="Another colour")
    assert (answer.value, answer.others) == (value, others)
    assert answer.is_other == bool(others)


@pytest.mark.parametrize(
    ("parts", "given", "field"),
    [
        ({"input_type": "select", "options": CHOICES}, {"other": "pink"}, ""),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, "pink", ""),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, {"other": "red"}, "other"),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, {"other": ""}, "other"),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, {"other": 1}, "other"),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, {}, "other"),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, {"other": "pink", "a": 1}, "a"),
        ({"input_type": "select", "options": CHOICES, "other": "Else"}, None, ""),
        ({"input_type": "multiselect", "options": CHOICES, "other": "Else"}, ["pink"], "0"),
        (
            {"input_type": "multiselect", "options": CHOICES, "other": "Else"},
            ["red", {"other": "blue"}],
            "1.other",
        ),
        ({"input_type": "multiselect", "options": CHOICES}, ["red", "red"], ""),
        ({"input_type": "multiselect", "options": CHOICES}, "red", ""),
        ({"input_type": "multiselect", "options": CHOICES, "min_choices": 1}, [], ""),
        ({"input_type": "multiselect", "options": CHOICES, "max_choices": 1}, ["red", "blue"], ""),
        ({"input_type": "text"}, "", ""),
        ({"input_type": "text", "min_length": 3}, "ab", ""),
        ({"input_type": "text", "max_length": 3}, "abcd", ""),
        ({"input_type": "text", "default": "x"}, None, ""),
    ],
    ids=repr,
)
@in_asyncio
async def test_what_was_not_asked_for_is_refused(parts: dict[str, Any], given: Any, field: str) -> None:
    assert [each for each, _ in (await refused(given, **parts)).problems] == [field]


@in_asyncio
async def test_a_default_is_no_answer() -> None:
    async with asking([], input_type="text", default="as before") as env:
        await env.start("ask", id="r")
        await env.sleep(1_000_000)
        assert (await env.client.promises.get("r.1")).state is PromiseState.PENDING


# Edit and approve


PROPOSED: dict[str, Any] = {"proposal": INVOICE, "proposal_type": Invoice}
RAISED: dict[str, Any] = {"to": "bob", "lines": [{"amount": "9", "due": None}]}


@pytest.mark.parametrize("given", [True, {"approved": True}, {"approved": True, "edited": PLAIN}], ids=repr)
@in_asyncio
async def test_an_approval_is_of_exactly_what_was_proposed(given: Any) -> None:
    answer = await answered(given, **PROPOSED)
    assert (answer.approved, answer.value, answer.proposal, list(answer.edits)) == (True, True, INVOICE, [])


@in_asyncio
async def test_an_edited_approval_has_the_edited_value_and_its_changes() -> None:
    answer = await answered({"approved": True, "edited": RAISED}, **PROPOSED)
    assert answer.approved is True
    assert answer.proposal == Invoice(to="bob", lines=[Line(amount=Decimal(9))])
    assert answer.edits == [{"op": "replace", "path": "/lines/0/amount", "value": "9", "old": "7.50"}]
    assert answer["edits"] == answer.edits


@in_asyncio
async def test_a_rejected_proposal_leaves_no_value_to_go_on_with() -> None:
    answer = await answered(False, **PROPOSED)
    assert (answer.approved, answer.proposal, list(answer.edits)) == (False, None, [])
    skipped = await answered(None, skippable=True, **PROPOSED)
    assert (skipped.skipped, skipped.approved, skipped.proposal) == (True, None, None)


@pytest.mark.parametrize("proposal", [{"a": [1]}, [1], "text", 0, False])
@in_asyncio
async def test_without_a_type_a_proposal_is_any_json(proposal: Any) -> None:
    assert (await answered(True, proposal=proposal)).proposal == proposal
    edited = await answered({"approved": True, "edited": None}, proposal=proposal)
    assert (edited.approved, edited.proposal) == (True, None)
    assert edited.edits == [{"op": "replace", "path": "", "value": None, "old": proposal}]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ("banana", ["approved"]),
        (None, ["approved"]),
        ({"edited": PLAIN}, ["approved"]),
        ({"approved": False, "edited": PLAIN}, ["edited"]),
        ({"approved": "yes", "edited": PLAIN}, ["approved"]),
        ({"approved": True, "edited": None}, ["edited"]),
        ({"approved": True, "edited": {"to": "bob", "lines": [{"amount": "x"}]}}, ["edited.lines.0.amount"]),
        ({"approved": True, "edited": {}}, ["edited.lines", "edited.to"]),
        ({"approved": True, "proposal": RAISED, "edits": []}, ["edits", "proposal"]),
    ],
    ids=repr,
)
@in_asyncio
async def test_a_wrong_edit_is_refused_and_approves_nothing(given: Any, fields: list[str]) -> None:
    assert sorted(field for field, _ in (await refused(given, **PROPOSED)).problems) == fields


@in_asyncio
async def test_an_edit_has_no_place_where_nothing_is_proposed() -> None:
    assert [field for field, _ in (await refused({"approved": True, "edited": 1})).problems] == ["edited"]


@in_asyncio
async def test_the_schema_of_a_proposal_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
    parts = {"proposal": {"next": {}}, "proposal_type": tree}
    assert (await answered({"approved": True, "edited": {}}, **parts)).proposal == {}
    wrong = await refused({"approved": True, "edited": {"next": {"approved": True}}}, **parts)
    assert [field for field, _ in wrong.problems] == ["edited.next.approved"]


@in_asyncio
async def test_promise_and_journal_show_later_what_was_approved_and_changed() -> None:
    async with asking([], **PROPOSED) as env:
        handle = await env.start("ask", id="r")
        env.people.answer("*", {"approved": True, "edited": RAISED})
        await env.idle()
        kept = {
            "approved": True,
            "proposal": RAISED,
            "edits": [{"op": "replace", "path": "/lines/0/amount", "value": "9", "old": "7.50"}],
        }
        assert json.loads((await env.client.promises.get("r.1")).value or "") == kept
        [entry] = [
            each for each in await handle.journal() if each.n == 1 and each.kind is EntryKind.COMPLETED
        ]
        assert json.loads(entry.value or "") == kept


@in_asyncio
async def test_a_repeated_edit_is_a_success_without_effect() -> None:
    async with asking([], **PROPOSED) as env:
        await env.start("ask", id="r")
        await env.idle()
        edit = {"approved": True, "edited": RAISED}
        first = await env.client.answer("r.1", edit, request_id="q", user_id="ana")
        assert await env.client.answer("r.1", edit, request_id="q", user_id="bob") == first


@in_asyncio
async def test_a_workflow_that_proposes_something_else_at_replay_is_stopped() -> None:
    app = Signoff(MemoryStore())
    proposals = [7, 8]
    got: list[Any] = []

    @app.workflow
    async def ask(ctx: Context) -> None:
        proposal = proposals.pop(0) if len(proposals) > 1 else proposals[0]
        got.append((await ctx.wait_for_user("How much?", proposal=proposal)).proposal)

    async with environment(app, hot_runs=0) as env:
        env.people.answer("*", True)
        with pytest.raises(NonDeterminism, match=r"proposal=7.*proposal=8"):
            await env.run("ask")
    assert got == []


@in_asyncio
async def test_a_question_that_makes_no_sense_fails_the_run_where_it_is_asked() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> str:
        with pytest.raises(RegistrationError):
            ctx.wait_for_user("a\0b")
        return "still here"

    async with environment(app) as env:
        assert await env.run("ask") == "still here"
