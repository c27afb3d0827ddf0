"""The canonical form of a value is the same for both JSON writers."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_serializer

from signoff.codec import canonical_json, models
from signoff.codec.canonical_json import stable_text


class Line(BaseModel):
    text: Any = None
    more: list[Any] = []


class Order(Line):
    by_name: dict[str, Any] = {}
    line: Line | None = None
    cents: float = 0


class Masked(BaseModel):
    text: str

    @field_serializer("text")
    def _mask(self, text: str) -> str:
        return text[:1]


class Excluding(BaseModel):
    text: str
    hidden: str = Field("h", exclude=True)


class Around(BaseModel):
    inner: Masked


class Named(BaseModel):
    text: str = Field(alias="the text")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str


class Computing(BaseModel):
    text: str

    @computed_field
    def doubled(self) -> str:
        return self.text * 2


class Root(RootModel[list[int]]):
    pass


def slow(value: object) -> str:
    return canonical_json._ENCODE(canonical_json._data(value))  # pyright: ignore[reportPrivateUsage]


plain = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text() | some.floats(),
    lambda inner: (
        some.lists(inner)
        | some.dictionaries(some.text(), inner)
        | some.builds(Line, text=inner, more=some.lists(inner))
        | some.builds(
            Order,
            text=inner,
            by_name=some.dictionaries(some.text(), inner),
            line=some.builds(Line) | some.builds(Order, text=inner),
        )
    ),
)


@given(plain)
def test_fast_and_slow_writers_agree(value: Any) -> None:
    text, as_before = stable_text(value), slow(value)
    assert json.loads(text) == json.loads(as_before)
    assert len(text) == len(as_before)  # the length decides whether a digest stands for it
    if len(text) > 200:
        assert text == as_before


VALUES: list[Any] = [
    "x" * 300,
    "é" * 300,
    "\x7f" * 300,
    '\0\n"\\/',
    {"b": 1, "a": 2},
    OrderedDict(b=1, a=2),
    {"b": "é" * 100, "a": ["x" * 100]},
    {1: 2},
    1e16,
    1e-5,
    -0.0,
    10**30,
    Named.model_validate({"the text": "x"}),
    Open(text="x", more=1),  # pyright: ignore[reportCallIssue]
    Computing(text="x"),
    Masked(text="secret"),
    Around(inner=Masked(text="secret")),
    Excluding.model_validate({"text": "x"}),
    Root([1, 2]),
    Order.model_construct(line="not a line", cents="many"),
    [Order(text={"b": 1, "a": 2.5})],
    (1, "a", None),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_both_writers_write(value: Any) -> None:
    text, as_before = stable_text(value), slow(value)
    assert json.loads(text) == json.loads(as_before)
    assert len(text) == len(as_before)


def test_the_order_of_keys_makes_no_difference() -> None:
    assert stable_text({"b": 1, "a": 2}) == stable_text({"a": 2, "b": 1})
    assert stable_text(Line(text={"b": 1, "a": 2})) == stable_text(Line(text={"a": 2, "b": 1}))


@dataclass
class Held:
    line: Line


class Holding(BaseModel):
    line: Line
    lines: list[Line] = []
    masked: Masked | None = None


class Keeping(BaseModel):
    text: str

    @cached_property
    def length(self) -> int:
        return len(self.text)


@pytest.mark.parametrize("masked", [None, Masked(text="x")], ids=["fast", "slow"])
@pytest.mark.parametrize(
    "put",
    [
        lambda line, masked: Holding(line=line, masked=masked),
        lambda line, masked: Holding(line=Line(), lines=[line], masked=masked),
        lambda line, masked: [Holding(line=line, masked=masked)],
        lambda line, masked: {"line": Holding(line=line, masked=masked)},
        lambda line, masked: Held(line) if masked is None else (Held(line), masked),
    ],
    ids=["in_a_field", "in_a_list", "within_a_list", "within_a_dict", "in_a_dataclass"],
)
def test_fields_that_only_a_values_class_has_are_distinguished(put: Any, masked: Masked | None) -> None:
    one, other = (stable_text(put(Order(cents=cents), masked)) for cents in (70, 7000))
    assert one != other


def test_what_a_model_has_computed_and_kept_makes_no_difference() -> None:
    fresh, asked = Keeping(text="abc"), Keeping(text="abc")
    assert asked.length == 3
    assert stable_text(fresh) == stable_text(asked)
    assert canonical_json.state_text([fresh, object]) == canonical_json.state_text([asked, object])


def test_a_field_that_is_kept_out_of_what_is_written_is_not_in_it() -> None:
    class Holder(BaseModel):
        one: Excluding
        line: Line = Order()

    assert "secret" not in stable_text(Holder(one=Excluding(text="x", hidden="secret")))


@pytest.mark.parametrize("kind", [Masked, Around, Excluding, Root])
def test_a_class_that_writes_itself_is_left_to_the_slow_writer(kind: Any) -> None:
    assert not models.is_written_by_field(kind)


@pytest.mark.parametrize("kind", [Line, Order, Named, Open, Computing])
def test_other_classes_are_written_fast(kind: Any) -> None:
    assert models.is_written_by_field(kind)
