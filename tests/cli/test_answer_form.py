"""Input at a terminal becomes an answer's value."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel, Field

from signoff.cli.answer_form import ask
from signoff.cli.formatting import duration
from signoff.people.questions.question import Question


class Address(BaseModel):
    city: str


class Order(BaseModel):
    size: Literal["S", "L"]
    address: Address
    gift: bool = True
    note: str | None = None
    tags: list[str] = []


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Cash(BaseModel):
    kind: Literal["cash"] = "cash"
    cents: int


class Payment(BaseModel):
    how: Annotated[Card | Cash, Field(discriminator="kind")]
    note: str | None = None


SELECT = {"input_type": "select", "options": ["red", "blue"]}
MANY = {"input_type": "multiselect", "options": ["red", "blue"]}


def typed(question: Question, *lines: str) -> Any:
    """What ``ask`` makes of the lines typed. (All of them are read, or it fails.)"""
    values: list[Any] = []
    command = click.Command("ask", callback=lambda: values.append(ask(question)))
    done = CliRunner().invoke(command, input="".join(f"{line}\n" for line in lines), catch_exceptions=False)
    assert values, done.output
    return values[0]


@pytest.mark.parametrize(
    ("parts", "lines", "value"),
    [
        ({}, ["x", "a"], True),
        ({}, ["r"], False),
        ({"skippable": True}, ["s"], None),
        ({"input_type": "text"}, ["", "hello"], "hello"),
        ({"input_type": "text", "skippable": True}, [""], None),
        ({"input_type": "select", "options": ["red", "blue"]}, ["3", "2"], "blue"),
        ({"input_type": "select", "options": ["red", "blue"]}, ["red"], "red"),
        ({"input_type": "select", "options": ["red"], "skippable": True}, [""], None),
        ({"input_type": "multiselect", "options": ["red", "blue"]}, ["1, x", "1, 2"], ["red", "blue"]),
        ({"input_type": "multiselect", "options": ["red", "blue"]}, [""], []),
        ({"input_type": "form", "answer_type": Order, "skippable": True}, ["n"], None),
        (
            {"input_type": "form", "answer_type": Order},
            ["2", "Rome", "perhaps", "n", "", "[1", '["a"]'],
            {"size": "L", "address": {"city": "Rome"}, "gift": False, "tags": ["a"]},
        ),
        ({"input_type": "form", "answer_type": int}, ["", "7"], 7),
        (
            {"input_type": "form", "answer_type": Payment},
            ["3", "2", "700", "thanks"],
            {"how": {"kind": "cash", "cents": 700}, "note": "thanks"},
        ),
        (
            {"input_type": "form", "answer_type": Card | Cash},
            ["card", "4711"],
            {"kind": "card", "number": "4711"},
        ),
        ({"input_type": "text", "default": "as ever"}, [""], "as ever"),
        ({"input_type": "text", "default": "as ever"}, ["new"], "new"),
        ({"input_type": "text", "default": "two\nlines"}, [""], "two\nlines"),
        ({**SELECT, "default": "blue"}, [""], "blue"),
        ({**SELECT, "default": "blue"}, ["1"], "red"),
        ({**SELECT, "other": "Another"}, ["4", "3", "", "pink"], {"other": "pink"}),
        ({**SELECT, "other": "Another"}, ["Another", "pink"], {"other": "pink"}),
        ({**SELECT, "other": "Another"}, ["pink", "red"], "red"),
        ({**SELECT, "other": "Another", "default": {"other": "pink"}}, [""], {"other": "pink"}),
        ({**MANY, "default": ["red", "blue"]}, [""], ["red", "blue"]),
        ({**MANY, "default": ["red", "blue"]}, ["0"], []),
        ({**MANY, "default": ["red", "blue"]}, ["2"], ["blue"]),
        ({**MANY, "other": "Another"}, ["1, 3", "pink"], ["red", {"other": "pink"}]),
        (
            {
                "input_type": "form",
                "answer_type": Order,
                "default": Order(size="L", address=Address(city="Rome")),
            },
            ["", "", "n", "gently", ""],
            {"size": "L", "address": {"city": "Rome"}, "gift": False, "note": "gently", "tags": []},
        ),
        ({"proposal": {"amount": 7}}, ["a"], True),
        ({"proposal": {"amount": 7}}, ["r"], False),
        ({"proposal": {"amount": 7}}, ["e", '{"amount": 5}'], {"approved": True, "edited": {"amount": 5}}),
        ({"proposal": {"amount": 7}}, ["e", ""], {"approved": True, "edited": {"amount": 7}}),
        (
            {"proposal": Address(city="Rome"), "proposal_type": Address},
            ["e", "Paris"],
            {"approved": True, "edited": {"city": "Paris"}},
        ),
        (
            {"proposal": Order(size="S", address=Address(city="Rome"), gift=False), "proposal_type": Order},
            ["e", "2", "", "", "", ""],
            {
                "approved": True,
                "edited": {"size": "L", "address": {"city": "Rome"}, "gift": False, "note": None, "tags": []},
            },
        ),
    ],
)
def test_what_is_typed(parts: dict[str, Any], lines: list[str], value: Any) -> None:
    assert typed(Question.make("What?", **parts), *lines) == value


class Stars(BaseModel):
    stars: Literal[5, 4, 3, 2, 1]


class Marked(BaseModel):
    version: Literal[1] = 1
    kind: Literal["card"]
    number: str


class Unmarked(BaseModel):
    version: Literal[1] = 1
    kind: Literal["cash"]
    cents: int


class Wallet(BaseModel):
    main: Annotated[Marked | Unmarked, Field(discriminator="kind")] | None = None
    ways: list[Annotated[Marked | Unmarked, Field(discriminator="kind")]]


class Sparse(BaseModel):
    address: Address | None = None
    invoice: Address | None
    name: str | None


class Open(BaseModel, extra="allow"):
    note: str | None = "as ever"


FIVE = {"options": ["5", "4", "3", "2", "1"]}


@pytest.mark.parametrize(
    ("parts", "lines", "value"),
    [
        ({"input_type": "form", "answer_type": Stars}, ["5"], {"stars": 5}),
        ({"input_type": "form", "answer_type": Stars}, ["#1"], {"stars": 5}),
        ({"input_type": "form", "answer_type": Stars}, ["6", "1"], {"stars": 1}),
        ({"input_type": "select", **FIVE}, ["5"], "5"),
        ({"input_type": "select", **FIVE, "default": "4"}, [""], "4"),
        ({"input_type": "select", **FIVE, "other": "Else"}, ["#6", "mine"], {"other": "mine"}),
        ({"input_type": "multiselect", **FIVE}, ["5, #5"], ["5", "1"]),
        ({"input_type": "multiselect", **FIVE, "default": ["5"]}, ["#0"], []),
        ({"input_type": "select", "options": ["a"]}, ["9" * 5000, "01"], "a"),
    ],
)
def test_a_number_that_is_an_option_is_that_option(
    parts: dict[str, Any], lines: list[str], value: Any
) -> None:
    assert typed(Question.make("What?", **parts), *lines) == value


@pytest.mark.parametrize(
    ("parts", "lines", "value"),
    [
        (
            {"input_type": "form", "answer_type": Wallet},
            ["cash", "", "5", '[{"kind": "card", "number": "7"}]'],
            {"main": {"kind": "cash", "version": 1, "cents": 5}, "ways": [{"kind": "card", "number": "7"}]},
        ),
        ({"input_type": "form", "answer_type": Wallet}, ["", "[]"], {"ways": []}),
        ({"input_type": "form", "answer_type": Sparse}, ["", "n", ""], {"invoice": None, "name": None}),
        (
            {"input_type": "form", "answer_type": Sparse},
            ["y", "Rome", "y", "Oslo", "ana"],
            {"address": {"city": "Rome"}, "invoice": {"city": "Oslo"}, "name": "ana"},
        ),
        ({"input_type": "form", "answer_type": Decimal}, ["1,5", "nan", "0.10"], "0.10"),
        (
            {"input_type": "form", "answer_type": Decimal},
            ["12345678901234567890.12"],
            "12345678901234567890.12",
        ),
        (
            {"proposal": Open.model_validate({"note": None, "more": 5}), "proposal_type": Open},
            ["e", ""],
            {"approved": True, "edited": {"note": None, "more": 5}},
        ),
    ],
)
def test_nothing_is_lost_and_nothing_is_made_up_on_the_way(
    parts: dict[str, Any], lines: list[str], value: Any
) -> None:
    assert typed(Question.make("What?", **parts), *lines) == value


def test_a_list_of_kinds_is_described_before_it_is_asked_for() -> None:
    question = Question.make("What?", input_type="form", answer_type=Wallet)
    command = click.Command("ask", callback=lambda: ask(question))
    said = CliRunner().invoke(command, input="\n[]\n", catch_exceptions=False).output
    assert (
        'A list. Each is one of: kind "card" with version (1, optional), number (text); kind "cash"' in said
    )
    assert 'such as [{"version": 1, "kind": "card", "number": "text"}]' in said


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 ms"),
        (0.0124, "12 ms"),
        (4.24, "4.2 s"),
        (192, "3 min 12 s"),
        (3600, "1 h"),
        (3600 + 59, "1 h"),
        (3 * 86400 + 4 * 3600 + 59, "3 d 4 h"),
        (86399.9, "1 d"),
    ],
)
def test_durations_are_spelled_in_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_an_edit_is_only_offered_where_something_is_proposed() -> None:
    with pytest.raises(AssertionError, match="e.* is not one of"):
        typed(Question.make("What?"), "e")


def test_nothing_that_is_shown_reaches_the_terminal_as_a_command() -> None:
    evil = "\x1b[31m\u202e"
    question = Question.make(
        "What?",
        input_type="select",
        options=[{"value": evil, "label": evil, "help": evil}, "b"],
        other=evil,
        default={"other": f"{evil}!"},
    )
    command = click.Command("ask", callback=lambda: ask(question))
    shown = CliRunner().invoke(command, input="2\n").output
    assert "b" in shown
    assert not set("\x1b\u202e") & set(shown)
