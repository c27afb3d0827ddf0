"""People read the kinds of a union in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from signoff.people.controls import controls_of
from signoff.people.questions import Question


class Card(BaseModel):
    kind: Literal["card"]
    number: str
    expires: date | None = None


class Cash(BaseModel):
    kind: Literal["cash", "coins"]
    cents: int = 0
    currency: Literal["EUR", "USD"]


class Free(BaseModel):
    kind: Literal["free"]


class Payment(BaseModel):
    how: Annotated[Card | Cash | Free, Field(discriminator="kind")] | None = None


@dataclass
class One:
    version: Literal[1]
    ok: bool


@dataclass
class Two:
    version: Literal[2]
    parts: list[str]


WORDS = (
    'One of: kind "card" with number (text), expires (date, optional);'
    ' kind "cash" with cents (whole number, optional), currency ("EUR" or "USD");'
    ' kind "coins" with cents (whole number, optional), currency ("EUR" or "USD"); kind "free".'
)


def hints(answer_type: Any) -> list[str]:
    question = Question.make("How?", input_type="form", answer_type=answer_type)
    return [control.hint or "" for group in controls_of(question) for control in group.controls]


@pytest.mark.parametrize(
    "answer_type", [Payment, Annotated[Card | Cash | Free, Field(discriminator="kind")], Card | Cash | Free]
)
def test_a_link_page_says_the_kinds_of_a_union(answer_type: Any) -> None:
    assert any(hint.startswith(WORDS) for hint in hints(answer_type))


def test_kinds_may_be_told_apart_by_numbers() -> None:
    (hint,) = hints(One | Two)
    assert hint.startswith("One of: version 1 with ok (yes or no); version 2 with parts (list).")


class Left(BaseModel):
    a: int


class Right(BaseModel):
    b: int


@pytest.mark.parametrize("answer_type", [Left | Right, int | list[int], dict[str, int] | Left])
def test_a_union_that_nothing_tells_apart_is_asked_as_json(answer_type: Any) -> None:
    assert all("One of" not in hint for hint in hints(answer_type))
