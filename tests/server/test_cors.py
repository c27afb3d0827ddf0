"""The audit trail has the origin of each action as the server saw it, on every route, whatever the caller states."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Scope

from signoff import AsyncClient, Client, Signoff
from signoff.errors import InvalidValue
from signoff.people.audit.hash_chain import verify
from signoff.people.questions.question import Question
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewPromise,
    Origin,
    OriginWay,
    PromiseKind,
    PromiseState,
    Settlement,
)
from signoff.records.paging import AuditFilter
from signoff.server import Forwarding, OpenIdConnect, Role, Server
from signoff.server.auth.client_address import address_of
from signoff.server.auth.key_file import WorkerKeys, new_worker_key
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import app_in, asked, ended, kind, path_of, serving, start
from tests.server.keyed import Keyed, client_of, keyed
from tests.server.provider import CLIENT, PUBLIC, SECRET, Browser, LocalProvider
from tests.server.proxied import PROXY, through
from tests.support import OnThread, in_asyncio, new_app, until

pytestmark = pytest.mark.usefixtures("open_trail")

HERE = "127.0.0.1"
OPEN = {"way": "open", "address": HERE}
PAY = Question.make("Pay?").to_json()
FORGED = Origin(OriginWay.LOGIN, "l1", "service:boss", "10.0.0.1")


def history(http: httpx.Client, question: str) -> list[dict[str, Any]]:
    listed = http.get("/v1/audit", params={"question_id": question, "limit": 1000})
    assert listed.status_code == 200, listed.text
    return listed.json()["items"]


def origins(http: httpx.Client, question: str) -> dict[str, Any]:
    """From where each kind of thing came that happened to a question; nothing for what came from nowhere."""
    return {event["kind"]: event.get("origin") for event in history(http, question)}


def act(http: httpx.Client, question: str, what: str, status: int = 200, **body: Any) -> dict[str, Any]:
    done = http.post(f"/v1/questions/{path_of(question)}/{what}", json=body)
    assert done.status_code == status, done.text
    return done.json()


# On a laptop


def test_all_that_people_do_on_a_laptop_is_kept_with_the_address(http: httpx.Client, name: str) -> None:
    start(http, "sign", name, ["user:ana"])
    question = asked(http, name)
    act(http, question, "view", user_id="ana")
    act(http, question, "claim", user_id="ana")
    act(http, question, "release", user_id="ana")
    act(http, question, "delegate", user_id="ana", to=["user:bob"])
    act(http, question, "reassign", by="olga", to=["user:cy"])
    act(http, question, "comments", user_id="cy", text="why?")
    act(http, question, "answer", 403, user_id="eve", value=True)
    link = act(http, question, "links", 201, user_id="cy")
    assert http.post(f"/v1/links/{link['id']}/revoke", json={"by": "olga"}).status_code == 200
    act(http, question, "answer", user_id="cy", value=True)
    assert ended(http, name)["result"]["by"] == "cy"
    found = origins(http, question)
    assert found.pop("asked") is None
    kinds = ("viewed", "claimed", "released", "delegated", "reassigned", "commented", "refused")
    assert found == dict.fromkeys((*kinds, "linked", "unlinked", "resolved"), OPEN)
    assert http.get(f"/v1/questions/{path_of(question)}").json()["origin"] == OPEN


def test_votes_deadlines_and_what_is_withdrawn_are_kept_with_the_address(
    http: httpx.Client, name: str
) -> None:
    start(http, "approve", name, kwargs={"quorum": [2, 3], "assignees": ["group:x"], "timeout_seconds": 600})
    question = asked(http, name)
    act(http, question, "answer", user_id="ana", groups=["x"], value=True)
    act(http, question, "deadline", by="olga", timeout_seconds=900)
    act(http, question, "cancel", by="olga")
    found = origins(http, question)
    assert found == {"asked": None, **dict.fromkeys(("voted", "deadline_moved", "cancelled"), OPEN)}


def test_a_promise_is_settled_with_the_address(http: httpx.Client, name: str) -> None:
    assert http.post("/v1/promises", json={"id": name}).json().get("origin") is None
    settled = http.post(f"/v1/promises/{name}/resolve", json={"value": 1})
    assert settled.json()["origin"] == http.get(f"/v1/promises/{name}").json()["origin"] == OPEN


def test_a_rules_answer_has_the_rule_as_its_origin_not_the_asker(http: httpx.Client, name: str) -> None:
    start(http, "mail", name, name, kwargs={"assignees": ["user:ana"]})
    question = asked(http, name)
    alike = {"seconds": 3600, "same": ["/to"], "everywhere": True}
    act(http, question, "answer", user_id="ana", value=True, alike=alike)
    assert origins(http, question)["rule_made"] == OPEN
    start(http, "mail", f"{name}-2", name, kwargs={"assignees": ["user:ana"]})
    rule = ended(http, f"{name}-2")["result"]["rule"]
    by_rule = {"way": "rule", "credential": rule}
    found = origins(http, asked(http, f"{name}-2"))
    assert (found["rule_used"], found["resolved"]) == (by_rule, by_rule)
    assert http.post(f"/v1/rules/{rule}/revoke", json={"by": "ana"}).status_code == 200
    assert origins(http, question)["rule_revoked"] == OPEN


def test_timed_events_have_the_timer_as_origin_even_during_a_request(http: httpx.Client, name: str) -> None:
    start(http, "approve", name, kwargs={"assignees": ["user:ana"], "escalate_to": ["user:bob"]})
    question = asked(http, name)
    act(http, question, "answer", 403, user_id="eve", value=True)
    give_up_at = time.monotonic() + 60
    while "escalated" not in origins(http, question):
        assert time.monotonic() < give_up_at
        act(http, question, "answer", 403, user_id="eve", value=True)
    found = origins(http, question)
    assert (found["escalated"], found["refused"]) == ({"way": "timer"}, OPEN)


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("answer", {"value": True}),
        ("view", {}),
        ("claim", {}),
        ("delegate", {"to": ["user:bob"]}),
        ("comments", {"text": "why?"}),
    ],
)
def test_no_request_says_from_where_it_comes(
    http: httpx.Client, name: str, what: str, body: dict[str, Any]
) -> None:
    start(http, "ask", name)
    question = asked(http, name)
    forged = {"way": "login", "credential": "l1", "address": "10.0.0.1"}
    said = {**body, "user_id": "ana", "origin": forged}
    headers = {"x-forwarded-for": "10.0.0.1", "forwarded": "for=10.0.0.1", "x-real-ip": "10.0.0.1"}
    refused = http.post(f"/v1/questions/{path_of(question)}/{what}", json=said, headers=headers)
    assert (refused.status_code, kind(refused)) == (422, "InvalidValue")
    said.pop("origin")
    done = http.post(f"/v1/questions/{path_of(question)}/{what}", json=said, headers=headers)
    assert done.status_code == 200, done.text
    assert {event["kind"]: event.get("origin") for event in history(http, question)[1:]} == {
        history(http, question)[-1]["kind"]: OPEN
    }


def test_the_trail_chain_and_export_show_origins_as_part_of_the_hash(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    with (
        OnThread(lambda: serving(app)) as server,
        httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        start(http, "ask", "r")
        question = asked(http, "r")
        act(http, question, "answer", user_id="ana", value=True)
        give_up_at = time.monotonic() + 60
        while http.get("/v1/audit/chain").json()["end"] < 1:
            assert time.monotonic() < give_up_at
        links = http.get("/v1/audit/chain").json()["items"]
        lines = [json.loads(line) for line in http.get("/v1/audit/export").text.splitlines()]
        assert links == lines
        assert [link["event"].get("origin") for link in links] == [None, OPEN]
        shown = client_chain(server)
        assert (shown.events, shown.problems, shown.unchecked) == (2, (), 0)


def client_chain(server: Server) -> Any:
    async def play() -> Any:
        async with AsyncClient(server.url) as client:
            return await verify(client.backend)

    return asyncio.run(play())


# With keys, signed in, through a proxy


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("origins"), proxy=PROXY)) as made:
        yield made


def test_a_key_is_named_by_its_id_also_where_it_acts_for_a_person(here: Keyed, name: str) -> None:
    secret, token = here.key("portal", Role.OPERATOR, act_as=True)
    with here.http(secret) as http:
        start(http, "sign", name, ["user:ana", "user:service:portal"], started_by="ana")
        question = asked(http, name)
        act(http, question, "view")
        act(http, question, "answer", 403, user_id="eve", value=True)
        act(http, question, "answer", user_id="ana", value=True)
        by_key = {"way": "key", "credential": token.id, "service": "service:portal", "address": HERE}
        events = history(http, question)[1:]
        assert [(event["kind"], event["by"], event["origin"]) for event in events] == [
            ("viewed", "service:portal", by_key),
            ("refused", "eve", by_key),
            ("resolved", "ana", by_key),
        ]
        assert secret not in json.dumps(events)


def test_what_a_key_may_not_say_is_refused_and_kept_with_the_key(here: Keyed, name: str) -> None:
    secret, token = here.key("shop", Role.OPERATOR)
    with here.http(secret) as http:
        start(http, "ask", name)
        question = asked(http, name)
        act(http, question, "answer", 403, user_id="ana", value=True)
        [refused] = history(http, question)[1:]
        assert (refused["by"], refused["origin"]["credential"]) == ("service:shop", token.id)


@pytest.mark.parametrize(
    ("what", "attempt", "body"),
    [
        ("cancel", "cancel", {}),
        ("reassign", "reassign", {"to": ["user:cy"]}),
        ("deadline", "move_deadline", {"timeout_seconds": 60}),
    ],
)
def test_who_does_something_in_anothers_name_is_refused_and_that_is_kept(
    here: Keyed, name: str, what: str, attempt: str, body: dict[str, Any]
) -> None:
    with through(here.server, "boss", roles="operator") as boss:
        start(boss, "sign", name, ["user:ana"])
        question = asked(boss, name)
        act(boss, question, what, 403, by="olga", **body)
        [refused] = history(boss, question)[1:]
        assert (refused["by"], refused["origin"]) == ("boss", {"way": "proxy", "address": HERE})
        assert (refused["details"]["attempt"], refused["details"]["error"]) == (attempt, "AccessDenied")


def test_whom_a_proxy_names_came_through_the_proxy(here: Keyed, name: str) -> None:
    with through(here.server, "boss", roles="operator") as boss, through(here.server, "ana") as ana:
        start(boss, "sign", name, ["user:ana"])
        question = asked(boss, name)
        act(ana, question, "answer", value=True)
        assert origins(ana, question)["resolved"] == {"way": "proxy", "address": HERE}


@in_asyncio
async def test_who_is_signed_in_is_kept_with_their_login_and_not_with_its_secret(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(LocalProvider(app.store.clock).serving())
        openid = OpenIdConnect(provider.url, CLIENT, PUBLIC, SECRET)
        server = await stack.enter_async_context(serving(app, openid=openid))
        run = await stack.enter_async_context(AsyncClient(app))
        await run.start("ask", id="r")

        async def is_asked() -> bool:
            return bool((await run.questions()).items)

        await until(app, is_asked)

        def answer() -> None:
            with Browser(server) as browser:
                browser.sign_in("/login")
                said = browser.send("POST", "/v1/questions/r.1/answer", json={"value": True}, accept="*/*")
                assert said.status_code == 200, said.text

        await asyncio.to_thread(answer)
        settled = await app.store.get_promise("r.1")
        assert settled.origin is not None
        assert (settled.origin.way, settled.origin.address) == (OriginWay.LOGIN, HERE)
        login = await app.store.get_token(settled.origin.credential or "")
        assert (login.kind, login.subject) == ("login", "user:ana@example.com")


# With links and callbacks (Slack's buttons: notifications/test_slack_answers.py)


def test_answers_and_refusals_by_link_are_recorded_with_the_link(http: httpx.Client, name: str) -> None:
    start(http, "sign", name, ["user:ana"])
    question = asked(http, name)
    link = act(http, question, "links", 201, user_id="ana")
    page = http.get(link["path"])
    assert page.status_code == 200
    assert "viewed" not in origins(http, question)
    digest = page.text.partition('name="digest" value="')[2].partition('"')[0]
    assert http.post(link["path"], data={"digest": digest}).status_code == 422
    assert http.post(link["path"], data={"digest": digest, "decision": "0"}).status_code == 200
    by_link = {"way": "link", "credential": link["id"], "address": HERE}
    found = origins(http, question)
    assert (found["refused"], found["resolved"], found["linked"]) == (by_link, by_link, OPEN)


@in_asyncio
async def test_what_calls_back_is_kept_with_the_callback_and_its_address(tmp_path: Path) -> None:
    app = new_app(tmp_path, public_url=PUBLIC)
    told: list[str] = []

    @app.workflow
    async def pay(ctx: Any) -> Any:
        opened = await ctx.callback("Payment", answer_type={"type": "integer"})
        await ctx.step("tell", lambda: told.append(opened.url))
        return (await opened).value

    async with serving(app) as server, AsyncClient(app) as client:
        run = await client.start("pay", id="r")

        async def is_told() -> bool:
            return bool(told)

        await until(app, is_told)
        path = told[0].removeprefix(PUBLIC)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
            assert (await http.post(path, json="no")).status_code == 422
            assert (await http.post(path, json=7)).status_code == 200
        assert await run.result() == 7
        events = (await app.store.list_audit(AuditFilter("r.1"))).items
        [token] = [event.origin.credential for event in events if event.kind == "resolved" and event.origin]
        assert token is not None
        assert (await app.store.get_token(token)).kind == "callback"
        assert [event.origin for event in events][1:] == [Origin(OriginWay.CALLBACK, token, address=HERE)] * 2
        assert all(path.rpartition("/")[2] not in str(event) for event in events)


# From workers and programs with the database


@pytest.mark.parametrize("of_file", [True, False], ids=["key of a file", "key of the store"])
@in_asyncio
async def test_a_worker_comes_from_nowhere_but_where_it_is(tmp_path: Path, of_file: bool) -> None:
    served = SqliteStore(tmp_path / "signoff.db")
    secret, filed = new_worker_key("default")
    options: dict[str, Any] = {"worker_keys": WorkerKeys([filed])} if of_file else {"require_auth": True}
    async with Server(served, port=0, **options) as server:
        at = Origin(OriginWay.WORKER, filed.hash[:16], address=HERE)
        if not of_file:
            from signoff.server.auth.stored_keys import StoredKeys

            secret, token = await StoredKeys(served).create_for_worker("gpu")
            at = Origin(OriginWay.WORKER, token.id, "gpu", HERE)
        remote = RemoteStore(server.url, key=secret)
        await remote.open()
        for id in ("q", "amended"):
            await remote.create_promise(NewPromise(id, PromiseKind.QUESTION, data=PAY))
        said = Settlement(PromiseState.RESOLVED, '{"approved":true}', "ana", origin=FORGED)
        event = NewAuditEvent("e1", AuditKind.VIEWED, "q", origin=FORGED)
        assert (await remote.settle("q", PromiseKind.QUESTION, said))[0].origin == at
        await remote.record([event])
        amended = Amendment(0, None, (), None, said, (replace(event, id="e2", question_id="amended"),))
        assert (await remote.amend("amended", amended))[0].origin == at
        events = (await served.list_audit(AuditFilter())).items
        assert [each.origin for each in events if each.kind != "asked"] == [at] * 4
        await remote.close()
    await served.close()


@in_asyncio
async def test_a_program_with_the_database_says_its_host_or_what_it_knows(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    of_user = Origin(OriginWay.APP, "crm", address="10.0.0.9")
    async with AsyncClient(app) as client, AsyncClient(app, origin=of_user) as crm, app.worker():
        for each, id in ((client, "r"), (crm, "s")):
            run = await each.start("ask", id=id)

            async def is_asked(id: str = id) -> bool:
                return bool((await client.questions(run_id=id)).items)

            await until(app, is_asked)
            await each.answer(f"{id}.1", True, user_id="ana")
            await run.result()
        settled = [(await app.store.get_promise(f"{id}.1")).origin for id in ("r", "s")]
        assert settled == [Origin(OriginWay.APP, address=socket.gethostname()), of_user]
    await app.store.close()


def test_the_blocking_client_says_the_same(tmp_path: Path) -> None:
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))
    with Client(app, origin=FORGED) as client:
        client.promises.create("p")
        assert client.promises.resolve("p").origin == FORGED
    app.close()


# Addresses


def scope_of(peer: str, *said: str, port: int = 1234) -> Scope:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in said]
    return {"type": "http", "client": (peer, port), "headers": headers}


PROXIES = Forwarding("X-Forwarded-For", ["10.0.0.0/8", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "said", "address"),
    [
        ("10.0.0.7", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.7", ["198.51.100.1, 203.0.113.7"], "203.0.113.7"),  # the first anybody can have written
        ("10.0.0.7", ["198.51.100.1", "203.0.113.7 , 10.0.0.8"], "203.0.113.7"),
        ("10.0.0.7", ["203.0.113.7:4711"], "203.0.113.7"),
        ("10.0.0.7", ["[2001:db8::7]:4711"], "2001:db8::7"),
        ("10.0.0.7", ["2001:DB8:0::7"], "2001:db8::7"),
        ("10.0.0.7", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("::ffff:10.0.0.7", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.7", ["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
        ("10.0.0.7", [], "10.0.0.7"),
        ("10.0.0.7", [""], "10.0.0.7"),
        ("10.0.0.7", ["unknown"], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.7, <script>"], "10.0.0.7"),
        ("10.0.0.7", ["203.0.113.7, é, 10.0.0.8"], "10.0.0.8"),
        ("203.0.113.9", ["203.0.113.7"], "203.0.113.9"),  # who is no proxy says nothing
        ("testclient", ["203.0.113.7"], None),
        ("", ["203.0.113.7"], None),
    ],
)
def test_of_the_addresses_in_the_header_the_last_counts_that_is_no_proxys(
    peer: str, said: list[str], address: str | None
) -> None:
    assert address_of(scope_of(peer, *said), PROXIES) == address


def test_without_a_proxy_that_is_believed_the_address_is_the_connections() -> None:
    assert address_of(scope_of("10.0.0.7", "203.0.113.7"), None) == "10.0.0.7"
    assert (
        address_of(scope_of("203.0.113.7", port=0), None) is None
    )  # another ASGI server has believed a header
    assert address_of({"type": "http", "client": None, "headers": []}, PROXIES) is None


@pytest.mark.parametrize(
    ("header", "addresses"),
    [("X Forwarded", ["10.0.0.7"]), ("", ["10.0.0.7"]), ("X-Real-IP", []), ("X-Real-IP", ["10.0.0.300"])],
)
def test_a_header_or_an_address_that_is_none_is_refused(header: str, addresses: list[str]) -> None:
    with pytest.raises(InvalidValue):
        Forwarding(header, addresses)


def test_behind_a_proxy_that_states_it_the_trail_has_the_persons_address(tmp_path: Path) -> None:
    app, forwarding = app_in(tmp_path), Forwarding("X-Forwarded-For")
    with OnThread(lambda: serving(app, forwarding=forwarding)) as server, client_of(server, None) as http:
        http.headers["x-forwarded-for"] = "198.51.100.1, 203.0.113.7"
        start(http, "ask", "r")
        question = asked(http, "r")
        act(http, question, "answer", user_id="ana", value=True)
        assert origins(http, question)["resolved"] == {"way": "open", "address": "203.0.113.7"}


# What is hidden


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("$.origin.address", {"way": "open", "address": "[redacted]"}),
        ("origin.address", {"way": "open", "address": "[redacted]"}),
        ("$.origin", {"way": "[redacted]"}),
        ("$.origin.way", {"way": "[redacted]", "address": HERE}),
        ("$.address", OPEN),
    ],
)
def test_addresses_are_hidden_where_that_is_said(tmp_path: Path, path: str, shown: dict[str, str]) -> None:
    app = app_in(tmp_path)
    with OnThread(lambda: serving(app, redact=[path])) as server, client_of(server, None) as http:
        start(http, "ask", "r")
        question = asked(http, "r")
        answered = act(http, question, "answer", user_id="ana", value=True)
        assert answered["origin"] == origins(http, question)["resolved"] == shown
        [event] = [each for each in history(http, question) if each["kind"] == "resolved"]
        assert event.get("redacted") is (None if shown == OPEN else True)


@in_asyncio
async def test_requests_that_wait_share_one_listener_wherever_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, listeners = app_in(tmp_path), list[Any]()
    listen = app.store.listen

    def counted(callback: Any) -> Any:
        listeners.append(callback)
        return listen(callback)

    async with (
        serving(app) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        monkeypatch.setattr(app.store, "listen", counted)
        assert (await http.post("/v1/runs", json={"workflow": "listen", "id": "r"})).status_code == 201
        found: list[int] = []
        for _ in range(3):
            waited = await http.get("/v1/runs/r/result", params={"wait": 0.1})
            assert waited.json()["state"] in ("ready", "running", "paused")
            found.append(len(listeners))
        assert found[0] > 0
        assert found == [found[0]] * 3
