"""People behind a proxy that signs them in: trusted headers, and their effects."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.errors import InvalidValue
from signoff.server import Role, Server, TrustedProxy, create_server_app
from signoff.stores.sqlite.store import SqliteStore
from tests.server.conftest import app_in, asked, ended, kind, serving, start
from tests.server.proxied import PROXY, ids, refusals, some, through
from tests.support import OnThread, in_asyncio

USER = "X-Forwarded-User"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server behind a proxy on this machine."""
    app = app_in(tmp_path_factory.mktemp("identity"))
    with OnThread(lambda: serving(app, proxy=PROXY, allowed_hosts=["signoff.example"])) as served:
        yield served


@pytest.fixture
def boss(server: Server) -> Iterator[httpx.Client]:
    """An operator, who starts runs."""
    with through(server, "boss", roles="operator") as http:
        yield http


def ask(boss: httpx.Client, name: str, *assignees: str, **more: Any) -> str:
    """Start a run that asks these to sign, and return its question."""
    start(boss, "sign", name, list(assignees), **more)
    return asked(boss, name)


def sign(http: httpx.Client, question: str, **said: Any) -> httpx.Response:
    return http.post(f"/v1/questions/{question}/answer", json={"value": True, **said})


# Whose word counts


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose proxy is at 127.0.0.2."""
    app = app_in(tmp_path_factory.mktemp("elsewhere"))
    proxy = TrustedProxy(USER, addresses=["127.0.0.2"], default_role=Role.ADMIN)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FORWARDED_ALLOW_IPS", "*")
        with OnThread(lambda: serving(app, proxy=proxy)) as served:
            yield served


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"x-forwarded-for": "127.0.0.2"},
        {"forwarded": "for=127.0.0.2"},
        {"x-real-ip": "127.0.0.2"},
        {"x-forwarded-for": "127.0.0.2:4711, 127.0.0.2"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/questions", "/v1/audit", "/docs", "/openapi.json", "/v1/none"]
)
def test_headers_from_elsewhere_do_not_count(elsewhere: Server, path: str, forged: dict[str, str]) -> None:
    with through(elsewhere, "ana", roles="admin") as http:
        refused = http.get(path, headers=forged)
    assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")
    assert "127.0.0.1 is not the trusted proxy" in refused.json()["detail"]


def test_headers_from_the_proxys_address_count(elsewhere: Server) -> None:
    with through(elsewhere, "ana", transport=httpx.HTTPTransport(local_address="127.0.0.2")) as http:
        assert http.get("/v1/runs").status_code == 200
        assert http.get("/v1/runs", headers={"x-forwarded-for": "203.0.113.9"}).status_code == 200


@pytest.mark.parametrize(
    ("addresses", "peer", "trusted"),
    [
        (["10.0.0.0/8"], "10.1.2.3", True),
        (["10.0.0.0/8"], "11.1.2.3", False),
        (["10.0.0.0/8"], "::ffff:10.1.2.3", True),
        (["10.0.0.7", "fd00::/8"], "fd00::1", True),
        (["10.0.0.7", "fd00::/8"], "10.0.0.8", False),
        (["127.0.0.0/8", "::1"], "::1", True),
        (["::1"], "127.0.0.1", False),
        (["10.0.0.0/8"], "10.1.2.3.evil.example", False),
        (["10.0.0.0/8"], "", False),
    ],
)
def test_an_address_is_trusted_if_it_was_named(addresses: list[str], peer: str, trusted: bool) -> None:
    assert TrustedProxy(USER, addresses=addresses).trusts(peer) is trusted


@pytest.mark.parametrize("client", [("127.0.0.1", 0), ("203.0.113.9", 0), None])
@in_asyncio
async def test_an_asgi_server_without_a_real_peer_address_is_not_trusted(tmp_path: Path, client: Any) -> None:
    api = create_server_app(SqliteStore(tmp_path / "signoff.db"), proxy=PROXY)
    transport = httpx.ASGITransport(api, client=client)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert (await http.get("/docs", headers={USER: "ana"})).status_code == 401
    transport = httpx.ASGITransport(api, client=("127.0.0.1", 4711))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        assert (await http.get("/docs", headers={USER: "ana"})).status_code == 200


def test_without_a_proxy_its_headers_mean_nothing(tmp_path: Path, name: str) -> None:
    with OnThread(lambda: serving(app_in(tmp_path))) as local, through(local, "eve") as http:
        start(http, "sign", name, ["user:ana"])
        question = asked(http, name)
        assert kind(sign(http, question)) == "NotAllowed"
        assert sign(http, question, user_id="ana").status_code == 200
        assert ended(http, name)["result"]["by"] == "ana"


# Headers


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "the header X-Forwarded-User is missing"),
        ([(USER, b"")], "the header X-Forwarded-User is missing"),
        ([(USER, b"ana"), (USER, b"ana")], "2 headers"),
        ([(USER, b"eve"), (USER.lower(), b"ana")], "2 headers"),
        ([(USER, b"eve, ana")], "comma"),
        ([("X_Forwarded_User", b"ana")], "the header X-Forwarded-User is missing"),
        ([("X-Forwarded-Users", b"ana")], "the header X-Forwarded-User is missing"),
        ([("X-Forwarded-Email", b"ana@example.com")], "the header X-Forwarded-User is missing"),
        ([(USER, "é".encode("latin-1"))], "UTF-8"),
        ([(USER, "ana\N{RIGHT-TO-LEFT OVERRIDE}".encode())], "characters"),
        ([(USER, "a\N{ZERO WIDTH SPACE}na".encode())], "characters"),
        ([(USER, "ana\N{NO-BREAK SPACE}".encode())], "characters"),
        ([(USER, "e\N{COMBINING ACUTE ACCENT}va".encode())], "characters"),
        ([(USER, b"signoff:timeout")], "is a reserved name"),
        ([(USER, b"Signoff:timeout")], "is a reserved name"),
        ([(USER, b"user:ana")], "is a reserved name"),
        ([(USER, b"group:finance")], "is a reserved name"),
        ([(USER, b"role:admin")], "is a reserved name"),
        ([(USER, b"a" * 257)], "256 characters"),
        ([(USER, ("\N{GOTHIC LETTER AHSA}" * 199).encode())], "794 bytes"),
        ([(USER, b"ana"), ("X-Forwarded-Groups", ("\N{GOTHIC LETTER AHSA}" * 199).encode())], "794 bytes"),
        ([(USER, b"ana"), ("X-Forwarded-Groups", b"a"), ("X-Forwarded-Groups", b"b")], "2 headers"),
        ([(USER, b"ana"), ("X-Forwarded-Roles", b"viewer"), ("X-Forwarded-Roles", b"admin")], "2 headers"),
        ([(USER, b"ana"), ("X-Forwarded-Groups", b"\xff")], "UTF-8"),
        ([(USER, b"ana"), ("X-Forwarded-Groups", b"a," + b"b" * 257)], "256 characters"),
        ([(USER, b"ana"), ("X-Forwarded-Groups", some(map(str, range(200))).encode())], "more than 200"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_headers_without_a_certain_name_are_refused(
    server: Server, headers: list[tuple[str, bytes]], reason: str
) -> None:
    raw = [(name.encode(), value) for name, value in headers]
    with httpx.Client(base_url=server.url, trust_env=False, verify=False, timeout=60) as http:
        refused = http.get("/v1/questions", headers=raw)
    assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")
    assert reason in refused.json()["detail"]


@pytest.mark.parametrize("value", [b"a\x00na", b"a\x01na", b"ana\x7f", b"ana\x1b[2J", b"a" * 100_000])
def test_control_characters_and_headers_without_end_get_nowhere(server: Server, value: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        request = b"GET /v1/questions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-User: "
        raw.sendall(request + value + b"\r\n\r\n")
        status = raw.makefile("rb").readline().split()[1]
    assert status in (b"400", b"401", b"431")


@pytest.mark.parametrize(
    "user",
    [
        *("ana", "ana@example.com", "Zoë Ångström", "作家", "a" * 256, "UTF-8''ana%20b", "7"),
        "\N{GOTHIC LETTER AHSA}" * 198,
    ],
)
def test_a_name_is_taken_as_it_is(server: Server, boss: httpx.Client, name: str, user: str) -> None:
    question = ask(boss, name, f"user:{user}")
    with through(server, user) as http:
        assert sign(http, question).json()["settled_by"] == user


@pytest.mark.parametrize(
    ("assignee", "groups", "roles", "may"),
    [
        ("group:finance", "finance", "", True),
        ("group:finance", "hr ,, finance ,hr,", "", True),
        ("group:The Board", "The Board,hr", "", True),
        ("group:finance", "", "finance", False),
        ("group:finance", "Finance", "", False),
        ("group:finance", "finance-eu", "", False),
        ("role:approver", "", "viewer,approver", True),
        ("role:approver", "approver", "", False),
        ("user:finance", "finance", "finance", False),
        ("user:ana", "", "", True),
    ],
)
def test_groups_and_roles_are_those_of_the_headers(
    server: Server, boss: httpx.Client, name: str, assignee: str, groups: str, roles: str, may: bool
) -> None:
    question = ask(boss, name, assignee)
    with through(server, "ana", groups=groups, roles=roles) as http:
        answer = sign(http, question)
    assert answer.status_code == (200 if may else 403), answer.text
    if not may:
        assert kind(answer) == "NotAllowed"
        assert boss.get(f"/v1/questions/{question}").json()["state"] == "pending"


# Who acts


CLAIMS = [
    {"user_id": "bob"},
    {"user_id": "user:bob"},
    {"user_id": "Ana"},
    {"groups": ["finance", "board"]},
    {"roles": ["admin"]},
]


@pytest.mark.parametrize("said", CLAIMS, ids=str)
@pytest.mark.parametrize("verb", ["answer", "claim", "release", "delegate"])
def test_a_caller_who_claims_another_name_is_refused_on_record(
    server: Server, boss: httpx.Client, name: str, verb: str, said: dict[str, Any]
) -> None:
    question = ask(boss, name, "user:ana", "user:bob", "group:board", "role:admin")
    before = boss.get(f"/v1/questions/{question}").json()
    what = {"answer": {"value": True}, "delegate": {"to": ["user:eve"]}}.get(verb, {})
    with through(server, "ana", groups="finance") as http:
        refused = http.post(f"/v1/questions/{question}/{verb}", json={**what, **said})
    assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
    assert boss.get(f"/v1/questions/{question}").json() == before
    assert refusals(boss, question) == [("ana", "AccessDenied")]


@pytest.mark.parametrize(
    "said",
    [{}, {"user_id": "ana"}, {"user_id": "user:ana"}, {"groups": ["finance"]}, {"roles": ["responder"]}],
    ids=str,
)
def test_what_a_request_says_truly_is_no_harm(
    server: Server, boss: httpx.Client, name: str, said: dict[str, Any]
) -> None:
    question = ask(boss, name, "user:ana")
    with through(server, "ana", groups="finance, hr") as http:
        assert http.post(f"/v1/questions/{question}/claim", json=said).status_code == 200
        assert http.post(f"/v1/questions/{question}/release", json=said).status_code == 200
        assert sign(http, question, **said).json()["settled_by"] == "ana"
    assert ended(boss, name)["result"] == {"approved": True, "by": "ana"}


BY = [
    ("/v1/runs", {"workflow": "echo"}, "started_by"),
    ("/v1/runs/{run}/cancel", {}, "by"),
    ("/v1/runs/{run}/signals", {"name": "news", "value": 1}, "by"),
    ("/v1/promises/{promise}/resolve", {"value": 1}, "by"),
    ("/v1/promises/{promise}/reject", {"value": 1}, "by"),
    ("/v1/promises/{promise}/cancel", {}, "by"),
]


@pytest.mark.parametrize(("path", "body", "field"), BY)
def test_no_user_acts_in_anothers_name(
    boss: httpx.Client, name: str, path: str, body: dict[str, Any], field: str
) -> None:
    start(boss, "listen", name)
    boss.post("/v1/promises", json={"id": f"p-{name}"})
    path = path.format(run=name, promise=f"p-{name}")
    refused = boss.post(path, json={**body, field: "ana"})
    assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
    assert "boss" in refused.json()["detail"]
    assert boss.get(f"/v1/promises/p-{name}").json()["state"] == "pending"
    assert boss.post(path, json={**body, field: "boss"}).is_success


@pytest.mark.parametrize("body", [{}, None])
def test_what_is_done_is_recorded_as_done_by_the_person(
    boss: httpx.Client, name: str, body: dict[str, Any] | None
) -> None:
    assert start(boss, "listen", name)["started_by"] == "boss"
    boss.post("/v1/promises", json={"id": f"p-{name}"})
    assert boss.post(f"/v1/promises/p-{name}/cancel", json=body).json()["settled_by"] == "boss"
    assert boss.post(f"/v1/runs/{name}/signals", json={"name": "other"}).is_success
    assert boss.post(f"/v1/runs/{name}/cancel", json=body).is_success
    ended(boss, name)
    journal = boss.get(f"/v1/runs/{name}/journal").text
    assert journal.count('"by":"boss"') >= 1, journal


def test_four_eyes_are_two_people_whatever_requests_say(
    server: Server, boss: httpx.Client, name: str
) -> None:
    refused = boss.post(
        "/v1/runs", json={"workflow": "sign", "args": [["user:boss"], True], "started_by": "x"}
    )
    assert kind(refused) == "AccessDenied"
    start(boss, "sign", name, ["user:boss", "user:ana"], True)
    question = asked(boss, name)
    assert kind(sign(boss, question)) == "NotAllowed"
    assert kind(sign(boss, question, user_id="ana")) == "AccessDenied"
    with through(server, "boss") as http:
        assert kind(http.get(f"/v1/questions/{question}")) == "NotAllowed"
        assert question not in ids(http.get("/v1/questions", params={"limit": 1000}))
    with through(server, "ana") as http:
        assert sign(http, question).status_code == 200


# What they see


@pytest.fixture
def asked_of(boss: httpx.Client, name: str) -> dict[str, str]:
    """Questions to some people, each of a run of its own."""
    return {
        assignee: ask(boss, f"{name}-{number}", *([assignee] if assignee else []))
        for number, assignee in enumerate(["user:ana", "group:finance", "user:bob", ""])
    }


def listed(http: httpx.Client, asked_of: dict[str, str], **query: Any) -> set[str]:
    """To whom those questions are that a list has."""
    found = set(ids(http.get("/v1/questions", params={"limit": 1000, **query})))
    return {assignee for assignee, id in asked_of.items() if id in found}


@pytest.mark.parametrize(
    ("user", "groups", "roles", "seen"),
    [
        ("ana", "", "", {"user:ana", ""}),
        ("ana", "finance", "", {"user:ana", "group:finance", ""}),
        ("bob", "finance", "", {"user:bob", "group:finance", ""}),
        ("eve", "ana,bob", "finance", {""}),
        ("eve", "", "viewer", {"user:ana", "group:finance", "user:bob", ""}),
        ("eve", "", "operator", {"user:ana", "group:finance", "user:bob", ""}),
        ("eve", "", "admin", {"user:ana", "group:finance", "user:bob", ""}),
    ],
)
def test_an_inbox_has_what_its_person_may_answer_unless_they_see_all(
    server: Server, asked_of: dict[str, str], user: str, groups: str, roles: str, seen: set[str]
) -> None:
    with through(server, user, groups=groups, roles=roles) as http:
        assert listed(http, asked_of) == seen
        of_each_run = [listed(http, asked_of, run_id=id.partition(".")[0]) for id in asked_of.values()]
        assert set().union(*of_each_run) == seen
        for assignee, question in asked_of.items():
            shown = http.get(f"/v1/questions/{question}")
            history = http.get(f"/v1/questions/{question}/history")
            trail = http.get("/v1/audit", params={"question_id": question})
            expected = 200 if assignee in seen else 403
            assert [shown.status_code, history.status_code, trail.status_code] == [expected] * 3
            if assignee not in seen:
                assert kind(shown) == kind(history) == kind(trail) == "NotAllowed"
                assert "Sign?" not in shown.text + history.text + trail.text


@pytest.mark.parametrize(
    ("assignees", "roles", "seen"),
    [
        (["user:ana"], "", {"user:ana", ""}),
        (["group:finance"], "", {"group:finance", ""}),
        (["role:responder"], "", {""}),
        (["user:bob"], "", None),
        (["user:ana", "user:bob"], "", None),
        (["group:board"], "", None),
        (["role:admin"], "", None),
        (["user:bob"], "operator", {"user:bob", ""}),
        (["user:bob"], "admin", {"user:bob", ""}),
    ],
)
def test_others_inboxes_are_for_those_who_see_all(
    server: Server, asked_of: dict[str, str], assignees: list[str], roles: str, seen: set[str] | None
) -> None:
    with through(server, "ana", groups="finance", roles=roles) as http:
        if seen is not None:
            assert listed(http, asked_of, assignee=assignees) == seen
            return
        refused = http.get("/v1/questions", params={"assignee": assignees})
        assert (refused.status_code, kind(refused)) == (403, "AccessDenied")


def test_a_responder_learns_nothing_of_closed_questions_of_others(
    server: Server, boss: httpx.Client, name: str
) -> None:
    question = ask(boss, name, "user:ana")
    with through(server, "ana") as ana:
        assert sign(ana, question, request_id="r", note="secret").status_code == 200
        assert ana.get(f"/v1/questions/{question}").json()["note"] == "secret"
        assert sign(ana, question, request_id="r", note="secret").status_code == 200
    with through(server, "eve") as eve:
        for refused in (
            eve.get(f"/v1/questions/{question}"),
            eve.get(f"/v1/questions/{question}/history"),
            eve.get("/v1/audit", params={"question_id": question}),
            sign(eve, question),
            sign(eve, question, request_id="r", note="secret"),
            eve.post(f"/v1/questions/{question}/claim", json={}),
        ):
            assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
            assert "ana" not in refused.text
            assert "secret" not in refused.text
    assert refusals(boss, question) == [("eve", "NotAllowed")] * 3


def test_the_history_that_a_responder_sees_is_of_a_question(
    server: Server, boss: httpx.Client, name: str
) -> None:
    question = ask(boss, name, "user:ana")
    with through(server, "ana") as ana:
        assert ids(ana.get("/v1/audit", params={"question_id": question}))
        for query in ({}, {"run_id": name}):
            assert kind(ana.get("/v1/audit", params=query)) == "AccessDenied"
        for path in (f"/v1/runs/{name}", f"/v1/runs/{name}/events", f"/v1/promises/{question}"):
            assert kind(ana.get(path)) == "AccessDenied"


def test_the_history_of_an_earlier_question_of_that_id_is_not_theirs(tmp_path: Path) -> None:
    with (
        OnThread(lambda: serving(app_in(tmp_path), proxy=PROXY)) as server,
        through(server, "boss", roles="operator") as boss,
        through(server, "bob") as bob,
        through(server, "ana") as ana,
    ):
        question = ask(boss, "again", "user:bob")
        assert sign(bob, question, note="secret").status_code == 200
        ended(boss, "again")
        assert boss.post("/v1/prune", json={"older_than_seconds": 0}).json()["deleted"] == 1
        path = f"/v1/questions/{question}/history"
        assert kind(ana.get("/v1/audit", params={"question_id": question})) == "NotFound"
        assert kind(ana.get(path)) == kind(boss.get(path)) == "NotFound"
        assert ask(boss, "again", "user:ana") == question
        everything = boss.get("/v1/audit", params={"question_id": question}).json()["items"]
        theirs = ana.get("/v1/audit", params={"question_id": question}).json()["items"]
        assert len(everything) > len(theirs) > 0
        assert "secret" not in str(theirs)
        assert ana.get(path).json()["items"] == boss.get(path).json()["items"] == theirs


def test_people_see_one_namespace(tmp_path: Path) -> None:
    def of(namespace: str) -> OnThread:
        app = app_in(tmp_path)
        app.store = SqliteStore(tmp_path / "signoff.db", namespace=namespace)
        return OnThread(lambda: serving(app, proxy=PROXY))

    with (
        of("acme") as acme,
        of("other") as other,
        through(acme, "ana", roles="admin") as here,
        through(other, "ana", roles="admin") as there,
    ):
        question = ask(here, "r", "user:ana")
        assert there.get(f"/v1/questions/{question}").status_code == 404
        assert sign(there, question).status_code == 404
        for path in ("/v1/questions", "/v1/runs", "/v1/audit", "/v1/promises", "/v1/groups"):
            assert here.get(path).json()["items"], path
            assert there.get(path).json()["items"] == [], path
        assert {worker["namespace"] for worker in here.get("/v1/workers").json()["items"]} == {"acme"}
        assert {worker["namespace"] for worker in there.get("/v1/workers").json()["items"]} == {"other"}


# Pages of other sites


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"origin": "http://localhost:4180", "host": "localhost:4180"}, True),
        ({"origin": "https://signoff.example", "host": "signoff.example"}, True),
        ({"origin": "https://signoff.example"}, True),
        ({"origin": "https://signoff.example", "sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"origin": "https://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://[::1"}, False),
        ({"origin": "http://localhost:3000", "host": "localhost:4180"}, False),
        ({"origin": "http://localhost:3000", "host": "signoff.example"}, False),
        ({"origin": "http://127.0.0.1:3000"}, False),
        ({"origin": "https://evil.signoff.example", "host": "signoff.example"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "whatever"}, False),
        ({"origin": "https://signoff.example", "sec-fetch-site": "same-site"}, False),
    ],
    ids=str,
)
def test_a_write_from_a_page_of_another_site_is_refused(
    server: Server, boss: httpx.Client, name: str, headers: dict[str, str], passes: bool
) -> None:
    question = ask(boss, name, "user:ana")
    with through(server, "ana") as http:
        answer = http.post(f"/v1/questions/{question}/answer", json={"value": True}, headers=headers)
        read = http.get(f"/v1/questions/{question}", headers=headers)
    assert answer.status_code == (200 if passes else 403), answer.text
    assert read.json()["state"] == ("resolved" if passes else "pending")
    assert "access-control-allow-origin" not in read.headers


def test_two_origins_are_refused_if_one_is_anothers(server: Server) -> None:
    with through(server, "ana", roles="operator") as http:
        own = ("origin", server.url)
        assert http.post("/v1/runs/x/retry", headers=[own]).status_code == 404
        assert (
            http.post("/v1/runs/x/retry", headers=[own, ("origin", "http://evil.example")]).status_code == 403
        )


# Around


def test_the_body_of_an_unauthenticated_request_is_not_read(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
        raw.sendall(
            b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000\r\n\r\n{"
        )
        assert raw.makefile("rb").readline().split()[1] == b"401"


def test_a_proxy_opens_no_store(server: Server) -> None:
    for user in (None, "ana"):
        with through(server, user, roles="admin") as http:
            refused = http.get("/v1/store", params={"namespace": "default"})
            assert (refused.status_code, kind(refused)) == (403, "AccessDenied")
            assert "needs a worker key" in refused.json()["detail"]


@pytest.mark.parametrize(
    "options",
    [
        {"user_header": ""},
        {"user_header": "X_Forwarded_User"},
        {"user_header": "X-User:"},
        {"user_header": "Über"},
        {"user_header": "Authorization"},
        {"user_header": "x-forwarded-for"},
        {"user_header": "Host"},
        {"user_header": USER, "groups_header": USER.lower()},
        {"user_header": USER, "groups_header": "X-G", "roles_header": "X-G"},
        {"user_header": USER, "roles_header": ""},
        {"user_header": USER, "addresses": []},
        {"user_header": USER, "addresses": "10.0.0.0/8"},
        {"user_header": USER, "addresses": ["10.0.0.1/8"]},
        {"user_header": USER, "addresses": ["proxy.internal"]},
        {"user_header": USER, "addresses": [""]},
    ],
    ids=str,
)
def test_a_proxy_that_would_not_be_what_it_seems_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        TrustedProxy(**options)
