"""Code that differs from its journal is stopped before it does harm, and can be fixed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RunState, Signoff
from signoff.errors import NonDeterminism
from signoff.records import EntryKind
from signoff.testing import VirtualClock
from tests.support import (
    asked,
    doomed_worker,
    fails,
    in_asyncio,
    journal,
    journaled,
    new_app,
    opened,
    pauses,
    reaches,
)

Code = Callable[[Context], Awaitable[Any]]


def _app(folder: Path, code: Code, *, clock: VirtualClock | None = None, version: str = "1") -> Signoff:
    """An app whose workflow ``flow`` is ``code``, beside a child that waits."""
    app = new_app(folder, clock=clock)

    async def child(ctx: Context) -> str:
        return await ctx.wait_for_signal("end")

    for each in ("child", "other"):
        app.workflow(name=each)(_copy_of(child))
    app.workflow(name="flow", version=version)(_copy_of(code))
    return app


def _copy_of(code: Code) -> Code:
    async def copy(ctx: Context) -> Any:
        return await code(ctx)

    return copy


async def _step(ctx: Context, name: str) -> Any:
    return await ctx.step(name, lambda: name)


# What the code did when the journal was written, until the run paused.


async def old(ctx: Context) -> str:
    await _step(ctx, "a")
    await _step(ctx, "b")
    answer = await ctx.wait_for_user("sure?")
    await _step(ctx, "c")
    return f"old {answer.approved}"


async def changed_step(ctx: Context) -> None:
    await _step(ctx, "A")
    await _step(ctx, "b")
    await ctx.wait_for_user("sure?")


async def removed_step(ctx: Context) -> None:
    await _step(ctx, "b")
    await ctx.wait_for_user("sure?")


async def inserted_step(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "new")
    await _step(ctx, "b")
    await ctx.wait_for_user("sure?")


async def reordered_steps(ctx: Context) -> None:
    await _step(ctx, "b")
    await _step(ctx, "a")
    await ctx.wait_for_user("sure?")


async def changed_question(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")
    await ctx.wait_for_user("really?")


async def removed_question(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")
    await _step(ctx, "c")


async def removed_question_and_the_rest(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")


async def question_before_step(ctx: Context) -> None:
    await _step(ctx, "a")
    await ctx.wait_for_user("sure?")
    await _step(ctx, "b")


async def question_made_a_promise(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")
    await (await ctx.promise())


async def question_made_a_signal(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")
    await ctx.wait_for_signal("sure?")


async def waits_before_it(ctx: Context) -> None:
    await _step(ctx, "a")
    await ctx.wait_for_signal("new")
    await _step(ctx, "b")
    await ctx.wait_for_user("sure?")


async def waits_for_less(ctx: Context) -> None:
    await _step(ctx, "a")
    await asyncio.Event().wait()


async def waits_for_nothing_instead_of_the_question(ctx: Context) -> None:
    await _step(ctx, "a")
    await _step(ctx, "b")
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("code", "n", "recorded", "issued"),
    [
        (changed_step, 1, "step 'a'", "step 'A'"),
        (removed_step, 1, "step 'a'", "step 'b'"),
        (inserted_step, 2, "step 'b'", "step 'new'"),
        (reordered_steps, 1, "step 'a'", "step 'b'"),
        (changed_question, 3, "question 'sure?'", "question 'really?'"),
        (removed_question, 3, "question 'sure?'", "step 'c'"),
        (removed_question_and_the_rest, 3, "question 'sure?'", "nothing"),
        (question_before_step, 2, "step 'b'", "question 'sure?'"),
        (question_made_a_promise, 3, "question 'sure?'", "promise ''"),
        (question_made_a_signal, 3, "question 'sure?'", "signal 'sure?'"),
        (waits_before_it, 2, "step 'b'", "signal 'new'"),
        (waits_for_less, 2, "step 'b'", "nothing"),
        (waits_for_nothing_instead_of_the_question, 3, "question 'sure?'", "nothing"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@in_asyncio
async def test_a_mismatch_names_code_and_journal_and_keeps_the_run(
    tmp_path: Path, code: Code, n: int, recorded: str, issued: str
) -> None:
    first = _app(tmp_path, old)
    async with opened(first) as client:
        await client.start("flow", id="r")
        async with doomed_worker(first):
            await pauses(first, "r")
        before = await journal(first, "r")
        await client.signal("r", "wake")  # has the run taken up again

    broken = _app(tmp_path, code)
    async with opened(broken) as client, broken.worker():
        run = await client.get("r")
        assert (await fails(broken, "r")).retryable
        with pytest.raises(NonDeterminism) as caught:
            await run.result(60)
        assert caught.value.n == n
        assert caught.value.recorded == recorded
        assert caught.value.issued.startswith(issued)
        if issued != "nothing":
            file, line = inspect.getsourcefile(code), inspect.getsourcelines(code)
            where = str(caught.value.where)
            assert where.startswith(f"{file}:")
            number = int(where.removeprefix(f"{file}:").split()[0])
            assert number in range(line[1], line[1] + len(line[0])) or "_step" in where
        assert [entry.kind for entry in (await journal(broken, "r"))[len(before) :]] == [EntryKind.FAILED]
        (question,) = await asked(client, "r")
        await client.answer(question.id, True)

    mended = _app(tmp_path, old)
    async with opened(mended) as client, mended.worker():
        await client.retry("r")
        assert await (await client.get("r")).result(60) == "old True"
        completed = [entry.name for entry in await journaled(mended, "r", EntryKind.COMPLETED)]
        assert completed == ["a", "b", "sure?", "c"]


async def _old_child(ctx: Context) -> Any:
    return await ctx.rfc("child")


async def _old_timer(ctx: Context) -> Any:
    await ctx.sleep(1000)


async def _old_detached(ctx: Context) -> Any:
    await ctx.detached("child")
    await ctx.wait_for_signal("go")


async def _old_progress(ctx: Context) -> Any:
    await ctx.progress("half")
    await ctx.wait_for_signal("go")


async def _old_promise(ctx: Context) -> Any:
    return await (await ctx.promise(id="paid"))


async def _old_signal(ctx: Context) -> Any:
    return await ctx.wait_for_signal("go")


async def _other_child(ctx: Context) -> Any:
    return await ctx.rfc("other")


async def _other_detached(ctx: Context) -> Any:
    await ctx.detached("other")
    await ctx.wait_for_signal("go")


async def _other_progress(ctx: Context) -> Any:
    await ctx.progress("done")
    await ctx.wait_for_signal("go")


async def _other_promise(ctx: Context) -> Any:
    return await (await ctx.promise(id="sent"))


async def _other_signal(ctx: Context) -> Any:
    return await ctx.wait_for_signal("stop")


async def _no_progress(ctx: Context) -> Any:
    await ctx.wait_for_signal("go")


@pytest.mark.parametrize(
    ("before", "after", "recorded", "issued"),
    [
        (_old_child, _other_child, "child 'child'", "child 'other'"),
        (_old_child, _old_timer, "child 'child'", "timer ''"),
        (_old_timer, _old_child, "timer ''", "child 'child'"),
        (_old_detached, _old_child, "detached 'child'", "child 'child'"),
        (_old_progress, _no_progress, "progress 'half'", "signal 'go'"),
        (_old_detached, _other_detached, "detached 'child'", "detached 'other'"),
        (_old_progress, _other_progress, "progress 'half'", "progress 'done'"),
        (_old_promise, _other_promise, "promise 'paid'", "promise 'sent'"),
        (_old_signal, _other_signal, "signal 'go'", "signal 'stop'"),
    ],
)
@in_asyncio
async def test_children_timers_notes_promises_and_signals_are_checked_too(
    tmp_path: Path, before: Code, after: Code, recorded: str, issued: str
) -> None:
    first = _app(tmp_path, before)
    async with opened(first) as client:
        await client.start("flow", id="r")
        async with doomed_worker(first):
            await pauses(first, "r")
        await client.signal("r", "wake")
    broken = _app(tmp_path, after)
    async with opened(broken) as client, broken.worker():
        await fails(broken, "r")
        with pytest.raises(NonDeterminism) as caught:
            await (await client.get("r")).result(60)
        assert (caught.value.recorded, caught.value.issued) == (recorded, issued)


@in_asyncio
async def test_code_that_ended_before_its_journal_does_is_named(tmp_path: Path) -> None:
    async def ends(ctx: Context) -> None:
        await _step(ctx, "a")

    first = _app(tmp_path, old)
    async with opened(first) as client:
        await client.start("flow", id="r")
        async with doomed_worker(first):
            await pauses(first, "r")
        await client.signal("r", "wake")
    broken = _app(tmp_path, ends)
    async with opened(broken) as client, broken.worker():
        await fails(broken, "r")
        with pytest.raises(NonDeterminism, match="ends before that") as caught:
            await (await client.get("r")).result(60)
        assert caught.value.recorded == "step 'b'"


@in_asyncio
async def test_a_run_that_fails_itself_is_not_marked_retryable(tmp_path: Path) -> None:
    async def fails_itself(ctx: Context) -> None:
        raise ValueError("its own")

    app = _app(tmp_path, fails_itself)
    async with opened(app) as client, app.worker():
        await client.start("flow", id="r")
        assert not (await fails(app, "r")).retryable


# Changes that are allowed


async def _patched(ctx: Context) -> str:
    await _step(ctx, "a")
    ways = [ctx.patched("check")]
    if ways[0]:
        await _step(ctx, "check")
    await _step(ctx, "b")
    await ctx.wait_for_user("sure?")
    ways.append(ctx.patched("check"))
    await _step(ctx, "new c" if ways[-1] else "c")
    return " ".join("new" if way else "old" for way in ways)


async def _crash_until_asked(app: Signoff, run_id: str) -> None:
    async with doomed_worker(app):
        await pauses(app, run_id)


@in_asyncio
async def test_a_patch_keeps_old_runs_on_the_old_path_across_crashes(
    tmp_path: Path,
) -> None:
    first = _app(tmp_path, old)
    async with opened(first) as client:
        await client.start("flow", id="before")
        await _crash_until_asked(first, "before")

    second = _app(tmp_path, _patched)
    async with opened(second) as client:
        await client.start("flow", id="after")
        await _crash_until_asked(second, "after")
        for run_id in ("before", "after"):
            await client.signal(run_id, "wake")  # replayed once more, by another worker
        async with doomed_worker(second):
            for run_id in ("before", "after"):
                await pauses(second, run_id)
        async with second.worker():
            for run_id in ("before", "after"):
                (question,) = await asked(client, run_id)
                await client.answer(question.id, True)
            assert await (await client.get("before")).result(60) == "old old"
            assert await (await client.get("after")).result(60) == "new new"
        names = [entry.name for entry in await journaled(second, "after", EntryKind.COMPLETED)]
        assert names == ["a", "check", "b", "sure?", "new c"]
        assert len(await journaled(second, "after", EntryKind.PATCHED)) == 1
        assert not await journaled(second, "before", EntryKind.PATCHED)


@in_asyncio
async def test_a_run_that_had_not_come_to_the_patch_takes_the_new_way(tmp_path: Path) -> None:
    async def waits_first(ctx: Context) -> str:
        await ctx.wait_for_signal("go")
        return "old"

    async def patched_later(ctx: Context) -> str:
        await ctx.wait_for_signal("go")
        if ctx.patched("later"):
            await _step(ctx, "new")
            return "new"
        return "old"

    first = _app(tmp_path, waits_first)
    async with opened(first) as client:
        await client.start("flow", id="r")
        await _crash_until_asked(first, "r")
    second = _app(tmp_path, patched_later)
    async with opened(second) as client, second.worker():
        await client.signal("r", "go")
        assert await (await client.get("r")).result(60) == "new"


@in_asyncio
async def test_a_run_keeps_its_version_while_that_is_registered(tmp_path: Path) -> None:
    async def newer(ctx: Context) -> str:
        await _step(ctx, "quite different")
        return f"version {ctx.version}"

    first = _app(tmp_path, old)
    async with opened(first) as client:
        await client.start("flow", id="before")
        await _crash_until_asked(first, "before")

    second = _app(tmp_path, old)
    second.workflow(name="flow", version="2")(_copy_of(newer))
    async with opened(second) as client, second.worker():
        assert await (await client.start("flow", id="after")).result(60) == "version 2"
        (question,) = await asked(client, "before")
        await client.answer(question.id, True)
        assert await (await client.get("before")).result(60) == "old True"
        assert await reaches(second, "before", RunState.SUCCEEDED)


@in_asyncio
async def test_entries_that_changed_code_adds_after_its_journal_are_not_lost(
    tmp_path: Path,
) -> None:
    async def before(ctx: Context) -> None:
        await asyncio.gather(_step(ctx, "a"), ctx.wait_for_user("sure?"))

    async def after(ctx: Context) -> None:
        async def first() -> None:
            await _step(ctx, "a")
            await ctx.progress("a is done")
            await ctx.detached("child")

        await asyncio.gather(first(), ctx.wait_for_user("sure?"))

    app = _app(tmp_path, before)
    async with opened(app) as client, app.worker():
        await client.start("flow", id="r")
        await pauses(app, "r")
    app = _app(tmp_path, after)
    async with opened(app) as client:
        await client.answer("r.2", True)
        async with app.worker():
            await (await client.get("r")).result(60)
        assert [entry.name for entry in await journaled(app, "r", EntryKind.PROGRESSED)] == ["a is done"]
        assert [run.workflow for run in (await client.list()).items if run.id != "r"] == ["child"]
