"""Errors about values that do not fit, and schemas that cannot harm their checker."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated, Any, Literal

import pytest
from pydantic import AwareDatetime, BaseModel, Field

from signoff.people.schemas.answer_schemas import form_of
from signoff.people.schemas.validation import MAX_MESSAGE, MAX_PROBLEMS, problems, schema_problem


class Line(BaseModel):
    amount: int


class Invoice(BaseModel, extra="forbid"):
    lines: list[Line]
    tip: Line | None = None
    paid_at: datetime | None = None


Price = Annotated[Decimal, Field(gt=0, le=100, max_digits=5, decimal_places=2)]
Step = Annotated[Decimal, Field(multiple_of=Decimal("0.05"))]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Price, "-1", "-1 is not more than 0"),
        (Price, "0", "0 is not more than 0"),
        (Price, "100.01", "100.01 is not at most 100"),
        (Price, "1.234", "it may have at most 2 digits after the point and 3 before it"),
        (Annotated[Decimal, Field(decimal_places=0)], "1.5", "it may have at most 0 digits after the point"),
        (Step, "0.16", "0.16 is not a multiple of 0.05"),
        (AwareDatetime, "2026-11-30T16:00", "it needs a zone, such as 2026-11-30T16:00+01:00 or"),
        *[(Price, text, None) for text in ("100", "1.230", "000.50", "1e2", "+1", "0.01")],
        *[(Step, text, None) for text in ("0.15", "-5", "1e-400000000")],
        *[
            (AwareDatetime, f"2026-11-30T16:00{zone}", None)
            for zone in ("Z", "+01:00", "-0530", "+01:00[Europe/Berlin]")
        ],
    ],
)
def test_bounds_and_zones_that_a_json_schema_leaves_out_count_too(
    kind: Any, text: str, message: str | None
) -> None:
    wrong = problems(form_of("", "answer_type", kind), text)
    assert wrong == [] if message is None else message in wrong[0][1]


def test_a_users_schema_may_have_unknown_keywords() -> None:
    schema = {"type": "string", "signoff:within": {"minimum": "x", "other": 5}, "discriminator": 5}
    assert schema_problem(schema) is None
    assert problems(schema, "7") == []


INVOICE = form_of("", "answer_type", Invoice)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({}, ["lines"]),
        (None, [""]),
        ({"lines": [{"amount": 1}, {"amount": "2"}]}, ["lines.1.amount"]),
        ({"lines": [{}]}, ["lines.0.amount"]),
        ({"lines": [], "tip": {"amount": "x"}}, ["tip.amount"]),
        ({"lines": [], "tip": {}}, ["tip.amount"]),
        ({"lines": [], "tip": 3}, ["tip"]),
        ({"lines": [], "paid_at": "yesterday"}, ["paid_at"]),
        ({"lines": [], "note": "x", "more": 1}, ["note", "more"]),
        ({"lines": "x", "tip": {"amount": None}, "note": 1}, ["lines", "tip.amount", "note"]),
    ],
    ids=repr,
)
def test_every_wrong_field_is_named_by_its_path(value: Any, fields: list[str]) -> None:
    assert sorted(field for field, _ in problems(INVOICE, value)) == sorted(fields)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (datetime, ["2026-03-01T10:00:00Z", "2026-03-01T10:00:00"], ["banana", "20260301T10", "12345"]),
        (Decimal, ["5.00", 5, 5.5], ["banana", "", "NaN", True]),
    ],
)
def test_what_a_model_could_not_read_does_not_fit_its_schema(
    kind: type, right: list[Any], wrong: list[Any]
) -> None:
    schema = form_of("", "answer_type", kind)
    assert [value for value in right if problems(schema, value)] == []
    assert [value for value in wrong if not problems(schema, value)] == []


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """The address of a schema on a server, and what the server was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/schema.json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_no_schema_is_fetched_from_anywhere(elsewhere: tuple[str, list[str]]) -> None:
    url, asked = elsewhere
    for schema in (
        {"$ref": url},
        {"$schema": url, "$ref": url},
        {"$id": url, "properties": {"a": {"$ref": "other.json"}}},
        {"properties": {"a": {"$dynamicRef": url}}},
        {"$ref": "file:///etc/hostname"},
        {"$ref": "#/$defs/nothing"},
    ):
        assert schema_problem(schema) is not None
        [(field, message)] = problems(schema, 1)
        assert field == ""
        assert "the schema of the question cannot be used" in message
    assert asked == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a" * 500_000 + "!"),
        (r"^(\w+\s?)*$", "a" * 500_000 + "!"),
        (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", "0" * 500_000 + "!"),
        (r"^(?=(a+)+$)", "a" * 5_000 + "!"),
        (r"^(a|aa)+\1$", "a" * 5_000 + "!"),
    ],
)
def test_no_pattern_takes_long_for_any_text(pattern: str, text: str) -> None:
    began = time.process_time()
    assert problems({"type": "string", "pattern": pattern}, text) != []
    assert time.process_time() - began < 5


def test_many_short_texts_against_a_slow_pattern_take_no_long_time() -> None:
    began = time.process_time()
    assert problems({"items": {"pattern": r"^(a|aa)+\1$"}}, ["a" * 25 + "!"] * 500) != []
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_an_endlessly_self_referring_schema_hangs_nothing(schema: dict[str, Any]) -> None:
    problems(schema, {"a": [1]})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [f"option {n}" for n in range(10_000)]}, "none of them"),
        ({"type": "integer"}, "x" * 1_000_000),
        ({"type": "object", "additionalProperties": False}, {"x" * 1_000_000: 1}),
        ({"additionalProperties": {"type": "integer"}}, {"x" * 1_000_000: "1"}),
        ({"required": ["x" * 1_000_000]}, {}),
        ({"const": ["x"] * 100_000}, 1),
    ],
)
def test_what_is_said_is_short_however_long_value_and_schema_are(schema: dict[str, Any], value: Any) -> None:
    [(field, message)] = problems(schema, value)
    assert len(field) <= MAX_MESSAGE
    assert 0 < len(message) <= MAX_MESSAGE


def test_of_many_problems_the_first_are_listed_and_that_there_are_more() -> None:
    found = problems({"items": {"type": "integer"}}, ["x"] * 1000)
    assert len(found) == MAX_PROBLEMS + 1
    assert [field for field, _ in found[:-1]] == [str(n) for n in range(MAX_PROBLEMS)]
    assert "only the first" in found[-1][1]


@pytest.mark.parametrize("text", ["\x1b[31m", "\u202egnp.exe", "\x00", "\x7f", "\n"])
def test_what_is_said_is_print(text: str) -> None:
    for schema, value in (({"type": "integer"}, text), ({"additionalProperties": False}, {text: 1})):
        for field, message in problems(schema, value):
            assert (field + message).isprintable()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [f"option {n}" for n in range(10_000)]}}, ["x"] * 100_000),
        (
            {"anyOf": [{"type": "null"}, {"items": {"enum": [f"option {n}" for n in range(10_000)]}}]},
            ["x"] * 100_000,
        ),
        ({"required": [f"field {n}" for n in range(1_000)]}, {"x": [1] * 500_000}),
    ],
)
def test_a_wrong_answer_of_a_megabyte_is_refused_at_no_great_cost(schema: dict[str, Any], value: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    [(field, message)] = problems(schema, value)
    assert (field, "too large" in message) == ("", True)
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB


class Number(BaseModel):
    value: int


class Both(BaseModel):
    kind: Literal["both"]
    parts: list[Both | Either | Number]


class Either(BaseModel):
    kind: Literal["either"]
    parts: list[Both | Either | Number]


class Reply(BaseModel):
    text: str
    replies: list[Reply]


def test_a_wrong_answer_to_a_recursive_form_costs_the_same_per_level() -> None:
    schema = form_of("", "answer_type", Both)
    value: dict[str, Any] = {"value": "x"}
    for _ in range(30):
        value = {"kind": "either", "parts": [value]}
    began = time.process_time()
    assert [field for field, _ in problems(schema, {"kind": "both", "parts": [value]})] == [""]
    assert time.process_time() - began < 5  # a minute for ten levels, if it were said where
    assert problems(schema, {"kind": "both", "parts": [{"value": 1}]}) == []


def test_what_is_wrong_in_a_tree_without_choices_is_said_where_it_is() -> None:
    schema = form_of("", "answer_type", Reply)
    value = {"text": "a", "replies": [{"text": "b", "replies": [{"text": 3, "replies": []}]}]}
    assert [field for field, _ in problems(schema, value)] == ["replies.0.replies.0.text"]


@pytest.mark.parametrize("pattern", ["(?=.*a)(?=.*b).*c", "(?:(?:a{100}){100}){10}"])
def test_a_long_text_is_matched_to_a_pattern_only_if_it_may_be_that_long(pattern: str) -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"code": {"type": "string", "pattern": pattern}, "text": {"type": "string"}},
    }
    began = time.process_time()
    found = problems(schema, {"code": "a" * 500_000, "text": "a" * 500_000})
    assert time.process_time() - began < 5
    assert [field for field, _ in found] == ["code"]
    assert "longer than 10000" in found[0][1]


def test_a_pattern_is_compared_with_texts_as_long_as_the_form_allows() -> None:
    schema = {"type": "string", "pattern": "^a+$", "maxLength": 20_000, "default": {"pattern": "("}}
    assert problems(schema, "a" * 20_000) == []
    assert problems(schema, "b" * 20_000) != []
    assert problems(schema, "a" * 20_001) != []


def test_fields_may_be_called_as_parts_of_schemas_are() -> None:
    pattern = {"type": "string", "pattern": "(?:(?:a{100}){100}){10}"}
    schema = {"type": "object", "properties": {"default": pattern, "pattern": {"type": "integer"}}}
    found = problems(schema, {"default": "a" * 500_000, "pattern": 1})
    assert [field for field, _ in found] == ["default"]
    assert "longer than 10000" in found[0][1]


def test_a_pattern_beside_a_wrong_part_is_no_schema() -> None:
    assert schema_problem({"pattern": "a", "allOf": 3}) == 'allOf: 3 is not of type "array"'
