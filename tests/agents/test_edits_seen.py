"""Values that a tool adds to an edit, such as the default of another kind of object, are shown before it runs."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, Tool

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.people.questions.edits import is_kept
from signoff.testing import MemoryStore, after_step, environment
from tests.agents.scripts import Script, asked, calls, returns, says
from tests.support import in_asyncio


class Payment(BaseModel):
    cents: int
    id: str = Field(default_factory=lambda: uuid.uuid4().hex)


class Card(BaseModel):
    kind: Literal["card"]
    cents: int = 0


class Wire(BaseModel):
    kind: Literal["wire"]
    cents: int = 20_000


EITHER = Annotated[Card | Wire, Field(discriminator="kind")]
CARD = {"kind": "card", "cents": 5}


async def edited(kind: Any, sent: Any, edit: Any, *, crashes: bool) -> tuple[list[Any], list[Any]]:
    """Have a person edit a call, then approve what is asked. Returns what was shown and what the tool got."""
    app = Signoff(MemoryStore())
    got: list[Any] = []
    shown: list[Any] = []

    def pay(value: Any, to: str = "bob") -> str:
        got.append(value)
        return "paid"

    pay.__annotations__["value"] = kind
    script = Script(calls(("pay", {"value": sent})), says("done"))
    agent = Agent(script.model, name="a", tools=[Tool(pay, requires_approval=True)], capabilities=[Durable()])

    @app.workflow
    async def work(ctx: Context) -> list[Any]:
        return returns((await agent.run("go")).all_messages())

    answer: Any = {"approved": True, "edited": {"value": edit, "to": "bob"}}
    async with environment(app) as env:
        run = await env.start(work)
        await env.idle()
        while questions := (await env.client.questions()).items:
            shown.append(asked(questions[0])["proposal"]["value"])
            if crashes:
                env.crash(at=after_step("a.pay:changed"))
            await env.client.answer(questions[0].id, answer, user_id="ana")
            answer = True
            await env.idle()
        assert await run.result() == [["pay", "paid", "success"]]
        assert env.pending_crashes == []
    return shown, got


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize(
    ("kind", "sent", "edit"),
    [
        (Payment, {"cents": 1}, {"cents": 2}),
        (Payment | None, None, {"cents": 2}),
        (list[Payment], [], [{"cents": 2}]),
        (EITHER, CARD, {"kind": "wire"}),
        (dict[str, EITHER], {"a": CARD}, {"a": CARD, "b": {"kind": "wire"}}),
    ],
    ids=[
        "made",
        "made in place of nothing",
        "made in a list",
        "default of another kind",
        "default in a dict",
    ],
)
@in_asyncio
async def test_what_a_tool_adds_to_an_edit_is_seen_before_it_runs(
    kind: Any, sent: Any, edit: Any, crashes: bool
) -> None:
    shown, got = await edited(kind, sent, edit, crashes=crashes)
    assert len(shown) == 2
    assert len(got) == 1
    assert as_json(got[0]) == shown[-1]


@pytest.mark.parametrize("crashes", [False, True])
@pytest.mark.parametrize(
    ("kind", "sent", "edit"),
    [
        (Payment, {"cents": 1}, {"cents": 2, "id": "i-1"}),
        (EITHER, CARD, {"kind": "wire", "cents": 7}),
        (Card, CARD, {"kind": "card"}),
    ],
    ids=["id", "another kind", "default that was shown"],
)
@in_asyncio
async def test_an_edit_that_says_it_all_is_not_asked_again(
    kind: Any, sent: Any, edit: Any, crashes: bool
) -> None:
    shown, got = await edited(kind, {**sent, "cents": 0}, edit, crashes=crashes)
    assert len(shown) == 1
    assert as_json(got[0]) == {"cents": 0, **edit}


def as_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [as_json(each) for each in value]
    return {name: as_json(each) for name, each in value.items()}


@pytest.mark.parametrize(
    ("old", "edit", "new", "is_seen"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": 4}, False),
        ({"a": 1}, {"a": 3}, {"a": 3, "b": 4}, False),
        ({"price": "1 EUR"}, {"price": "2 EUR"}, {"cents": 200}, False),  # what was shown is gone
        ({"cents": 100}, {"price": "2 EUR"}, {"cents": 200}, True),
        (None, {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ([], [{"a": 1}], [{"a": 1, "b": 2}], False),
        ("x", [{"a": 1}], [{"a": 1, "b": 2}], False),
        ("x", "y", {"a": 1}, True),
    ],
)
def test_the_effects_of_an_edit_are_shown(old: Any, edit: Any, new: Any, is_seen: bool) -> None:
    assert is_kept(old, edit, new) is is_seen
