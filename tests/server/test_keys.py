"""API keys of services: their rights, their ends, and the people they may act for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff.errors import InvalidState, InvalidValue, NotFound
from signoff.records import TokenKind
from signoff.server import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.tokens import new_token
from tests.server.conftest import asked, ended, kind, start
from tests.server.keyed import Keyed, keyed
from tests.server.proxied import PROXY, refusals, through
from tests.support import OnThread


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("keys"))) as made:
        yield made


@pytest.fixture
def here(shared: Keyed) -> Keyed:
    """A server at which no address is held up."""
    shared.clock.advance(600)
    return shared


@pytest.fixture
def operator(here: Keyed) -> Iterator[httpx.Client]:
    with here.service("deploy", [Role.OPERATOR]) as http:
        yield http


# Whose request it is


def test_a_key_says_which_service_it_is_and_what_that_may_do(here: Keyed) -> None:
    with here.service("billing", [Role.OPERATOR, Role.VIEWER]) as http:
        assert http.get("/v1/me").json() == {
            "user_id": "service:billing",
            "groups": [],
            "roles": ["operator", "viewer"],
            "way": "key",
            "namespace": "default",
        }
    with here.service("reader", [Role.VIEWER]) as http:
        assert http.get("/v1/runs").status_code == 200
        assert kind(http.post("/v1/runs", json={"workflow": "echo"})) == "AccessDenied"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer sgk_",
        f"Bearer sgk_{'A' * 43}",
        f"Bearer sgk_{'A' * 44}",
        f"Basic sgk_{'A' * 43}",
        f"sgk_{'A' * 43}",
        f"Bearer sgw_{'A' * 43}",
        f"Bearer sgl_{'A' * 43}",
        "Bearer eyJhbGciOiJub25lIn0.e30.",
        "Bearer " + "x" * 5000,
    ],
)
def test_without_a_key_that_the_server_knows_nothing_opens(here: Keyed, header: str) -> None:
    with here.http() as http:
        refused = http.get("/v1/runs", headers={"authorization": header} if header else {})
    assert (refused.status_code, kind(refused)) == (401, "NotAuthenticated")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "sgk_AAAA" not in refused.text


def test_a_key_of_another_kind_opens_no_route_of_people(here: Keyed) -> None:
    secret, _ = here.worker_key()
    other, new = new_token(TokenKind.LINK, "user:ana")
    asyncio.run(here.app.store.create_token(new))
    for wrong in (secret, other, other.replace("sgl_", "sgk_"), secret.replace("sgw_", "sgk_")):
        with here.http(wrong) as http:
            assert kind(http.get("/v1/runs")) == "NotAuthenticated"


def test_the_scheme_may_be_written_in_any_case_with_any_blanks(here: Keyed) -> None:
    secret, _ = here.key()
    with here.http() as http:
        for header in (f"bearer {secret}", f"BEARER  {secret}"):
            assert http.get("/v1/me", headers={"authorization": header}).status_code == 200


def test_a_key_that_is_revoked_opens_nothing_from_then_on(here: Keyed) -> None:
    secret, token = here.key()
    with here.http(secret) as http:
        assert http.get("/v1/runs").status_code == 200
        here.revoke(token)
        assert kind(http.get("/v1/runs")) == "NotAuthenticated"


def test_a_key_opens_nothing_after_its_lifetime(here: Keyed) -> None:
    secret, _ = here.key(lifetime_seconds=3600)
    with here.http(secret) as http:
        here.clock.advance(3599)
        assert http.get("/v1/runs").status_code == 200
        here.clock.advance(1)
        assert kind(http.get("/v1/runs")) == "NotAuthenticated"


def test_a_page_of_another_site_writes_nothing_with_a_key_either(operator: httpx.Client) -> None:
    refused = operator.post("/v1/runs", json={"workflow": "echo"}, headers={"sec-fetch-site": "cross-site"})
    assert kind(refused) == "AccessDenied"


def test_its_last_use_is_shown(here: Keyed) -> None:
    secret, token = here.key()
    with here.http(secret) as http, here.service("boss", [Role.ADMIN]) as admin:
        here.clock.advance(10)
        http.get("/v1/me")
        [shown] = [key for key in listed(admin) if key["id"] == token.id]
    assert shown["used_at"] == here.clock.now()


def test_a_waiter_whose_key_is_revoked_gets_no_result(here: Keyed, operator: httpx.Client, name: str) -> None:
    start(operator, "echo", name, group="of-nobody")
    secret, token = here.key("waiting", Role.VIEWER)

    with here.http(secret) as http, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(http.get, f"/v1/runs/{name}/result", params={"wait": 60})
        while asyncio.run(here.app.store.get_token(token.id)).used_at is None:
            operator.get("/v1/me")
        here.revoke(token)
        here.clock.advance(1)
        assert operator.post(f"/v1/runs/{name}/cancel").status_code == 200
        answer = waiting.result()
    assert (answer.status_code, kind(answer)) == (401, "NotAuthenticated")


# Guessing


def test_a_client_that_tries_many_keys_is_held_up_but_valid_keys_are_not(here: Keyed) -> None:
    secret, token = here.key()
    fresh, _ = here.key()
    worker, _ = here.worker_key()
    with here.http(secret) as good, here.http(f"sgk_{'A' * 43}") as wrong, here.http(fresh) as late:
        assert good.get("/v1/me").status_code == 200
        assert [wrong.get("/v1/me").status_code for _ in range(20)] == [401] * 20
        held_up = wrong.get("/v1/me")
        assert (held_up.status_code, kind(held_up)) == (429, "TooManyRequests")
        assert held_up.headers["retry-after"] == "3"
        assert good.get("/v1/me").status_code == 200
        assert late.get("/v1/me").status_code == 200, "behind a proxy all have one address"
        with here.http(worker) as at_work:
            assert at_work.get("/v1/store", params={"namespace": "default"}).status_code == 200
        here.revoke(token)
        assert good.get("/v1/me").status_code == 429
        other = httpx.HTTPTransport(local_address="127.0.0.2")
        with here.http(f"sgk_{'B' * 43}", transport=other) as elsewhere:
            assert elsewhere.get("/v1/me").status_code == 401
        here.clock.advance(3)
        assert wrong.get("/v1/me").status_code == 401
        assert wrong.get("/v1/me").status_code == 429


def test_who_tries_worker_keys_is_held_up_too(here: Keyed) -> None:
    with here.http(f"sgw_{'A' * 43}") as wrong:
        answers = [wrong.get("/v1/store", params={"namespace": "default"}).status_code for _ in range(21)]
    assert answers == [403] * 20 + [429]


# What they do is theirs


def test_a_services_actions_are_recorded_as_its_own(operator: httpx.Client, name: str) -> None:
    assert start(operator, "echo", name)["started_by"] == "service:deploy"
    for other in ("ana", "service:billing", "deploy"):
        refused = operator.post("/v1/runs", json={"workflow": "echo", "started_by": other})
        assert kind(refused) == "AccessDenied"


def test_a_service_that_vouches_for_people_says_for_whom_it_acts(here: Keyed, name: str) -> None:
    with here.service("portal", [Role.OPERATOR], act_as=True) as http:
        assert (
            start(http, "sign", name, ["user:ana", "user:bob"], True, started_by="ana")["started_by"] == "ana"
        )
        question = asked(http, name)
        for refused, error in (
            ({"user_id": "ana"}, "NotAllowed"),  # four eyes
            ({"user_id": "eve"}, "NotAllowed"),  # not asked
            ({"user_id": "service:deploy"}, "AccessDenied"),
            ({"user_id": "user:Service:x"}, "AccessDenied"),
            ({}, "NotAllowed"),
            ({"groups": ["finance"]}, "AccessDenied"),
        ):
            answer = http.post(f"/v1/questions/{question}/answer", json={"value": True, **refused})
            assert kind(answer) == error, refused
        answer = http.post(f"/v1/questions/{question}/answer", json={"value": True, "user_id": "bob"})
        assert answer.json()["settled_by"] == "bob"
        assert start(http, "echo", f"{name}-own")["started_by"] == "service:portal"


def test_four_eyes_are_not_those_of_the_service_that_asked(here: Keyed, name: str) -> None:
    with here.service("robot", [Role.OPERATOR]) as http:
        start(http, "sign", name, ["user:service:robot", "user:ana"], True)
        question = asked(http, name)
        answer = http.post(f"/v1/questions/{question}/answer", json={"value": True})
        assert kind(answer) == "NotAllowed"
        assert refusals(http, question) == [("service:robot", "NotAllowed")]


@pytest.mark.parametrize("role", [Role.RESPONDER, Role.OPERATOR, Role.ADMIN])
@pytest.mark.parametrize(
    ("assignees", "may"),
    [
        ([], False),
        (["user:ana"], False),
        (["role:responder", "role:operator", "role:admin"], False),
        (["user:service:judge"], True),
        (["user:ana", "user:service:judge"], True),
    ],
    ids=str,
)
def test_a_service_answers_only_what_is_assigned_to_it_by_name(
    here: Keyed, operator: httpx.Client, name: str, assignees: list[str], may: bool, role: Role
) -> None:
    start(operator, "sign", name, assignees)
    question = asked(operator, name)
    with here.service("judge", [role]) as http:
        for verb in ("view", "claim", "release"):
            answer = http.post(f"/v1/questions/{question}/{verb}", json={})
            assert answer.status_code == (200 if may else 403), answer.text
        answer = http.post(f"/v1/questions/{question}/answer", json={"value": True})
    assert answer.status_code == (200 if may else 403), answer.text
    if may:
        assert ended(operator, name)["result"] == {"approved": True, "by": "service:judge"}
    else:
        assert set(refusals(operator, question)) == {("service:judge", "NotAllowed")}


def test_a_service_says_of_no_service_and_in_no_persons_name_who_answers(here: Keyed, name: str) -> None:
    with (
        here.service("shop", [Role.OPERATOR]) as shop,
        here.service("desk", [Role.OPERATOR], act_as=True) as desk,
    ):
        start(shop, "sign", name, ["user:ana"])
        question = asked(shop, name)
        for to in (["user:service:shop"], ["user:bob", "user:SERVICE:other"]):
            told = shop.post(f"/v1/questions/{question}/reassign", json={"to": to})
            assert (told.status_code, kind(told)) == (403, "AccessDenied")
        made = shop.post(f"/v1/questions/{question}/links", json={"user_id": "ana"})
        assert (made.status_code, kind(made)) == (403, "AccessDenied")
        assert shop.get(f"/v1/questions/{question}").json()["assignees"] == ["user:ana"]
        assert shop.post(f"/v1/questions/{question}/reassign", json={"to": ["user:bob"]}).status_code == 200
        assert desk.post(f"/v1/questions/{question}/links", json={"user_id": "bob"}).status_code == 201


def test_no_signed_in_user_is_named_like_a_service(tmp_path: Path) -> None:
    with OnThread(lambda: keyed(tmp_path, proxy=PROXY)) as here:
        for user in ("service:deploy", "Service:deploy"):
            with through(here.server, user, roles="admin") as http:
                assert kind(http.get("/v1/me")) == "NotAuthenticated"


def test_a_key_starts_runs_in_the_groups_that_it_names(here: Keyed, name: str) -> None:
    schedule = {"id": name, "workflow": "echo", "cron": "0 9 * * *"}
    with here.service("ci", [Role.OPERATOR], start_groups=["deploy", "test"]) as http:
        for body in ({}, {"group": "default"}, {"group": "Deploy"}):
            assert kind(http.post("/v1/runs", json={"workflow": "echo", **body})) == "AccessDenied"
            assert kind(http.post("/v1/schedules", json={**schedule, **body})) == "AccessDenied"
        assert http.post("/v1/runs", json={"workflow": "echo", "group": "deploy"}).status_code == 201
        assert http.post("/v1/schedules", json={**schedule, "group": "test"}).status_code == 200


# Making and ending them over HTTP


def listed(http: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = http.get("/v1/keys", params={"limit": 1000, **query})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


@pytest.fixture
def admin(here: Keyed) -> Iterator[httpx.Client]:
    with here.service("boss", [Role.ADMIN]) as http:
        yield http


def test_an_admin_makes_keys_and_gets_each_secret_once(here: Keyed, admin: httpx.Client) -> None:
    body = {"name": "new", "roles": ["viewer"], "groups": ["a"], "act_as": True, "lifetime_seconds": 60.0}
    answer = admin.post("/v1/keys", json=body)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    secret = made.pop("secret")
    now = here.clock.now()
    assert made == {
        "id": made["id"],
        "kind": "service",
        "name": "new",
        "namespace": "default",
        "roles": ["viewer"],
        "groups": ["a"],
        "act_as": True,
        "created_by": "service:boss",
        "created_at": now,
        "expires_at": now + 60,
        "revoked_at": None,
        "used_at": None,
    }
    shown = admin.get("/v1/keys", params={"limit": 1000}).text
    assert made["id"] in shown
    assert secret not in shown
    assert "hash" not in shown
    with here.http(secret) as http:
        assert http.get("/v1/me").json()["user_id"] == "service:new"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x"},
        {"name": "x", "roles": []},
        {"name": "x", "roles": ["root"]},
        {"name": "", "roles": ["viewer"]},
        {"name": " x", "roles": ["viewer"]},
        {"name": "x\N{RIGHT-TO-LEFT OVERRIDE}", "roles": ["viewer"]},
        {"name": "x" * 257, "roles": ["viewer"]},
        {"name": "x", "roles": ["viewer"], "groups": []},
        {"name": "x", "roles": ["viewer"], "groups": [""]},
        {"name": "x", "roles": ["viewer"], "lifetime_seconds": 0},
        {"name": "x", "roles": ["viewer"], "lifetime_seconds": 1e12},
        {"name": "x", "roles": ["viewer"], "kind": "admin"},
        {"name": "x", "roles": ["viewer"], "kind": "worker"},
        {"name": "x", "act_as": True, "kind": "worker"},
        {"name": "x", "roles": ["viewer"], "secret": "mine"},
    ],
    ids=str,
)
def test_a_key_that_makes_no_sense_is_not_made(admin: httpx.Client, body: dict[str, Any]) -> None:
    before = len(listed(admin)) + len(listed(admin, kind="worker"))
    assert admin.post("/v1/keys", json=body).status_code == 422
    assert len(listed(admin)) + len(listed(admin, kind="worker")) == before


def test_a_key_is_rotated_without_a_gap(here: Keyed, admin: httpx.Client) -> None:
    old, token = here.key("rotated", Role.VIEWER, start_groups=["a"], lifetime_seconds=10 * 86400)
    here.clock.advance(86400)
    made = admin.post(f"/v1/keys/{token.id}/rotate", json={"grace_seconds": 60}).json()
    assert made["id"] != token.id
    assert (made["name"], made["roles"], made["groups"]) == ("rotated", ["viewer"], ["a"])
    assert made["expires_at"] == here.clock.now() + 10 * 86400
    with here.http(old) as before, here.http(made["secret"]) as after:
        for http in (before, after):
            assert http.get("/v1/me").json()["user_id"] == "service:rotated"
        here.clock.advance(60)
        assert kind(before.get("/v1/me")) == "NotAuthenticated"
        assert after.get("/v1/me").status_code == 200
    again = admin.post(f"/v1/keys/{token.id}/rotate")
    assert (again.status_code, kind(again)) == (409, "InvalidState")


def test_the_grace_of_a_rotation_makes_no_key_live_longer(here: Keyed, admin: httpx.Client) -> None:
    old, token = here.key(lifetime_seconds=60)
    assert admin.post(f"/v1/keys/{token.id}/rotate").status_code == 201
    here.clock.advance(60)
    with here.http(old) as http:
        assert kind(http.get("/v1/me")) == "NotAuthenticated"
    for grace in (-1, 1e12):
        _, other = here.key()
        assert admin.post(f"/v1/keys/{other.id}/rotate", json={"grace_seconds": grace}).status_code == 422


def test_a_key_is_revoked_over_http_and_stays_so(here: Keyed, admin: httpx.Client) -> None:
    secret, token = here.key()
    revoked = admin.post(f"/v1/keys/{token.id}/revoke").json()
    assert revoked["revoked_at"] == here.clock.now()
    here.clock.advance(5)
    assert admin.post(f"/v1/keys/{token.id}/revoke").json() == revoked
    with here.http(secret) as http:
        assert kind(http.get("/v1/me")) == "NotAuthenticated"


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_what_is_no_key_is_not_found(here: Keyed, admin: httpx.Client, verb: str) -> None:
    _, login = new_token(TokenKind.LOGIN, "user:ana")
    asyncio.run(here.app.store.create_token(login))
    _, theirs = here.key("theirs", namespace="other")
    for id in ("none", login.id, theirs.id):
        assert admin.post(f"/v1/keys/{id}/{verb}").status_code == 404
    assert asyncio.run(here.app.store.get_token(login.id)).revoked_at is None


def test_keys_of_services_and_workers_are_listed_apart(here: Keyed, admin: httpx.Client) -> None:
    _, worker = here.worker_key("gpu-1", groups=["gpu"])
    [shown] = [key for key in listed(admin, kind="worker") if key["id"] == worker.id]
    assert (shown["kind"], shown["name"], shown["groups"], shown["roles"]) == ("worker", "gpu-1", ["gpu"], [])
    assert worker.id not in {key["id"] for key in listed(admin)}
    assert admin.get("/v1/keys", params={"kind": "link"}).status_code == 422


# Hidden things


def test_no_secret_is_in_the_database_a_log_or_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "signoff")
    with OnThread(lambda: keyed(tmp_path)) as here:
        secret, token = here.key()
        with here.http(secret) as http:
            texts = [http.get("/v1/me").text, http.post("/v1/keys", json={"name": "x"}).text, repr(token)]
            here.revoke(token)
            texts.append(http.get("/v1/me").text)
        files = b"".join(file.read_bytes() for file in tmp_path.glob("signoff.db*"))
    assert token.id.encode() in files
    assert secret[4:].encode() not in files
    assert not any(secret[4:] in text for text in [*texts, caplog.text])


# Which servers ask


def test_a_server_whose_database_has_a_key_wants_one(tmp_path: Path) -> None:
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here:
        with here.http() as anybody:
            assert anybody.get("/v1/runs").status_code == 200
            assert kind(anybody.get("/v1/keys")) == "NotAuthenticated"
            assert (
                kind(anybody.post("/v1/keys", json={"name": "x", "roles": ["admin"]})) == "NotAuthenticated"
            )
            secret, token = here.key()
            assert anybody.get("/v1/runs").status_code == 401
            assert anybody.get("/v1/runs", headers={"authorization": "Bearer sgk_x"}).status_code == 401
            assert anybody.get("/v1/keys").status_code == 401
        with here.http(secret) as http:
            assert http.get("/v1/me").json()["user_id"] == "service:bot"
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here, here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 401
        assert anybody.get("/health").status_code == 200
        here.revoke(token)
    with OnThread(lambda: keyed(tmp_path, require_auth=False)) as here, here.http() as anybody:
        assert anybody.get("/v1/runs").status_code == 200


def test_behind_a_proxy_a_key_comes_before_headers_not_other_secrets(tmp_path: Path) -> None:
    with OnThread(lambda: keyed(tmp_path, proxy=PROXY)) as here:
        secret, _ = here.key("deploy", Role.OPERATOR)
        with through(here.server, "ana", roles="viewer") as http:
            key = {"authorization": f"Bearer {secret}"}
            assert http.get("/v1/me", headers=key).json()["user_id"] == "service:deploy"
            for passed_on in ("Bearer eyJhbGciOi", "Basic YTpi"):
                me = http.get("/v1/me", headers={"authorization": passed_on}).json()
                assert (me["user_id"], me["way"]) == ("ana", "proxy")
            assert kind(http.get("/v1/me", headers={"authorization": "Bearer sgk_x"})) == "NotAuthenticated"


# Streams


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_stream_ends_when_its_reader_may_no_more(here: Keyed, name: str, how: str) -> None:
    secret, token = here.key("reader", Role.VIEWER, lifetime_seconds=86400)
    with here.service("writer", [Role.OPERATOR]) as writer, here.http(secret) as reader:
        start(writer, "listen", name)
        with reader.stream("GET", f"/v1/runs/{name}/events") as stream:
            lines = stream.iter_lines()
            assert "data" in next(line for line in lines if line.startswith("data"))
            if how == "revoked":
                here.revoke(token)
                here.clock.advance(60)
            else:
                here.clock.advance(86400)
            writer.post(f"/v1/runs/{name}/signals", json={"name": "news", "value": "secret news"})
            assert ended(writer, name)["result"] == "secret news"
            assert "secret news" not in "".join(lines)
        assert kind(reader.get("/v1/runs")) == "NotAuthenticated"


def test_a_stream_goes_on_while_its_reader_may(here: Keyed, operator: httpx.Client, name: str) -> None:
    start(operator, "listen", name)
    with operator.stream("GET", f"/v1/runs/{name}/events") as stream:
        lines = stream.iter_lines()
        next(line for line in lines if line.startswith("data"))
        here.clock.advance(60)
        operator.post(f"/v1/runs/{name}/signals", json={"name": "news", "value": "news"})
        assert "event: end" in list(lines)


# In Python


def test_python_gets_the_reason_why_a_key_cannot_be_changed(here: Keyed) -> None:
    keys = StoredKeys(here.app.store)
    _, token = here.key()
    here.revoke(token)
    with pytest.raises(InvalidState, match="revoked"):
        asyncio.run(keys.rotate(token.id))
    with pytest.raises(NotFound, match="none"):
        asyncio.run(keys.revoke("none"))
    with pytest.raises(InvalidValue, match="roles"):
        asyncio.run(keys.create_for_service("x", []))
