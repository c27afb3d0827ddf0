"""The wrong-answer table over HTTP, on both stores: refused, told why in few words, and the question is as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from signoff import Context, Signoff
from tests.postgres.databases import fresh_database
from tests.server.conftest import asked, ended, fields, kind, serving, start
from tests.support import OnThread

OPTIONS = [f"option {n}" for n in range(10_000)]
DEEP = 150


class Line(BaseModel):
    amount: int


class Invoice(BaseModel, extra="forbid"):
    to: str
    lines: list[Line]


def register(app: Signoff) -> None:
    @app.workflow
    async def put(ctx: Context, how: str) -> Any:
        parts: dict[str, dict[str, Any]] = {
            "approval": {},
            "text": {"input_type": "text"},
            "form": {"input_type": "form", "answer_type": Invoice},
            "json": {"input_type": "form", "answer_type": {}},
            "select": {"input_type": "select", "options": OPTIONS},
            "multiselect": {"input_type": "multiselect", "options": OPTIONS},
            "proposal": {"proposal": Invoice(to="bob", lines=[]), "proposal_type": Invoice},
        }
        answer = await ctx.wait_for_user("What?", **parts[how])
        value = answer.value.model_dump() if isinstance(answer.value, BaseModel) else answer.value
        return {"value": value, "note": answer.note, "edits": list(answer.edits)}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def http(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        address = f"sqlite:///{tmp_path_factory.mktemp('wrong') / 'signoff.db'}"
        if request.param == "postgres":
            address = stack.enter_context(fresh_database())
        app = Signoff(address)
        register(app)
        server = stack.enter_context(OnThread(lambda: serving(app)))
        yield stack.enter_context(httpx.Client(base_url=server.url, trust_env=False, timeout=60))


def put(http: httpx.Client, how: str, id: str) -> str:
    """Have a question asked, and return its id."""
    start(http, "put", id, how)
    return asked(http, id)


def say(http: httpx.Client, question: str, body: str | bytes) -> httpx.Response:
    """Send an answer as it is."""
    headers = {"content-type": "application/json"}
    return http.post(f"/v1/questions/{question}/answer", content=body, headers=headers)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


TABLE: list[tuple[str, str, int, str, list[str] | None]] = [
    # what is asked, the body, the status, the problem, the fields
    ("approval", '{"value": "yes"}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": "true"}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": 1}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": null}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": {}}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": {"approved": "\\u202eyes"}}', 422, "WrongAnswer", ["approved"]),
    ("approval", '{"value": {"approved": true, "edited": 1}}', 422, "WrongAnswer", ["edited"]),
    ("approval", "{}", 422, "InvalidValue", ["value"]),
    ("approval", '{"value": true, "approve": true}', 422, "InvalidValue", ["approve"]),
    ("approval", '{"value": false, "value": true}', 422, "InvalidValue", ["body"]),
    ("approval", '{"value": {"approved": false, "approved": true}}', 422, "InvalidValue", ["body"]),
    ("approval", '{"value": true, "note": "a\\u0000b"}', 422, "InvalidValue", ["note"]),
    ("approval", '{"value": true, "user_id": "a\\u0000b"}', 422, "InvalidValue", ["user_id"]),
    ("approval", '{"value": true, "request_id": "a\\u0000b"}', 422, "InvalidValue", ["request_id"]),
    ("approval", '{"value": true, "note": "\\ud800"}', 422, "InvalidValue", ["note"]),
    ("approval", '{"value": true, "digest": "\\u0000"}', 422, "WrongAnswer", ["digest"]),
    ("approval", "true", 422, "InvalidValue", ["body"]),
    ("approval", '{"value": true', 422, "InvalidValue", ["body"]),
    ("text", '{"value": 7}', 422, "WrongAnswer", [""]),
    ("text", '{"value": ""}', 422, "WrongAnswer", [""]),
    ("text", '{"value": "\\ud800"}', 422, "NotSerializable", ["value"]),
    ("form", '{"value": {"to": "bob"}}', 422, "WrongAnswer", ["lines"]),
    (
        "form",
        '{"value": {"to": 1, "lines": [{"amount": "1"}]}}',
        422,
        "WrongAnswer",
        ["lines.0.amount", "to"],
    ),
    ("form", '{"value": {"to": "bob", "lines": [{"amount": 1.5}]}}', 422, "WrongAnswer", ["lines.0.amount"]),
    ("form", '{"value": {"to": "bob", "lines": [{"amount": true}]}}', 422, "WrongAnswer", ["lines.0.amount"]),
    ("form", '{"value": {"to": "bob", "lines": [], "more": 1, "x": 2}}', 422, "WrongAnswer", ["more", "x"]),
    ("form", '{"value": {"to": "bob", "lines": [{"amount": NaN}]}}', 422, "NotSerializable", None),
    ("form", '{"value": {"to": "bob", "lines": [{"amount": Infinity}]}}', 422, "NotSerializable", None),
    ("form", '{"value": {"to": "bob", "lines": [{"amount": 1e999}]}}', 422, "NotSerializable", None),
    (
        "form",
        f'{{"value": {{"to": "bob", "lines": [{{"amount": {"9" * 5000}}}]}}}}',
        400,
        "about:blank",
        None,
    ),
    ("form", '{"value": {"\\ud800": 1}}', 422, "NotSerializable", None),
    ("json", f'{{"value": {nested(DEEP)}}}', 422, "NotSerializable", None),
    ("json", f'{{"value": {nested(100_000)}}}', 400, "about:blank", None),
    ("json", f'{{"value": "{"x" * 1024 * 1024}"}}', 413, "PayloadTooLarge", None),
    ("json", f'{{"value": "{"x" * 10 * 1024 * 1024}"}}', 413, "PayloadTooLarge", None),
    ("select", '{"value": "option 10000"}', 422, "WrongAnswer", [""]),
    ("select", '{"value": ["option 1"]}', 422, "WrongAnswer", [""]),
    ("select", f'{{"value": "{"x" * 1_000_000}"}}', 422, "WrongAnswer", [""]),
    ("multiselect", '{"value": ["option 1", "option 1"]}', 422, "WrongAnswer", [""]),
    ("multiselect", '{"value": ["option 1", "x", 2]}', 422, "WrongAnswer", ["1", "2"]),
    ("multiselect", json.dumps({"value": ["x"] * 100_000}), 422, "WrongAnswer", [""]),
    (
        "proposal",
        '{"value": {"approved": false, "edited": {"to": "b", "lines": []}}}',
        422,
        "WrongAnswer",
        ["edited"],
    ),
    (
        "proposal",
        '{"value": {"approved": true, "edited": {"to": "b"}}}',
        422,
        "WrongAnswer",
        ["edited.lines"],
    ),
    ("proposal", '{"value": {"edited": {"to": "b", "lines": []}}}', 422, "WrongAnswer", ["approved"]),
]


@pytest.mark.parametrize(
    ("how", "body", "status", "problem", "wrong"), TABLE, ids=[f"{row[0]}-{row[1][:60]!a}" for row in TABLE]
)
def test_a_wrong_answer_is_refused_in_few_words_and_changes_nothing(
    http: httpx.Client, name: str, how: str, body: str, status: int, problem: str, wrong: list[str] | None
) -> None:
    id = put(http, how, name)
    before = http.get(f"/v1/questions/{id}").json()
    assert before["state"] == "pending"
    refused = say(http, id, body)
    assert (refused.status_code, kind(refused)) == (status, problem)
    assert len(refused.content) < 64 * 1024
    if wrong is not None:
        assert sorted(fields(refused)) == wrong
        assert all(len(message) <= 300 for message in fields(refused).values())
    assert http.get(f"/v1/questions/{id}").json() == before
    assert "completed" not in {each["kind"] for each in http.get(f"/v1/runs/{name}/journal").json()["items"]}


@pytest.mark.parametrize(
    ("how", "value"),
    [
        ("text", "line\nbreak\ttab\x1b[31m\x07\x7f"),
        ("text", "\u202egnp.exe\u2066\u200b"),
        ("text", "a\0b"),
        ("text", "<script>alert(1)</script>"),
        ("json", {"a\0\u202e": ["\0", 10**400, 1e300, -0.0, 2**63]}),
        ("form", {"to": "\u202ebob", "lines": [{"amount": 10**30}]}),
        ("select", "option 9999"),
        ("multiselect", OPTIONS),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_fits_comes_back_unchanged(http: httpx.Client, name: str, how: str, value: Any) -> None:
    id = put(http, how, name)
    note = "\u202e\x1b[31m\n" + "ü"
    settled = http.post(f"/v1/questions/{id}/answer", json={"value": value, "note": note})
    assert settled.status_code == 200, settled.text
    assert settled.json()["value"] == value
    result = ended(http, name)["result"]
    assert (result["value"], result["note"]) == (value, note)
    assert http.get(f"/v1/questions/{id}").json()["value"] == value


def test_a_number_with_an_exponent_is_the_integer_that_it_is(http: httpx.Client, name: str) -> None:
    id = put(http, "form", name)
    body = '{"value": {"to": "bob", "lines": [{"amount": 1e20}, {"amount": 2.0}]}}'
    assert say(http, id, body).status_code == 200
    assert ended(http, name)["result"]["value"]["lines"] == [{"amount": 10**20}, {"amount": 2}]


def test_the_edits_of_a_proposal_are_shown_with_the_answer(http: httpx.Client, name: str) -> None:
    id = put(http, "proposal", name)
    edited = {"to": "eve", "lines": []}
    settled = http.post(f"/v1/questions/{id}/answer", json={"value": {"approved": True, "edited": edited}})
    edits = [{"op": "replace", "path": "/to", "value": "eve", "old": "bob"}]
    kept = {"approved": True, "proposal": edited, "edits": edits}
    assert settled.json()["value"] == kept
    assert ended(http, name)["result"]["edits"] == edits
    items = http.get(f"/v1/runs/{name}/journal").json()["items"]
    assert [each["value"] for each in items if each["kind"] == "completed"] == [kept]
