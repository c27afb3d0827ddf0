"""Callbacks over HTTP: addresses that accept requests from any origin and in any form."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import BaseModel

from signoff import Client, Context, SignalTimeout, Signoff
from signoff.server import Server
from signoff.testing import VirtualClock
from tests.server.conftest import asked, ended, events, fields, kind, path_of, serving, start
from tests.server.proxied import PROXY, through
from tests.support import OnThread, new_app

pytestmark = pytest.mark.usefixtures("open_trail")

PUBLIC = "https://signoff.example"
SHOP = "https://shop.example/thanks?order=1"
ELSEWHERE = {"origin": "https://pay.example", "sec-fetch-site": "cross-site"}
BROWSER = {"accept": "text/html", "sec-fetch-site": "cross-site"}


class Paid(BaseModel):
    """What a provider says."""

    amount: int
    reference: str = ""


class Granted(BaseModel):
    """What an OAuth server sends a browser back with."""

    code: str


def register(app: Signoff, told: dict[str, Any]) -> None:
    """Register workflows that note where they are called back."""

    async def finish(ctx: Context, opening: Any) -> Any:
        opened = await opening
        await ctx.step("tell", lambda: told.update({ctx.run_id: opened}))
        try:
            answer = await opened
        except SignalTimeout:
            return "timed out"
        return {"value": answer.value, "by": answer.user_id}

    @app.workflow
    async def pay(ctx: Context, timeout_seconds: float | None = None) -> Any:
        return await finish(
            ctx, ctx.callback("Payment", answer_type=Paid, timeout_seconds=timeout_seconds, help="of o-1")
        )

    @app.workflow
    async def anything(ctx: Context) -> Any:
        return await finish(ctx, ctx.callback("Event", headers=("X-Signature",), methods=("GET", "POST")))

    @app.workflow
    async def grant(ctx: Context) -> Any:
        return await finish(
            ctx, ctx.callback("OAuth", answer_type=Granted, methods=["GET", "POST"], then=SHOP)
        )


class Place:
    """A server that is called back."""

    def __init__(self, http: httpx.Client, clock: VirtualClock, told: dict[str, Any], file: Path) -> None:
        self.http = http
        self.clock = clock
        self.told = told
        self.file = file

    def open(self, workflow: str = "pay", *args: Any) -> tuple[str, str]:
        """Start a run that waits for a callback. Returns its question, and the path of its address."""
        run = f"run-{uuid.uuid4()}"
        start(self.http, workflow, run, *args)
        question = asked(self.http, run)
        for _, entry in events(self.http, run):
            if entry.get("call") == "step":
                break
        url = self.told[run].url
        assert url.startswith(f"{PUBLIC}/c/")
        return question, urlsplit(url).path

    def result(self, question: str) -> Any:
        return ended(self.http, question.rpartition(".")[0])["result"]

    def question(self, question: str) -> dict[str, Any]:
        return self.http.get(f"/v1/questions/{path_of(question)}").json()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, clock, told = tmp_path_factory.mktemp("callbacks"), VirtualClock(), dict[str, Any]()
    app = new_app(folder, clock=clock, public_url=PUBLIC)
    register(app, told)
    with (
        OnThread(lambda: serving(app)) as served,
        httpx.Client(base_url=cast("Server", served).url, trust_env=False, verify=False, timeout=60) as http,
    ):
        yield Place(http, clock, told, folder / "signoff.db")


def test_a_provider_of_any_origin_calls_back_and_its_retry_is_a_success(place: Place) -> None:
    question, path = place.open()
    wrong = place.http.post(path, json={"amount": "a lot"}, headers=ELSEWHERE)
    assert (wrong.status_code, kind(wrong)) == (422, "WrongAnswer")
    assert list(fields(wrong)) == ["amount"]
    assert place.question(question)["state"] == "pending"
    for _ in range(2):
        answer = place.http.post(path, json={"amount": 7, "reference": "é"}, headers=ELSEWHERE)
        assert (answer.status_code, answer.json()) == (200, {"received": True})
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    other = place.http.post(path, json={"amount": 8})
    assert (other.status_code, kind(other)) == (409, "AlreadySettled")
    assert place.result(question) == {"value": {"amount": 7, "reference": "é"}, "by": None}
    trail = place.http.get("/v1/audit", params={"question_id": question}).json()["items"]
    assert [event["kind"] for event in trail] == ["asked", "refused", "resolved", "refused"]
    assert {event.get("by") for event in trail[1:]} == {"signoff:callback"}


def test_forms_are_taken_of_browsers_that_get_a_page_without_scripts(place: Place) -> None:
    question, path = place.open()
    page = place.http.post(path, data={"amount": "7"}, headers={**BROWSER, "origin": "null"})
    assert page.status_code == 200
    assert "This was received" in page.text
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert place.result(question)["value"]["amount"] == 7


def test_get_answers_only_if_declared_and_head_and_options_never(place: Place) -> None:
    question, path = place.open()
    refused = place.http.get(path, params={"amount": 7})
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    granted, other = place.open("grant")
    for url in (path, other):
        assert place.http.head(url, params={"code": "x"}).status_code == 200
        assert place.http.options(url).status_code == 405
        assert place.http.put(url, json={"code": "x"}).status_code == 405
    for each in (question, granted):
        assert place.question(each)["state"] == "pending"


def test_a_browser_back_from_oauth_is_redirected_to_the_workflows_page(place: Place) -> None:
    question, path = place.open("grant")
    refused = place.http.get(path, params={"error": "<b>denied"}, headers=BROWSER)
    assert refused.status_code == 422
    assert "<b>" not in refused.text
    assert place.question(question)["state"] == "pending"
    sent = place.http.get(path, params={"code": "abc"}, headers=BROWSER)
    assert (sent.status_code, sent.headers["location"]) == (303, SHOP)
    assert sent.headers["referrer-policy"] == "no-referrer"
    assert place.result(question)["value"] == {"code": "abc"}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_one_registered_address_serves_all_by_a_state_that_is_not_kept(place: Place, method: str) -> None:
    question, path = place.open("anything")
    opened = place.told[question.rpartition(".")[0]]
    assert opened.redirect_uri == f"{PUBLIC}/c/return"
    said = {"code": "a b", "state": opened.state}
    sent = {"params": said} if method == "GET" else {"data": said}
    for wrong in ({}, {"state": "x"}, {"state": [opened.state, opened.state]}):
        missed = place.http.get("/c/return", params=wrong)
        assert (missed.status_code, kind(missed)) == (404, "UnknownLink")
    for _ in range(2):
        assert (
            place.http.request(method, "/c/return", headers=BROWSER, **cast("Any", sent)).status_code == 200
        )
    value = place.result(question)["value"]
    assert (value["query"] or value["body"]) == "code=a+b"
    assert opened.state == path.rpartition("/")[2]
    shown = [
        place.http.get(f"/v1/runs/{path_of(question.rpartition('.')[0])}/journal").text,
        place.http.get(f"/v1/questions/{path_of(question)}").text,
        place.http.get("/v1/audit", params={"question_id": question}).text,
        place.http.get("/v1/runs", params={"limit": 1000}).text,
        place.http.get("/metrics").text,
    ]
    assert opened.state not in "".join(shown)
    with closing(sqlite3.connect(place.file)) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        holders = [
            name for name in tables if opened.state in str(file.execute(f"SELECT * FROM {name}").fetchall())
        ]
    assert holders == ["journal"]


def test_all_that_came_is_kept_where_no_type_was_given(place: Place) -> None:
    question, path = place.open("anything")
    sent = {"content-type": "text/xml", "X-Signature": "s", "cookie": "login=1", "authorization": "Bearer x"}
    body = "<a>\u202e\0</a>"
    assert place.http.post(f"{path}?a=%20", content=body.encode(), headers=sent).status_code == 200
    assert place.result(question)["value"] == {
        "method": "POST",
        "query": "a=%20",
        "headers": {"X-Signature": "s"},
        "content_type": "text/xml",
        "body": body,
        "encoding": "utf-8",
    }


def test_what_is_too_large_is_refused_and_the_question_stays_open(place: Place) -> None:
    question, path = place.open("anything")
    for size in (1_048_576, 10_000_000):
        refused = place.http.post(path, content=b"a" * size)
        assert (refused.status_code, kind(refused)) == (413, "PayloadTooLarge")
    assert place.question(question)["state"] == "pending"


def test_after_the_deadline_and_of_what_is_unknown_there_is_nothing(place: Place) -> None:
    question, path = place.open("pay", 60)
    place.clock.advance(61)
    late = place.http.post(path, json={"amount": 7})
    assert (late.status_code, kind(late), late.json()["reason"]) == (410, "LinkEnded", "expired")
    assert place.http.head(path).status_code == 410
    assert place.result(question) == "timed out"
    for unknown in (path[:-1], path + "x", "/c/x", "/c/sgc_" + "A" * 43, path.replace("sgc_", "sgl_")):
        answer = place.http.post(unknown, json={"amount": 7})
        assert (answer.status_code, kind(answer)) == (404, "UnknownLink")
        assert answer.headers["cache-control"] == "no-store"
    page = place.http.get("/c/x", headers=BROWSER)
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")


def test_of_64_that_call_back_at_once_one_is_taken(place: Place) -> None:
    question, path = place.open()
    with ThreadPoolExecutor(16) as pool:
        said = pool.map(lambda n: place.http.post(path, json={"amount": n % 32}).status_code, range(64))
    assert sorted(said) == [200, 200, *[409] * 62]
    assert place.result(question)["value"]["amount"] in range(32)


def test_no_other_route_accepts_foreign_requests(place: Place) -> None:
    question, _ = place.open()
    paths = [f"/v1/questions/{path_of(question)}/answer", "/c", "/cx", "/v1/runs", "/l/x"]
    for path in paths:
        answer = place.http.post(path, content=b"{}", headers={**ELSEWHERE, "content-type": "text/plain"})
        assert answer.status_code in (403, 415), path
    wrong_host = place.http.post("/c/x", headers={"host": "evil.example"})
    assert wrong_host.status_code == 421


def test_an_operator_may_answer_a_callback_and_others_do_not_see_it(tmp_path: Path) -> None:
    told: dict[str, Any] = {}
    app = new_app(tmp_path, public_url=PUBLIC)
    register(app, told)
    with OnThread(lambda: serving(app, proxy=PROXY)) as server:
        with through(server, "op", roles="operator") as http:
            start(http, "pay", "r")
            question = asked(http, "r")
            path = f"/v1/questions/{path_of(question)}/answer"
            assert [each["id"] for each in http.get("/v1/questions").json()["items"]] == [question]
        with through(server, "ana", roles="responder") as http:
            assert http.get("/v1/questions").json()["items"] == []
            refused = http.post(path, json={"value": {"amount": 7}})
            assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
        with through(server, "op", roles="operator") as http:
            assert http.post(path, json={"value": {"amount": 7}}).status_code == 200
            assert ended(http, "r")["result"]["by"] == "op"


def test_a_link_is_made_for_who_may_answer_by_hand_alone(place: Place) -> None:
    question, _ = place.open()
    links = f"/v1/questions/{path_of(question)}/links"
    refused = place.http.post(links, json={"user_id": "ana"})
    assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
    path = place.http.post(links, json={"user_id": "op", "roles": ["operator"]}).json()["path"]
    page = place.http.get(path)
    assert (page.status_code, "Amount" in page.text) == (200, True)
    [digest] = re.findall('name="digest" value="([^"]*)"', page.text)
    amount, reference = re.findall(r'name="(f\d+)"', page.text)
    filled = {"digest": digest, amount: "7", reference: "by bank"}
    assert place.http.post(path, data=filled).status_code == 200
    assert place.result(question) == {"value": {"amount": 7, "reference": "by bank"}, "by": "op"}


def test_the_token_says_which_namespace_it_is_of(tmp_path: Path) -> None:
    app = new_app(tmp_path, public_url=PUBLIC)
    acme = Signoff(app.store.within("acme"), public_url=PUBLIC)
    urls: SimpleQueue[str] = SimpleQueue()

    @acme.workflow
    async def pay(ctx: Context) -> Any:
        paid = await ctx.callback("Payment")
        await ctx.step("tell", lambda: urls.put(paid.url))
        return (await paid).value.json()

    with OnThread(lambda: serving(app)) as server, OnThread(acme.worker), Client(acme) as client:
        run = client.start(pay, id="r")
        path = urlsplit(urls.get(timeout=60)).path
        with httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            assert http.get("/v1/questions").json()["items"] == []
            assert http.post(path, json={"amount": 7}).status_code == 200
        assert run.result(60) == {"amount": 7}
