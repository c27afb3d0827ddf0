"""The table of wrong answers over HTTP, on both stores: refused with a short reason, and the question is unchanged."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from signoff import Context, Signoff
from signoff.errors import SignalTimeout
from signoff.people.links.answer_links import create_link
from signoff.people.questions.question import Question
from signoff.records import NewPromise, PromiseKind
from tests.postgres.databases import migrated_database
from tests.server.conftest import asked, ended, fields, kind, serving, start
from tests.support import OnThread

pytestmark = pytest.mark.usefixtures("open_trail")

OPTIONS = [f"option {n}" for n in range(10_000)]
DEEP = 150


class Line(BaseModel):
    amount: int


class Invoice(BaseModel, extra="forbid"):
    to: str
    lines: list[Line]


def register(app: Signoff) -> None:
    @app.workflow
    async def put(ctx: Context, how: str, **more: Any) -> Any:
        parts: dict[str, dict[str, Any]] = {
            "approval": {},
            "text": {"input_type": "text"},
            "form": {"input_type": "form", "answer_type": Invoice},
            "json": {"input_type": "form", "answer_type": {}},
            "select": {"input_type": "select", "options": OPTIONS},
            "multiselect": {"input_type": "multiselect", "options": OPTIONS},
            "proposal": {"proposal": Invoice(to="bob", lines=[]), "proposal_type": Invoice},
        }
        more = {"question": "What?", **parts[how], **more}
        try:
            answer = await ctx.wait_for_user(more.pop("question"), **more)
        except SignalTimeout:
            return None
        value = answer.value.model_dump() if isinstance(answer.value, BaseModel) else answer.value
        return {"value": value, "note": answer.note, "edits": list(answer.edits)}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "postgres":
            yield stack.enter_context(migrated_database())
        else:
            yield f"sqlite:///{tmp_path_factory.mktemp('wrong') / 'signoff.db'}"


@pytest.fixture(scope="module")
def http(address: str) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        app = Signoff(address)
        register(app)
        server = stack.enter_context(OnThread(lambda: serving(app)))
        yield stack.enter_context(
            httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60)
        )


def put(http: httpx.Client, how: str, id: str, *, by: str | None = None, **more: Any) -> str:
    """Have a question asked, and return its id."""
    start(http, "put", id, how, kwargs=more, **({} if by is None else {"started_by": by}))
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
    ("json", f'{{"value": {nested(50_000)}}}', 400, "about:blank", None),
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


# Who answers, when, and what they saw


def answered(http: httpx.Client, id: str, value: Any, **more: Any) -> httpx.Response:
    return http.post(f"/v1/questions/{id}/answer", json={"value": value, **more})


def question(http: httpx.Client, id: str) -> dict[str, Any]:
    return http.get(f"/v1/questions/{id}").json()


def refused(http: httpx.Client, id: str) -> list[dict[str, Any]]:
    """What the trail says of refused answers."""
    events = http.get("/v1/audit", params={"question_id": id}).json()["items"]
    return [event["details"] for event in events if event["kind"] == "refused"]


WHO: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "not assigned": ({"assignees": ["user:ana"]}, {"user_id": "bob"}, "NotAllowed"),
    "nobody's": ({"assignees": ["user:ana"]}, {}, "NotAllowed"),
    "of another group": ({"assignees": ["group:a"]}, {"user_id": "bob", "groups": ["b"]}, "NotAllowed"),
    "the requester, under four eyes": ({"exclude_requester": True}, {"user_id": "req"}, "NotAllowed"),
    "the requester, who is asked too": (
        {"exclude_requester": True, "assignees": ["user:req", "user:ana"]},
        {"user_id": "user:req"},
        "NotAllowed",
    ),
    "another digest": ({}, {"user_id": "ana", "digest": "0" * 64}, "WrongAnswer"),
}


@pytest.mark.parametrize("case", WHO)
def test_who_may_not_answer_or_saw_something_else_is_refused(
    http: httpx.Client, name: str, case: str
) -> None:
    more, said, problem = WHO[case]
    id = put(http, "approval", name, by="req", **more)
    before = question(http, id)
    told = answered(http, id, True, **said)
    assert (told.status_code, kind(told)) == (422 if problem == "WrongAnswer" else 403, problem)
    assert question(http, id) == before
    assert before["state"] == "pending"
    assert [event["error"] for event in refused(http, id)] == [problem]


def test_an_answer_that_comes_too_late_is_refused(http: httpx.Client, name: str) -> None:
    id = put(http, "approval", name, timeout_seconds=0.2)
    assert ended(http, name)["result"] is None
    before = question(http, id)
    told = answered(http, id, True, user_id="ana")
    assert (told.status_code, kind(told), told.json()["state"]) == (409, "AlreadySettled", "timed_out")
    assert question(http, id) == before


def test_a_repeated_answer_changes_nothing_and_a_different_one_is_refused(
    http: httpx.Client, name: str
) -> None:
    id = put(http, "approval", name)
    first = answered(http, id, True, user_id="ana", request_id="a")
    assert first.status_code == 200
    ended(http, name)
    before = question(http, id)
    again = answered(http, id, True, user_id="ana", request_id="a")
    assert (again.status_code, again.json()) == (200, before)
    for said, problem in (
        ({"value": False, "request_id": "a"}, "RequestConflict"),
        ({"value": False}, "AlreadySettled"),
        ({"value": True}, "AlreadySettled"),
        ({"value": False, "request_id": "b"}, "AlreadySettled"),
    ):
        told = answered(http, id, **said, user_id="ana")
        assert (told.status_code, kind(told)) == (409, problem)
    assert question(http, id) == before


# Tokens of answer links


def link(http: httpx.Client, id: str, **more: Any) -> dict[str, Any]:
    made = http.post(f"/v1/questions/{id}/links", json={"user_id": "ana", **more})
    assert made.status_code == 201, made.text
    return made.json()


def send(http: httpx.Client, path: str, **filled: Any) -> httpx.Response:
    """Send a page's form as a program that accepts problem details."""
    return http.post(path, data=filled, headers={"accept": "application/problem+json"})


def forged(http: httpx.Client, id: str, address: str) -> str:
    path = link(http, id)["path"]
    return path[:-1] + ("A" if path[-1] != "A" else "E")


def used(http: httpx.Client, id: str, address: str) -> str:
    path = link(http, id)["path"]
    assert send(http, path, decision="0", digest=question(http, id)["data"]["digest"]).status_code == 200
    ended(http, id.rpartition(".")[0])
    return path


def expired(http: httpx.Client, id: str, address: str) -> str:
    path = link(http, id, lifetime_seconds=0.05)["path"]
    time.sleep(0.2)
    return path


def revoked(http: httpx.Client, id: str, address: str) -> str:
    made = link(http, id)
    assert http.post(f"/v1/links/{made['id']}/revoke", json={}).status_code == 200
    return made["path"]


def of_another_namespace(http: httpx.Client, id: str, address: str) -> str:
    """A good link to a question with the very same id, elsewhere."""

    async def made() -> str:
        store = Signoff(address, namespace="acme").store
        await store.open()
        try:
            data = Question.make("What?").to_json()
            await store.create_promise(NewPromise(id, PromiseKind.QUESTION, data=data))
            return (await create_link(store, id, user_id="ana")).path
        finally:
            await store.close()

    return asyncio.run(made())


def of_another_question(http: httpx.Client, id: str, address: str) -> str:
    """A good link, whose page was shown for another question than the one that it is sent for."""
    return link(http, put(http, "text", f"{id}-other"))["path"]


def of_who_has_delegated(http: httpx.Client, id: str, address: str) -> str:
    path = link(http, id)["path"]
    told = http.post(f"/v1/questions/{id}/delegate", json={"user_id": "ana", "to": ["user:bob"]})
    assert told.status_code == 200
    return path


def of_a_question_that_is_closed(http: httpx.Client, id: str, address: str) -> str:
    path = link(http, id)["path"]
    assert answered(http, id, False, user_id="bob").status_code == 200
    ended(http, id.rpartition(".")[0])
    return path


TOKENS: list[tuple[Callable[[httpx.Client, str, str], str], int, str, str | None]] = [
    # how it comes about, the status, the problem, the reason
    (forged, 404, "UnknownLink", None),
    (used, 410, "LinkEnded", "used"),
    (expired, 410, "LinkEnded", "expired"),
    (revoked, 410, "LinkEnded", "revoked"),
    (of_another_namespace, 404, "UnknownLink", None),
    (of_another_question, 422, "WrongAnswer", None),
    (of_who_has_delegated, 403, "NotAllowed", "it is assigned to others"),
    (of_a_question_that_is_closed, 409, "AlreadySettled", None),
]


@pytest.mark.parametrize("row", TOKENS, ids=[row[0].__name__ for row in TOKENS])
def test_a_token_that_is_none_any_more_answers_nothing(
    http: httpx.Client, name: str, address: str, row: tuple[Any, int, str, str | None]
) -> None:
    spoiled, status, problem, reason = row
    id = put(http, "approval", name)
    path = spoiled(http, id, address)
    before = question(http, id)
    told = send(http, path, decision="1", digest=before["data"]["digest"], f0="text")
    assert (told.status_code, kind(told), told.json().get("reason")) == (status, problem, reason)
    assert len(told.content) < 64 * 1024
    assert path.rpartition("/")[2] not in told.text
    assert question(http, id) == before


# What is shown


EVIL = "<script>alert(1)</script>\"'><b id=x>\u202egnp\u2066\u200b\x07&lt;"
NAME = "<b id=x>'\"&"  # names have no invisible characters

SHOWN: dict[str, dict[str, Any]] = {
    "text": {"question": EVIL, "input_type": "text", "help": EVIL, "default": EVIL},
    "metadata": {"metadata": {EVIL: EVIL, "more": {EVIL: [EVIL]}}},
    "options": {
        "input_type": "select",
        "options": [{"value": EVIL, "label": EVIL, "help": EVIL}, "plain"],
        "other": EVIL,
    },
    "many options": {"input_type": "select", "options": [f"{EVIL} {n}" for n in range(20)]},
    "choices": {"input_type": "multiselect", "options": [EVIL, "plain"], "other": EVIL},
    "attachments": {"attachments": [{"name": EVIL, "url": "https://x.example/%22%3E%3Cb%20id=x%3E"}]},
    "a proposal": {"proposal": {EVIL: EVIL, "lines": [{EVIL: EVIL}]}},
    "a proposed text": {"proposal": EVIL},
    "a proposal that several decide on": {"proposal": {EVIL: EVIL}, "quorum": 2},
    "a form": {
        "input_type": "form",
        "answer_type": {
            "title": EVIL,
            "type": "object",
            "properties": {
                EVIL: {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL},
                "one": {"enum": [EVIL, "plain"]},
                "deep": {"type": "object", "title": EVIL, "properties": {EVIL: {"type": "string"}}},
                "json": {"type": "object", "title": EVIL, "default": {EVIL: EVIL}},
            },
        },
    },
}


TYPED = re.compile(r"<textarea[^>]*>.*?</textarea>|value=\"[^\"]*\"", re.DOTALL)


def is_harmless(page: str) -> bool:
    """Whether nothing of what was put in is markup, or unseen where it was not typed."""
    shown = TYPED.sub("", page)
    unseen = [letter for letter in ("\u202e", "\u2066", "\u200b", "\x07") if letter in shown]
    return not unseen and re.search("<script|<b ", page) is None


@pytest.mark.parametrize("case", SHOWN)
def test_whatever_is_asked_is_shown_as_text(http: httpx.Client, name: str, case: str) -> None:
    id = put(http, "approval", name, **{"input_type": "approval", **SHOWN[case]})
    before = question(http, id)
    path = link(http, id, user_id=NAME)["path"]
    page = http.get(path)
    assert page.status_code == 200
    assert is_harmless(page.text)
    assert not [letter for letter in ("\u202e", "\u2066", "\u200b", "\x07") if letter in page.text]
    assert "script&gt;" in page.text
    wrong = http.post(path, data={"note": EVIL, "f0": EVIL, "decision": "7", "digest": EVIL})
    assert wrong.status_code == 422
    assert is_harmless(wrong.text)
    assert "script&gt;" in wrong.text
    assert question(http, id) == before


def test_the_winners_name_is_returned_as_text(http: httpx.Client, name: str) -> None:
    id = put(http, "approval", name)
    path = link(http, id)["path"]
    assert answered(http, id, True, user_id=NAME).status_code == 200
    page = http.get(path)
    assert (page.status_code, is_harmless(page.text)) == (409, True)
    assert "&lt;b id=x&gt;" in page.text
