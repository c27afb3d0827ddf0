"""The journal as server-sent events."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.server.conftest import asked, ended, events, fields, kind, start


def test_events_are_the_journal_and_end_with_the_run(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    followed = events(http, name)
    before = []
    for event, entry in followed:
        before.append((event, entry))
        if entry["kind"] == "opened":
            break
    assert http.post(f"/v1/questions/{name}.1/answer", json={"value": True}).status_code == 200
    after = list(followed)

    assert [event for event, _ in before + after] == ["message"] * 4 + ["end"]
    whole = http.get(f"/v1/runs/{name}/journal").json()["items"]
    assert [entry for _, entry in before + after[:-1]] == whole


def test_an_events_id_is_its_seq(http: httpx.Client, name: str) -> None:
    start(http, "echo", name)
    ended(http, name)
    response = http.get(f"/v1/runs/{name}/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    for block in response.text.strip().split("\n\n")[:-1]:
        parts = dict(line.split(": ", 1) for line in block.splitlines())
        assert int(parts["id"]) == json.loads(parts["data"])["seq"]


@pytest.mark.parametrize("seen", [-1, 0, 1, 3, 100])
def test_a_stream_is_resumed_after_the_last_event(http: httpx.Client, name: str, seen: int) -> None:
    start(http, "ask", name)
    http.post(f"/v1/questions/{asked(http, name)}/answer", json={"value": True})
    ended(http, name)
    resumed = [*events(http, name, **{"last-event-id": str(seen)})]
    assert [entry["seq"] for event, entry in resumed if event == "message"] == list(range(seen + 1, 4))
    assert resumed[-1][0] == "end"


def test_the_last_event_goes_before_the_query(http: httpx.Client, name: str) -> None:
    start(http, "echo", name)
    ended(http, name)
    url = f"/v1/runs/{name}/events"
    assert "id: 1\n" in http.get(url, params={"after": 0}).text
    assert "id: 0\n" not in http.get(url, params={"after": 0}).text
    assert "id: 0\n" in http.get(url, params={"after": 0}, headers={"last-event-id": "-1"}).text


@pytest.mark.parametrize("seen", ["x", "-2", "1.5", "9223372036854775808"])
def test_a_last_event_that_cannot_be_one_is_refused(http: httpx.Client, name: str, seen: str) -> None:
    start(http, "echo", name)
    refused = http.get(f"/v1/runs/{name}/events", headers={"last-event-id": seen})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["last-event-id"]


def test_an_unknown_run_is_refused_before_the_stream_begins(http: httpx.Client, name: str) -> None:
    refused = http.get(f"/v1/runs/{name}/events")
    assert refused.status_code == 404
    assert kind(refused) == "NotFound"


def test_a_silent_stream_says_that_it_is_alive(
    http: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.server.routes.run_events.PING_SECONDS", 0.01)
    start(http, "ask", name)
    with http.stream("GET", f"/v1/runs/{name}/events") as response:
        comments = (line for line in response.iter_lines() if line.startswith(":"))
        assert next(comments)
        assert next(comments)


def test_a_reader_that_leaves_disturbs_no_other(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    for _ in range(3):
        asked(http, name)  # leaves its stream in the middle
    http.post(f"/v1/questions/{name}.1/answer", json={"value": True})
    assert ended(http, name)["state"] == "succeeded"
