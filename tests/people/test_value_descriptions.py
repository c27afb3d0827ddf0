"""The kinds of a union, described in words."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Discriminator, Field, Tag, TypeAdapter

from signoff.errors import WrongAnswer
from signoff.people.links.html_fields import html_fields_of
from signoff.people.questions.answer_checks import check_answer, read_value
from signoff.people.questions.question import Question


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
    return [control.hint or "" for group in html_fields_of(question) for control in group.fields]


@pytest.mark.parametrize(
    "answer_type", [Payment, Annotated[Card | Cash | Free, Field(discriminator="kind")], Card | Cash | Free]
)
def test_a_link_page_says_the_kinds_of_a_union(answer_type: Any) -> None:
    assert any(hint.startswith(WORDS) for hint in hints(answer_type))


def test_kinds_may_be_distinguished_by_numbers() -> None:
    (hint,) = hints(One | Two)
    assert hint.startswith("One of: version 1 with ok (yes or no); version 2 with parts (list).")


class Left(BaseModel):
    a: int


class Right(BaseModel):
    b: int


def left_or_right(value: Any) -> str:
    return "left" if "a" in value else "right"


CALLABLE = Annotated[
    Annotated[Left, Tag("left")] | Annotated[Right, Tag("right")], Discriminator(left_or_right)
]


@pytest.mark.parametrize("answer_type", [Left | Right, CALLABLE])
def test_kinds_that_no_field_tells_apart_are_called_by_their_titles(answer_type: Any) -> None:
    (hint,) = hints(answer_type)
    assert hint.startswith("One of: Left with a (whole number); Right with b (whole number).")


@pytest.mark.parametrize("answer_type", [int | list[int], dict[str, int] | Left])
def test_a_union_that_nothing_tells_apart_is_asked_as_json(answer_type: Any) -> None:
    assert all("One of" not in hint for hint in hints(answer_type))


class OldCard(BaseModel):
    version: Literal[1] = 1
    type_of: Literal["card"] = Field("card", alias="typeOf")
    number: str


class OldCash(BaseModel):
    version: Literal[1] = 1
    type_of: Literal["cash"] = Field("cash", alias="typeOf")
    cents: int


Old = Annotated[OldCard | OldCash, Field(discriminator="type_of")]


class Wallet(BaseModel):
    ways: list[Old]
    spare: dict[str, Old] = {}
    main: Old


@pytest.mark.parametrize(
    ("path", "begins"),
    [
        ("main", "One of: "),
        ("ways", "A list. Each is one of: "),
        ("spare", "Values by name. Each is one of: "),
    ],
)
def test_kinds_are_distinguished_by_their_differing_field_at_any_depth(path: str, begins: str) -> None:
    question = Question.make("How?", input_type="form", answer_type=Wallet)
    controls = [control for group in html_fields_of(question) for control in group.fields]
    (hint,) = [control.hint or "" for control in controls if control.path == (path,)]
    kinds = (
        'typeOf "card" with version (1, optional), number (text);'
        ' typeOf "cash" with version (1, optional), cents (whole number).'
    )
    assert hint.startswith(begins + kinds)
    assert '{"version": 1, "typeOf": "card", "number": "text"}' in hint, "an example"


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#"}, {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}]},
        {"type": "array", "items": {"properties": {"x": True}}},
    ],
)
def test_schemas_that_go_round_in_circles_end(schema: dict[str, Any]) -> None:
    assert html_fields_of(Question("Well?", "form", schema))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"cents": 5}, ("typeOf", '"typeOf" is a required property')),
        ({"typeOf": "cash"}, ("cents", '"cents" is a required property')),
        ({"typeOf": "cash", "cents": "x"}, ("cents", '"x" is not of type "integer"')),
        ({"typeOf": "cheque", "cents": 5}, ("typeOf", 'is not one of "card", "cash"')),
    ],
)
@pytest.mark.parametrize("within", ["", "ways.0", "spare.a"])
def test_a_wrong_answer_is_explained_by_the_kind_that_it_says_it_is(
    value: dict[str, Any], problem: tuple[str, str], within: str
) -> None:
    field, message = problem
    if within:
        well: dict[str, Any] = {"main": {"typeOf": "cash", "cents": 1}, "ways": []}
        whole = {**well, "ways": [value]} if within == "ways.0" else {**well, "spare": {"a": value}}
        question = Question.make("How?", input_type="form", answer_type=Wallet)
        field = f"{within}.{field}"
    else:
        whole, question = value, Question.make("How?", input_type="form", answer_type=Old)
    with pytest.raises(WrongAnswer) as refused:
        check_answer("q", question, whole)
    assert refused.value.problems == [(field, message)]


@pytest.mark.parametrize(
    ("answer_type", "value"),
    [
        (Old, OldCash(cents=5)),
        (list[Old], [OldCash(cents=5), OldCard(number="7")]),
        (dict[str, list[Old]], {"a": [OldCash(cents=5)]}),
        (Wallet, Wallet(ways=[OldCard(number="7")], main=OldCash(cents=5))),
    ],
)
def test_instances_answer_by_their_forms_names_also_within_lists(answer_type: Any, value: Any) -> None:
    question = Question.make("How?", input_type="form", answer_type=answer_type, default=value)
    plain = read_value(question, value)
    check_answer("q", question, plain)
    assert plain == question.default
    assert "typeOf" in json.dumps(plain)
    assert TypeAdapter(answer_type).validate_python(plain) == value
