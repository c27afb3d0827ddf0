"""How a run ends early or begins again: cancellation, deadlines, continue_as_new."""

from __future__ import annotations

import asyncio
import functools
import gc
from datetime import datetime
from pathlib import Path

import pytest

from signoff import (
    AlreadySettled,
    AsyncClient,
    Context,
    Promise,
    RetryPolicy,
    RunCancelled,
    RunState,
    Signoff,
)
from signoff.errors import CannotRunHere, InvalidValue, NotSerializable, RunTimeout
from signoff.records import EntryKind, PromiseState
from signoff.testing import VirtualClock
from tests.support import (
    asked,
    doomed_worker,
    fails,
    in_asyncio,
    journaled,
    new_app,
    opened,
    opens,
    pauses,
    reaches,
    running,
    until,
)

# Deadlines


@in_asyncio
async def test_a_run_that_passes_its_deadline_cleans_up_and_fails(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)
    seen: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            await ctx.wait_for_user("ok?")
        finally:
            await ctx.step("clean", lambda: seen.append("clean"))

    async with running(app) as client:
        run = await client.start(flow, id="r", timeout_seconds=60)
        await pauses(app, "r")
        clock.advance(61)
        with pytest.raises(RunTimeout):
            await run.result(60)
        assert seen == ["clean"]
        assert await run.status() is RunState.FAILED


@in_asyncio
async def test_cancelling_a_run_that_waits_for_a_child_cancels_the_child(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    @app.workflow
    async def parent(ctx: Context) -> None:
        await ctx.rfc(child)

    async with running(app) as client:
        run = await client.start(parent, id="r")
        await pauses(app, "r.1")
        await run.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(60)
        await reaches(app, "r.1", RunState.CANCELLED)


@in_asyncio
async def test_cancelled_code_may_clean_up_with_further_steps_and_questions(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    seen: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            await ctx.wait_for_user("ok?")
        except asyncio.CancelledError:
            await ctx.step("undo", lambda: seen.append("undo"))
            seen.append(ctx.stop_reason or "")
            sure = await ctx.wait_for_user("undone?")
            await ctx.step("report", lambda: seen.append(f"report {sure.approved}"))
            raise

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        await run.cancel("changed my mind")
        await opens(app, "r.3")
        assert (await client.promises.get("r.1")).state is PromiseState.CANCELLED
        await client.answer("r.3", True)
        with pytest.raises(RunCancelled, match="changed my mind"):
            await run.result(60)
        assert seen == ["undo", "changed my mind", "report True"]
        assert await run.status() is RunState.CANCELLED


@in_asyncio
async def test_code_that_catches_a_cancellation_may_end_in_its_own_way(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, how: str) -> str:
        try:
            await ctx.wait_for_signal("never")
        except asyncio.CancelledError:
            if how == "fail":
                raise ValueError("could not undo") from None
        return "undone"

    async with running(app) as client:
        well = await client.start(flow, "well", id="well")
        badly = await client.start(flow, "fail", id="fail")
        for run in (well, badly):
            await pauses(app, run.id)
            await run.cancel()
        assert await well.result(60) == "undone"
        with pytest.raises(ValueError, match="could not undo"):
            await badly.result(60)


@in_asyncio
async def test_a_cancellation_that_came_while_every_worker_was_down_is_obeyed(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    seen: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            await ctx.sleep(1000)
        finally:
            await ctx.step("clean", lambda: seen.append("clean"))

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with app.worker():
            await pauses(app, "r")
        await run.cancel()
        async with app.worker():
            with pytest.raises(RunCancelled):
                await run.result(60)
        assert seen == ["clean"]


@in_asyncio
async def test_a_cancelled_run_stops_its_running_steps(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step(endless)

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await begun.wait()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(60)
        await asyncio.wait_for(stopped.wait(), 60)


@in_asyncio
async def test_a_run_never_taken_up_is_cancelled_at_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None: ...

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        await run.cancel("not needed")
        with pytest.raises(RunCancelled, match="not needed"):
            await run.result(60)
        assert not await journaled(app, "r", EntryKind.STARTED)


# Generations


@pytest.mark.parametrize("stepping", [True, False])
@in_asyncio
async def test_a_run_continues_as_new_for_many_generations(tmp_path: Path, stepping: bool) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, n: int, *, stepping: bool) -> int:
        if stepping:
            await ctx.step("one", lambda: None)
        if n < 400:
            ctx.continue_as_new(n + 1, stepping=stepping)
        return n

    async with running(app) as client:
        run = await client.start(flow, 1, id="r", stepping=stepping)
        assert await run.result(60) == 400
        assert len(await journaled(app, "r", EntryKind.CONTINUED)) == 399


@in_asyncio
async def test_a_generation_starts_with_an_empty_journal_and_unread_signals(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, sums: list[int]) -> list[int]:
        await ctx.wait_for_user("next?")
        one = await ctx.wait_for_signal("number")
        if len(sums) < 3:
            ctx.continue_as_new([*sums, one])
        return [*sums, one]

    async with opened(app) as client:
        run = await client.start(flow, [], id="r")
        for number in range(4):
            await run.signal("number", number)
        for generation in range(4):
            async with doomed_worker(app):  # each generation is rebuilt by another worker
                question = await _next_question(app, client)
                await client.answer(question.id, True)
                await until(app, functools.partial(_has_ended, app, generation))
        assert await run.result(60) == [0, 1, 2, 3]
        state = await app.store.get_run("r")
        assert len(await app.store.read_journal("r", after=state.first_seq - 1)) < 8


async def _next_question(app: Signoff, client: AsyncClient) -> Promise:
    async def look() -> Promise | None:
        found = await asked(client, "r")
        return found[0] if found else None

    found = await until(app, look)
    assert found is not None
    return found


async def _has_ended(app: Signoff, generation: int) -> bool:
    ends = EntryKind.SUCCEEDED if generation == 3 else EntryKind.CONTINUED
    return len(await journaled(app, "r", ends)) == (1 if generation == 3 else generation + 1)


@in_asyncio
async def test_open_calls_of_a_generation_are_closed_and_late_outcomes_ignored(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context) -> None:
        await ctx.wait_for_signal("never")

    @app.workflow
    async def flow(ctx: Context, n: int) -> str:
        if n == 0:
            await ctx.promise()
            await ctx.rfi(child)
            await ctx.wait_for_signal("go")
            ctx.continue_as_new(1)
        return await (await ctx.promise())

    async with running(app) as client:
        run = await client.start(flow, 0, id="r")
        await pauses(app, "r.2")
        await run.signal("go")
        await reaches(app, "r.2", RunState.CANCELLED)
        with pytest.raises(AlreadySettled):
            await client.promises.resolve("r.1")
        entry = (await journaled(app, "r", EntryKind.CONTINUED))[0]
        await opens(app, f"r.{entry.n}")
        await client.promises.resolve(f"r.{entry.n}", "end")
        assert await run.result(60) == "end"


@in_asyncio
async def test_a_generation_of_a_generator_is_not_stopped_by_except_exception(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    def flow(ctx: Context, n: int):
        try:
            yield ctx.sleep(0)
            if n < 3:
                ctx.continue_as_new(n + 1)
        except Exception:
            return "swallowed"
        return n

    async with running(app) as client:
        assert await (await client.start(flow, 0)).result(60) == 3


# Results


@in_asyncio
async def test_a_result_that_would_come_back_as_something_else_fails_the_run(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def when(ctx: Context) -> datetime | str:
        return "2026-11-22T00:00:00"

    @app.workflow
    async def how_many(ctx: Context) -> int:
        return "many"  # pyright: ignore[reportReturnType]

    async with running(app) as client:
        with pytest.raises(NotSerializable, match="result"):
            await (await client.start(when)).result(60)
        with pytest.raises(InvalidValue, match="result"):
            await (await client.start(how_many)).result(60)


# What cannot run here


@in_asyncio
async def test_a_run_that_cannot_run_here_is_kept_whole_and_goes_on_where_it_can(tmp_path: Path) -> None:
    supported, done = list[str](), list[str]()
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        if "refunds" not in supported:
            raise CannotRunHere("this build has no refunds")
        answer = await ctx.wait_for_user("Refund?")
        await ctx.step("pay", done.append, "paid")
        return "paid" if answer.approved else "not paid"

    async with running(app) as client:
        supported.append("refunds")
        await client.start(flow, id="run")
        await pauses(app, "run")
        (question,) = await asked(client, "run")
        supported.clear()
    again = new_app(tmp_path)
    again.workflow(flow)
    async with running(again) as client:
        await client.answer(question.id, True)
        handle = await client.get("run")
        with pytest.raises(CannotRunHere, match="no refunds"):
            await handle.result(60)
        run = await client.backend.get_run("run")
        assert (run.state, run.retryable, done) == (RunState.FAILED, True, [])
        supported.append("refunds")
        await client.retry("run")
        assert await (await client.get("run")).result(60) == "paid"
        assert done == ["paid"]


@in_asyncio
async def test_a_step_that_cannot_run_here_stops_its_run_and_reruns_on_retry(
    tmp_path: Path,
) -> None:
    supported, tried = list[str](), list[str]()
    app = new_app(tmp_path)

    def refund() -> str:
        tried.append("tried")
        if "refunds" not in supported:
            raise CannotRunHere("this build has no refunds")
        return "refunded"

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            return await ctx.step(refund)
        except BaseException:
            return "caught"

    async with running(app) as client:
        handle = await client.start(flow, id="run")
        with pytest.raises(CannotRunHere, match="no refunds"):
            await handle.result(60)
        assert (await client.backend.get_run("run")).retryable
        assert tried == ["tried"]
        supported.append("refunds")
        await client.retry("run")
        assert await handle.result(60) == "refunded"


@in_asyncio
async def test_a_run_that_says_so_cannot_run_here_whatever_its_code_catches(tmp_path: Path) -> None:
    supported, done = list[str](), list[str]()
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> str:
        try:
            if not supported:
                ctx.cannot_run_here("this build has no refunds")
            return "paid"
        except Exception:
            await ctx.step("tell", done.append, "failed")
            return "swallowed"

    async with running(app) as client:
        handle = await client.start(flow, id="run")
        with pytest.raises(CannotRunHere, match="no refunds"):
            await handle.result(60)
        assert ((await client.backend.get_run("run")).retryable, done) == (True, [])
        supported.append("refunds")
        await client.retry("run")
        assert await (await client.get("run")).result(60) == "paid"


@in_asyncio
async def test_of_a_run_that_cannot_run_here_the_questions_stay_open(tmp_path: Path) -> None:
    """Its code is cancelled where it waits, but that is no giving up."""

    def app_with(*supported: str) -> Signoff:
        app = new_app(tmp_path)

        @app.workflow
        async def flow(ctx: Context) -> bool:
            answer, _ = await asyncio.gather(ctx.wait_for_user("Refund?"), refund(ctx))
            return answer.approved

        async def refund(ctx: Context) -> None:
            await ctx.wait_for_signal("go")
            if not supported:
                ctx.cannot_run_here("this build has no refunds")

        return app

    old = app_with("refunds")
    async with running(old) as client:
        await client.start("flow", id="run")
        await pauses(old, "run")
        (question,) = await asked(client, "run")
    new = app_with()
    async with running(new) as client:
        await client.signal("run", "go")
        await fails(new, "run")
    back = app_with("refunds")
    async with running(back) as client:
        await client.retry("run")
        await client.answer(question.id, True)
        assert await (await client.get("run")).result(60) is True


@in_asyncio
async def test_asyncio_logs_nothing_of_a_run_that_cannot_run_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        ctx.cannot_run_here("this build has no refunds")

    async with running(app) as client:
        with pytest.raises(CannotRunHere):
            await (await client.start(flow)).result(60)
    gc.collect()
    assert not [each for each in caplog.messages if "never retrieved" in each]


@in_asyncio
async def test_a_step_whose_attempts_are_used_up_may_keep_the_run_for_a_retry(tmp_path: Path) -> None:
    app, calls = new_app(tmp_path), list[int]()

    async def charge() -> str:
        calls.append(len(calls))
        if len(calls) <= 2:
            raise ConnectionError("the bank is down")
        return "charged"

    def held(error: Exception) -> CannotRunHere:
        return CannotRunHere(f"charge: {error}")

    @app.workflow
    async def pay(ctx: Context) -> str:
        twice = RetryPolicy(initial_seconds=0.0, max_attempts=2)
        try:
            return await ctx.step("charge", charge, retry=twice, on_failure=held)
        except BaseException:
            calls.append(99)
            raise

    async with running(app) as client:
        handle = await client.start(pay, id="r")
        with pytest.raises(CannotRunHere, match="charge: the bank is down"):
            await handle.result()
        assert (await fails(app, "r")).retryable
        await client.retry("r")
        assert await handle.result() == "charged"
    assert [call for call in calls if call != 99] == [0, 1, 2]
