"""Answer links: a page without scripts, with which one person answers one question, once."""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from signoff import AsyncClient, Client, Context
from signoff.errors import InvalidValue, NotAllowed, NotFound
from signoff.server import Server, create_server_app
from signoff.testing import VirtualClock
from tests.server.conftest import app_in, asked, ended, kind, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread, in_asyncio, new_app, opens

pytestmark = pytest.mark.usefixtures("open_trail")

PUBLIC = "https://signoff.example"
DAY = 86_400.0


class Place:
    """A server with answer links, and what people do with them."""

    def __init__(self, server: Server, http: httpx.Client, clock: VirtualClock, file: Path) -> None:
        self.server = server
        self.clock = clock
        self.file = file
        self.http = http

    def ask(self, workflow: str = "ask", *args: Any, **kwargs: Any) -> str:
        """Start a run; returns the question that it asks."""
        run = f"run-{uuid.uuid4()}"
        start(self.http, workflow, run, *args, kwargs=kwargs)
        return asked(self.http, run)

    def link(self, question: str, user: str = "ana", **more: Any) -> dict[str, Any]:
        made = self.http.post(f"/v1/questions/{path_of(question)}/links", json={"user_id": user, **more})
        assert made.status_code == 201, made.text
        return made.json()

    def form(self, path: str) -> dict[str, str]:
        """The values that the untouched page sends."""
        page = self.http.get(path)
        assert page.status_code == 200, page.text
        return {"digest": hidden(page.text, "digest")}

    def send(self, path: str, /, **filled: Any) -> httpx.Response:
        return self.http.post(path, data={**self.form(path), **filled})

    def result(self, question: str) -> Any:
        return ended(self.http, question.rpartition(".")[0])["result"]

    def question(self, question: str) -> dict[str, Any]:
        return self.http.get(f"/v1/questions/{path_of(question)}").json()

    def trail(self, question: str) -> list[dict[str, Any]]:
        return self.http.get("/v1/audit", params={"question_id": question}).json()["items"]

    def rows(self) -> dict[str, list[Any]]:
        """Everything in the database, but for what servers and workers say of themselves."""
        with closing(sqlite3.connect(self.file)) as file:
            names = [row[0] for row in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            quiet = {"workers", "workflows", "unsealed", "seals"}
            return {
                name: file.execute(f"SELECT * FROM {name}").fetchall() for name in names if name not in quiet
            }


def hidden(page: str, name: str) -> str:
    found = re.search(rf'<input type="hidden" name="{name}" value="([^"]*)">', page)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("links")
    clock = VirtualClock()
    app = app_in(folder, clock=clock)
    with (
        OnThread(lambda: serving(app, public_url=PUBLIC)) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        yield Place(served, http, clock, folder / "signoff.db")


def test_a_link_answers_its_question_in_the_name_of_its_person(place: Place) -> None:
    question = place.ask(text="Send the mail?")
    link = place.link(question, by="bob")
    assert link["url"] == PUBLIC + link["path"]
    assert len(link["path"].rpartition("_")[2]) >= 40 or len(urlsplit(link["url"]).path) > 45
    page = place.http.get(link["path"])
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Send the mail?" in page.text
    done = place.send(link["path"], decision="0", note="fine")
    assert (done.status_code, "recorded" in done.text) == (200, True)
    assert place.result(question) == {"approved": True, "by": "ana", "note": "fine"}
    kinds = [(event["kind"], event.get("by")) for event in place.trail(question)]
    assert kinds == [("asked", None), ("linked", "bob"), ("resolved", "ana")]


# Looking


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_looking_changes_no_row_whatever_became_of_the_link(place: Place, method: str) -> None:
    paths: list[str] = []
    for end in ("nothing", "used", "revoked", "closed", "delegated"):
        question = place.ask("sign", ["user:ana"])
        link = place.link(question)
        paths.append(link["path"])
        if end == "used":
            assert place.send(link["path"], decision="1").status_code == 200
        elif end == "revoked":
            place.http.post(f"/v1/links/{link['id']}/revoke", json={})
        elif end != "nothing":
            body = {"user_id": "ana", **({"value": True} if end == "closed" else {"to": ["user:bob"]})}
            done = place.http.post(
                f"/v1/questions/{path_of(question)}/{'answer' if end == 'closed' else 'delegate'}", json=body
            )
            assert done.status_code == 200
        if end in ("used", "closed"):
            place.result(question)
    before = place.rows()
    statuses = [place.http.request(method, path).status_code for path in (*paths, f"/l/sgl_{'A' * 43}")]
    assert statuses == [200, 410, 410, 409, 403, 404]
    assert place.rows() == before


def test_the_page_runs_and_fetches_nothing_and_cannot_be_cached_or_framed(place: Place) -> None:
    link = place.link(
        place.ask("put", "Look?", attachments=[{"name": "Plan", "url": "https://x.example/a.pdf"}])
    )
    page = place.http.get(link["path"])
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert policy.endswith("form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in page.headers
    assert not re.search(r"<script|<img|<iframe|<link|@import|url\(|\son\w+=", page.text)
    assert re.findall(r'(?:src|href|action)="([^"]*)"', page.text) == ["https://x.example/a.pdf"]
    assert 'rel="noopener noreferrer"' in page.text
    for part in ('<html lang="en">', 'name="viewport"', "<fieldset", "<legend", '<label for="'):
        assert part in page.text
    assert link["path"] not in page.text, "the form is sent where the page is"
    unknown = place.http.get("/l/unknown")
    assert unknown.headers["content-security-policy"] == policy
    assert unknown.headers["referrer-policy"] == "no-referrer"


def test_the_secret_is_returned_once_and_stored_nowhere(place: Place) -> None:
    question = place.ask()
    link = place.link(question)
    secret = link["path"].rpartition("/")[2]
    place.send(link["path"], decision="0")
    listed = place.http.get(f"/v1/questions/{path_of(question)}/links")
    for shown in (listed.text, json.dumps(place.trail(question)), json.dumps(place.question(question))):
        assert secret not in shown
    [kept] = listed.json()["items"]
    assert kept["id"] == link["id"]
    assert kept.keys() & {"hash", "path", "url", "secret"} == set()
    assert secret not in repr(place.rows())
    for file in place.file.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


EVIL = "\"><script>alert(1)</script><b id='x'>\u202e\u0007\u200b&amp;"


def test_whatever_is_shown_is_escaped_and_seen(place: Place) -> None:
    asked = place.ask(
        "put",
        EVIL,
        input_type="select",
        options=[{"value": EVIL, "label": EVIL, "help": EVIL}, "plain"],
        other=EVIL,
        help=EVIL,
        metadata={EVIL: EVIL, "list": [EVIL]},
        attachments=[{"name": EVIL, "url": "https://x.example/%22%3E"}],
        assignees=["user:ana"],
    )
    page = place.http.get(place.link(asked)["path"]).text
    assert not [letter for letter in ("\u202e", "\u0007", "\u200b", "<script", "<b id") if letter in page]
    assert page.count("&lt;script&gt;") >= 8
    assert page.count("\\u202e") >= 8
    assert "&amp;amp;" in page


def test_a_form_shows_and_takes_back_hostile_names_and_values(place: Place) -> None:
    schema = {
        "type": "object",
        "properties": {EVIL: {"type": "string", "title": EVIL, "description": EVIL, "default": EVIL}},
        "required": [EVIL],
    }
    question = place.ask("put", "Well?", input_type="form", answer_type=schema)
    path = place.link(question)["path"]
    page = place.http.get(path).text
    assert not [letter for letter in ("\u202e", "\u0007", "<script", "<b id") if letter in page]
    assert "invisible characters" in page
    typed = place.send(path, f0='"\\u202eabc"')
    assert typed.status_code == 200
    assert place.result(question)["value"] == {EVIL: "\u202eabc"}


# Links that open nothing


def refused(place: Place, path: str) -> list[tuple[int, str, str | None]]:
    """The replies to a program that looks, and to one that answers."""
    before = place.rows()
    told: list[tuple[int, str, str | None]] = []
    for method in ("GET", "POST"):
        answer = place.http.request(method, path, headers={"accept": "application/problem+json"})
        assert answer.headers["cache-control"] == "no-store"
        told.append((answer.status_code, kind(answer), answer.json().get("reason")))
        page = place.http.request(method, path, headers={"accept": "text/html"})
        assert (page.status_code, page.headers["content-type"]) == (
            answer.status_code,
            "text/html; charset=utf-8",
        )
    after = place.rows()
    new = after["audit"][len(before["audit"]) :]
    assert {**after, "audit": before["audit"]} == before
    # who tries to answer with a link whose question is there is kept, and who only looks is not
    kept = told[1][2] in ("expired", "revoked", "used")
    assert [row[4] for row in new] == (["refused"] * 2 if kept else [])
    return told


@pytest.mark.parametrize(
    "secret",
    [
        "x",
        "sgl_",
        f"sgl_{'A' * 43}",
        f"sgl_{'A' * 44}",
        f"sgw_{'A' * 43}",
        "%00",
        "%FF",
        "..%2Fv1%2Fruns",
        "é" * 9,
    ],
)
def test_a_forged_link_is_not_known_and_nothing_is_said_of_it(place: Place, secret: str) -> None:
    place.clock.advance(60)  # wrong secrets of the tests before are forgotten
    assert refused(place, f"/l/{secret}") == [(404, "UnknownLink", None)] * 2
    told = [
        place.http.get(f"/l/{each}", headers={"accept": "application/problem+json"}).json()
        for each in (secret, "other")
    ]
    assert told[0] == told[1]
    assert told[0].keys() == {"type", "title", "detail", "status"}


def test_a_link_with_one_changed_letter_or_of_another_namespace_is_unknown(place: Place) -> None:
    place.clock.advance(60)
    link = place.link(place.ask())
    path = link["path"]
    changed = path[:-1] + ("A" if path[-1] != "A" else "E")
    assert refused(place, changed) == [(404, "UnknownLink", None)] * 2
    with closing(sqlite3.connect(place.file)) as file:
        file.execute("UPDATE tokens SET namespace = 'acme' WHERE id = ?", (link["id"],))
        file.commit()
    assert refused(place, path) == [(404, "UnknownLink", None)] * 2


def test_a_link_is_good_for_a_week_and_never_after_its_deadline(place: Place) -> None:
    now = place.clock.now()
    question = place.ask("ask", timeout_seconds=30 * DAY)
    link = place.link(question)
    assert link["expires_at"] == now + 7 * DAY
    assert place.link(question, lifetime_seconds=60.0)["expires_at"] == now + 60
    assert place.link(question, lifetime_seconds=90 * DAY)["expires_at"] <= now + 30 * DAY + 1
    place.clock.advance(7 * DAY - 1)
    assert place.http.get(link["path"]).status_code == 200
    place.clock.advance(1)
    assert refused(place, link["path"]) == [(410, "LinkEnded", "expired")] * 2
    assert place.question(question)["state"] == "pending"


def test_a_revoked_link_opens_nothing_and_that_is_recorded(place: Place) -> None:
    question = place.ask()
    link = place.link(question)
    for _ in range(2):
        revoked = place.http.post(f"/v1/links/{link['id']}/revoke", json={"by": "bob"})
        assert revoked.status_code == 200
    assert refused(place, link["path"]) == [(410, "LinkEnded", "revoked")] * 2
    kinds = [(event["kind"], event.get("by")) for event in place.trail(question)]
    assert kinds == [("asked", None), ("linked", None), ("unlinked", "bob"), *[("refused", "ana")] * 2]
    assert kind(place.http.post("/v1/links/unknown/revoke", json={})) == "NotFound"
    assert place.send(place.link(question)["path"], decision="0").status_code == 200


def test_a_link_of_a_question_that_was_deleted_opens_no_other_of_its_id(place: Place) -> None:
    question = place.ask()
    run = question.rpartition(".")[0]
    link, other = place.link(question), place.link(question, "bob")
    assert place.send(link["path"], decision="0").status_code == 200
    place.result(question)
    place.clock.advance(10)
    assert place.http.post("/v1/prune", json={"older_than_seconds": 1}).json()["deleted"] >= 1
    assert refused(place, other["path"]) == [(410, "LinkEnded", "gone")] * 2
    start(place.http, "ask", run, kwargs={"text": "Something else?"})
    assert asked(place.http, run) == question
    assert refused(place, other["path"]) == [(410, "LinkEnded", "gone")] * 2


def test_what_is_not_theirs_any_more_is_neither_shown_nor_answered(place: Place) -> None:
    question = place.ask("sign", ["user:ana"])
    link = place.link(question)
    done = place.http.post(
        f"/v1/questions/{path_of(question)}/delegate", json={"user_id": "ana", "to": ["user:bob"]}
    )
    assert done.status_code == 200
    page = place.http.get(link["path"])
    assert (page.status_code, "Sign?" in page.text) == (403, False)
    sent = place.http.post(link["path"], data={"decision": "0"}, headers={"accept": "application/json"})
    assert (sent.status_code, kind(sent)) == (403, "NotAllowed")
    assert place.question(question)["state"] == "pending"


def test_links_are_made_only_for_who_may_answer_an_open_question(place: Place) -> None:
    question = place.ask("sign", ["group:finance"])
    path = f"/v1/questions/{path_of(question)}/links"
    for body, status, error in (
        ({"user_id": "ana"}, 403, "NotAllowed"),
        ({"user_id": "group:x"}, 422, "InvalidValue"),
        ({"user_id": "ana", "groups": ["finance"], "lifetime_seconds": 0.0}, 422, "InvalidValue"),
        ({"user_id": "ana", "groups": ["finance"], "lifetime_seconds": -1.0}, 422, "InvalidValue"),
        ({"groups": ["finance"]}, 422, "InvalidValue"),
    ):
        answer = place.http.post(path, json=body)
        assert (answer.status_code, kind(answer)) == (status, error)
    assert kind(place.http.post("/v1/questions/none/links", json={"user_id": "ana"})) == "NotFound"
    link = place.link(question, groups=["finance"])
    assert place.send(link["path"], decision="0").status_code == 200
    assert place.result(question) == {"approved": True, "by": "ana"}
    late = place.http.post(path, json={"user_id": "ana", "groups": ["finance"]})
    assert (late.status_code, kind(late)) == (409, "AlreadySettled")


# Once


def test_the_same_answer_again_changes_nothing_and_another_is_refused(place: Place) -> None:
    question = place.ask()
    path = place.link(question)["path"]
    form = {**place.form(path), "decision": "0"}
    assert place.http.post(path, data=form).status_code == 200
    place.result(question)
    before = place.rows()
    assert place.http.post(path, data=form).status_code == 200
    before["tokens"] = place.rows()["tokens"]  # when it was last used
    assert place.rows() == before
    for filled in ({"decision": "1"}, {"decision": ""}, {}):
        answer = place.http.post(
            path, data={"digest": form["digest"], **filled}, headers={"accept": "application/problem+json"}
        )
        assert (answer.status_code, kind(answer), answer.json()["reason"]) == (410, "LinkEnded", "used")
    assert place.question(question)["value"] == {"approved": True}


def test_of_64_who_send_the_form_at_once_one_answer_counts(place: Place) -> None:
    question = place.ask()
    path = place.link(question)["path"]
    digest = place.form(path)["digest"]

    def send(number: int) -> tuple[int, int]:
        answer = place.http.post(path, data={"digest": digest, "decision": str(number % 2)})
        return number % 2, answer.status_code

    with ThreadPoolExecutor(64) as pool:
        told = list(pool.map(send, range(64)))
    accepted = {decision for decision, status in told if status == 200}
    assert len(accepted) == 1
    assert {status for decision, status in told if decision not in accepted} == {410}
    assert {status for decision, status in told if decision in accepted} == {200}
    approved = accepted == {0}
    assert place.result(question)["approved"] is approved
    assert [event["kind"] for event in place.trail(question)].count("resolved") == 1


def test_two_links_of_one_question_give_one_answer(place: Place) -> None:
    question = place.ask()
    ana, bob = place.link(question), place.link(question, "bob")
    form = place.form(bob["path"])
    assert place.send(ana["path"], decision="0").status_code == 200
    late = place.http.post(bob["path"], data={**form, "decision": "0"})
    assert (late.status_code, "ana was first" in late.text) == (409, True)


def test_a_vote_by_a_link_counts_once(place: Place) -> None:
    question = place.ask("approve", quorum=[2, 3])
    ana, bob = place.link(question), place.link(question, "bob")
    page = place.http.get(ana["path"]).text
    assert "2 of 3 people must approve" in page
    form = {**place.form(ana["path"]), "decision": "0"}
    first = place.http.post(ana["path"], data=form)
    assert (first.status_code, "vote is recorded" in first.text) == (200, True)
    assert place.http.post(ana["path"], data=form).status_code == 200
    assert place.http.get(ana["path"]).status_code == 410
    other = place.http.post(ana["path"], data={**form, "decision": "1"})
    assert other.status_code == 410
    again = place.http.post(place.link(question)["path"], data={**form, "decision": "1"})
    assert (again.status_code, "ana" in again.text) == (409, True)
    assert place.question(question)["state"] == "pending"
    assert place.send(bob["path"], decision="0").status_code == 200
    assert place.result(question) == {"approved": True, "by": "bob", "votes": 2}


def test_no_caller_may_state_a_request_id_of_links_or_slack(place: Place) -> None:
    question = place.ask("approve", quorum=[2, 3])
    link = place.link(question)
    path = f"/v1/questions/{path_of(question)}"
    for own in (f"link:{link['id']}", f"LINK:{link['id']}", "slack:T1:U1:1.5", "callback:0"):
        said = {"value": True, "user_id": "bob"}
        one = {"question_id": question, "value": True, "request_id": own}
        refusals = [
            place.http.post(f"{path}/answer", json={**said, "request_id": own}),
            place.http.post(f"{path}/answer", json=said, headers={"idempotency-key": f'"{own}"'}),
            place.http.post(f"{path}/cancel", json={"request_id": own}),
        ]
        assert [(each.status_code, kind(each)) for each in refusals] == [(422, "InvalidValue")] * 3, own
        several = place.http.post("/v1/questions/answers", json={"user_id": "bob", "answers": [one]}).json()
        assert several["items"][0]["problem"]["status"] == 422
    assert place.http.get(link["path"]).status_code == 200
    assert [event["kind"] for event in place.trail(question)] == ["asked", "linked"]


# Wrong answers


def test_a_wrong_answer_names_its_field_keeps_what_was_typed_and_the_link(place: Place) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer", "maximum": 9}, "reason": {"type": "string"}},
        "required": ["amount", "reason"],
    }
    question = place.ask("put", "How much?", input_type="form", answer_type=schema)
    path = place.link(question)["path"]
    for amount, message in (("two", "this is not a whole number"), ("10", "9"), ("", "this is required")):
        page = place.send(path, f0=amount, f1='because of "that" <b>', note="hm")
        assert page.status_code == 422
        assert '<div class="summary" role="alert"' in page.text
        summary = re.search(r'<a href="#in-f0">([^<]*)</a>', page.text)
        assert summary is not None
        assert message in summary[1]
        assert f'value="{amount}"' in page.text
        assert "because of &#34;that&#34; &lt;b&gt;" in page.text
        assert 'aria-invalid="true"' in page.text
        assert 'aria-describedby="f0-hint f0-error-1"' in page.text
        assert "<title>Error: " in page.text
    refused_before = [
        event["details"]["error"] for event in place.trail(question) if event["kind"] == "refused"
    ]
    assert refused_before == ["WrongAnswer"] * 3
    assert place.send(path, f0="9", f1="x", note=" ").status_code == 200
    assert place.result(question) == {
        "value": {"amount": 9, "reason": "x"},
        "proposal": None,
        "edits": [],
        "others": [],
        "skipped": False,
        "user_id": "ana",
        "note": None,
    }


@pytest.mark.parametrize("digest", ["", "0" * 64, None])
def test_an_answer_to_what_was_not_shown_is_refused(place: Place, digest: str | None) -> None:
    question = place.ask()
    path = place.link(question)["path"]
    page = place.http.post(path, data={"decision": "0", **({} if digest is None else {"digest": digest})})
    assert (page.status_code, "look at it again" in page.text) == (422, True)
    assert place.question(question)["state"] == "pending"


def test_nothing_stands_for_a_decision(place: Place) -> None:
    question = place.ask()
    path = place.link(question)["path"]
    assert "checked" not in place.http.get(path).text
    for filled in ({}, {"decision": ""}, {"decision": "2"}, {"decision": "true"}, {"decision": ["0", "1"]}):
        page = place.send(path, **filled)
        assert (page.status_code, 'href="#in-decision"' in page.text) == (422, True)
    assert place.send(path, decision="0", skip="yes").status_code == 422, "it cannot be skipped"
    assert place.question(question)["state"] == "pending"


def test_what_is_wrong_with_a_note_is_not_said_of_a_field_of_that_name(place: Place) -> None:
    schema = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    path = place.link(place.ask("put", "Well?", input_type="form", answer_type=schema))["path"]
    for filled, wrong, right in (
        ({"f0": "x", "note": "x" * 10_001}, "in-note", "in-f0"),
        ({"f0": ""}, "in-f0", "in-note"),
    ):
        page = place.send(path, **filled).text
        assert (f'href="#{wrong}"' in page, f'href="#{right}"' in page) == (True, False)


def test_a_note_that_cannot_be_kept_is_a_wrong_field(place: Place) -> None:
    path = place.link(place.ask())["path"]
    for note in ("x" * 10_001, "a\0b"):
        page = place.send(path, decision="0", note=note)
        assert (page.status_code, 'href="#in-note"' in page.text) == (422, True)
    assert place.send(path, decision="0", note="x" * 10_000).status_code == 200


@pytest.mark.parametrize(
    ("body", "kind_of", "status"),
    [
        (b'{"value": true}', "application/json", 415),
        (b"decision=0", "text/plain", 415),
        (b"decision=%FF", "application/x-www-form-urlencoded", 422),
        (b"decision=\xff", "application/x-www-form-urlencoded", 422),
        (b"&a=1" * 20_001, "application/x-www-form-urlencoded", 422),
        (b"note=" + b"x" * 1_200_000, "application/x-www-form-urlencoded", 413),
    ],
)
def test_what_is_no_form_is_refused(place: Place, body: bytes, kind_of: str, status: int) -> None:
    question = place.ask()
    answer = place.http.post(place.link(question)["path"], content=body, headers={"content-type": kind_of})
    assert answer.status_code == status
    assert place.question(question)["state"] == "pending"


@pytest.mark.parametrize(
    ("path", "content", "kind_of", "status", "title"),
    [
        ("", b"note=" + b"x" * 1_200_000, "application/x-www-form-urlencoded", 413, "This is too long"),
        ("", b"decision=0", "text/plain", 415, "This was refused"),
        ("/", b"decision=0", "application/x-www-form-urlencoded", 404, "This link is not known"),
    ],
)
def test_refusals_are_pages_for_people_and_problem_details_for_programs(
    place: Place, path: str, content: bytes, kind_of: str, status: int, title: str
) -> None:
    at = place.link(place.ask())["path"] + path
    page = place.http.post(at, content=content, headers={"content-type": kind_of, "accept": "text/html"})
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{title}" in page.text or f">{title}<" in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    told = place.http.post(
        at, content=content, headers={"content-type": kind_of, "accept": "application/problem+json"}
    )
    assert (told.status_code, told.json()["status"]) == (status, status)


@pytest.mark.parametrize("behind", [".", ")", ">", ").", "\u201d"])
def test_what_stands_behind_an_address_in_a_sentence_is_no_part_of_it(place: Place, behind: str) -> None:
    question = place.ask()
    path = place.link(question)["path"] + behind
    assert place.send(path, decision="1").status_code == 200
    assert place.question(question)["state"] == "resolved"


def test_a_decision_is_not_a_skip_unless_it_says_so(place: Place) -> None:
    question = place.ask("put", "Well?", skippable=True)
    path = place.link(question)["path"]
    assert place.send(path, decision="1", skip="").status_code == 200
    assert place.question(question)["value"] == {"approved": False}


def test_lines_that_end_as_on_windows_are_lines(place: Place) -> None:
    path = place.link(place.ask("put", "First\r\nsecond", help="a\r\nb"))["path"]
    page = place.http.get(path).text
    assert "\\r" not in page
    assert "First\nsecond" in page


@pytest.mark.parametrize("origin", ["null", "https://mail.example", PUBLIC])
def test_a_form_is_accepted_from_any_origin_since_its_secret_authorizes_it(place: Place, origin: str) -> None:
    path = place.link(place.ask())["path"]
    data = {**place.form(path), "decision": "0"}
    assert place.http.post(path, data=data, headers={"origin": origin}).status_code == 200
    if origin != PUBLIC:
        other = place.http.post("/v1/runs", json={"workflow": "ask"}, headers={"origin": origin})
        assert other.status_code == 403


# Every kind of question


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "count": {"type": "integer"},
        "price": {"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}]},
        "ratio": {"type": "number"},
        "sure": {"type": "boolean"},
        "colour": {"enum": ["red", "blue"]},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"enum": [1, 2, 3]}},
        "more": {"type": "object", "additionalProperties": {"type": "integer"}},
        "remark": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "address": {"$ref": "#/$defs/Address"},
    },
    "required": ["name", "count", "price", "sure", "colour", "day", "tags", "sizes", "address"],
    "$defs": {
        "Address": {
            "type": "object",
            "title": "Where to",
            "properties": {"street": {"type": "string"}, "zip": {"type": "string"}},
            "required": ["street"],
        }
    },
}
FILLED = {
    "f0": "Ana",
    "f1": "3",
    "f2": "12.50",
    "f3": "",
    "f4": "1",
    "f5": "1",
    "f6": "2026-11-30",
    "f7": "one\r\ntwo\r\n",
    "f8": ["0", "2"],
    "f9": '{"a": 1}',
    "f10": "",
    "f11": "Main\r\nStreet",
    "f12": "",
}
GIVEN = {
    "name": "Ana",
    "count": 3,
    "price": "12.50",
    "sure": False,
    "colour": "blue",
    "day": "2026-11-30",
    "tags": ["one", "two"],
    "sizes": [1, 3],
    "more": {"a": 1},
    "remark": None,
    "address": {"street": "Main\nStreet"},
}
COLOURS = ["red", {"value": "blue", "label": "Blue", "help": "like the sky"}]

ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "approve": ({}, {"decision": "0"}, {"value": True}),
    "reject": ({}, {"decision": "1", "note": "no\r\nway"}, {"value": False, "note": "no\nway"}),
    "skip": ({"skippable": True}, {"skip": "yes", "decision": "0"}, {"skipped": True, "value": None}),
    "text": ({"input_type": "text"}, {"f0": "a\r\nb"}, {"value": "a\nb"}),
    "default": (
        {"input_type": "text", "default": "as\nit is"},
        {"f0": "as\r\nit is"},
        {"value": "as\nit is"},
    ),
    "select": ({"input_type": "select", "options": COLOURS}, {"f0": "1"}, {"value": "blue", "others": []}),
    "select other": (
        {"input_type": "select", "options": COLOURS, "other": "Another"},
        {"f0": "other", "f0.other": "green"},
        {"value": "green", "others": ["green"]},
    ),
    "multiselect": (
        {"input_type": "multiselect", "options": COLOURS, "other": "More"},
        {"f0": ["0", "1"], "f0.other": "green\r\npink"},
        {"value": ["red", "blue", "green", "pink"], "others": ["green", "pink"]},
    ),
    "none of many": ({"input_type": "multiselect", "options": COLOURS}, {}, {"value": []}),
    "form": ({"input_type": "form", "answer_type": FORM}, FILLED, {"value": GIVEN}),
    "list": (
        {"input_type": "form", "answer_type": {"type": "array", "items": {"type": "integer"}}},
        {"f0": "1\r\n2\r\n"},
        {"value": [1, 2]},
    ),
    "anything": (
        {"input_type": "form", "answer_type": {}},
        {"f0": '[{"a": null}]'},
        {"value": [{"a": None}]},
    ),
    "as proposed": (
        {"proposal": {"to": "ana", "size": 1.50, "tags": ["a"], "text": "a\r\nb"}},
        {"decision": "0", "f0": "ana", "f1": "1.5", "f2": '[\r\n  "a"\r\n]', "f3": "a\r\nb"},
        {"value": True, "edits": [], "proposal": {"to": "ana", "size": 1.5, "tags": ["a"], "text": "a\r\nb"}},
    ),
    "with changes": (
        {"proposal": {"to": "ana", "size": 1, "ok": True, "tags": ["a"]}},
        {"decision": "1", "f0": "bob", "f1": "2", "f2": "1", "f3": '["b"]'},
        {"value": True, "proposal": {"to": "bob", "size": 2, "ok": False, "tags": ["b"]}},
    ),
    "rejected": (
        {"proposal": {"to": "ana"}},
        {"decision": "2", "f0": "bob"},
        {"value": False, "proposal": None},
    ),
    "a text is proposed": (
        {"proposal": "Hello"},
        {"decision": "1", "f0": "Hello!"},
        {"value": True, "proposal": "Hello!"},
    ),
    "a typed proposal": (
        {
            "proposal": {"n": 1, "m": None},
            "proposal_type": {
                "type": "object",
                "properties": {
                    "n": {"type": "integer", "title": "Number"},
                    "m": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
            },
        },
        {"decision": "1", "f0": "2", "f1": ""},
        {"value": True, "proposal": {"n": 2, "m": None}},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_every_kind_of_question_is_answered_by_its_form(place: Place, name: str) -> None:
    asked_for, filled, expected = ANSWERS[name]
    question = place.ask("put", "Well?", **asked_for)
    done = place.send(place.link(question)["path"], **filled)
    assert done.status_code == 200, done.text
    result = place.result(question)
    assert {key: result[key] for key in expected} == expected


def test_to_send_nothing_is_not_to_skip(place: Place) -> None:
    for asked_for in ({"input_type": "text"}, {"input_type": "select", "options": COLOURS}, {}):
        question = place.ask("put", "Or not?", skippable=True, **asked_for)
        path = place.link(question)["path"]
        page = place.send(path)
        assert (page.status_code, "this is required" in page.text) == (422, True)
        assert place.send(path, skip="yes").status_code == 200
        assert place.result(question)["skipped"] is True


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "empty text": ({"input_type": "text"}, {"f0": ""}, "f0"),
    "no option": ({"input_type": "select", "options": COLOURS}, {}, "f0"),
    "unknown option": ({"input_type": "select", "options": COLOURS}, {"f0": "7"}, "f0"),
    "other is not asked for": ({"input_type": "select", "options": COLOURS}, {"f0": "other"}, "f0"),
    "other is empty": (
        {"input_type": "select", "options": COLOURS, "other": "Another"},
        {"f0": "other", "f0.other": " "},
        "f0",
    ),
    "both": (
        {"input_type": "select", "options": COLOURS, "other": "Another"},
        {"f0": "0", "f0.other": "green"},
        "f0",
    ),
    "too few": ({"input_type": "multiselect", "options": COLOURS, "min_choices": 1}, {}, "f0"),
    "no JSON": ({"input_type": "form", "answer_type": {}}, {"f0": "{"}, "f0"),
    "twice in JSON": ({"input_type": "form", "answer_type": {}}, {"f0": '{"a": 1, "a": 2}'}, "f0"),
    "infinity": ({"input_type": "form", "answer_type": {}}, {"f0": "Infinity"}, "f0"),
    "deep": ({"input_type": "form", "answer_type": {}}, {"f0": "[" * 9999}, "f0"),
    "a nested field": ({"input_type": "form", "answer_type": FORM}, {**FILLED, "f11": ""}, "f11"),
    "a line of a list": ({"input_type": "form", "answer_type": FORM}, {**FILLED, "f1": "x"}, "f1"),
    "a number": ({"input_type": "form", "answer_type": FORM}, {**FILLED, "f3": "1e999"}, "f3"),
    "changed, and approved as it was": (
        {"proposal": {"to": "ana"}},
        {"decision": "0", "f0": "bob"},
        "decision",
    ),
    "an edit that does not fit": (
        {"proposal": {"n": 1}, "proposal_type": {"type": "object", "properties": {"n": {"maximum": 5}}}},
        {"decision": "1", "f0": "9"},
        "f0",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_field_is_named_and_the_question_stays_open(place: Place, name: str) -> None:
    asked_for, filled, control = WRONG[name]
    question = place.ask("put", "Well?", **asked_for)
    path = place.link(question)["path"]
    page = place.send(path, **filled)
    assert page.status_code == 422
    assert f'<a href="#in-{control}">' in page.text
    assert f'id="in-{control}"' in page.text
    assert place.question(question)["state"] == "pending"


def test_10000_options_are_shown_and_chosen(place: Place) -> None:
    options = [f"option {number}" for number in range(10_000)]
    question = place.ask("put", "Which?", input_type="select", options=options)
    path = place.link(question)["path"]
    assert place.http.get(path).text.count("<option ") == 10_001
    assert place.send(path, f0="9999").status_code == 200
    assert place.result(question)["value"] == "option 9999"


def test_the_page_shows_the_approved_action_with_its_exact_arguments(place: Place) -> None:
    question = place.ask("mail", "<b>bob</b>", "Hello\u202e")
    page = place.http.get(place.link(question)["path"]).text
    assert "send_mail" in page
    assert "&#34;to&#34;: &#34;&lt;b&gt;bob&lt;/b&gt;&#34;" in page
    assert "&#34;text&#34;: &#34;Hello\\u202e&#34;" in page


def test_an_action_whose_arguments_are_proposed_shows_them_once(place: Place) -> None:
    question = place.ask("put", "Pay?", proposal={"cents": 70_707}, action=["pay", {"cents": 70_707}])
    page = place.http.get(place.link(question)["path"]).text
    assert '<dd class="code text" dir="auto">pay</dd>' in page
    assert page.count("70707") == 1


def test_several_who_decide_on_a_proposal_see_it_and_cannot_edit_it(place: Place) -> None:
    question = place.ask("approve", proposal={"to": "ana"}, quorum=[2, 2])
    path = place.link(question)["path"]
    page = place.http.get(path).text
    assert "&#34;to&#34;: &#34;ana&#34;" in page
    assert "with my changes" not in page
    assert place.send(path, decision="0", f0="bob").status_code == 200


# Making them


@pytest.mark.parametrize("is_remote", [False, True])
@in_asyncio
async def test_clients_make_list_and_revoke_links_from_here_and_from_afar(
    tmp_path: Path, is_remote: bool
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def ask(ctx: Context) -> Any:
        return (await ctx.wait_for_user("Go on?", assignees=["group:finance"])).user_id

    async with (
        AsyncClient(app) as near,
        Server(app, port=0, public_url=PUBLIC + "/signoff/") as server,
        app.worker(),
        AsyncClient(server.url) as far,
    ):
        client = far if is_remote else near
        run = await near.start(ask, id="r")
        await opens(app, "r.1")
        with pytest.raises(NotAllowed):
            await client.links.create("r.1", user_id="ana")
        made = await client.links.create("r.1", user_id="ana", groups=["finance"], by="bob")
        secret = made.path.rpartition("/")[2]
        assert made.url == (f"{PUBLIC}/signoff{made.path}" if is_remote else None)
        assert made.at("https://x.example/") == f"https://x.example{made.path}"
        assert secret not in repr(made)
        other = await client.links.create("r.1", user_id="ben", roles=["x"], groups=["finance"])
        page = await client.links.list("r.1", limit=1)
        assert ([token.id for token in page.items], page.next is None) == ([made.token.id], False)
        assert json.loads(page.items[0].data or "") == {"groups": ["finance"], "roles": []}
        revoked = await client.links.revoke(other.token.id, by="bob")
        assert revoked.revoked_at is not None
        with pytest.raises(NotFound, match="link 'none'"):
            await client.links.revoke("none")
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            page = await http.get(made.path)
            form = {"digest": hidden(page.text, "digest"), "decision": "0"}
            assert (await http.post(made.path, data=form)).status_code == 200
            assert (await http.get(other.path)).status_code == 410
        assert await run.result() == "ana"
        listed = (await client.links.list("r.1")).items
        assert [token.used_at is not None for token in listed] == [True, False]
    await app.store.close()


def test_a_blocking_client_makes_lists_and_revokes_links(place: Place) -> None:
    question = place.ask()
    with Client(place.server.url) as client:
        made = client.links.create(question, user_id="ana", lifetime_seconds=60.0)
        assert client.links.list(question).items == (made.token,)
        assert client.links.revoke(made.token.id).revoked_at is not None


@pytest.mark.parametrize(
    "url", ["signoff.example", "ftp://x.example", "https://", "https://x.example/?a=1", "https://a b"]
)
def test_a_public_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidValue, match="public_url"):
        create_server_app(new_app(tmp_path), public_url=url)


def test_links_use_the_public_url_or_else_the_requests_host(
    tmp_path: Path,
) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app)) as served,
        httpx.Client(base_url=served.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        here = Place(served, http, VirtualClock(), tmp_path / "signoff.db")
        link = here.link(here.ask())
        assert link["url"] == served.url + link["path"]


def test_a_page_is_reached_by_the_servers_public_name(place: Place) -> None:
    link = place.link(place.ask())
    for host, status in (("signoff.example", 200), ("signoff.example:443", 200), ("other.example", 421)):
        assert place.http.get(link["path"], headers={"host": host}).status_code == status


def test_a_link_behind_a_proxy_needs_no_sign_in_and_names_its_maker(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app, proxy=PROXY)) as served,
        through(served, "olga", roles="operator") as olga,
        through(served, "rita", roles="responder") as rita,
    ):
        start(olga, "sign", "r", ["user:ana"])
        question = asked(olga, "r")
        path = f"/v1/questions/{path_of(question)}/links"
        assert kind(rita.post(path, json={"user_id": "ana"})) == "AccessDenied"
        assert kind(rita.get(path)) == "AccessDenied"
        assert kind(olga.post(path, json={"user_id": "ana", "by": "eve"})) == "AccessDenied"
        link = olga.post(path, json={"user_id": "ana"}).json()
        assert link["created_by"] == "olga"
        with through(served) as nobody:
            page = nobody.get(link["path"])
            assert page.status_code == 200
            form = {"digest": hidden(page.text, "digest"), "decision": "0"}
            forged = {"X-Forwarded-User": "eve", "sec-fetch-site": "cross-site", "origin": "null"}
            assert nobody.post(link["path"], data=form, headers=forged).status_code == 200
        assert ended(olga, "r")["result"] == {"approved": True, "by": "ana"}
