"""A workflow gets the approved proposal: unchanged, or as people edited it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
    model_validator,
)
from pydantic.alias_generators import to_camel

from signoff import Context, Signoff
from signoff.errors import InvalidValue, NotSerializable
from signoff.flows import Data, Flow
from signoff.people.questions.actions import Action
from signoff.people.questions.proposals import Proposal
from signoff.testing import MemoryStore, at_pause, environment
from tests.agents.scripts import asked
from tests.support import in_asyncio

LOOKED: list[int] = []


def looked(cents: int) -> int:
    LOOKED.append(cents)
    return cents


class Aliased(BaseModel):
    cents: int = Field(alias="amountCents")
    to: str = "bob"


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)
    amount_cents: int
    paid_to: str = "bob"


class Excluded(BaseModel):
    to: str
    cents: int = Field(default=0, exclude=True)


class Euros(BaseModel):
    cents: Annotated[int, AfterValidator(lambda euros: euros * 100)]
    to: Annotated[str, AfterValidator(str.strip)] = "bob"


class Prefixed(BaseModel):
    amount: Annotated[str, BeforeValidator(lambda text: f"EUR {text}")]


class Secret(BaseModel):
    token: SecretStr
    to: str = "bob"


class Computed(BaseModel):
    cents: int

    @computed_field
    @property
    def euros(self) -> float:
        return self.cents / 100


class More(BaseModel):
    cents: int
    to: str = "bob"

    @model_validator(mode="after")
    def add(self) -> More:
        self.cents += 1
        return self


class Nested(BaseModel):
    lines: list[Euros]
    name: str = "n"


class Names(RootModel[list[str]]):
    pass


@dataclass
class Order:
    cents: Annotated[int, AfterValidator(lambda euros: euros * 100)]
    to: str = "bob"
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = self.cents


class Counted(BaseModel):
    cents: Annotated[int, AfterValidator(looked)]
    to: str = "bob"


class Pair(NamedTuple):
    name: str
    day: dt.date


SHAPES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    # type, value, what is shown, an edit, the result
    "alias": (
        Aliased,
        Aliased(amountCents=5),
        {"amountCents": 5, "to": "bob"},
        {"amountCents": 6, "to": "eve"},
        Aliased(amountCents=6, to="eve"),
    ),
    "camel": (
        Camel,
        Camel(amountCents=5),
        {"amountCents": 5, "paidTo": "bob"},
        {"amountCents": 6, "paidTo": "eve"},
        Camel(amountCents=6, paidTo="eve"),
    ),
    "excluded": (
        Excluded,
        Excluded(to="bob", cents=5),
        {"to": "bob", "cents": 5},
        {"to": "eve", "cents": 5},
        Excluded(to="eve", cents=5),
    ),
    "converted, the rest edited": (
        Euros,
        Euros(cents=70),
        {"cents": 7000, "to": "bob"},
        {"cents": 7000, "to": "eve"},
        Euros(cents=70, to="eve"),
    ),
    "converted and edited": (
        Euros,
        Euros(cents=70),
        {"cents": 7000, "to": "bob"},
        {"cents": 8000, "to": "bob"},
        Euros(cents=80),
    ),
    "stripped": (
        Euros,
        Euros(cents=70),
        {"cents": 7000, "to": "bob"},
        {"cents": 7000, "to": " eve "},
        Euros(cents=70, to="eve"),
    ),
    "prefixed": (
        Prefixed,
        Prefixed(amount="5"),
        {"amount": "EUR 5"},
        {"amount": "EUR 6"},
        Prefixed(amount="6"),
    ),
    "secret": (
        Secret,
        Secret(token=SecretStr("t")),
        {"token": "t", "to": "bob"},
        {"token": "t", "to": "eve"},
        Secret(token=SecretStr("t"), to="eve"),
    ),
    "computed": (Computed, Computed(cents=5), {"cents": 5}, {"cents": 6}, Computed(cents=6)),
    "after the model": (
        More,
        More(cents=5),
        {"cents": 6, "to": "bob"},
        {"cents": 6, "to": "eve"},
        More(cents=5, to="eve"),
    ),
    "nested": (
        Nested,
        Nested(lines=[Euros(cents=1), Euros(cents=2)]),
        {"lines": [{"cents": 100, "to": "bob"}, {"cents": 200, "to": "bob"}], "name": "n"},
        {"lines": [{"cents": 100, "to": "bob"}, {"cents": 200, "to": "eve"}], "name": "m"},
        Nested(lines=[Euros(cents=1), Euros(cents=2, to="eve")], name="m"),
    ),
    "root": (Names, Names(["a"]), ["a"], ["b"], Names(["b"])),
    "dataclass": (
        Order,
        Order(7000),
        {"cents": 7000, "to": "bob"},
        {"cents": 7000, "to": "eve"},
        Order(7000, "eve"),
    ),
    "list": (list[Aliased], [Aliased(amountCents=5)], [{"amountCents": 5, "to": "bob"}], [], []),
    "named tuple": (
        Pair,
        Pair("a", dt.date(2026, 1, 31)),
        ["a", "2026-01-31"],
        ["b", "2026-01-31"],
        Pair("b", dt.date(2026, 1, 31)),
    ),
    "plain data": (
        Euros,
        {"cents": 70},
        {"cents": 7000, "to": "bob"},
        {"cents": 7000, "to": "eve"},
        Euros(cents=70, to="eve"),
    ),
    "bytes": (dict[str, bytes], {"a": b"\xff"}, {"a": "_w=="}, {"a": "AAA="}, {"a": b"\0\0"}),
}


async def answered(make: Callable[[], Any], kind: Any, answer: Any) -> tuple[Any, Any]:
    """What was shown, and what the workflow got, in a process after the one that asked."""
    app = Signoff(MemoryStore())
    got: list[Any] = []

    @app.workflow
    async def ask(ctx: Context) -> None:
        got.append((await ctx.wait_for_user("Pay?", proposal=make(), proposal_type=kind)).proposal)

    async with environment(app) as env:
        env.crash(at=at_pause())
        run = await env.start(ask)
        await env.idle()
        (question,) = (await env.client.questions()).items
        await env.client.answer(question.id, answer, user_id="ana")
        await run.result()
    return asked(question)["proposal"], got[0]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("edits", [False, True], ids=["approved", "edited"])
@in_asyncio
async def test_what_is_approved_or_edited_is_what_the_workflow_gets(name: str, edits: bool) -> None:
    kind, value, shown, edit, then = SHAPES[name]
    answer: Any = {"approved": True, "edited": edit} if edits else True
    seen, got = await answered(lambda: value, kind, answer)
    assert seen == shown
    if name == "plain data" and not edits:
        value = Euros(cents=70)
    assert got == (then if edits else value)


@in_asyncio
async def test_a_proposal_is_not_validated_again_and_an_edit_once() -> None:
    def make() -> Counted:
        made = Counted(cents=5)
        LOOKED.clear()
        return made

    assert (await answered(make, Counted, True))[1] == Counted(cents=5)
    LOOKED.clear()
    proposal = Proposal.of(make(), Counted)
    assert proposal.approved({"cents": 5, "to": "bob"}).cents == 5
    assert LOOKED == []
    assert proposal.approved({"cents": 6, "to": "bob"}).cents == 6
    assert LOOKED == [6]


@in_asyncio
async def test_what_a_workflow_changes_after_it_has_asked_was_not_approved() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> list[int]:
        order = Order(5)
        question = ctx.wait_for_user("Pay?", proposal=order, proposal_type=Order)
        order.cents = 500
        return [(await question).proposal.cents, order.cents]

    async with environment(app) as env:
        env.people.answer("*", True)
        assert await env.run(ask) == [5, 500]


class Opaque:
    pass


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    inside: Any


def test_what_cannot_be_seen_cannot_be_proposed() -> None:
    with pytest.raises(NotSerializable, match=r"proposal\.inside"):
        Proposal.of(Holder(inside=Opaque()), Holder)


class Day(BaseModel):
    day: Annotated[dt.date, AfterValidator(lambda day: day + dt.timedelta(days=1))]


def test_an_edit_that_its_type_makes_something_else_of_is_refused() -> None:
    proposal = Proposal.of(Day(day=dt.date(2026, 1, 1)), Day)
    assert proposal.shown == {"day": "2026-01-02"}
    with pytest.raises(InvalidValue, match=r"proposal\.day"):
        proposal.approved({"day": "2026-02-01"})


class Row(BaseModel):
    cents: Annotated[int, BeforeValidator(lambda euros: euros * 100)]
    note: str = ""


class Rows(BaseModel):
    rows: list[Row]


EDITS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "moved": lambda rows: rows[::-1],
    "removed": lambda rows: rows[1:],
    "removed and changed": lambda rows: [{**rows[1], "note": "late"}],
    "moved and changed": lambda rows: [{**rows[1], "note": "late"}, rows[0]],
    "added": lambda rows: [*rows, {"cents": 5, "note": "new"}],
}


@pytest.mark.parametrize("how", EDITS)
def test_rows_that_an_edit_moves_removes_or_adds_are_what_was_approved(how: str) -> None:
    proposal = Proposal.of(Rows.model_validate({"rows": [{"cents": 1}, {"cents": 2}]}), Rows)
    edited = {"rows": EDITS[how](proposal.shown["rows"])}
    assert proposal.approved(edited).model_dump() == edited


class Sliced(Excluded):
    iban: str


class Bill(BaseModel):
    payee: Excluded


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (Excluded(to="b", cents=500_000), {"to": "b", "cents": 500_000}),
        (Aliased(amountCents=5), {"amountCents": 5, "to": "bob"}),
        (Bill(payee=Sliced(to="b", cents=5, iban="DE1")), {"payee": {"to": "b", "cents": 5, "iban": "DE1"}}),
        ({"cents": 5}, {"cents": 5}),
    ],
    ids=["excluded", "aliased", "a subclass in a field of its base", "plain"],
)
def test_an_action_is_shown_with_every_field_of_its_arguments(given: Any, shown: Any) -> None:
    assert Action("pay", {"order": given}).to_data("?")["arguments"] == {"order": shown}


def test_actions_that_differ_in_an_excluded_field_are_about_something_else() -> None:
    one, other = (
        Action("pay", {}, about=Excluded(to="b", cents=cents)).to_data("?")["about"] for cents in (5, 6)
    )
    assert one != other


def test_an_action_with_a_secret_is_refused() -> None:
    with pytest.raises(NotSerializable):
        Action("pay", {"token": SecretStr("t")}).to_data("?")


@pytest.mark.parametrize(
    ("given", "declared", "shown", "cents"),
    [
        (Excluded(to="b", cents=5), None, {"to": "b", "cents": 5}, {"to": "b", "cents": 5}),
        (Excluded(to="b", cents=5), Excluded, {"to": "b", "cents": 5}, {"to": "b", "cents": 5}),
        (Aliased(amountCents=5), Aliased, {"amountCents": 5, "to": "bob"}, {"amountCents": 5, "to": "bob"}),
    ],
    ids=["excluded", "excluded, declared", "aliased, declared"],
)
@in_asyncio
async def test_a_flow_shows_and_keeps_every_field_of_a_proposal(
    given: Any, declared: Any, shown: Any, cents: Any
) -> None:
    app = Signoff(MemoryStore())
    flow = Flow("pay")

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:
        options = {} if declared is None else {"proposal_type": declared}
        return await data.pause_for("approval", {"question": "Pay?"}, proposal=given, **options)

    @flow.chunk
    async def keep(data: Data[Any]) -> None:
        await data.set_state("approved", data.input["proposal"])

    flow.to(ask).to(keep)
    app.register(flow)
    async with environment(app) as env:
        execution = await flow.start(None, id="pay-1")
        await env.idle()
        (question,) = (await env.client.questions()).items
        assert asked(question)["proposal"] == shown
        await env.client.answer(question.id, True)
        assert await execution.close() == {"approved": cents}
