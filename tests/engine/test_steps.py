"""Steps: retried by their policy across crashes, timed, run where they belong, and journaled once."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

import signoff
from signoff import Context, RetryPolicy, RunState, StepTimeout
from signoff.engine.steps.threads import StepThreads
from signoff.errors import OutsideWorkflow
from signoff.records import EntryKind
from signoff.testing import MemoryStore, VirtualClock, after_step, environment
from tests.support import doomed_worker, in_asyncio, journaled, new_app, opened, pauses, running, until

ONCE = RetryPolicy(max_attempts=1)


class Flaky(Exception):
    """Comes from a service that is down now and then."""


class FlakyForGood(Flaky):
    """Will not get better."""


# Retries


@in_asyncio
async def test_attempts_and_their_back_off_survive_a_change_of_workers(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    attempts: list[tuple[int, str]] = []
    policy = RetryPolicy(initial_seconds=10, factor=3, max_seconds=60, max_attempts=4, jitter=False)

    def flaky() -> str:
        step = signoff.current_step()
        attempts.append((step.attempt, step.idempotency_key))
        if step.attempt < 4:
            raise Flaky(f"attempt {step.attempt}")
        return "at last"

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(flaky, retry=policy)

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        for attempt, wait in ((1, 10), (2, 30), (3, 60)):
            async with doomed_worker(app):
                paused = await until(app, lambda: _paused_after(app, attempt))  # noqa: B023
                assert paused.wake_at == clock.now() + wait
                clock.advance(wait - 0.5)
                await app.store.due()
                assert await run.status() is RunState.PAUSED
            clock.advance(0.5)
        async with app.worker():
            assert await run.result(60) == "at last"
    assert attempts == [(1, "r.1"), (2, "r.1"), (3, "r.1"), (4, "r.1")]


async def _paused_after(app: signoff.Signoff, attempt: int) -> Any:
    run = await app.store.get_run("r")
    failed = await journaled(app, "r", EntryKind.ATTEMPT_FAILED)
    return run if run.state is RunState.PAUSED and len(failed) == attempt else None


@in_asyncio
async def test_a_step_is_tried_eight_times_by_default_then_its_error_is_raised(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    def down() -> None:
        raise Flaky("down")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(down)

    async with running(app) as client:
        run = await client.start(flow, id="r")
        for attempt in range(1, 8):
            wait = min(2 ** (attempt - 1), 60)
            entry = (await until(app, lambda: _failed_attempts(app, attempt)))[-1]  # noqa: B023
            assert wait / 2 <= entry.fact("next_at") - clock.now() <= wait
            clock.set(entry.fact("next_at"))
        with pytest.raises(Flaky, match="down"):
            await run.result(60)
        assert len(await journaled(app, "r", EntryKind.ATTEMPT_FAILED)) == 7


async def _failed_attempts(app: signoff.Signoff, count: int) -> Any:
    failed = await journaled(app, "r", EntryKind.ATTEMPT_FAILED)
    return failed if len(failed) == count else None


@pytest.mark.parametrize("is_function", [True, False])
@in_asyncio
async def test_a_retry_policy_may_say_of_each_error_whether_it_is_tried_again(
    tmp_path: Path, is_function: bool
) -> None:
    app = new_app(tmp_path)
    policy = RetryPolicy(initial_seconds=0, retried=lambda error: str(error) == "1")
    attempts: list[int] = []

    async def fail() -> None:
        attempts.append(1)
        raise Flaky(len(attempts))

    async def failing(ctx: Context) -> None:
        await fail()

    @app.workflow
    async def flow(ctx: Context) -> None:
        await (ctx.lfc(failing).options(retry=policy) if is_function else ctx.step(fail, retry=policy))

    async with running(app) as client:
        with pytest.raises(Flaky, match="2"):
            await (await client.start(flow)).result(60)
    assert attempts == [1, 1]


@pytest.mark.parametrize(
    ("asked", "waited"), [(None, 1), (0.5, 1), (-5, 1), (90, 90), (1e9, 86_400), (float("nan"), 1)]
)
def test_the_next_attempt_waits_as_long_as_the_error_asks_up_to_a_day(
    asked: float | None, waited: float
) -> None:
    policy = RetryPolicy(jitter=False, retry_after=lambda error: asked)
    assert policy.wait_after_error(Flaky(), 1) == waited
    assert policy.wait_after_error(Flaky(), policy.max_attempts) is None


@pytest.mark.parametrize("is_function", [False, True])
@in_asyncio
async def test_a_step_and_a_function_are_tried_again_when_their_error_says(is_function: bool) -> None:
    app, attempts = signoff.Signoff(MemoryStore()), list[int]()
    policy = RetryPolicy(retry_after=lambda error: 3600.0 if isinstance(error, Flaky) else None)

    async def fail_once() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise Flaky
        return "done"

    async def failing_once(ctx: Context) -> str:
        return await fail_once()

    @app.workflow
    async def flow(ctx: Context) -> float:
        began = ctx.now()
        await (
            ctx.lfc(failing_once).options(retry=policy) if is_function else ctx.step(fail_once, retry=policy)
        )
        return (ctx.now() - began).total_seconds()

    async with environment(app) as env:
        assert 3600 <= await env.run(flow) < 3660
    assert attempts == [1, 1]


@pytest.mark.parametrize("hot_runs", [0, 100])
@pytest.mark.parametrize("effect", ["repeatable", "once"])
@in_asyncio
async def test_attempt_times_exclude_gaps_and_are_the_same_at_each_replay(effect: Any, hot_runs: int) -> None:
    """The back-off of a step that failed; the day until a person said of an interrupted one to run it again."""
    app, told, attempts = signoff.Signoff(MemoryStore()), list[Any](), list[int]()
    policy = None if effect == "once" else RetryPolicy(initial_seconds=3600, max_seconds=3600, jitter=False)

    async def work() -> None:
        attempts.append(1)
        env.clock.advance(10 * len(attempts))
        if len(attempts) == 1 and effect == "repeatable":
            raise Flaky

    @app.workflow
    async def flow(ctx: Context) -> None:
        began = ctx.now()
        step = ctx.step(work, retry=policy, effect=effect)
        assert list(step.attempt_times) == []
        await step
        told.append(
            [
                ((begin - began).total_seconds(), (end - began).total_seconds())
                for begin, end in step.attempt_times
            ]
        )
        await ctx.wait_for_user("Go on?")

    async with environment(app, hot_runs=hot_runs) as env:
        if effect == "once":
            env.crash(at=after_step("work"))
        env.people.answer("Step 'work'*", {"action": "retry"}, after=86_400)
        env.people.answer("Go on?", approved=True)
        await env.run(flow)
    times = [(86_410, 86_430)] if effect == "once" else [(0, 10), (3610, 3630)]
    assert told == [times] * len(told)
    assert len(told) > (hot_runs == 0)


@in_asyncio
async def test_attempt_times_are_known_where_a_steps_final_error_is_caught() -> None:
    app = signoff.Signoff(MemoryStore())

    async def fail() -> None:
        env.clock.advance(5)
        raise Flaky

    @app.workflow
    async def flow(ctx: Context) -> float:
        step = ctx.step(fail, retry=ONCE)
        with pytest.raises(Flaky):
            await step
        ((begin, end),) = step.attempt_times
        return (end - begin).total_seconds()

    async with environment(app) as env:
        assert await env.run(flow) == 5


@pytest.mark.parametrize("error", [Flaky, FlakyForGood])
@in_asyncio
async def test_a_non_retryable_error_and_its_subclasses_end_the_attempts(
    tmp_path: Path, error: type[Exception]
) -> None:
    app = new_app(tmp_path)
    attempts: list[int] = []

    async def fail() -> None:
        attempts.append(1)
        raise error("no")

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(fail, non_retryable=(Flaky,))

    async with running(app) as client:
        with pytest.raises(error, match="no"):
            await (await client.start(flow)).result(60)
    assert attempts == [1]


@in_asyncio
async def test_a_step_in_back_off_does_not_keep_its_siblings_from_going_on(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    done: list[str] = []

    def flaky() -> str:
        if signoff.current_step().attempt == 1:
            raise Flaky
        return "flaky"

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        async def branch() -> str:
            await ctx.step("one", lambda: done.append("one"))
            await ctx.step("two", lambda: done.append("two"))
            return "branch"

        retry = RetryPolicy(initial_seconds=500, jitter=False)
        return await asyncio.gather(ctx.step(flaky, retry=retry), branch())

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        assert done == ["one", "two"]
        clock.advance(500)
        assert await run.result(60) == ["flaky", "branch"]


# Timeouts


@in_asyncio
async def test_an_async_step_over_its_time_is_cancelled(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(endless, timeout=0.02, retry=ONCE)
        except StepTimeout as error:
            return f"{error.name} {error.seconds}"
        return "no timeout"

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "endless 0.02"
    assert ended == ["cancelled"]


@in_asyncio
async def test_a_plain_step_over_its_time_is_given_up_and_its_late_value_dropped(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    let_go = threading.Event()

    def slow() -> str:
        let_go.wait(60)
        return "late"

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            return await ctx.step(slow, timeout=0.02, retry=ONCE)
        except StepTimeout:
            return await ctx.step("let go", lambda: let_go.set() or "timed out")

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "timed out"


@in_asyncio
async def test_a_timeout_error_of_the_steps_own_is_not_a_step_timeout(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def own() -> None:
        raise TimeoutError("of its own")

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step(own, timeout=10, retry=ONCE)
        except TimeoutError as error:
            return f"{type(error).__name__} {error}"
        return "no error"

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "TimeoutError of its own"


# Where steps run and what they see


@in_asyncio
async def test_plain_steps_run_in_threads_and_async_ones_on_the_loop(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    here = threading.get_ident()
    loop = asyncio.get_running_loop()

    async def on_loop() -> list[bool]:
        return [threading.get_ident() == here, asyncio.get_running_loop() is loop]

    def in_thread() -> bool:
        return threading.get_ident() == here

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        made_by_lambda = await ctx.step("lambda", lambda: on_loop())  # noqa: PLW0108
        return [await ctx.step(on_loop), made_by_lambda, await ctx.step(in_thread)]

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == [[True, True], [True, True], False]


@in_asyncio
async def test_a_step_sees_itself_and_nothing_else_does(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    def plain() -> list[Any]:
        return list(dataclasses.astuple(signoff.current_step()))

    async def on_loop() -> list[Any]:
        await asyncio.sleep(0)
        return plain()

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        with pytest.raises(OutsideWorkflow):
            signoff.current_step()
        return await asyncio.gather(ctx.step(plain), ctx.step("b", on_loop), ctx.step("c", plain, key="mine"))

    async with running(app) as client:
        assert await (await client.start(flow, id="r")).result(60) == [
            ["r", 1, "plain", 1, "r.1"],
            ["r", 2, "b", 1, "r.2"],
            ["r", 3, "c", 1, "mine"],
        ]


tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


@in_asyncio
async def test_a_step_sees_the_context_variables_of_the_code_that_called_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def on_loop() -> str:
        mine = tenant.get()
        tenant.set("changed by a step")
        return mine

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        async def branch(name: str) -> list[str]:
            tenant.set(name)
            return [await ctx.step("thread", tenant.get), await ctx.step(on_loop), tenant.get()]

        both = await asyncio.gather(branch("ana"), branch("bob"))
        return [*both[0], *both[1], tenant.get()]

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == [*["ana"] * 3, *["bob"] * 3, "nobody"]


@in_asyncio
async def test_a_step_that_raises_stop_iteration_does_not_hang(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            await ctx.step("empty", lambda: next(iter([])), retry=ONCE)
        except Exception as error:
            return type(error).__name__
        return "no error"

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "RuntimeError"


@pytest.mark.parametrize("timeout", [None, 60.0])
@in_asyncio
async def test_a_plain_step_ending_during_its_cancellation_logs_no_asyncio_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, timeout: float | None
) -> None:
    """On Python 3.14 and in simulations a plain step can end before its attempt awaits it."""
    app = new_app(tmp_path)

    def ended(*_: Any) -> asyncio.Future[None]:
        attempt, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert attempt is not None
        loop.call_soon(attempt.cancel)
        outcome: asyncio.Future[None] = loop.create_future()
        outcome.set_exception(Flaky("was cancelled meanwhile"))
        return outcome

    monkeypatch.setattr(StepThreads, "run_step", ended)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("plain", lambda: None, timeout=timeout, retry=ONCE)

    async with running(app) as client:
        with pytest.raises(RuntimeError, match="cancelled"):
            await (await client.start(flow)).result(60)
        gc.collect()
    assert not [each for each in caplog.messages if "was cancelled meanwhile" in each]
