"""Rule: each kind of request is answered with the statuses and the records of the durable promise protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.resonate.speaker import (
    NEVER,
    START,
    TARGET,
    VERSION,
    Speaker,
    await_action,
    create_action,
    envelope,
    settle_action,
)

MISSING = {
    "promise.get": {"id": "x"},
    "promise.settle": {"id": "x", "state": "resolved"},
    "promise.register_callback": {"awaited": "x", "awaiter": "y"},
    "promise.register_listener": {"awaited": "x", "address": "poll://uni@g/p"},
    "task.get": {"id": "x"},
    "task.acquire": {"id": "x", "version": 0, "pid": "p", "ttl": 1},
    "task.release": {"id": "x", "version": 0},
    "task.fulfill": {"id": "x", "version": 0, "action": settle_action("x")},
    "task.suspend": {"id": "x", "version": 0, "actions": [await_action("y", "x")]},
    "task.fence": {"id": "x", "version": 0, "action": create_action("y")},
    "task.halt": {"id": "x"},
    "task.continue": {"id": "x"},
    "schedule.get": {"id": "x"},
    "schedule.delete": {"id": "x"},
}

STALE = {
    "task.acquire": {"id": "t", "version": 5, "pid": "p", "ttl": 1},
    "task.release": {"id": "t", "version": 5},
    "task.fulfill": {"id": "t", "version": 5, "action": settle_action("t")},
    "task.suspend": {"id": "t", "version": 5, "actions": [await_action("y", "t")]},
    "task.fence": {"id": "t", "version": 5, "action": create_action("y")},
    "task.continue": {"id": "t"},
}

CREATE: dict[str, Any] = {"id": "p", "timeoutAt": NEVER}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("promise.get", {}, "data.id"),
    ("promise.get", {"id": ""}, "data.id"),
    ("promise.get", {"id": "a\0"}, "NUL"),
    ("promise.get", {"id": "\ud800"}, "data.id"),
    ("promise.get", {"id": "a" * 771}, "770 bytes"),
    ("promise.get", {"id": 1}, "valid string"),
    ("promise.create", {"id": "p"}, "data.timeoutAt"),
    ("promise.create", {**CREATE, "timeoutAt": -1}, "data.timeoutAt"),
    ("promise.create", {**CREATE, "timeoutAt": 1e30}, "data.timeoutAt"),
    ("promise.create", {**CREATE, "timeoutAt": 2**63}, "data.timeoutAt"),
    ("promise.create", {**CREATE, "tags": {"a": 1}}, "data.tags.a"),
    ("promise.create", {**CREATE, "param": {"data": 1}}, "data.param.data"),
    ("promise.create", {**CREATE, "tags": {"resonate:target": "bash://x"}}, "resonate:target"),
    ("promise.create", {**CREATE, "tags": {"resonate:target": "poll://uni@g"}}, "resonate:target"),
    ("promise.create", {**CREATE, "tags": {"resonate:target": "poll://all@g"}}, "resonate:target"),
    ("promise.create", {**CREATE, "tags": {"resonate:target": "https://a.example"}}, "--resonate-push"),
    ("promise.create", {**CREATE, "tags": {"resonate:delay": "5"}}, "requires a resonate:target"),
    ("promise.create", {**CREATE, "tags": {**TARGET, "resonate:delay": "x"}}, "resonate:delay"),
    ("promise.create", {**CREATE, "timeoutAt": 5, "tags": {**TARGET, "resonate:delay": "5"}}, "less than"),
    ("promise.settle", {"id": "p", "state": "pending"}, "data.state"),
    ("promise.settle", {"id": "p", "state": "resolved", "value": []}, "data.value"),
    ("promise.register_callback", {"awaited": "p", "awaiter": "p"}, "different"),
    ("promise.register_listener", {"awaited": "p", "address": "nowhere"}, "data.address"),
    ("promise.search", {"limit": 0}, "data.limit"),
    ("promise.search", {"limit": 1001}, "data.limit"),
    ("promise.search", {"cursor": "x"}, "data.cursor"),
    ("promise.search", {"state": "done"}, "data.state"),
    ("task.create", {"pid": "p", "ttl": 0, "action": create_action("t", tags=TARGET)}, "data.ttl"),
    ("task.create", {"pid": "", "ttl": 1, "action": create_action("t", tags=TARGET)}, "data.pid"),
    ("task.create", {"pid": "p", "ttl": 1, "action": create_action("t")}, "resonate:target"),
    ("task.acquire", {"id": "t", "version": -1, "pid": "p", "ttl": 1}, "data.version"),
    ("task.acquire", {"id": "t", "version": 2**31, "pid": "p", "ttl": 1}, "data.version"),
    ("task.suspend", {"id": "t", "version": 0, "actions": []}, "data.actions"),
    ("task.suspend", {"id": "t", "version": 0, "actions": [await_action("a", "b")]}, "awaiter"),
    ("task.fulfill", {"id": "t", "version": 0, "action": settle_action("u")}, "id of the action"),
    ("task.fence", {"id": "t", "version": 0, "action": settle_action("t")}, "id of the action"),
    ("task.fence", {"id": "t", "version": 0, "action": {"kind": "x", "data": {}}}, "data.action"),
    ("task.heartbeat", {"pid": "p", "tasks": []}, "data.tasks"),
    ("schedule.create", {"id": "s", "cron": "* * *", "promiseId": "p", "promiseTimeout": 1}, "five fields"),
    ("schedule.create", {"id": "s", "cron": "* * * * *", "promiseId": " ", "promiseTimeout": 1}, "data.id"),
]


def test_what_does_not_exist_is_404(speaker: Speaker) -> None:
    for kind, data in MISSING.items():
        assert isinstance(speaker.ask(kind, data, 404), str)


def test_a_task_in_another_state_or_version_is_409(speaker: Speaker) -> None:
    speaker.create("y")
    speaker.hold("t")
    for kind, data in STALE.items():
        assert isinstance(speaker.ask(kind, data, 409), str)


def test_invalid_data_is_400_and_says_why(speaker: Speaker) -> None:
    for kind, data, reason in INVALID:
        said = speaker.ask(kind, data, 400)
        assert reason in said, (kind, data, said)


ENVELOPES: list[tuple[Any, str, str]] = [
    ([], "unknown", "object"),
    ({"kind": "", "head": {}, "data": {}}, "", "kind"),
    ({"kind": "promise.get", "data": {}}, "promise.get", "corrId"),
    ({**envelope("promise.get"), "data": []}, "promise.get", "data"),
    (envelope("promise.get", version="2024-01-01"), "promise.get", VERSION),
    (envelope("promise.get", auth=5), "promise.get", "head.auth"),
    (envelope("promise.fly"), "promise.fly", "unknown operation"),
]


def test_an_invalid_envelope_is_400(speaker: Speaker) -> None:
    for body, kind, reason in ENVELOPES:
        response = speaker.http.post("/", json=body)
        assert (response.status_code, response.json()["kind"]) == (400, kind)
        assert response.json()["head"]["status"] == 400
        assert reason in response.json()["data"]
    headers = {"content-type": "application/json"}
    for text in ("{", '{"kind": "a", "kind": "b"}', "[" * 100_000, b"\xff"):
        response = speaker.http.post("/", content=text, headers=headers)
        assert (response.status_code, response.json()["kind"]) == (400, "unknown")


def test_debug_operations_are_501(speaker: Speaker) -> None:
    for kind in ("debug.start", "debug.stop", "debug.reset", "debug.snap", "debug.tick"):
        assert isinstance(speaker.ask(kind, {}, 501), str)


def test_a_promise_is_created_once_and_settled_once(speaker: Speaker) -> None:
    param = {"headers": {"h": "1"}, "data": "aGVsbG8="}
    made = speaker.create("p", param=param, tags={"a": "b"})
    assert made == {
        "id": "p",
        "state": "pending",
        "param": param,
        "value": {},
        "tags": {"a": "b"},
        "timeoutAt": NEVER,
        "createdAt": START,
    }
    assert speaker.create("p", tags={"other": "tags"}) == made
    speaker.clock.advance(1)
    settled = speaker.settle("p", "rejected", data="WzFd", headers={"x": "y"})
    assert settled == {
        **made,
        "state": "rejected",
        "value": {"data": "WzFd", "headers": {"x": "y"}},
        "settledAt": START + 1000,
    }
    assert speaker.settle("p", "resolved", data="MQ==") == settled
    assert speaker.ask("promise.get", {"id": "p"})["promise"] == settled


@pytest.mark.parametrize(
    ("tags", "state"), [({}, "rejected_timedout"), ({"resonate:timer": "true"}, "resolved")]
)
def test_a_promise_past_its_timeout_is_settled_then(
    speaker: Speaker, tags: dict[str, str], state: str
) -> None:
    speaker.create("p", timeoutAt=START + 5000, tags=tags)
    speaker.clock.advance(60)
    for _ in range(2):
        found = speaker.ask("promise.get", {"id": "p"})["promise"]
        assert (found["state"], found["settledAt"]) == (state, START + 5000)
        assert speaker.settle("p") == found
    late = speaker.create("late", timeoutAt=START, tags={**tags, **TARGET})
    assert (late["state"], late["createdAt"], late["settledAt"]) == (state, START, START)
    assert speaker.task("late")["state"] == "fulfilled"


def test_a_task_is_acquired_suspended_resumed_and_fulfilled(speaker: Speaker) -> None:
    branch = {"resonate:branch": "t"}
    speaker.create("t", tags={**TARGET, **branch})
    assert speaker.task("t") == {"id": "t", "state": "pending", "version": 0, "resumes": 0}
    lease = {"pid": "p", "ttl": 60_000}
    taken = speaker.ask("task.acquire", {"id": "t", "version": 0, **lease})
    assert taken["task"] == {"id": "t", "state": "acquired", "version": 1, "resumes": 0, **lease}
    assert (taken["promise"]["id"], taken["preload"]) == ("t", [])
    held: dict[str, Any] = {"id": "t", "version": 1}
    made = speaker.ask("task.fence", {**held, "action": create_action("t.1", tags=branch)})["action"]
    assert (made["kind"], made["head"]["status"]) == ("promise.create", 200)
    suspend = {**held, "actions": [await_action("t.1", "t")]}
    assert speaker.ask("task.suspend", suspend) == {}
    assert speaker.task("t")["state"] == "suspended"
    speaker.settle("t.1", data="MQ==")
    assert speaker.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 1}
    again = speaker.ask("task.acquire", {"id": "t", "version": 1, **lease})
    assert [each["id"] for each in again["preload"]] == ["t.1"]
    held["version"] = 2
    assert speaker.ask("task.heartbeat", {"pid": "p", "tasks": [held]}) == {}
    redirected = speaker.ask("task.suspend", {**held, "actions": [await_action("t.1", "t")]}, 300)
    assert [each["id"] for each in redirected["preload"]] == ["t.1"]
    done = speaker.ask("task.fulfill", {**held, "action": settle_action("t", data="Mg==")})["promise"]
    assert (done["state"], done["value"]) == ("resolved", {"data": "Mg=="})
    assert speaker.task("t") == {"id": "t", "state": "fulfilled", "version": 2, "resumes": 0}


def test_a_task_without_a_heartbeat_is_free_again(speaker: Speaker) -> None:
    speaker.create("t", tags=TARGET)
    speaker.ask("task.acquire", {"id": "t", "version": 0, "pid": "p", "ttl": 5000})
    assert speaker.ask("task.release", {"id": "t", "version": 1}) == {}
    assert speaker.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 0}


def test_a_halted_task_waits_until_it_is_continued(speaker: Speaker) -> None:
    speaker.hold("t")
    assert speaker.ask("task.halt", {"id": "t"}) == speaker.ask("task.halt", {"id": "t"}) == {}
    assert speaker.task("t") == {"id": "t", "state": "halted", "version": 1, "resumes": 0}
    speaker.ask("task.release", {"id": "t", "version": 1}, 409)
    assert speaker.ask("task.continue", {"id": "t"}) == {}
    assert speaker.task("t")["state"] == "pending"
    speaker.settle("t")
    speaker.ask("task.halt", {"id": "t"}, 409)


def test_task_create_acquires_what_is_pending_and_shows_what_is_fulfilled(speaker: Speaker) -> None:
    create = {"pid": "p", "ttl": 1000, "action": create_action("t", tags=TARGET)}
    speaker.create("t", tags=TARGET)
    assert speaker.ask("task.create", create)["task"]["state"] == "acquired"
    speaker.ask("task.create", create, 409)
    speaker.settle("t")
    assert speaker.ask("task.create", create)["task"]["state"] == "fulfilled"
    speaker.create("plain")
    speaker.ask("task.create", {**create, "action": create_action("plain", tags=TARGET)}, 422)


def test_a_callback_needs_a_task_and_resumes_it(speaker: Speaker) -> None:
    speaker.create("a")
    speaker.ask("promise.register_callback", {"awaited": "a", "awaiter": "nobody"}, 422)
    speaker.hold("t")
    assert speaker.ask("promise.register_callback", {"awaited": "a", "awaiter": "t"})["promise"]["id"] == "a"
    speaker.settle("a")
    assert speaker.task("t")["resumes"] == 1


def test_a_fenced_settlement_of_no_promise_is_404_within_200(speaker: Speaker) -> None:
    speaker.hold("t")
    done = speaker.ask("task.fence", {"id": "t", "version": 1, "action": settle_action("none")})
    assert done["action"]["head"]["status"] == 404
    speaker.ask("task.suspend", {"id": "t", "version": 1, "actions": [await_action("none", "t")]}, 422)


def test_searches_filter_by_state_and_tags_and_continue_at_the_cursor(speaker: Speaker) -> None:
    for number in range(7):
        speaker.create(f"p{number}", tags={"even": str(number % 2 == 0), **(TARGET if number < 3 else {})})
    speaker.settle("p2")
    found, cursor = [], None
    while found == [] or cursor is not None:
        more = {} if cursor is None else {"cursor": cursor}
        page = speaker.ask("promise.search", {"tags": {"even": "True"}, "limit": 3, **more})
        found += [each["id"] for each in page["promises"]]
        cursor = page.get("cursor")
    assert found == ["p0", "p2", "p4", "p6"]
    pending = speaker.ask("promise.search", {"state": "pending", "tags": {"even": "True"}})
    assert [each["id"] for each in pending["promises"]] == ["p0", "p4", "p6"]
    resolved = speaker.ask("promise.search", {"state": "resolved"})["promises"]
    assert [each["id"] for each in resolved] == ["p2"]
    tasks = speaker.ask("task.search", {"limit": 2})
    assert [each["id"] for each in tasks["tasks"]] == ["p0", "p1"]
    rest = speaker.ask("task.search", {"cursor": tasks["cursor"]})
    assert [(each["id"], each["state"]) for each in rest["tasks"]] == [("p2", "fulfilled")]
    assert "cursor" not in rest
    assert len(speaker.ask("task.search", {"state": "pending"})["tasks"]) == 2


def test_a_value_over_the_limit_is_422(speaker: Speaker) -> None:
    speaker.create("p")
    value = {"data": "x" * (1024 * 1024)}
    said = speaker.ask("promise.settle", {"id": "p", "state": "resolved", "value": value}, 422)
    assert "over the limit" in said
    said = speaker.ask("promise.create", {"id": "q", "timeoutAt": NEVER, "param": value}, 422)
    assert "over the limit" in said
    assert speaker.http.post("/", json=envelope("x" * 7_000_000)).status_code == 413


def test_data_of_signoff_that_looks_like_the_protocols_is_shown_as_data(speaker: Speaker) -> None:
    with speaker.http.__class__(base_url=speaker.server.url, trust_env=False) as api:
        for number, data in enumerate([{"resonate": 5}, {"resonate": {"param": 1}}, [1], None]):
            assert api.post("/v1/promises", json={"id": f"d{number}", "data": data}).status_code == 201
            shown = speaker.ask("promise.get", {"id": f"d{number}"})["promise"]
            assert (shown["state"], shown["tags"]) == ("pending", {})
    assert len(speaker.ask("promise.search", {})["promises"]) == 4
