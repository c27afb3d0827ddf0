"""An operator suspends one run and resumes it: input that arrives meanwhile is kept."""

from __future__ import annotations

import httpx
import pytest

from tests.server.conftest import asked, ended, kind, start

pytestmark = pytest.mark.usefixtures("open_trail")


def test_answers_and_signals_of_a_suspended_run_are_kept_and_delivered(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    suspended = http.post(f"/v1/runs/{name}/suspend", json={"reason": "the bank is down", "by": "user:olga"})
    assert suspended.status_code == 200
    run = suspended.json()
    assert (run["suspended_by"], run["suspended_reason"]) == ("user:olga", "the bank is down")
    again = http.post(f"/v1/runs/{name}/suspend", json={"reason": "another", "by": "user:eve"}).json()
    assert again["suspended_reason"] == "the bank is down"
    assert http.post(f"/v1/questions/{id}/answer", json={"value": True, "user_id": "ana"}).status_code == 200
    waiting = http.get(f"/v1/runs/{name}/result", params={"wait": 1})
    assert waiting.status_code == 202, "it was answered, and goes on only when it is resumed"
    resumed = http.post(f"/v1/runs/{name}/resume", json={"by": "user:olga"}).json()
    assert "suspended_at" not in resumed
    assert ended(http, name)["state"] == "succeeded"
    trail = http.get("/v1/audit", params={"run_id": name}).json()["items"]
    told = [(each["kind"], each["by"]) for each in trail if each["kind"] in ("suspended", "resumed")]
    assert told == [("suspended", "user:olga"), ("resumed", "user:olga")]


def test_a_run_is_terminated_without_its_code(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    id = asked(http, name)
    done = http.post(f"/v1/runs/{name}/terminate", json={"reason": "its code is gone", "by": "user:olga"})
    assert (done.status_code, done.json()["state"]) == (200, "cancelled")
    assert http.get(f"/v1/questions/{id}").json()["state"] == "cancelled"
    trail = http.get("/v1/audit", params={"run_id": name}).json()["items"]
    [event] = [each for each in trail if each["kind"] == "terminated"]
    assert (event["by"], event["details"]["reason"]) == ("user:olga", "its code is gone")


def test_a_run_that_failed_for_good_is_retried_by_an_operator(http: httpx.Client, name: str) -> None:
    start(http, "explode", name)
    assert ended(http, name)["retryable"] is False
    retried = http.post(f"/v1/runs/{name}/retry", json={"reason": "mended", "by": "user:olga"})
    assert retried.status_code == 200, retried.text
    assert ended(http, name)["state"] == "failed", "its code is as it was"
    trail = http.get("/v1/audit", params={"run_id": name}).json()["items"]
    assert [each["by"] for each in trail if each["kind"] == "retried"] == ["user:olga"]


def test_a_run_that_has_ended_is_not_suspended(http: httpx.Client, name: str) -> None:
    start(http, "echo", name)
    ended(http, name)
    for verb in ("suspend", "resume", "terminate"):
        refused = http.post(f"/v1/runs/{name}/{verb}")
        assert (refused.status_code, kind(refused)) == (409, "InvalidState")
        assert http.post(f"/v1/runs/{name}-none/{verb}").status_code == 404
