"""The fields of a page: shown values come back unchanged, and input is read as intended."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from signoff.people.links.html_fields import (
    MISSING,
    FieldGroup,
    HtmlField,
    html_fields_of,
    visible,
    visible_json,
)
from signoff.people.links.html_values import OTHER, answer_of, begin, read
from signoff.people.questions.answer_checks import check_answer
from signoff.people.questions.question import Question

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
texts = st.text(st.sampled_from("ab \t\r\n\u202e\u200b\u0007\U000e0041<&\"'\\é"), max_size=12)
anything = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


class Address(BaseModel):
    street: str
    zip: str | None = None


class Parcel(BaseModel):
    to: Address
    back: Address | None = None
    weight: float
    tags: list[str] = []


def untouched(groups: tuple[FieldGroup, ...]) -> dict[str, list[str]]:
    """The values that a browser sends of an untouched page."""
    filled: dict[str, list[str]] = {}
    for control in (control for group in groups for control in group.fields):
        shown = begin(control)
        if control.kind in ("one", "some"):
            filled[control.name] = sorted(shown.chosen)
            filled[f"{control.name}.{OTHER}"] = [_sent(shown.other)]
        else:
            filled[control.name] = [_sent(shown.text)]
    return filled


def _sent(text: str) -> str:
    """As a browser sends what it has in a field."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\r\n")


def same(one: Any, other: Any) -> bool:
    return visible_json(one) == visible_json(other)


@given(proposal=anything.filter(lambda value: value is not None))
def test_an_untouched_field_comes_back_unchanged(proposal: Any) -> None:
    question = Question.make("Well?", proposal=proposal)
    groups = html_fields_of(question)
    filled = untouched(groups)
    value, wrong = read(groups, filled, question.proposal)
    assert not wrong
    assert same(value, question.proposal)
    assert answer_of(question, {**filled, "decision": ["0"]}, can_edit=True) == ({"approved": True}, [])


@given(proposal=anything.filter(lambda value: value is not None))
def test_whatever_is_shown_in_a_field_is_seen(proposal: Any) -> None:
    for group in html_fields_of(Question.make("Well?", proposal=proposal)):
        for control in group.fields:
            shown = begin(control).text.replace("\r\n", "\n")
            assert visible(shown) == shown


@given(value=anything)
def test_json_for_people_is_the_same_value(value: Any) -> None:
    assert same(json.loads(visible_json(value)), value)


def fields(question: Question) -> dict[str, HtmlField]:
    return {".".join(control.path): control for group in html_fields_of(question) for control in group.fields}


def test_models_become_groups_of_fields_and_what_is_left_empty_is_left_out() -> None:
    question = Question.make("Where to?", input_type="form", answer_type=Parcel)
    named = fields(question)
    assert {path: control.kind for path, control in named.items()} == {
        "weight": "number",
        "tags": "lines",
        "to.street": "long",
        "to.zip": "long",
        "back.street": "long",
        "back.zip": "long",
    }
    said = {"weight": "2.5", "to.street": "Main St"}
    filled = {control.name: [said.get(path, "")] for path, control in named.items()}
    value, wrong = answer_of(question, filled, can_edit=True)
    assert not wrong
    assert Parcel.model_validate(value) == Parcel(to=Address(street="Main St"), weight=2.5)
    said["back.zip"] = "1234"
    filled = {control.name: [said.get(path, "")] for path, control in named.items()}
    value, _ = answer_of(question, filled, can_edit=True)
    assert value["back"] == {"zip": "1234"}, "the schema says that the street is missing"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}},
        {"$ref": "#/$defs/none", "$defs": {}},
        {"type": "object", "properties": {"a": True, "b": False}},
        {"type": "array", "items": {"type": "object"}},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": ["string", "null"]},
        {"type": "array", "prefixItems": [{"type": "string"}]},
        {"type": "object", "properties": {"a": {"type": "array", "items": True}}, "if": {}},
        {"enum": [[1], {"a": 1}, None, "x"]},
        True,
    ],
)
def test_any_schema_has_controls(schema: Any) -> None:
    question = Question("Well?", "form", schema if isinstance(schema, dict) else {})
    groups = html_fields_of(question)
    assert groups
    read(groups, untouched(groups))


def test_what_can_only_be_agreed_to_is_not_agreed_to_at_first() -> None:
    schema = {"type": "object", "properties": {"agreed": {"const": True}}, "required": ["agreed"]}
    question = Question("Well?", "form", schema)
    assert answer_of(question, {}, can_edit=True) == ({}, [("agreed", "this is required")])
    assert answer_of(question, {"f0": ["0"]}, can_edit=True) == ({"agreed": True}, [])


def test_a_number_is_written_in_plain_digits() -> None:
    question = Question("Well?", "form", {"type": "integer"})
    for text in ("٣", "1_000", "0x10", "1.0", "--1", "1e3", " "):
        _, wrong = answer_of(question, {"f0": [text]}, can_edit=True)
        assert wrong, text
    assert answer_of(question, {"f0": [" -12 "]}, can_edit=True) == (-12, [])


def test_a_default_with_hidden_characters_is_not_prefilled_as_free_text() -> None:
    question = Question.make(
        "Which?", input_type="select", options=["red"], other="Else", default={"other": "a\u202eb"}
    )
    [group] = html_fields_of(question)
    assert group.fields[0].initial is MISSING


class Terms(BaseModel):
    text: str = "30 days"
    amount: int = 1
    price: Decimal = Decimal("9.99")
    due: date = date(2026, 1, 1)
    urgent: bool = True
    size: Literal["S", "L"] = "S"
    note: str | None = "none"


@pytest.mark.parametrize("is_proposed", [False, True])
@pytest.mark.parametrize("field", ["amount", "price", "due", "urgent", "size"])
def test_what_was_taken_away_is_not_what_the_default_puts_back(field: str, is_proposed: bool) -> None:
    if is_proposed:
        question = Question.make("Well?", proposal=Terms(amount=250), proposal_type=Terms)
    else:
        question = Question.make("Well?", input_type="form", answer_type=Terms)
    groups = html_fields_of(question)
    control = next(each for each in groups[0].fields if each.path[-1] == field)
    filled = {**untouched(groups), control.name: [""], "decision": ["1"]}
    _, wrong = answer_of(question, filled, can_edit=True)
    assert wrong == [(".".join(control.path), "this cannot be empty: write or choose a value")]
    assert not control.may_be_empty


def test_a_removed_text_is_empty_and_null_where_that_is_allowed() -> None:
    question = Question.make("Well?", input_type="form", answer_type=Terms)
    named = fields(question)
    filled = {**untouched(html_fields_of(question)), named["text"].name: [""], named["note"].name: [""]}
    value, wrong = answer_of(question, filled, can_edit=True)
    assert not wrong
    assert (value["text"], value["note"]) == ("", None)


class Meeting(BaseModel):
    at: datetime
    day: date
    lasts: timedelta
    id: UUID
    rates: list[Decimal] = []


def test_spaces_around_what_has_a_format_are_no_part_of_it() -> None:
    question = Question.make("When?", input_type="form", answer_type=Meeting)
    said = {
        "at": " 2026-11-30T16:00Z ",
        "day": "2026-11-30 ",
        "lasts": " PT1H",
        "id": " 123e4567-e89b-12d3-a456-426614174000 ",
        "rates": "0.10\r\n 12345678901234567890.12 ",
    }
    filled = {control.name: [said[path]] for path, control in fields(question).items()}
    value, wrong = answer_of(question, filled, can_edit=True)
    assert not wrong
    check_answer("q", question, value)
    assert Meeting.model_validate(value).rates == [Decimal("0.10"), Decimal("12345678901234567890.12")]


@pytest.mark.parametrize("text", ['{"a": 1e999}', '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_json_that_no_value_can_be_made_of_is_refused_where_it_is_typed(text: str) -> None:
    question = Question.make("Well?", input_type="form", answer_type=dict[str, float])
    _, wrong = answer_of(question, {"f0": [text]}, can_edit=True)
    assert [field for field, _ in wrong] == [""]
