"""Plain steps that fill the worker's threads: others wait without losing their time, and the worker says so."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from unittest.mock import Mock

import pytest

from signoff import Context, RetryPolicy, Signoff, current_step
from signoff.engine.steps import threads
from signoff.errors import StepTimeout
from signoff.observability import events
from signoff.observability.events import AttemptSucceeded, ThreadAwaited
from signoff.records import EntryKind
from tests.places import NewStore
from tests.support import comes, in_asyncio, journaled, running

LIMIT = 1.0  # seconds, within which a step ends that does nothing, on a slow machine, too


@in_asyncio
async def test_the_wait_for_a_thread_is_no_part_of_a_timeout(
    new_store: NewStore, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    app, hung, let_go = Signoff(new_store()), threading.Event(), threading.Event()

    def hang() -> None:
        hung.set()
        let_go.wait(60)

    @app.workflow
    async def stuck(ctx: Context) -> None:
        await ctx.step("hang", hang)

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("quick", lambda: "done", timeout=LIMIT, retry=RetryPolicy(max_attempts=1))

    awaited, ended = list[ThreadAwaited](), list[AttemptSucceeded]()

    def hear(event: object) -> None:
        if isinstance(event, ThreadAwaited):
            awaited.append(event)
        elif isinstance(event, AttemptSucceeded) and event.attempt.step == "quick":
            ended.append(event)

    request.addfinalizer(events.subscribe(hear))
    with caplog.at_level(logging.WARNING, "signoff.worker"):
        async with running(app, threads=1, beat_seconds=0.05) as client:
            await client.start(stuck, id="s")
            assert await asyncio.to_thread(hung.wait, 60)
            runs = [await client.start(flow) for _ in range(3)]

            async def warned() -> list[str]:
                return [record.getMessage() for record in caplog.records if "threads" in record.getMessage()]

            [message] = await comes(warned)
            assert "all 1 threads for plain steps are taken" in message
            assert "step 'hang' of run s" in message

            async def shown() -> tuple[int | None, int, int] | None:
                (worker,) = await client.workers()
                found = (worker.threads, worker.threads_busy, worker.threads_waiting)
                return found if worker.threads_waiting == 3 else None

            assert await comes(shown) == (1, 1, 3)
            assert (1, 1, 3) in [(pool.count, pool.busy, pool.waiting) for pool in threads.at_work()]
            await asyncio.sleep(1.1 * LIMIT)
            let_go.set()
            assert [await run.result(60) for run in runs] == ["done"] * 3
            assert len(awaited) == 3
            assert all(event.seconds >= LIMIT for event in awaited)
            assert all(event.seconds < LIMIT for event in ended), "that time is no part of the attempt"
            for run in runs:
                (entry,) = await journaled(app, run.id, EntryKind.COMPLETED)
                assert entry.at - entry.fact("started_at") < LIMIT


@in_asyncio
async def test_steps_that_wait_for_less_than_a_second_cause_no_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pool, looks, let_go = threads.StepThreads(2), list[Callable[[], None]](), threading.Event()
    loop = asyncio.get_running_loop()

    def call_later(_seconds: float, look: Callable[..., None], *given: object) -> Mock:
        looks.append(partial(look, *given))
        return Mock()

    monkeypatch.setattr(loop, "call_later", call_later)
    with caplog.at_level(logging.WARNING, "signoff.worker"):
        first = [pool.run_step("s", let_go.wait, None, list[float]().append) for _ in range(3)]
        looks.pop()()  # so early, the third has waited for less than that
        assert not caplog.messages
        now = loop.time() + threads.WARN_AFTER_SECONDS
        monkeypatch.setattr(loop, "time", lambda: now)
        looks.pop()()
        [message] = caplog.messages
        assert "all 2 threads for plain steps are taken, and 1 steps wait" in message
        let_go.set()
        await asyncio.gather(*first)
        looks.pop()()
        assert not looks, "nothing waits, and nothing is left to look at"
    pool.close()


@in_asyncio
async def test_a_plain_step_that_has_a_thread_times_out(new_store: NewStore) -> None:
    app, let_go = Signoff(new_store()), threading.Event()

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("hang", let_go.wait, 60, timeout=0.05, retry=RetryPolicy(max_attempts=1))

    async with running(app) as client:
        with pytest.raises(StepTimeout):
            await (await client.start(flow)).result(60)
        let_go.set()


@in_asyncio
async def test_many_steps_that_wait_for_a_thread_do_not_look_at_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    is_done = threads._Place.is_given_up.fget
    assert is_done is not None

    def is_given_up(place: threads._Place) -> bool:
        looks.append(1)
        return is_done(place)

    monkeypatch.setattr(threads._Place, "is_given_up", property(is_given_up))
    pool, goes_on = threads.StepThreads(2), threading.Event()
    waited: list[float] = []
    begun = [pool.run_step("s", goes_on.wait, None, waited.append) for _ in range(500)]
    for each in begun[2:300]:
        each.cancel()
    begun.append(pool.run_step("s", goes_on.wait, None, waited.append))
    assert pool.waiting == 201
    await asyncio.sleep(0.01)  # the cancelled ones are withdrawn by callbacks
    goes_on.set()
    await asyncio.gather(*begun, return_exceptions=True)
    pool.close()
    assert len(waited) == 201
    assert len(looks) < 5 * len(begun)


# The system has no thread left


class Threads:
    """Refuses to start threads, as a system that has none left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusal: str | None = None
        self.refused = 0
        start = threading.Thread.start

        def started(thread: threading.Thread) -> None:
            if self.refusal is not None and thread.name.startswith("signoff step"):
                self.refused += 1
                raise RuntimeError(self.refusal)
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", started)
        monkeypatch.setattr(threads, "START_AGAIN_SECONDS", 0.01)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Threads:
    return Threads(monkeypatch)


@in_asyncio
async def test_a_step_that_gets_no_thread_waits_for_another_one_and_runs_once(
    new_store: NewStore, system: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    """The executor queues the work before it starts a thread: what it reports as failed runs all the same."""
    app, hung, let_go, paid = Signoff(new_store()), threading.Event(), threading.Event(), list[int | None]()

    def hang() -> None:
        hung.set()
        let_go.wait(60)

    def pay() -> str:
        step = current_step()
        paid.append(step.attempt)
        return "paid"

    @app.workflow
    async def stuck(ctx: Context) -> None:
        await ctx.step("hang", hang)

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step("pay", pay, effect="once")

    async with running(app, threads=4) as client:
        first = await client.start(stuck)
        assert await asyncio.to_thread(hung.wait, 60)
        system.refusal = threads.NO_THREAD
        with caplog.at_level(logging.WARNING, "signoff.worker"):
            run = await client.start(flow)

            async def refused() -> bool:
                return system.refused > 2

            await comes(refused)
        assert "the system has no thread left: 1 plain steps wait for a thread" in caplog.text
        assert "step 'hang'" in caplog.text
        let_go.set()
        assert await run.result(60) == "paid"
        await first.result(60)
        assert paid == [1]


@in_asyncio
async def test_steps_go_on_as_soon_as_there_is_a_thread(system: Threads) -> None:
    pool, waits = threads.StepThreads(2), list[float]()
    system.refusal = threads.NO_THREAD
    runs = [pool.run_step(f"step {n}", lambda n=n: n, None, waits.append) for n in range(5)]
    runs[3].cancel()
    while system.refused < 20:
        await asyncio.sleep(0.005)
    assert not any(run.done() for run in runs if not run.cancelled())
    system.refusal = None
    async with asyncio.timeout(60):
        assert await asyncio.gather(*runs[:3], runs[4]) == [0, 1, 2, 4]
    assert len(waits) == 4
    assert (pool.busy, pool.waiting) == (0, 0)
    pool.close()


@in_asyncio
async def test_the_error_of_a_step_that_waited_is_its_own(system: Threads) -> None:
    pool = threads.StepThreads(1)
    system.refusal = threads.NO_THREAD

    def fail() -> None:
        raise ValueError("no stock")

    run = pool.run_step("step", fail, None, lambda _: None)
    system.refusal = None
    with pytest.raises(ValueError, match="no stock"):
        await asyncio.wait_for(run, 60)
    pool.close()


@in_asyncio
async def test_work_that_the_executor_refuses_never_runs(system: Threads) -> None:
    """At the interpreter's end CPython refuses a thread with other words, and has queued the work, too."""
    pool, hung, let_go, ran = threads.StepThreads(2), threading.Event(), threading.Event(), list[str]()

    def hang() -> None:
        hung.set()
        let_go.wait(60)

    first = pool.run_step("first", hang, None, lambda _: None)
    assert await asyncio.to_thread(hung.wait, 60)
    system.refusal = "can't create new thread at interpreter shutdown"
    with pytest.raises(RuntimeError, match="interpreter shutdown"):
        pool.run_step("second", lambda: ran.append("second"), None, lambda _: None)
    let_go.set()
    await asyncio.wait_for(first, 60)
    await asyncio.wait_for(pool.run_step("third", lambda: ran.append("third"), None, lambda _: None), 60)
    assert ran == ["third"]
    assert pool.waiting == 0
    pool.close()


@in_asyncio
async def test_after_a_shortage_the_pool_has_all_its_threads(system: Threads) -> None:
    """Python 3.11's executor would count each work that it could start no thread for as a thread that is idle."""
    pool, let_go, hung = threads.StepThreads(4), threading.Event(), list[int]()

    def hang(n: int) -> None:
        hung.append(n)
        let_go.wait(60)

    system.refusal = threads.NO_THREAD
    runs = [pool.run_step(f"step {n}", lambda: None, None, lambda _: None) for n in range(20)]
    while system.refused < 40:
        await asyncio.sleep(0.005)
    system.refusal = None
    async with asyncio.timeout(60):
        await asyncio.gather(*runs)
        holding = [pool.run_step(f"step {n}", lambda n=n: hang(n), None, lambda _: None) for n in range(4)]
        while len(hung) < 4:
            await asyncio.sleep(0.005)
    let_go.set()
    await asyncio.gather(*holding)
    pool.close()


@in_asyncio
async def test_a_shortage_piles_nothing_up(system: Threads) -> None:
    """However long it lasts, one timer looks whether it is over, and not one for each step that waits."""
    pool = threads.StepThreads(4)
    system.refusal = threads.NO_THREAD
    runs = [pool.run_step(f"step {n}", lambda: None, None, lambda _: None) for n in range(100)]
    begun, began_at = system.refused, time.monotonic()
    await asyncio.sleep(0.2)
    looks = (time.monotonic() - began_at) / threads.START_AGAIN_SECONDS
    assert begun == 100
    assert system.refused <= begun + looks + 1
    for run in runs:
        run.cancel()
    await asyncio.sleep(0.05)
    refused = system.refused
    await asyncio.sleep(0.05)
    assert system.refused == refused, "no step waits any more"
    assert pool.waiting == 0
    pool.close()


@in_asyncio
async def test_steps_that_wait_end_with_the_pool(system: Threads) -> None:
    pool = threads.StepThreads(4)
    system.refusal = threads.NO_THREAD
    run = pool.run_step("step", lambda: None, None, lambda _: None)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(run), 60)
