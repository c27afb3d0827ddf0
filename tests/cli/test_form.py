"""What the person at a terminal types becomes an answer's value."""

from __future__ import annotations

from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from signoff.cli.form import ask
from signoff.cli.wording import duration
from signoff.people.questions import Question


class Address(BaseModel):
    city: str


class Order(BaseModel):
    size: Literal["S", "L"]
    address: Address
    gift: bool = True
    note: str | None = None
    tags: list[str] = []


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
    ],
)
def test_what_is_typed(parts: dict[str, Any], lines: list[str], value: Any) -> None:
    assert typed(Question.make("What?", **parts), *lines) == value


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
