"""Failures that users of Resonate, Temporal, DBOS, Restate and Inngest have reported, tried here by requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from signoff.testing import VirtualClock
from tests.server.resonate.receiver import receiving
from tests.server.resonate.speaker import (
    START,
    TARGET,
    Speaker,
    await_action,
    create_action,
    envelope,
    open_store,
    settle_action,
    speaking,
    speaking_on,
)
from tests.support import OnThread

HOUR = 3600.0


def acquire(speaker: Speaker, id: str, version: int, status: int = 200) -> object:
    return speaker.ask("task.acquire", {"id": id, "version": version, "pid": "p", "ttl": 60_000}, status)


def test_a_clock_that_is_set_back_delays_no_message(
    speaker: Speaker, elapse: Callable[[float], None]
) -> None:
    """temporalio/documentation#2050: clocks differ, and are set."""
    with speaker.polling("g", "p") as messages:
        speaker.create("before", tags={"resonate:target": "poll://any@g"})
        assert next(messages)["data"]["task"]["id"] == "before"
        speaker.clock.advance(-HOUR)
        elapse(31)
        assert next(messages)["data"]["task"]["id"] == "before"


def test_a_task_of_a_settled_promise_is_neither_sent_nor_acquired(speaker: Speaker) -> None:
    """restatedev/restate#3656: what waits to be tried again can be cancelled. sdk-py#266: a timeout, too."""
    speaker.hold("cancelled")
    speaker.ask("task.release", {"id": "cancelled", "version": 1})
    speaker.settle("cancelled", "rejected_canceled")
    acquire(speaker, "cancelled", 1, 409)
    speaker.create("late", timeoutAt=START + 1000, tags=TARGET)
    speaker.clock.advance(2)
    acquire(speaker, "late", 0, 409)
    with speaker.polling("workers", "p") as messages:
        speaker.create("open", tags=TARGET)
        assert next(messages)["data"]["task"]["id"] == "open"


@pytest.mark.long  # a server frees no lease in its first ten seconds
def test_a_heartbeat_extends_no_lease_that_was_lost(tmp_path: Path) -> None:
    """electric-sql/electric#4353, gadget-inc/silo#327: a lease that a heartbeat loses, or brings back."""
    clock, leases = VirtualClock(START / 1000), VirtualClock(5000.0)
    store = open_store(f"sqlite:///{tmp_path}/signoff.db", clock=clock, lease_clock=leases)
    with OnThread(lambda: speaking_on(store, clock)) as speaker, speaker:
        leases.advance(HOUR)
        speaker.hold("t")
        held = {"id": "t", "version": 1}
        for _ in range(3):  # each for a whole lease
            leases.advance(50)
            speaker.ask("task.heartbeat", {"pid": "p", "tasks": [held]})
            assert speaker.task("t")["state"] == "acquired"
        leases.advance(61)
        with speaker.polling("workers", "q") as messages:
            assert next(messages)["data"]["task"] == held
        acquire(speaker, "t", 1)
        for version in (1, 2):
            speaker.ask("task.heartbeat", {"pid": "other", "tasks": [{"id": "t", "version": version}]})
        late = {"id": "t", "version": 1, "action": settle_action("t")}
        speaker.ask("task.fulfill", late, 409)
        speaker.ask("task.fence", {**held, "action": create_action("t.0")}, 409)
        speaker.ask("task.release", held, 409)
        assert (speaker.task("t")["state"], speaker.task("t")["version"]) == ("acquired", 2)


def test_a_receiver_may_work_while_its_message_is_posted(tmp_path: Path) -> None:
    """resonatehq/resonate#299: the server waited for a worker that waited for the server."""
    with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/run"
        with OnThread(lambda: speaking(tmp_path, resonate_push=[url])) as speaker, speaker:

            def work(message: dict[str, dict[str, dict[str, object]]]) -> None:
                task = message["data"]["task"]
                with httpx.Client(base_url=speaker.url, trust_env=False, timeout=30) as http:
                    acquired = {**task, "pid": "p", "ttl": 60_000}
                    assert http.post("/", json=envelope("task.acquire", acquired)).status_code == 200
                    done = {"id": "t", "version": 1, "action": settle_action("t", data="MQ==")}
                    assert http.post("/", json=envelope("task.fulfill", done)).status_code == 200

            receiver.got = type("Working", (list,), {"append": lambda _, message: work(message)})()
            speaker.create("t", tags={"resonate:target": url})
            assert receiver.arrived.acquire(timeout=30)
            promise = speaker.ask("promise.get", {"id": "t"})["promise"]
            assert (promise["state"], promise["value"]) == ("resolved", {"data": "MQ=="})


def test_one_promise_comes_of_many_equal_requests_at_once(speaker: Speaker) -> None:
    """dbos-transact-java#226, mastra#13629, vercel/workflow#2039: one id started or created twice."""

    def start(number: int) -> tuple[int, object]:
        with httpx.Client(base_url=speaker.url, trust_env=False, timeout=60) as http:
            action = create_action("t", tags=TARGET, param={"data": str(number)})
            data = {"pid": f"p{number}", "ttl": 60_000, "action": action}
            reply = http.post("/", json=envelope("task.create", data))
            return reply.status_code, reply.json()["data"]

    with ThreadPoolExecutor(8) as callers:
        replies = list(callers.map(start, range(8)))
    assert sorted(status for status, _ in replies) == [200] + [409] * 7
    task = speaker.task("t")
    created = speaker.ask("promise.get", {"id": "t"})["promise"]
    assert (task["version"], f"p{created['param']['data']}") == (1, task["pid"])


def test_a_suspended_task_cannot_wait_for_itself(speaker: Speaker) -> None:
    """restatedev/restate#5196: suspended until a result that only itself would produce."""
    speaker.hold("t")
    suspend = {"id": "t", "version": 1, "actions": [await_action("t", "t")]}
    assert "different promises" in speaker.ask("task.suspend", suspend, 400)
    assert speaker.task("t")["state"] == "acquired"


@pytest.mark.parametrize("is_suspended", [True, False])
def test_a_callback_after_the_settlement_still_resumes(speaker: Speaker, is_suspended: bool) -> None:
    """resonatehq/resonate#500: a callback of a completed promise."""
    speaker.hold("t")
    for id in ("done", "open"):
        speaker.create(id)
    speaker.settle("done")
    callback = {"awaited": "done", "awaiter": "t"}
    suspend = {"id": "t", "version": 1, "actions": [await_action("open", "t")]}
    if is_suspended:
        speaker.ask("task.suspend", suspend)
        speaker.ask("promise.register_callback", callback)
        assert speaker.task("t") == {"id": "t", "state": "pending", "version": 1, "resumes": 0}
    else:
        speaker.ask("promise.register_callback", callback)
        assert speaker.task("t")["resumes"] == 1


def test_a_process_that_settles_its_own_invocation_is_done(speaker: Speaker) -> None:
    """resonatehq/resonate-sdk-ts#429: it settles the promise, and then fulfils the task."""
    speaker.hold("t")
    speaker.settle("t", data="MQ==")
    speaker.ask("task.fulfill", {"id": "t", "version": 1, "action": settle_action("t", data="Mg==")}, 409)
    assert speaker.ask("promise.get", {"id": "t"})["promise"]["value"] == {"data": "MQ=="}


def test_a_promise_of_the_past_is_timed_out_and_calls_nobody(speaker: Speaker) -> None:
    """temporalio/documentation#2050: the clock of a caller is behind that of the server."""
    promise = speaker.create("t", timeoutAt=START - 60_000, tags=TARGET)
    assert promise["state"] == "rejected_timedout"
    assert speaker.task("t")["state"] == "fulfilled"
