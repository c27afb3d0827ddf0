"""Rule: a server for tests stops and sets its clock on request; no other server does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from signoff import AsyncClient, Signoff
from signoff.cli.resonate_options import debugged
from signoff.errors import InvalidValue
from signoff.server import Role, Server
from signoff.server.auth.stored_keys import StoredKeys
from signoff.server.resonate.debug_clock import DebugClock
from signoff.testing import VirtualClock
from tests.cli.commands import signoff
from tests.server.resonate.speaker import TARGET, Speaker
from tests.support import OnThread, in_asyncio

HOUR = 3_600_000


@asynccontextmanager
async def serving(url: str) -> AsyncIterator[Speaker]:
    app = Signoff(debugged(url))
    try:
        async with Server(app, port=0, resonate_port=0) as server:
            yield Speaker(server, app, cast("VirtualClock", app.store.clock))
    finally:
        await app.store.close()


@pytest.fixture
def tester(store: str) -> Iterator[Speaker]:
    """A server whose clock is stopped."""
    with OnThread(lambda: serving(store)) as speaker, speaker:
        assert speaker.ask("debug.start", {}) == {}
        yield speaker


def now_of(speaker: Speaker) -> int:
    return speaker.create(f"now-{time.monotonic_ns()}")["createdAt"]


def tick(speaker: Speaker, to: int) -> None:
    assert speaker.ask("debug.tick", {"time": to}) == []


class StartedMeanwhile(DebugClock):
    """A clock that another thread starts again right after it was read."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "_stopped_at" and value is not None:
            self.run()
        return value


def test_clock_that_another_thread_starts_has_a_time() -> None:
    clock = StartedMeanwhile()
    clock.set(5.0)
    assert clock.now() == 5.0


def test_clock_stands_still_between_ticks(tester: Speaker) -> None:
    begun = now_of(tester)
    tester.create("p", timeoutAt=begun + 50)
    time.sleep(1.5)
    assert now_of(tester) == begun
    assert tester.ask("promise.get", {"id": "p"})["promise"]["state"] == "pending"
    tick(tester, begun + 49)
    assert tester.ask("promise.get", {"id": "p"})["promise"]["state"] == "pending"
    tick(tester, begun + 50)
    promise = tester.ask("promise.get", {"id": "p"})["promise"]
    assert (promise["state"], promise["settledAt"]) == ("rejected_timedout", begun + 50)


def test_tick_replies_when_deadlines_leases_and_schedules_have_fired(tester: Speaker) -> None:
    begun = now_of(tester)
    tester.hold("held", timeoutAt=begun + 10 * HOUR)
    tester.hold("waits", timeoutAt=begun + 10 * HOUR)
    tester.create("due", timeoutAt=begun + HOUR)
    awaits = {"kind": "promise.register_callback", "head": {}, "data": {"awaited": "due", "awaiter": "waits"}}
    tester.ask("task.suspend", {"id": "waits", "version": 1, "actions": [awaits]})
    schedule: dict[str, Any] = {"id": "s", "cron": "0 * * * *", "promiseId": "s.{{.timestamp}}"}
    schedule |= {"promiseTimeout": HOUR, "promiseParam": {}, "promiseTags": TARGET}
    first = tester.ask("schedule.create", schedule)["schedule"]["nextRunAt"]
    tick(tester, begun + HOUR)
    assert tester.task("held")["state"] == "pending"  # its lease of a minute has expired
    assert tester.task("waits")["state"] == "pending"
    assert tester.task(f"s.{first}")["state"] == "pending"


def test_delayed_task_is_sent_at_its_tick(tester: Speaker) -> None:
    begun = now_of(tester)
    with tester.polling("workers", "p") as messages:
        tester.create("late", tags={**TARGET, "resonate:delay": str(begun + HOUR)})
        tick(tester, begun + HOUR)
        assert next(messages)["data"]["task"]["id"] == "late"


def test_stopped_debugging_shows_the_time_of_the_machine(tester: Speaker) -> None:
    tick(tester, 1_000)
    assert now_of(tester) == 1_000
    assert tester.ask("debug.stop", {}) == {}
    assert abs(now_of(tester) - time.time() * 1000) < 60_000


def test_what_is_not_there_is_501(tester: Speaker) -> None:
    assert "is not implemented" in tester.ask("debug.snap", {}, 501)
    reply = tester.send("promise.get", {"id": "p"}, **{"resonate:debug_time": 1})
    assert reply.status_code == 501
    assert "data.time" in tester.ask("debug.tick", {}, 400)


def test_reset_deletes_promises_tasks_and_schedules(tester: Speaker) -> None:
    begun = now_of(tester)
    tester.hold("held")
    tester.hold("waits")
    tester.create("pending", tags=TARGET)
    tester.create("asked", tags={"signoff:question": '"Well?"'})
    tester.create("settled")
    tester.settle("settled")
    awaits = {
        "kind": "promise.register_callback",
        "head": {},
        "data": {"awaited": "asked", "awaiter": "waits"},
    }
    tester.ask("task.suspend", {"id": "waits", "version": 1, "actions": [awaits]})
    schedule: dict[str, Any] = {"id": "s", "cron": "0 * * * *", "promiseId": "s.{{.timestamp}}"}
    tester.ask(
        "schedule.create", schedule | {"promiseTimeout": HOUR, "promiseParam": {}, "promiseTags": TARGET}
    )
    assert tester.ask("debug.reset", {}) == {}
    assert tester.ask("promise.search", {})["promises"] == []
    assert tester.ask("task.search", {})["tasks"] == []
    assert tester.ask("schedule.search", {})["schedules"] == []
    with tester.polling("workers", "p") as messages:
        tester.create("held", tags=TARGET)
        assert next(messages)["data"]["task"] == {"id": "held", "version": 0}
    assert tester.ask("promise.get", {"id": "held"})["promise"]["createdAt"] == begun


@in_asyncio
async def test_reset_is_refused_while_there_are_runs(tmp_path: Path) -> None:
    async with serving(f"sqlite:///{tmp_path}/s.db") as speaker, AsyncClient(speaker.app) as client:
        await client.start("never", id="r")
        with speaker:
            await asyncio.to_thread(speaker.create, "p")
            assert "has runs of Signoff" in await asyncio.to_thread(speaker.ask, "debug.reset", {}, 409)
            assert (await asyncio.to_thread(speaker.ask, "promise.get", {"id": "p"}))["promise"]["id"] == "p"


def test_first_key_of_the_database_ends_debugging(tester: Speaker) -> None:
    key, _ = asyncio.run(StoredKeys(tester.app.store).create_for_service("bot", [Role.ADMIN]))
    with tester.with_key(key) as bot:
        assert "has API keys now" in bot.ask("debug.tick", {"time": 1}, 403)


@in_asyncio
async def test_database_with_keys_is_not_debugged(
    database: Callable[[], AbstractContextManager[str]],
) -> None:
    with database() as url:
        app = Signoff(debugged(url))
        await app.store.open()
        try:
            await StoredKeys(app.store).create_for_service("bot", [Role.ADMIN])
            with pytest.raises(InvalidValue, match="no database for tests"):
                async with Server(app, port=0, resonate_port=0):
                    pass
        finally:
            await app.store.close()


@in_asyncio
async def test_server_that_others_reach_is_not_debugged(tmp_path: Path) -> None:
    app = Signoff(debugged(f"sqlite:///{tmp_path}/s.db"))
    try:
        with pytest.raises(InvalidValue, match=r"listens on 0\.0\.0\.0"):
            async with Server(app, host="0.0.0.0", port=0, resonate_port=0):
                pass
    finally:
        await app.store.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--resonate-debug"], "--resonate-debug is for --resonate: add it"),
        (["m:app", "--resonate", "--resonate-debug"], "give --store, not MODULE:APP"),
        (["--resonate", "--resonate-debug", "--host", "0.0.0.0"], "--resonate-debug: the server listens on"),
    ],
)
def test_option_says_what_it_needs(tmp_path: Path, options: list[str], reason: str) -> None:
    ended = signoff("server", "--port", "0", "--resonate-port", "0", *options, cwd=tmp_path)
    assert ended.code != 0
    assert reason in ended.err
