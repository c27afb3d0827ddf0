"""Events match what happened, once; they cost little and harm nothing."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from signoff import Context, RetryPolicy, RunState, SignalTimeout, Signoff
from signoff.engine.timers.schedules import fire_due
from signoff.errors import AlreadySettled, NotFound, StoreUnavailable, WrongAnswer
from signoff.observability import events as telemetry
from signoff.observability.events import (
    AnswerGiven,
    AttemptCancelled,
    AttemptFailed,
    AttemptStarted,
    AttemptSucceeded,
    DeadlineServed,
    Event,
    RunClaimed,
    RunEnded,
    RunLost,
    RunPaused,
    RunReleased,
    StoreCommitted,
    WaitEnded,
    WaitStarted,
    WorkerTakenOver,
)
from signoff.people.questions import answer_events
from signoff.records import CallKind, NewSchedule, PromiseState, Run, WorkerInfo
from signoff.testing import MemoryStore, VirtualClock, crash_everywhere
from signoff.testing.environment import Environment
from tests.postgres.databases import fresh_database
from tests.support import doomed_worker, in_asyncio, new_app, opened, opens, pauses, reaches, running

E = TypeVar("E", bound=Event)
SECRET = "hunter2-is-my-password"


def of(events: list[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def refunds(app: Signoff) -> Signoff:
    @app.workflow
    async def refund(ctx: Context, order: str) -> Any:
        await ctx.step("fetch_order", lambda: order)
        answer = await ctx.wait_for_user(f"Refund {order}?", input_type="text")
        told = await ctx.wait_for_signal("go")
        promise = await ctx.promise()
        return [answer.value, told, await promise]

    return app


@in_asyncio
async def test_a_run_is_reported_from_its_claim_to_its_end(tmp_path: Path, events: list[Event]) -> None:
    app = refunds(new_app(tmp_path))
    async with running(app) as client:
        run = await client.start("refund", SECRET, id="r")
        await pauses(app, "r")
        await client.answer("r.2", SECRET, user_id="user:ana")
        await pauses(app, "r")
        await client.signal("r", "go", SECRET, by="user:ben")
        await pauses(app, "r")
        await client.promises.resolve("r.4", SECRET)
        await run.result()
    claims = of(events, RunClaimed)
    assert [claim.run.epoch for claim in claims] == list(range(1, len(claims) + 1))
    assert [claim.waited_seconds is None for claim in claims] == [False] + [True] * (len(claims) - 1)
    assert len(of(events, RunPaused)) == len(claims) - 1
    [end] = of(events, RunEnded)
    assert (end.state, end.retryable, end.run.workflow, end.run.group) == (
        "succeeded",
        False,
        "refund",
        "default",
    )
    assert end.seconds >= end.held_seconds >= 0
    assert [wait.kind for wait in of(events, WaitStarted)] == ["question", "signal", "promise"]
    waits = of(events, WaitEnded)
    assert [(wait.kind, wait.name, wait.by) for wait in waits] == [
        (CallKind.QUESTION, None, "user:ana"),
        (CallKind.SIGNAL, "go", "user:ben"),
        (CallKind.PROMISE, None, None),
    ]
    assert all(wait.started_at <= wait.settled_at <= wait.ended_at for wait in waits)
    [answer] = of(events, AnswerGiven)
    assert (answer.run_id, answer.workflow, answer.by, answer.outcome) == (
        "r",
        "refund",
        "user:ana",
        "accepted",
    )
    assert SECRET not in repr(events)


@in_asyncio
async def test_a_refused_answer_is_reported_with_its_run(tmp_path: Path, events: list[Event]) -> None:
    app = refunds(new_app(tmp_path))
    async with running(app) as client:
        await client.start("refund", SECRET, id="r")
        await pauses(app, "r")
        with pytest.raises(WrongAnswer):
            await client.answer("r.2", {"wrong": SECRET})
        with pytest.raises(NotFound):
            await client.answer("nobody.1", SECRET)
        await client.answer("r.2", SECRET)
        with pytest.raises(AlreadySettled):
            await client.answer("r.2", f"not {SECRET}")
        await client.signal("r", "go")
        await opens(app, "r.4")
        with pytest.raises(NotFound):
            await client.answer("r.4", SECRET)  # a promise, but no question
    assert [(answer.run_id, answer.workflow, answer.outcome) for answer in of(events, AnswerGiven)] == [
        ("r", "refund", "WrongAnswer"),
        (None, None, "NotFound"),
        ("r", "refund", "accepted"),
        ("r", "refund", "AlreadySettled"),
        ("r", "refund", "NotFound"),
    ]


@pytest.mark.parametrize("error", [StoreUnavailable("here", "it is away"), None])
@in_asyncio
async def test_an_answer_stands_when_its_run_cannot_be_read_for_telling_of_it(
    error: Exception | None,
    tmp_path: Path,
    events: list[Event],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def get_run(_: str) -> Run:
        if error is not None:
            raise error
        return await asyncio.Future()

    app = refunds(new_app(tmp_path))
    async with opened(app) as client:
        async with app.worker():
            await client.start("refund", "o-1", id="r")
            await pauses(app, "r")
        monkeypatch.setattr(answer_events, "READ_SECONDS", 0.05)
        monkeypatch.setattr(app.store, "get_run", get_run)
        caplog.set_level(logging.DEBUG, "signoff.people")
        await client.answer("r.2", SECRET)
        assert (await app.store.get_promise("r.2")).state is PromiseState.RESOLVED
    [answer] = of(events, AnswerGiven)
    assert (answer.question_id, answer.run_id, answer.outcome) == ("r.2", None, "accepted")
    [record] = [record for record in caplog.records if record.name == "signoff.people"]
    assert record.exc_info is not None
    assert "r.2 (accepted)" in record.getMessage()
    assert SECRET not in caplog.text


@in_asyncio
async def test_attempts_are_reported_with_their_outcomes(tmp_path: Path, events: list[Event]) -> None:
    app = new_app(tmp_path)
    tries: list[int] = []

    def shaky() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("closed")

    @app.workflow
    async def pay(ctx: Context) -> None:
        await ctx.step("shaky", shaky, retry=RetryPolicy(initial_seconds=0.01, max_attempts=3))
        try:
            async with asyncio.timeout(0.01):
                await ctx.step("slow", asyncio.sleep, 60)
        except TimeoutError:
            pass
        await ctx.step("hopeless", lambda: 1 / 0, retry=RetryPolicy(max_attempts=1))

    async with running(app) as client:
        with pytest.raises(ZeroDivisionError):
            await (await client.start(pay)).result()
    assert [start.attempt.attempt for start in of(events, AttemptStarted)] == [1, 2, 3, 1, 1]
    failed = of(events, AttemptFailed)
    assert [(each.attempt.step, each.retried) for each in failed] == [
        ("shaky", True),
        ("shaky", True),
        ("hopeless", False),
    ]
    assert [each.attempt.step for each in of(events, AttemptSucceeded)] == ["shaky"]
    assert [each.attempt.step for each in of(events, AttemptCancelled)] == ["slow"]
    [end] = of(events, RunEnded)
    assert end.state is RunState.FAILED


@in_asyncio
async def test_a_lost_lease_is_no_stop_in_order(tmp_path: Path, events: list[Event]) -> None:
    app = new_app(tmp_path)
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @app.workflow
    async def wait(ctx: Context) -> None:
        await ctx.step("hang", hang)

    async with opened(app) as client:
        async with doomed_worker(app, beat_seconds=0.05) as worker:
            await client.start(wait, id="r")
            await begun.wait()
            await app.store.release(worker.info.id)  # as if its lease had run out
            begun.clear()
            await begun.wait()
            assert [lost.run.epoch for lost in of(events, RunLost)] == [1]
            assert of(events, RunReleased) == []
        assert [left.run.epoch for left in of(events, RunReleased)] == [2]


@in_asyncio
async def test_deadlines_are_reported_with_their_delay(tmp_path: Path, events: list[Event]) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def patient(ctx: Context) -> None:
        await ctx.sleep(0.01)
        for wait in (
            ctx.wait_for_user("Anybody?", timeout_seconds=0.01),
            ctx.wait_for_signal("go", timeout_seconds=0.01),
        ):
            with pytest.raises(SignalTimeout):
                await wait

    @app.workflow
    async def endless(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    async with running(app) as client:
        await (await client.start(patient)).result()
        await client.start(endless, id="r", timeout_seconds=0.01)
        await reaches(app, "r", RunState.FAILED)
    served = of(events, DeadlineServed)
    assert [deadline.kind for deadline in served] == ["timer", "question", "signal", "run"]
    assert all(0 <= deadline.late_seconds < 60 for deadline in served)
    assert [wait.state for wait in of(events, WaitEnded)] == ["timed_out", "timed_out"]


@in_asyncio
async def test_a_schedule_is_reported_by_the_process_that_fires_it(events: list[Event]) -> None:
    store = MemoryStore(clock=VirtualClock(1_000_000.0))
    new = NewSchedule(
        "s", "report", "default", '{"args":[],"kwargs":{}}', "* * * * *", "UTC", next_at=999_990.0
    )
    await store.put_schedule(new)
    await fire_due(store)
    await fire_due(store)
    assert of(events, DeadlineServed) == [DeadlineServed(None, "schedule", 10.0)]


@in_asyncio
async def test_a_dead_worker_is_reported_with_its_runs(tmp_path: Path, events: list[Event]) -> None:
    app = refunds(new_app(tmp_path))
    dead = WorkerInfo("dead", "host", 1, 0.0, "default")
    async with opened(app) as client:
        run = await client.start("refund", "o-1")
        await app.store.enlist(dead)
        await app.store.claim("dead", "default", ["refund"], 1)
        async with doomed_worker(app, is_dead=lambda worker: worker.id == "dead"):
            await pauses(app, run.id)
    assert of(events, WorkerTakenOver) == [WorkerTakenOver("dead", 1)]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_tells_of_its_commits(kind: str, tmp_path: Path, events: list[Event]) -> None:
    def start(url: str) -> None:
        app = refunds(Signoff(url))
        app.start("refund", "o-1")
        app.close()

    if kind == "sqlite":
        start(f"sqlite:///{tmp_path / 'signoff.db'}")
    else:
        with fresh_database() as url:
            start(url)
    commits = [commit for commit in of(events, StoreCommitted) if commit.store == kind]
    assert commits
    assert all(commit.operations >= 1 and commit.seconds >= 0 for commit in commits)


@in_asyncio
async def test_a_subscriber_that_raises_harms_no_run_and_is_logged(
    tmp_path: Path, events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("the metrics are down")

    app = refunds(new_app(tmp_path))
    end = telemetry.subscribe(broken)
    try:
        async with running(app) as client:
            run = await client.start("refund", "o-1", id="r")
            await pauses(app, "r")
            await client.answer("r.2", "yes")
            await client.signal("r", "go", 1)
            await pauses(app, "r")
            await client.promises.resolve("r.4", 2)
            assert await run.result() == ["yes", 1, 2]
    finally:
        end()
    assert len(of(events, RunEnded)) == 1  # the others are still notified
    failures = [record for record in caplog.records if record.name == "signoff.telemetry"]
    assert failures
    assert all(record.levelno == logging.ERROR and record.exc_info for record in failures)


def test_an_unsubscribed_listener_gets_no_events() -> None:
    heard: list[Event] = []
    ends: list[Callable[[], None]] = [telemetry.subscribe(heard.append), telemetry.subscribe(heard.append)]
    telemetry.announce(DeadlineServed(None, "timer", 0.0))
    ends[0]()
    ends[0]()
    telemetry.announce(DeadlineServed(None, "run", 0.0))
    ends[1]()
    telemetry.announce(DeadlineServed(None, "signal", 0.0))
    here = [event for event in of(heard, DeadlineServed) if event.run is None]
    assert [event.kind for event in here] == ["timer", "timer", "run"]


@in_asyncio
async def test_wherever_a_worker_dies_waits_and_ends_are_reported_once_at_most(
    tmp_path: Path, events: list[Event]
) -> None:
    app = new_app(tmp_path)
    calls: list[str] = []

    @app.workflow
    async def refund(ctx: Context) -> str:
        await ctx.step("fetch_order", lambda: calls.append("fetch_order"))
        answer = await ctx.wait_for_user("Refund?")
        await ctx.sleep(1)
        await ctx.step("pay", lambda: calls.append("pay"))
        return answer.user_id or ""

    async def scenario(env: Environment) -> str:
        events.clear()
        calls.clear()
        env.people.answer("Refund?", approved=True, by="user:ana")
        result = await env.run(refund, id="r")
        assert len(of(events, WaitEnded)) <= 1
        assert len(of(events, RunEnded)) <= 1
        assert [deadline.kind for deadline in of(events, DeadlineServed)] in ([], ["timer"])
        assert [start.attempt.step for start in of(events, AttemptStarted)] == calls  # each call was reported
        return result

    await crash_everywhere(app, scenario)


WITHOUT_OPENTELEMETRY = """
import sys

sys.modules["opentelemetry"] = None  # as if it were not installed

from signoff import Context, Signoff
from signoff.observability import events as telemetry

app = Signoff("sqlite:///signoff.db")


@app.workflow
async def add(ctx: Context, a: int, b: int) -> int:
    ctx.logger.warning("adding")
    return await ctx.step("sum", lambda: a + b)


with app.worker():
    print(app.start(add, 1, 2).result())
app.close()
print([name for name in sys.modules if name.startswith("opentelemetry.")], telemetry.subscribers)
"""


def test_without_opentelemetry_everything_goes_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_OPENTELEMETRY],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["3", "[] ()"]


def test_a_program_without_spans_does_not_load_opentelemetry(tmp_path: Path) -> None:
    program = WITHOUT_OPENTELEMETRY.replace('sys.modules["opentelemetry"] = None', "")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["3", "[] ()"]
