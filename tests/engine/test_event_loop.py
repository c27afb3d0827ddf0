"""The workflow's own event loop: asyncio's tools work deterministically; the others are refused by name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from signoff import Context
from signoff.testing import VirtualClock
from tests.support import doomed_worker, in_asyncio, new_app, opened, pauses, rebuilt, running

Code = Callable[[Context], Awaitable[Any]]


async def _number(ctx: Context, number: int, *, turns: int = 0) -> int:
    async def work() -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return number

    return await ctx.step(f"number {number}", work)


async def _outcome(folder: Path, code: Code, *, clock: VirtualClock | None = None) -> Any:
    """What a workflow made of ``code`` returns, checked to be the same at a replay."""
    app = new_app(folder, clock=clock)
    returned: list[Any] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        returned.append(await code(ctx))
        await ctx.wait_for_signal("end")

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            await pauses(app, "r")
        await run.signal("end")
        async with app.worker():
            await run.result(60)
    first, again = returned
    assert first == again
    return first


@in_asyncio
async def test_gather(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[int]:
        return await asyncio.gather(*(_number(ctx, n, turns=5 - n) for n in range(5)))

    assert await _outcome(tmp_path, code) == [0, 1, 2, 3, 4]


@in_asyncio
async def test_gather_and_tasks_take_calls_as_they_are(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[Any]:
        task = asyncio.create_task(ctx.step("task", lambda: "task"))
        both = await asyncio.gather(ctx.step("a", lambda: "a"), ctx.lfc(_number, 1))
        return [*both, await task, await asyncio.wait_for(ctx.step("b", lambda: "b"), 60)]

    assert await _outcome(tmp_path, code) == ["a", 1, "task", "b"]


@pytest.mark.skipif(
    sys.version_info < (3, 14), reason="asyncio.create_task() has no eager_start before Python 3.14"
)
@in_asyncio
async def test_tasks_that_begin_at_once(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[Any]:
        order: list[Any] = []

        async def note(name: str) -> str:
            order.append(name)
            return await ctx.step(name, lambda: name)

        eager = asyncio.create_task(note("eager"), eager_start=True)  # type: ignore[call-arg]
        order.append("after it")
        return [*order, await eager, asyncio.current_task() is not None]

    assert await _outcome(tmp_path, code) == ["eager", "after it", "eager", True]


@in_asyncio
async def test_timers_can_be_cancelled_before_and_after_they_are_due(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[str]:
        loop, called = asyncio.get_running_loop(), list[str]()
        later = loop.call_later(86_400, called.append, "never")
        due = loop.call_at(loop.time(), called.append, "never")
        assert due < later
        for callback in (later, due, due, loop.call_soon(called.append, "never")):
            assert not callback.cancelled() or callback is due
            callback.cancel()
            assert callback.cancelled()
        loop.call_soon(called.append, "soon")
        await asyncio.sleep(0)
        return called

    assert await _outcome(tmp_path, code, clock=VirtualClock()) == ["soon"]


@in_asyncio
async def test_a_task_group_cancels_the_rest_when_one_fails(tmp_path: Path) -> None:
    async def code(ctx: Context) -> str:
        async def fail() -> None:
            await _number(ctx, 1)
            raise LookupError("one")

        waiting = None
        try:
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(ctx.wait_for_signal("never"))
                group.create_task(fail())
        except* LookupError as errors:
            caught = repr(errors.exceptions)
        return f"{caught} {waiting is not None and waiting.cancelled()}"

    assert await _outcome(tmp_path, code) == "(LookupError('one'),) True"


@in_asyncio
async def test_wait_for_the_first_and_the_sets_it_returns_have_one_order(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[list[str]]:
        async def some(name: str, waits: bool) -> str:
            if waits:
                await ctx.wait_for_signal("never")
            return name

        tasks = [asyncio.create_task(some(f"{n}", n % 2 == 1), name=f"{n}") for n in range(60)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        return [[task.get_name() for task in done], [task.get_name() for task in rest]]

    done, rest = await _outcome(tmp_path, code)
    assert sorted(done, key=int) == [f"{n}" for n in range(0, 60, 2)]
    assert sorted(rest, key=int) == [f"{n}" for n in range(1, 60, 2)]


@in_asyncio
async def test_as_completed_gives_tasks_in_the_order_of_the_journal(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[int]:
        tasks = [asyncio.create_task(_number(ctx, n, turns=n * 5)) for n in (4, 1, 3, 0, 2)]
        return [await each for each in asyncio.as_completed(tasks)]

    assert sorted(await _outcome(tmp_path, code)) == [0, 1, 2, 3, 4]


@in_asyncio
async def test_as_completed_refuses_coroutines_without_a_replayable_order(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[int]:
        return [await each for each in asyncio.as_completed([ctx.step("one", lambda: 1)])]

    async with running(app) as client:
        with pytest.raises(TypeError, match="create_task"):
            await (await client.start(flow)).result(60)


@in_asyncio
async def test_wait_for_and_timeout_are_durable(tmp_path: Path) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        ends = []
        for limit in ("wait_for", "timeout"):
            try:
                if limit == "wait_for":
                    await asyncio.wait_for(ctx.wait_for_signal("never"), 86_400)
                else:
                    async with asyncio.timeout(86_400):
                        await asyncio.Event().wait()
            except TimeoutError:
                ends.append(limit)
        return ends

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        for _ in range(2):
            async with doomed_worker(app):
                wake_at = (await pauses(app, "r")).wake_at
            assert wake_at == clock.now() + 86_400
            clock.advance(86_401)
            await app.store.due()
        async with app.worker():
            assert await run.result(60) == ["wait_for", "timeout"]


@in_asyncio
async def test_a_timer_that_is_not_needed_any_more_does_not_keep_the_run(tmp_path: Path) -> None:
    async def code(ctx: Context) -> int:
        async with asyncio.timeout(86_400):
            return await _number(ctx, 1)

    assert await _outcome(tmp_path, code, clock=VirtualClock()) == 1


@in_asyncio
async def test_shield_keeps_what_is_inside_from_being_cancelled(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[Any]:
        inner = asyncio.create_task(_number(ctx, 7, turns=3))
        outer = asyncio.ensure_future(asyncio.shield(inner))
        await asyncio.sleep(0)
        outer.cancel()
        return [await inner, outer.cancelled()]

    assert await _outcome(tmp_path, code) == [7, True]


@in_asyncio
async def test_event_queue_semaphore_lock_and_condition(tmp_path: Path) -> None:
    async def code(ctx: Context) -> list[Any]:
        event, queue, semaphore = asyncio.Event(), asyncio.Queue[int](maxsize=1), asyncio.Semaphore(2)
        lock, condition = asyncio.Lock(), asyncio.Condition()
        most, now, order = 0, 0, []

        async def limited(n: int) -> None:
            nonlocal most, now
            await event.wait()
            async with semaphore:
                now += 1
                most = max(most, now)
                await queue.put(await _number(ctx, n, turns=7 - n))
                now -= 1
            async with lock, condition:
                order.append(n)
                condition.notify_all()

        async with asyncio.TaskGroup() as group:
            for n in range(6):
                group.create_task(limited(n))
            await _number(ctx, 100)
            event.set()
            got = [await queue.get() for _ in range(6)]
            async with condition:
                await condition.wait_for(lambda: len(order) == 6)
        return [most, got, order]

    most, got, order = await _outcome(tmp_path, code)
    assert (most, sorted(got), sorted(order)) == (2, list(range(6)), list(range(6)))


@in_asyncio
async def test_the_loops_time_is_the_journals_and_sleep_is_a_durable_timer(tmp_path: Path) -> None:
    clock = VirtualClock(1_800_000_000.0)
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def flow(ctx: Context) -> list[float]:
        times = [asyncio.get_running_loop().time()]
        await asyncio.sleep(3600)
        times.append(asyncio.get_running_loop().time())
        await ctx.wait_for_signal("end")
        return times

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        async with doomed_worker(app):
            assert (await pauses(app, "r")).wake_at == 1_800_003_600
        clock.advance(5000)
        await run.signal("end")
        async with app.worker():
            assert await run.result(60) == [1_800_000_000, 1_800_005_000]


@in_asyncio
async def test_random_numbers_and_ids_are_the_runs_own(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[str]:
        return [str(ctx.uuid4()), str(ctx.uuid4()), str(ctx.random().random())]

    async with running(app) as client:
        runs = [await client.start(flow, id=f"r{n}") for n in range(2)]
        drawn = [number for run in runs for number in await run.result(60)]
        assert len(set(drawn)) == len(drawn)
        ended, journal = await app.store.get_run("r0"), await app.store.read_journal("r0")
        async with rebuilt(app, ended, journal[:1]) as again:
            assert again.outcome is not None
            assert again.outcome.result == ended.result


@in_asyncio
async def test_a_runs_tasks_hash_as_in_its_replay_and_unlike_other_runs(
    tmp_path: Path,
) -> None:
    """asyncio keeps the tasks of all loops in one set: with like hashes, each costs as much as there are runs."""
    app = new_app(tmp_path)
    hashes: dict[str, list[tuple[int, int]]] = {}

    @app.workflow
    async def flow(ctx: Context, id: str) -> None:
        task, future = asyncio.current_task(), asyncio.get_running_loop().create_future()
        hashes.setdefault(id, []).append((hash(task), hash(future)))
        await ctx.wait_for_signal("end")

    async with opened(app) as client:
        runs = [await client.start(flow, f"r{number}", id=f"r{number}") for number in range(100)]
        async with doomed_worker(app):
            await asyncio.gather(*(pauses(app, run.id) for run in runs))
        for run in runs:
            await run.signal("end")
        async with app.worker():
            await asyncio.gather(*(run.result(60) for run in runs))
    assert all(first == again for first, again in hashes.values())
    assert len({number for (first, _) in hashes.values() for number in first}) == 200
