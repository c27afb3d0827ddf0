"""Routes of runs: starting, reading, listing, waiting for, cancelling, retrying and signalling."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

import signoff
from tests.server.conftest import asked, ended, fields, kind, path_of, start


def test_a_run_is_started_read_and_ends_with_its_result_as_json(http: httpx.Client, name: str) -> None:
    body = {"workflow": "echo", "id": name, "args": [{"a": [1, None]}], "kwargs": {"b": "é\u2028"}}
    started = http.post("/v1/runs", json=body)
    assert started.status_code == 201
    assert started.json()["id"] == name
    assert started.json()["arguments"] == {"args": [{"a": [1, None]}], "kwargs": {"b": "é\u2028"}}

    run = ended(http, name)
    assert run["state"] == "succeeded"
    assert run["result"] == {"value": {"a": [1, None]}, "b": "é\u2028"}
    assert "error" not in run
    assert http.get(f"/v1/runs/{name}").json() == run


def test_a_result_of_null_is_there_and_an_absent_one_is_not(http: httpx.Client, name: str) -> None:
    assert "result" not in start(http, "echo", name, None)
    run = ended(http, name)
    assert "result" in run
    assert run["result"] is None


def test_a_failed_run_shows_its_error_as_json(http: httpx.Client, name: str) -> None:
    start(http, "explode", name)
    run = ended(http, name)
    assert run["state"] == "failed"
    assert run["error"]["type"] == "builtins:ValueError"
    assert run["error"]["message"] == "no good"


def test_an_id_starts_once(http: httpx.Client, name: str) -> None:
    start(http, "echo", name, 1)
    body = {"workflow": "echo", "id": name, "args": [1]}
    again = http.post("/v1/runs", json=body)
    assert again.status_code == 200
    assert again.json()["id"] == name

    other = http.post("/v1/runs", json={**body, "args": [2]})
    assert other.status_code == 409
    assert kind(other) == "IdConflict"
    assert other.json()["id"] == name


def test_a_run_without_an_id_gets_one(http: httpx.Client) -> None:
    one, two = (http.post("/v1/runs", json={"workflow": "echo"}).json()["id"] for _ in range(2))
    assert one
    assert one != two


def test_a_run_is_started_in_the_group_that_is_asked_for(http: httpx.Client, name: str) -> None:
    assert start(http, "echo", name, group="elsewhere")["group"] == "elsewhere"
    assert start(http, "echo", f"{name}-2")["group"] == "default"


def test_a_runs_deadline_is_kept(http: httpx.Client, name: str) -> None:
    run = start(http, "ask", name, timeout_seconds=0.05)
    assert run["deadline_at"] == pytest.approx(run["created_at"] + 0.05, abs=5)
    assert ended(http, name)["error"]["type"].endswith(":RunTimeout")


@pytest.mark.parametrize("id", ["", " x", "x ", "a\nb", "\x00", "x" * 257])
def test_an_id_that_cannot_be_one_is_refused(http: httpx.Client, id: str) -> None:
    refused = http.post("/v1/runs", json={"workflow": "echo", "id": id})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["id"]


def test_runs_are_listed_newest_first_page_by_page(http: httpx.Client, name: str) -> None:
    for index in range(5):
        start(http, "echo", f"{name}-{index}", group=name)
    seen: list[str] = []
    after = None
    while True:
        query = {"group": name, "limit": 2, **({"after": after} if after else {})}
        page = http.get("/v1/runs", params=query).json()
        assert len(page["items"]) <= 2
        seen += [run["id"] for run in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"{name}-{index}" for index in (4, 3, 2, 1, 0)]


def test_runs_are_listed_by_state_workflow_group_and_parent(http: httpx.Client, name: str) -> None:
    start(http, "echo", f"{name}-a", group=name)
    start(http, "ask", f"{name}-b", group=name)

    def listed(**query: str | list[str]) -> set[str]:
        return {run["id"] for run in http.get("/v1/runs", params={"group": name, **query}).json()["items"]}

    assert listed(workflow="ask") == {f"{name}-b"}
    assert listed(state="ready") == {f"{name}-a", f"{name}-b"}
    assert listed(state=["paused", "failed"]) == set()
    assert listed(state=["ready", "failed"], workflow="echo") == {f"{name}-a"}
    assert listed(parent_id="nobody") == set()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"state": "sleeping"}, "state.0"),
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"after": "never"}, "after"),
        ({"after": "-1"}, "after"),
        ({"after": "9" * 20}, "after"),
        ({"after": "9" * 5000}, "after"),
    ],
)
def test_a_wrong_filter_is_refused_by_name(http: httpx.Client, query: dict[str, str], field: str) -> None:
    refused = http.get("/v1/runs", params=query)
    assert refused.status_code == 422
    assert list(fields(refused)) == [field]


def test_an_unknown_run_is_not_found(http: httpx.Client, name: str) -> None:
    answers = [
        http.get(f"/v1/runs/{name}"),
        http.get(f"/v1/runs/{name}/result"),
        http.get(f"/v1/runs/{name}/journal"),
        http.get(f"/v1/runs/{name}/events"),
        http.post(f"/v1/runs/{name}/cancel"),
        http.post(f"/v1/runs/{name}/retry"),
        http.post(f"/v1/runs/{name}/signals", json={"name": "x"}),
    ]
    for answer in answers:
        assert answer.status_code == 404, answer.url
        assert kind(answer) == "NotFound"
        assert (answer.json()["noun"], answer.json()["id"]) == ("run", name)


# Waiting


def test_the_result_of_a_run_that_goes_on_is_202(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    answer = http.get(f"/v1/runs/{name}/result")
    assert answer.status_code == 202
    assert answer.json()["id"] == name


def test_waiting_for_a_result_ends_after_its_time(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    asked(http, name)
    begun = time.monotonic()
    answer = http.get(f"/v1/runs/{name}/result", params={"wait": 0.2})
    assert time.monotonic() - begun >= 0.2
    assert answer.status_code == 202
    assert answer.json()["state"] in ("running", "paused")


def test_waiting_for_a_result_ends_with_the_run(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    question = asked(http, name)
    answers: list[httpx.Response] = []
    waiting = threading.Thread(
        target=lambda: answers.append(http.get(f"/v1/runs/{name}/result", params={"wait": 60}))
    )
    waiting.start()
    http.post(f"/v1/questions/{question}/answer", json={"value": True})
    waiting.join(timeout=60)
    assert [answer.status_code for answer in answers] == [200]
    assert answers[0].json()["result"] == {"approved": True, "by": None, "note": None}


@pytest.mark.parametrize("wait", ["-1", "soon", "nan"])
def test_a_wrong_time_to_wait_is_refused(http: httpx.Client, name: str, wait: str) -> None:
    start(http, "ask", name)
    refused = http.get(f"/v1/runs/{name}/result", params={"wait": wait})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["wait"]


# Cancelling, retrying, signalling


def test_a_run_is_cancelled_with_a_reason(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    asked(http, name)
    cancelled = http.post(f"/v1/runs/{name}/cancel", json={"reason": "not needed", "by": "ana"})
    assert cancelled.status_code == 200
    run = ended(http, name)
    assert run["state"] == "cancelled"
    assert "not needed" in run["error"]["message"]
    entries = http.get(f"/v1/runs/{name}/journal").json()["items"]
    asked_to = [entry for entry in entries if entry["kind"] == "cancel_requested"]
    assert [entry["details"]["by"] for entry in asked_to] == ["ana"]


def test_a_run_is_cancelled_without_a_word_and_again(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    assert http.post(f"/v1/runs/{name}/cancel").status_code == 200
    assert ended(http, name)["state"] == "cancelled"
    assert http.post(f"/v1/runs/{name}/cancel").json()["state"] == "cancelled"


def test_only_a_run_that_failed_by_its_code_is_retried(http: httpx.Client, name: str) -> None:
    start(http, "forget", name)
    assert ended(http, name)["retryable"] is True
    assert http.post(f"/v1/runs/{name}/retry").status_code == 200
    assert ended(http, name)["state"] == "failed"

    start(http, "echo", f"{name}-2")
    ended(http, f"{name}-2")
    refused = http.post(f"/v1/runs/{name}-2/retry")
    assert refused.status_code == 409
    assert kind(refused) == "InvalidState"
    assert (refused.json()["run_id"], refused.json()["state"]) == (f"{name}-2", "succeeded")


def test_a_signal_reaches_its_run_once_per_request_id(http: httpx.Client, name: str) -> None:
    start(http, "listen", name)
    signal = {"name": "news", "value": {"n": 1}, "request_id": "r1", "by": "ana"}
    url = f"/v1/runs/{name}/signals"
    # Sent to a run that waits for another signal first, so that it is not over at once.
    start(http, "listen", f"{name}-2", "other")
    assert http.post(f"/v1/runs/{name}-2/signals", json=signal).json() == {"sent": True}
    assert http.post(f"/v1/runs/{name}-2/signals", json=signal).json() == {"sent": False}
    conflict = http.post(f"/v1/runs/{name}-2/signals", json={**signal, "value": 2})
    assert conflict.status_code == 409
    assert kind(conflict) == "RequestConflict"

    assert http.post(url, json=signal).json() == {"sent": True}
    assert ended(http, name)["result"] == {"n": 1}
    late = http.post(url, json={"name": "news"})
    assert late.status_code == 409
    assert kind(late) == "InvalidState"


# The journal


def test_the_journal_is_read_page_by_page(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    http.post(f"/v1/questions/{asked(http, name)}/answer", json={"value": False, "note": "no"})
    ended(http, name)
    whole = http.get(f"/v1/runs/{name}/journal").json()
    assert whole["next"] is None
    assert [entry["seq"] for entry in whole["items"]] == list(range(len(whole["items"])))
    assert [entry["kind"] for entry in whole["items"]] == ["started", "opened", "completed", "succeeded"]
    assert whole["items"][2]["value"] == {"approved": False}
    assert whole["items"][2]["details"]["note"] == "no"

    first = http.get(f"/v1/runs/{name}/journal", params={"limit": 3}).json()
    assert first["items"] == whole["items"][:3]
    rest = http.get(f"/v1/runs/{name}/journal", params={"limit": 3, "after": first["next"]}).json()
    assert rest == {"items": whole["items"][3:], "next": None}


@pytest.mark.parametrize("after", ["-2", "x", "9223372036854775808"])
def test_a_wrong_place_in_the_journal_is_refused(http: httpx.Client, name: str, after: str) -> None:
    start(http, "echo", name)
    refused = http.get(f"/v1/runs/{name}/journal", params={"after": after})
    assert refused.status_code == 422
    assert list(fields(refused)) == ["after"]


# Ids


@pytest.mark.parametrize(
    "odd",
    [
        "a/b",
        "/",
        "a/journal",
        "../x",
        "x?y=1&z",
        "x#y",
        "%2F",
        "100%",
        "é ü",
        "☃",
        "a+b",
        "a;b",
        "a:b@c",
        "\\",
        '"<>"',
    ],
)
def test_an_id_may_hold_any_printable_character(http: httpx.Client, name: str, odd: str) -> None:
    run_id = f"{name}{odd}"
    start(http, "ask", run_id)
    assert http.get(f"/v1/runs/{path_of(run_id)}").json()["id"] == run_id
    question = asked(http, run_id)
    assert http.get(f"/v1/questions/{path_of(question)}").json()["run_id"] == run_id
    answer = http.post(f"/v1/questions/{path_of(question)}/answer", json={"value": True})
    assert answer.status_code == 200
    assert ended(http, run_id)["result"]["approved"] is True
    assert http.get(f"/v1/runs/{path_of(run_id)}/journal").json()["items"]


def test_a_path_without_a_route_is_a_problem_too(http: httpx.Client) -> None:
    for response, status in (
        (http.get("/v1/nothing"), 404),
        (http.get("/v1/runs/a/b/c"), 404),
        (http.put("/v1/runs"), 405),
    ):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "about:blank"


def test_health_and_readiness(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok", "version": signoff.__version__}
    assert http.get("/ready").json() == {"status": "ok"}
