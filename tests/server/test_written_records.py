"""Records as JSON: written payload by payload, they equal those written whole."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic_core import to_json

from signoff.records import Entry, EntryKind, Promise, PromiseKind, PromiseState, Run, RunState
from signoff.server.http.responses import written, written_json
from signoff.wire.records import Record

SIZES = [10, 100_000, 1_100_000, 3_000_000]
"""Small; written one by one; and written as they are kept."""

RUN = Run("default", "r", "w", "g", '{"args":[],"kwargs":{}}', RunState.SUCCEEDED, 1.5)


def entry(value: str) -> Entry:
    return Entry(3, 1.5, EntryKind.COMPLETED, n=3, value=value, details='{"by": "user:ana"}')


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", ['"%s"', '{"a":\r\n["%s", 1.5, null]\n}', '["\\ud83d\\udca9%s"]'])
def test_payloads_of_any_size_are_written_alike(size: int, text: str) -> None:
    value = text % ("x" * size)
    for record in (entry(value), replace(RUN, result=value), question("{}", value)):
        line = written_json(record)
        assert b"\n" not in line
        assert b"\r" not in line
        assert json.loads(line) == json.loads(to_json(written(record)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", ['"%s', '["%s", NaN]', '["%s", 1e999]', '{"%s"}', '"%s" "data: forged"\n\n'])
def test_a_payload_that_is_no_json_is_null_whatever_its_size(size: int, text: str) -> None:
    value = text % ("x" * size)
    for record in (entry(value), replace(RUN, result=value)):
        said = json.loads(written_json(record))
        [field] = [each for each in ("value", "result") if each in said]
        assert said[field] is None
        [wrong] = said.pop("unreadable")
        assert wrong["field"] == field
        assert wrong["message"].startswith("invalid JSON")
        whole = written(record)
        assert whole.pop("unreadable")[0]["field"] == field
        assert said == json.loads(to_json(whole))


@pytest.mark.parametrize("size", SIZES)
def test_an_unreadable_question_says_why_whatever_its_size(size: int) -> None:
    asked = question(json.dumps({"text": 1, "metadata": {"x": "x" * size}}), None)
    said = json.loads(written_json(asked))
    assert [each["field"] for each in said["unreadable"]] == ["data"]
    assert said == json.loads(to_json(written(asked)))


def test_a_number_that_json_does_not_have_is_null() -> None:
    records: list[Record] = [replace(RUN, created_at=float("nan")), replace(entry('"x"'), at=float("inf"))]
    records += [replace(entry(json.dumps("x" * 100_000)), at=float("inf"))]
    for record in records:
        assert None in json.loads(written_json(record)).values()


def question(data: str, value: str | None) -> Promise:
    return Promise("r", "r.1", PromiseKind.QUESTION, PromiseState.RESOLVED, 1.5, data=data, value=value)
