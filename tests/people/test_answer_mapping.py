"""An answer behaves like a mapping of its fields, in every way of reading one."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from signoff import Answer, codec
from signoff.errors import NotSerializable
from signoff.people.questions.progress import Vote


class Refund(BaseModel):
    cents: Decimal
    on: date


AT = datetime(2026, 1, 2, tzinfo=UTC)
ANSWER = Answer(True, True, "ana", None, AT, proposal=Refund(cents=Decimal("7.00"), on=AT.date()))
NAMES = [field.name for field in dataclasses.fields(Answer)]


def received(**fields: object) -> dict[str, object]:
    return fields


def test_it_is_a_mapping_of_its_fields() -> None:
    assert isinstance(ANSWER, Mapping)
    assert list(ANSWER) == list(ANSWER.keys()) == NAMES
    assert len(ANSWER) == len(NAMES)
    assert dict(ANSWER) == {name: getattr(ANSWER, name) for name in NAMES}
    assert received(**ANSWER) == dict(ANSWER)
    assert dict(ANSWER.items())["user_id"] == "ana"
    assert "approved" in ANSWER
    match ANSWER:
        case {"approved": True, "user_id": name}:
            assert name == "ana"
        case _:
            raise AssertionError


@pytest.mark.parametrize("name", ["get", "plain", "is_other", "__slots__", "", "reply"])
def test_what_is_not_a_field_is_not_in_it(name: str) -> None:
    assert name not in ANSWER
    with pytest.raises(KeyError):
        _ = ANSWER[name]
    assert ANSWER.get(name, 7) == 7


def test_get_gives_the_default_for_a_field_without_a_value() -> None:
    assert (ANSWER.get("note", "-"), ANSWER.get("user_id", "-")) == ("-", "ana")


def test_it_equals_a_mapping_of_the_same_fields() -> None:
    assert dict(ANSWER) == ANSWER == dict(ANSWER) == MappingProxyType(dict(ANSWER))
    assert {**ANSWER, "note": "x"} != ANSWER
    assert dataclasses.replace(ANSWER, note="x") != ANSWER
    assert copy.deepcopy(ANSWER) == ANSWER
    assert ANSWER != "answer"
    hashable = dataclasses.replace(ANSWER, proposal=None)
    assert {hashable, dataclasses.replace(hashable)} == {hashable}


def test_where_nothing_declares_its_type_its_plain_data_is_named() -> None:
    with pytest.raises(NotSerializable, match=r"an Answer would come back as a dict.*or pass its plain\(\)"):
        codec.normalize(ANSWER, Any)


def test_it_is_written_as_json_by_one_call() -> None:
    votes = (Vote("ana", True, None, 1.0),)
    plain = dataclasses.replace(ANSWER, votes=votes, others=("x",)).plain()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["proposal"] == {"cents": "7.00", "on": "2026-01-02"}
    assert (plain["answered_at"], plain["others"]) == ("2026-01-02T00:00:00+00:00", ["x"])
    assert plain["votes"][0]["user_id"] == "ana"


@pytest.mark.parametrize(
    ("approved", "skipped", "says"),
    [(True, False, True), (False, False, False), (None, True, False), (None, False, True)],
)
def test_an_answer_that_is_rejected_or_skipped_is_false(
    approved: bool | None, skipped: bool, says: bool
) -> None:
    assert bool(dataclasses.replace(ANSWER, approved=approved, skipped=skipped)) is says
