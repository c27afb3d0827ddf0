"""Hostile requests to the ports of Resonate's protocols: refused with a reason, and without harm to others."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from signoff.records import NewRun
from signoff.records.tasks import Task
from signoff.server import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.resonate.addresses import read_address
from signoff.server.resonate.push import Push
from tests.attacks.resonate_doors import Doors, doors
from tests.server.resonate.speaker import NEVER, TARGET, VERSION, create_action, settle_action
from tests.support import OnThread

OTHERS = {"resonate:target": "poll://any@theirs"}
ODD = "\ud800"
"""Half of a surrogate pair: JSON can escape it, UTF-8 cannot hold it."""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A server that needs no key."""
    folder = tmp_path_factory.mktemp("doors")
    with OnThread(lambda: doors(folder, request.param)) as opened, opened:
        yield opened


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
def closed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Doors]:
    """A server that needs keys."""
    with OnThread(lambda: doors(tmp_path, request.param, require_auth=True)) as opened, opened:
        yield opened


def _worker(closed: Doors, *groups: str) -> Doors:
    return closed.with_key(
        asyncio.run(StoredKeys(closed.store).create_for_worker("gpu", groups=groups or None))[0]
    )


def _service(closed: Doors, *groups: str) -> Doors:
    made = StoredKeys(closed.store).create_for_service("bot", [Role.OPERATOR], start_groups=groups or None)
    return closed.with_key(asyncio.run(made)[0])


def _create(doors: Doors, id: str, **more: Any) -> int:
    return doors.send("promise.create", {"id": id, "timeoutAt": NEVER, **more}).status_code


def _envelope(data: bytes, kind: bytes = b'"promise.get"', corr: bytes = b'"c"') -> bytes:
    head = b'{"corrId":%b,"version":"%b"}' % (corr, VERSION.encode())
    return b'{"kind":%b,"head":%b,"data":%b}' % (kind, head, data)


BAD_BODIES = {
    "a surrogate in corrId": _envelope(b"{}", corr=b'"\\ud800"'),
    "a surrogate in kind": _envelope(b"{}", kind=b'"promise.\\ud800"'),
    "a surrogate in an id": _envelope(b'{"id":"\\ud800"}'),
    "NUL in an id": _envelope(b'{"id":"a\\u0000b"}'),
    "a line end in an id": _envelope(b'{"id":"a\\nb"}'),
    "a long corrId": _envelope(b"{}", corr=b'"%b"' % (b"x" * 3_000_000)),
    "a long kind": _envelope(b"{}", kind=b'"%b"' % (b"x" * 3_000_000)),
    "a long id": _envelope(b'{"id":"%b"}' % (b"x" * 771)),
    "a long key": _envelope(
        b'{"id":"p","timeoutAt":1,"tags":{"%b":1}}' % (b"x" * 900_000), kind=b'"promise.create"'
    ),
    "a long version": _envelope(b"{}").replace(VERSION.encode(), b"x" * 1_000_000),
    "a version of lists": _envelope(b"{}").replace(b'"%b"' % VERSION.encode(), b"[%b1]" % (b"[]," * 200_000)),
    "a long integer": _envelope(b'{"id":%b}' % (b"9" * 5_000)),
    "depth": _envelope(b"[" * 100_000 + b"]" * 100_000),
    "a key twice": _envelope(b'{"id":"p","id":"q"}'),
    "another encoding": _envelope(b'{"id":"p"}').decode().encode("utf-16"),
    "a float as a time": _envelope(b'{"id":"p","timeoutAt":1e15}', kind=b'"promise.create"'),
    "a time before time": _envelope(b'{"id":"p","timeoutAt":-1}', kind=b'"promise.create"'),
    "a time beyond time": _envelope(b'{"id":"p","timeoutAt":%d}' % 2**63, kind=b'"promise.create"'),
    "no number as a time": _envelope(b'{"id":"p","timeoutAt":NaN}', kind=b'"promise.create"'),
    "infinity as a time": _envelope(b'{"id":"p","timeoutAt":1e999}', kind=b'"promise.create"'),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_request_is_refused_in_few_words(here: Doors, name: str) -> None:
    reply = here.post(BAD_BODIES[name])
    assert (reply.status_code, reply.json()["head"]["status"]) == (400, 400)
    assert len(reply.content) < 2_000


BAD_OLD: dict[str, tuple[str, str, Any]] = {
    "NUL in a promise's path": ("GET", "/promises/a%00b", None),
    "NUL in a settled promise's path": ("PATCH", "/promises/a%00b", {"state": "RESOLVED"}),
    "NUL in a schedule's path": ("GET", "/schedules/%00", None),
    "NUL in a deleted schedule's path": ("DELETE", "/schedules/%00", None),
    "NUL in a callback's path": ("POST", "/promises/subscribe/%00", {"id": "s", "recv": "g"}),
    "a delay that is no number": (
        "POST",
        "/promises",
        {"id": "p", "timeout": 1, "tags": {"resonate:delay": "x"}},
    ),
    "a long delay": ("POST", "/promises", {"id": "p", "timeout": 1, "tags": {"resonate:delay": "9" * 5_000}}),
    "a URL of today's protocol": (
        "POST",
        "/promises",
        {"id": "p", "timeout": 1, "tags": {"resonate:target": "http://169.254.169.254/"}},
    ),
    "a key that is too long": ("POST", "/promises", {"id": "p", "timeout": 1, "tags": {"x" * 900_000: 1}}),
}


@pytest.mark.parametrize("name", BAD_OLD)
def test_a_bad_request_of_2024_is_refused_in_few_words(here: Doors, name: str) -> None:
    reply = here.old(*BAD_OLD[name])
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, 40000)
    assert len(reply.content) < 2_000


BAD_SCHEDULES: dict[str, dict[str, Any]] = {
    "an id that is not printable": {"promiseId": "\u202ex\n"},
    "a delay": {
        "promiseTags": {"resonate:delay": "x", "resonate:target": "poll://any@g", "resonate:invoke": "g"}
    },
    "a URL": {"promiseTags": {"resonate:target": "http://169.254.169.254/"}},
    "terms of no question": {"promiseTags": {"signoff:question": "NaN"}},
    "a costly cron": {"cron": "0 0 30 2 *"},
    "a long cron": {"cron": ",".join(["1"] * 600) + " * * * *"},
}


@pytest.mark.parametrize("name", BAD_SCHEDULES)
@pytest.mark.parametrize("protocol", ["today", "2024"])
def test_a_schedule_whose_promises_would_fail_is_refused(here: Doors, name: str, protocol: str) -> None:
    new = {"id": "s", "cron": "* * * * *", "promiseId": "s.{{.timestamp}}", "promiseTimeout": 1_000}
    new = {**new, **BAD_SCHEDULES[name]}
    reply = here.send("schedule.create", new) if protocol == "today" else here.old("POST", "/schedules", new)
    assert reply.status_code in (400, 422)
    assert asyncio.run(here.store.list_promise_schedules(after=None, limit=10)).items == ()


BAD_POLLERS = {
    "NUL": ("x%00y", "p"),
    "NUL in the process": ("g", "p%00"),
    "no UTF-8": ("%ff%0a", "p"),
    "a long group": ("x" * 20_000, "p"),
    "a query": ("x%3fy", "p"),
    "a fragment": ("g", "p%23"),
    "direction": ("%E2%80%AEx", "p"),
    "a space": ("x%20y", "p"),
}


@pytest.mark.parametrize("name", BAD_POLLERS)
def test_a_group_that_no_address_has_is_refused_and_stops_no_messages(here: Doors, name: str) -> None:
    group, pid = BAD_POLLERS[name]
    with here.http.stream("GET", f"{here.today}/poll/workers/{name.replace(' ', '-')}") as good:
        lines = good.iter_lines()
        assert next(lines).startswith(":")
        for url in (f"{here.today}/poll/{group}/{pid}", f"{here.messages}/{group}/{pid}"):
            with here.http.stream("GET", url) as reply:
                assert reply.status_code == (400 if url.startswith(here.messages) else 422)
        assert _create(here, f"beside {name}", tags={"resonate:target": "poll://any@workers"}) == 200
        sent = (json.loads(line[6:])["data"]["task"]["id"] for line in lines if line.startswith("data: "))
        assert f"beside {name}" in sent  # after those of the process before it, which acquired none


@pytest.mark.parametrize(
    "headers",
    [{"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "none"}, {"origin": "https://evil.example"}],
)
def test_a_page_in_a_browser_takes_no_messages(here: Doors, headers: dict[str, str]) -> None:
    for url in (f"{here.today}/poll/g/p", f"{here.messages}/g/p"):
        with here.http.stream("GET", url, headers=headers) as reply:
            assert reply.status_code == 403


def test_a_foreign_host_and_a_disputed_length_are_refused_at_every_port(here: Doors) -> None:
    for url in (here.today, here.legacy, here.messages):
        assert here.http.get(f"{url}/health", headers={"host": "evil.example"}).status_code == 421
        sent = (
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=60) as raw:
            raw.sendall(sent)
            received = b""
            while part := raw.recv(65536):
                received += part
        assert received.count(b"HTTP/1.1 ") == 1
        assert received.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "value", ['{"a":1,"a":2}', "1e999", "NaN", '"\\ud800"', "9" * 5_000, "[" * 10_000 + "]" * 10_000]
)
def test_json_that_readers_take_differently_stays_as_it_was_sent(here: Doors, value: str) -> None:
    id, data = f"v {hash(value)}", base64.b64encode(value.encode()).decode()
    _create(here, id)
    sent = here.send("promise.settle", {"id": id, "state": "resolved", "value": {"data": data}})
    assert sent.json()["data"]["promise"]["value"] == {"data": data}
    assert here.http.get(f"{here.api}/v1/promises/{id}").json()["value"] == {"resonate:value": {"data": data}}


@pytest.mark.parametrize(
    "address",
    [
        "HTTP://169.254.169.254/",
        "Https://evil.example/",
        "POLL://any@g",
        "ftp://x/",
        "file:///etc/passwd",
        "//x",
    ],
)
def test_an_address_has_a_known_scheme_in_lower_case(here: Doors, address: str) -> None:
    assert read_address(address) is None
    assert _create(here, "p", tags={"resonate:target": address}) == 400


@pytest.mark.parametrize(
    "url",
    [
        "https://functions.example.com.evil/hooks",
        "https://functions.example.com/hooks-of-others",
        "https://functions.example.com/hook",
        "https://functions.example.com/hooks/../admin",
        "https://functions.example.com/hooks/%2E%2e/admin",
        "https://functions.example.com/hooks/..%2fadmin",
        "https://functions.example.com/hooks\\..\\admin",
        "https://functions.example.com@evil.example/hooks/",
        "https://me:secret@functions.example.com/hooks/",
        "https://@functions.example.com/hooks/",
        "https://evil.example\\@functions.example.com/hooks/",
        "https://functions.example.com:444/hooks/",
        "http://functions.example.com/hooks/",
        "http://functions.example.com:443/hooks/",
        "https://functions.example.com./hooks/",
        "https://[::ffff:169.254.169.254]/hooks/",
        "https://functions\u3002example.com/hooks/",
    ],
)
def test_messages_are_posted_below_the_allowed_url_only(url: str) -> None:
    push = Push(["https://functions.example.com/hooks"])
    assert push.allows("https://functions.example.com/hooks")
    assert push.allows("https://FUNCTIONS.example.com:443/hooks/a?b")
    assert not push.allows(url)


def test_a_key_for_some_groups_does_nothing_to_those_of_others(closed: Doors) -> None:
    with ExitStack() as stack:
        free, bound = (stack.enter_context(each) for each in (_worker(closed), _worker(closed, "workers")))
        lease = {"pid": "victim", "ttl": 60_000}
        held = free.send("task.create", {**lease, "action": create_action("held", tags=OTHERS)})
        assert held.status_code == 200
        _create(free, "awaited")
        _create(free, "sent", tags=OTHERS)
        assert bound.send(
            "task.create", {**lease, "pid": "me", "action": create_action("own", tags=TARGET)}
        ).is_success
        asyncio.run(closed.store.create_run(NewRun("run", "w", "theirs", "{}")))
        at = {"cron": "* * * * *", "promiseId": "{{.id}}.{{.timestamp}}", "promiseTimeout": 1_000}
        assert free.send("schedule.create", {"id": "theirs", **at, "promiseTags": OTHERS}).status_code == 200
        before = asyncio.run(_tasks(closed))
        settles_held = settle_action("held", data="MQ==")
        refused = {
            "heartbeat": bound.send(
                "task.heartbeat", {"pid": "victim", "tasks": [{"id": "held", "version": 1}]}
            ),
            "known task": bound.send("task.create", {**lease, "action": create_action("sent", tags=TARGET)}),
            "settlement": bound.send("promise.settle", settles_held["data"]),
            "fenced settlement": bound.send(
                "task.fence", {"id": "own", "version": 1, "action": settles_held}
            ),
            "old settlement": bound.old("PATCH", "/promises/held", {"state": "RESOLVED"}),
            "callback": bound.send("promise.register_callback", {"awaited": "awaited", "awaiter": "held"}),
            "old callback": bound.old(
                "POST",
                "/promises/callback/awaited",
                {"rootPromiseId": "held", "recv": "workers", "timeout": 1},
            ),
            "reserved id": bound.send("promise.create", {"id": "run.3", "timeoutAt": NEVER}),
            "old reserved id": bound.old("POST", "/promises", {"id": "run.3", "timeout": NEVER}),
            "schedule": bound.send("schedule.delete", {"id": "theirs"}),
            "old schedule": bound.old("DELETE", "/schedules/theirs"),
        }
        assert {name: reply.status_code for name, reply in refused.items()} == dict.fromkeys(refused, 403)
        beat = bound.old("POST", "/tasks/heartbeat", {"processId": "victim"})
        assert beat.json() == {"tasksAffected": 0}
        assert asyncio.run(_tasks(closed)) == before
        assert free.old("POST", "/tasks/heartbeat", {"processId": "victim"}).json() == {"tasksAffected": 1}
        assert _create(bound, "other.3") == 200  # the SDKs' ids look like that, too
        assert bound.send("promise.settle", {"id": "awaited", "state": "resolved"}).status_code == 200
        assert free.send("promise.settle", settles_held["data"]).status_code == 200


async def _tasks(closed: Doors) -> list[Task]:
    return [await closed.store.get_task(id) for id in ("held", "sent")]


def test_an_api_key_for_some_groups_calls_no_other(closed: Doors) -> None:
    with _service(closed, "workers") as bot, _worker(closed) as free:
        assert _create(bot, "mine", tags=TARGET) == 200
        assert _create(bot, "not mine", tags=OTHERS) == 403
        old = bot.old(
            "POST", "/promises", {"id": "nor mine", "timeout": NEVER, "tags": {"resonate:invoke": "theirs"}}
        )
        assert old.status_code == 403
        at = {"cron": "* * * * *", "promiseId": "{{.id}}", "promiseTimeout": 1_000}
        assert bot.send("schedule.create", {"id": "s", **at, "promiseTags": OTHERS}).status_code == 403
        lease = {"pid": "p", "ttl": 60_000}
        created = bot.send("task.create", {**lease, "action": create_action("n", tags=OTHERS)})
        assert created.status_code == 403
        assert _create(free, "known", tags=OTHERS) == 200
        assert {_create(bot, id) for id in ("awaited", "plain")} == {200}
        for root, recv, status in (
            ("plain", "theirs", 403),
            ("known", "workers", 403),
            ("plain", "workers", 201),
        ):
            callback = {"rootPromiseId": root, "recv": recv, "timeout": 1}
            assert bot.old("POST", "/promises/callback/awaited", callback).status_code == status


def test_a_question_with_too_many_parts_is_refused_by_its_tag(here: Doors) -> None:
    tags = {"signoff:question": "[" * 100_001}
    reply = here.send("promise.create", {"id": "parts", "timeoutAt": NEVER, "tags": tags})
    assert reply.status_code == 422
    assert "tags.signoff:question" in reply.text
    assert "more than 100,000 lists and objects" in reply.text


def test_a_schedule_asks_no_person_whom_its_creator_may_not_ask(closed: Doors) -> None:
    with _service(closed) as bot:
        terms = json.dumps({"text": "Pay?", "assignees": ["user:service:bot"]})
        at = {"cron": "* * * * *", "promiseId": "{{.id}}", "promiseTimeout": 1_000}
        asks = {"promiseTags": {"signoff:question": terms}}
        assert _create(bot, "q", tags=asks["promiseTags"]) == 403
        assert bot.send("schedule.create", {"id": "s", **at, **asks}).status_code == 403
        assert (
            bot.old(
                "POST", "/promises", {"id": "q", "timeout": NEVER, "tags": asks["promiseTags"]}
            ).status_code
            == 403
        )
