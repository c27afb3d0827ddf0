"""A function's parameters as a JSON Schema: exact where possible, open otherwise, and never an error."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypedDict, Unpack

import jsonschema_rs
import pytest
from pydantic import BaseModel, Field, SecretStr

from signoff.codec import annotations, decode_arguments, description_of, encode_arguments, parameters_schema

if TYPE_CHECKING:
    from elsewhere import Missing  # type: ignore[import-not-found]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    city: str
    since: date | None = None


class Order(BaseModel):
    id: str
    to: Address
    notes: list[str] = []


class Options(TypedDict, total=False):
    urgent: Required[bool]
    note: str


class Odd:
    pass


class Loud(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, *_: Any) -> Any:
        raise ZeroDivisionError


@dataclass
class Point:
    x: int


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    found = parameters_schema(function)
    assert found is not None
    assert jsonschema_rs.meta.is_valid(found)
    json.dumps(found, allow_nan=False)
    return found


def test_each_parameter_is_described_under_its_name_in_order() -> None:
    async def flow(
        ctx: Any, order: Order, colour: Colour = Colour.RED, *, on: date | None = None
    ) -> None: ...

    found = schema(flow)
    assert list(found["properties"]) == ["order", "colour", "on"]
    assert found["required"] == ["order"]
    assert found["properties"]["colour"]["default"] == "red"
    assert found["properties"]["on"]["default"] is None
    assert found["$defs"].keys() == {"Order", "Address", "Colour"}
    assert "x-by-position" not in found
    fits = {"order": {"id": "1", "to": {"city": "Bern"}}, "on": "2025-01-31"}
    assert jsonschema_rs.is_valid(found, fits)
    for wrong in ({}, {**fits, "colour": "green"}, {**fits, "more": 1}, {"order": {"id": "1"}}):
        assert not jsonschema_rs.is_valid(found, wrong)


@pytest.mark.parametrize(
    ("annotation", "fits"),
    [
        (Annotated[int, Field(ge=1)], 1),
        (Literal["a", "b"], "b"),
        (dict[str, int], {"a": 1}),
        (tuple[int, str], [1, "a"]),
        (set[int], [1, 2]),
        (Decimal, "1.50"),
        (bytes, "AQI="),
        (Point, {"x": 1}),
        (Options, {"urgent": True}),
        (list[Order], []),
    ],
)
def test_what_fits_the_schema_is_what_the_codec_reads(annotation: Any, fits: Any) -> None:
    def flow(ctx: Any, value: Any) -> None: ...

    flow.__annotations__["value"] = annotation
    found = schema(flow)
    assert found["properties"]["value"].keys() != {"title"}
    assert jsonschema_rs.is_valid(found, {"value": fits})
    decode_arguments(encode_arguments(None, [], {"value": fits}), flow)


def test_what_goes_by_position_is_named() -> None:
    def only(ctx: Any, a: int, /, b: int) -> None: ...
    def rest(ctx: Any, a: int, b: int = 2, *more: str, c: int = 3) -> None: ...

    assert schema(only)["x-by-position"] == ["a"]
    found = schema(rest)
    assert (found["x-by-position"], found["x-rest"]) == (["a", "b"], "more")
    assert found["properties"]["more"] == {"title": "more", "type": "array", "items": {"type": "string"}}
    assert found["required"] == ["a"]


def test_further_arguments_by_name_are_taken_as_they_are_declared() -> None:
    def any_(ctx: Any, **more: int) -> None: ...
    def some(ctx: Any, **options: Unpack[Options]) -> None: ...

    assert schema(any_)["additionalProperties"] == {"type": "integer"}
    found = schema(some)
    assert (list(found["properties"]), found["required"]) == (["urgent", "note"], ["urgent"])
    assert found["additionalProperties"] is False


def test_a_parameter_without_a_known_type_accepts_anything() -> None:
    def flow(
        ctx: Any,
        a: Missing,
        b: Odd,
        c: Loud,
        d,
        e: Callable[[], int],
        f: int,  # type: ignore[no-untyped-def]
    ) -> None: ...

    found = schema(flow)
    assert {name: each for name, each in found["properties"].items() if name != "f"} == {
        name: {"title": name} for name in "abcde"
    }
    assert found["properties"]["f"] == {"title": "f", "type": "integer"}


def test_a_default_that_is_no_json_or_a_secret_or_long_is_left_out() -> None:
    def flow(
        ctx: Any,
        a: Odd = Odd(),  # noqa: B008
        b: SecretStr = SecretStr("hush"),  # noqa: B008
        c: str = "x" * 5000,
        d: float = float("nan"),
        e: Point = Point(1),  # noqa: B008
    ) -> None: ...

    found = schema(flow)
    assert [name for name, each in found["properties"].items() if "default" in each] == ["e"]
    assert found["required"] == []
    assert "hush" not in json.dumps(found)


def test_what_is_odd_as_a_function_is_described_or_not_without_an_error() -> None:
    def anything(*args: Any) -> None: ...
    def flow(ctx: Any, a: int, b: int) -> None: ...

    assert schema(anything)["x-rest"] == "args"
    assert schema(functools.partial(flow, b=1))["required"] == ["a"]
    assert parameters_schema(getattr) is None or schema(getattr)


def test_the_same_types_are_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = described(monkeypatch)

    def flow(ctx: Any, order: Order, at: list[date]) -> None: ...
    def other(ctx: Any, order: Order, at: list[date] = NEVER) -> None: ...

    first = schema(flow)
    first["properties"]["order"]["title"] = "spoilt"
    first["$defs"]["Address"].clear()
    assert made == ["order", "at"]
    found = schema(other)
    assert made == ["order", "at"]
    assert found["properties"]["order"] == {"$ref": "#/$defs/Order", "title": "order"}
    assert found["$defs"]["Address"]["required"] == ["city"]
    assert found["required"] == ["order"]


def test_a_class_that_was_defined_anew_is_described_anew() -> None:
    """As when a cell of a notebook is run again: its module and its name are the same."""

    def flow_of(field: str) -> Callable[..., Any]:
        cell = type("Cell", (BaseModel,), {"__annotations__": {field: int}, "__module__": __name__})

        def flow(ctx: Any, it: Any) -> None: ...

        flow.__annotations__["it"] = cell
        return flow

    assert [list(schema(flow_of(field))["$defs"]["Cell"]["properties"]) for field in ("a", "b")] == [
        ["a"],
        ["b"],
    ]


def test_what_could_not_be_described_is_tried_again() -> None:
    class Unfinished(BaseModel):
        next: Later  # type: ignore[name-defined]  # noqa: F821

    def flow(ctx: Any, it: Any) -> None: ...

    flow.__annotations__["it"] = Unfinished
    assert schema(flow)["properties"]["it"] == {"title": "it"}
    Unfinished.model_rebuild(_types_namespace={"Later": int})
    assert schema(flow)["$defs"]["Unfinished"]["properties"] == {"next": {"title": "Next", "type": "integer"}}


@pytest.mark.parametrize("extra", [{"examples": (1, 2)}, {"x": Odd()}], ids=["a tuple", "an object"])
def test_what_a_class_says_of_itself_that_json_changes_comes_as_it_was(extra: dict[str, Any]) -> None:
    class Own(BaseModel):
        model_config = {"json_schema_extra": extra}

    [name] = extra
    for _ in range(2):
        _, definitions = annotations.schemas({"own": Own})
        assert definitions["Own"][name] is extra[name]


NEVER: list[date] = []


def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The parameters of which schemas are made from now on, in order."""
    made: list[str] = []
    make = annotations._make_schemas

    def note(declared: Any) -> Any:
        made.extend(declared)
        return make(declared)

    monkeypatch.setattr(annotations, "_make_schemas", note)
    monkeypatch.setattr(annotations, "_schemas", {})
    return made


def test_the_first_paragraph_of_a_docstring_is_joined_into_one_line() -> None:
    def flow() -> None:
        """Pays an order
        back.

        And more.
        """

    assert description_of(flow, 100) == "Pays an order back."
    assert description_of(flow, 9) == "Pays an …"
    assert description_of(lambda: None, 9) is None
