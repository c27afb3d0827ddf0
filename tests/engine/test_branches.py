"""Branches: a replay can do without the calls of one, and the rest of the run finds its own."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, RetryPolicy, Signoff
from signoff.engine.branches import SIZE, Branch
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.records import CallKind, EntryKind, Promise, PromiseState, RunState
from tests.engine import test_replay
from tests.engine.test_replay import SEED, Program, Trace, World, a_program, interpreting, live, traces
from tests.support import (
    asked,
    comes,
    doomed_worker,
    in_asyncio,
    journal,
    journaled,
    new_app,
    opened,
    pauses,
    reaches,
    rebuilt,
    running,
    until,
)


class Planning:
    """A run with a branch that plans and asks, beside what it does itself.

    Args:
        is_here: Whether the branch's code is.
        then: What is done if it is not, once somebody has said something.
    """

    def __init__(self, folder: Path, *, is_here: bool = True, then: str = "goes on") -> None:
        self.app = new_app(folder)
        self.done: list[str] = []
        self.hang = asyncio.Event()
        self.hang.set()
        self._is_here = is_here
        self._then = then

        @self.app.workflow
        async def work(ctx: Context) -> list[Any]:
            branch, asking = ctx.branch(), ctx.branch()
            planned = asyncio.create_task(self.plan(ctx, branch, asking))
            await ctx.step("look", self.do, "look")
            await ctx.wait_for_signal("go")
            await ctx.step("see", self.do, "see")
            drawn = ctx.random().random()
            return [await planned, drawn == random.Random("r:1").random()]

        @self.app.workflow
        async def child(ctx: Context) -> None:
            await ctx.wait_for_signal("never")

        self.work = work
        self.child = child

    def do(self, what: str) -> None:
        self.done.append(what)

    async def pay(self) -> str:
        self.done.append("pay")
        await self.hang.wait()
        return "paid"

    async def plan(self, ctx: Context, branch: Branch, asking: Branch) -> Any:
        if self._is_here:
            asking.skip()
            with branch.entered():
                return await self.planned(ctx)
        branch.skip()
        with asking.entered():
            said = await ctx.wait_for_user("What now?", input_type="text")
        if self._then == "rebuilds":
            self._is_here = True
            await ctx.rebuild()
        if self._then == "closes":
            branch.close()
        return [said.value, *(f"{entry.kind} {entry.name}" for entry in branch.recorded)]

    async def planned(self, ctx: Context) -> Any:
        ctx.random().random()  # the branch has numbers of its own
        await ctx.step("plan", self.do, "plan")
        answer = await ctx.wait_for_user("Sure?")
        return [answer.approved, await ctx.step("pay", self.pay, effect="once")]


async def questions(app: Signoff, client: AsyncClient, count: int) -> list[Promise]:
    async def look() -> list[Promise]:
        found = list(await asked(client, "r"))
        return found if len(found) == count else []

    return await until(app, look)


async def has_done(planning: Planning, *what: str) -> None:
    async def look() -> bool:
        entries = await journal(planning.app, "r")
        return {*what} <= {entry.name for entry in entries if entry.kind is EntryKind.COMPLETED}

    await until(planning.app, look)


async def begun(folder: Path) -> None:
    """Have the branch ask, and the rest go on."""
    planning = Planning(folder)
    async with running(planning.app) as client:
        await client.start(planning.work, id="r")
        await client.signal("r", "go")
        await questions(planning.app, client, 1)
        await has_done(planning, "plan", "look", "see")
    assert sorted(planning.done) == ["look", "plan", "see"]


@in_asyncio
async def test_the_calls_of_a_branch_have_numbers_of_their_own(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    async with running(planning.app) as client:
        run = await client.start(planning.work, id="r")
        await client.signal("r", "go")
        (question,) = await questions(planning.app, client, 1)
        await client.answer(question.id, True)
        assert await run.result(60) == [[True, "paid"], True]
        numbers = {entry.name: entry.n for entry in await journal(planning.app, "r") if entry.n}
    assert (question.id, numbers["plan"], numbers["Sure?"], numbers["pay"]) == ("r.2", 1, 2, 3)
    assert (numbers["look"], numbers["see"]) == (2 * SIZE + 1, 2 * SIZE + 3)


@pytest.mark.parametrize("then", ["goes on", "closes"])
@in_asyncio
async def test_a_replay_without_a_branch_does_nothing_again(tmp_path: Path, then: str) -> None:
    await begun(tmp_path)
    planning = Planning(tmp_path, is_here=False, then=then)
    async with running(planning.app) as client:
        await client.signal("r", "look")
        sure, now = await questions(planning.app, client, 2)
        assert (sure.id, now.id) == ("r.2", f"r.{SIZE + 1}")
        await client.answer(now.id, "enough")
        expected = ["enough", "completed plan", "opened Sure?"]
        assert await (await client.get("r")).result(60) == [expected, True]
        assert planning.done == []
        assert (await client.promises.get(sure.id)).state is PromiseState.CANCELLED, (
            "by the end at the latest"
        )
        done = await journaled(planning.app, "r", EntryKind.COMPLETED)
        assert sorted(entry.name or "" for entry in done if entry.call is CallKind.STEP) == [
            "look",
            "plan",
            "see",
        ]


@in_asyncio
async def test_closing_a_branch_closes_what_it_has_left_open(tmp_path: Path) -> None:
    """Its questions, promises and child runs; not a promise with an id that somebody has chosen."""

    def app_with(*, is_here: bool) -> Signoff:
        app = new_app(tmp_path)

        @app.workflow
        async def waits(ctx: Context) -> None:
            await ctx.wait_for_signal("never")

        @app.workflow
        async def work(ctx: Context) -> None:
            branch = ctx.branch()
            if is_here:
                with branch.entered():
                    children = [await ctx.rfi(waits)]
                    promises = [await ctx.promise(), await ctx.promise(id="chosen")]
                    await ctx.wait_for_user("Sure?")
                    await asyncio.gather(*children, *promises)
            branch.skip()
            await ctx.wait_for_signal("close")
            branch.close()
            await ctx.wait_for_signal("end")

        return app

    old = app_with(is_here=True)
    async with running(old) as client:
        await client.start("work", id="r")
        await questions(old, client, 1)
    new = app_with(is_here=False)
    async with running(new) as client:
        await client.signal("r", "look")
        assert len(await asked(client, "r")) == 1
        await client.signal("r", "close")
        await reaches(new, "r.1", RunState.CANCELLED)
        states = [(await client.promises.get(id)).state for id in ("r.2", "chosen", "r.4")]
        assert states == [PromiseState.CANCELLED, PromiseState.PENDING, PromiseState.CANCELLED]
        await client.signal("r", "end")
        await (await client.get("r")).result(60)


@in_asyncio
async def test_a_rebuilt_run_skips_no_longer_what_it_had_skipped(tmp_path: Path) -> None:
    """What somebody has answered meanwhile is there, and nothing is done again."""
    await begun(tmp_path)
    planning = Planning(tmp_path, is_here=False, then="rebuilds")
    async with running(planning.app) as client:
        await client.signal("r", "look")
        sure, now = await questions(planning.app, client, 2)
        await client.answer(sure.id, False)
        await client.answer(now.id, "go on")
        assert await (await client.get("r")).result(60) == [[False, "paid"], True]
        assert planning.done == ["pay"]


@in_asyncio
async def test_a_step_that_runs_is_not_interrupted_when_its_run_is_rebuilt(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    planning.hang.clear()
    wanted = asyncio.Event()

    @planning.app.workflow
    async def both(ctx: Context) -> list[Any]:
        paid = asyncio.create_task(pay(ctx))
        if not await ctx.step("first", lambda: (wanted.is_set(), wanted.set())[0], durable=False):
            await ctx.rebuild()
        return [await paid]

    async def pay(ctx: Context) -> str:
        return await ctx.step("pay", planning.pay, effect="once")

    async with running(planning.app) as client:
        run = await client.start(both, id="r")
        await comes(lambda: is_done(planning, "pay"))
        await asyncio.sleep(0.2)  # in which it would be rebuilt
        assert list(await asked(client, "r")) == []
        planning.hang.set()
        assert await run.result(60) == ["paid"]
        assert planning.done == ["pay"]
        assert list(await asked(client, "r")) == []


@in_asyncio
async def test_a_step_that_waits_for_its_next_attempt_is_tried_once_more_when_its_run_is_rebuilt(
    tmp_path: Path,
) -> None:
    app = new_app(tmp_path)
    is_rebuilt, tried = asyncio.Event(), list[str]()

    async def fails_first() -> str:
        tried.append("pay")
        if len(tried) == 1:
            raise OSError("busy")
        await asyncio.sleep(0.1)
        return "paid"

    @app.workflow
    async def work(ctx: Context) -> str:
        once_more = RetryPolicy(initial_seconds=0.8, jitter=False)
        paid = asyncio.create_task(pay(ctx, once_more))
        await ctx.wait_for_signal("rebuild")
        if not await ctx.step(
            "first", lambda: (is_rebuilt.is_set(), is_rebuilt.set())[0], durable=False, returns=bool
        ):
            await ctx.rebuild()
        return await paid

    async def pay(ctx: Context, once_more: RetryPolicy) -> str:
        return await ctx.step("pay", fails_first, retry=once_more, returns=str)

    async with running(app) as client:
        run = await client.start(work, id="r")
        await until(app, lambda: has_failed(app))
        await client.signal("r", "rebuild")
        assert await run.result(60) == "paid"
        assert tried == ["pay", "pay"]


async def has_failed(app: Signoff) -> bool:
    return bool(await journaled(app, "r", EntryKind.ATTEMPT_FAILED))


@in_asyncio
async def test_closing_a_branch_closes_what_people_are_asked_of_its_interrupted_steps(tmp_path: Path) -> None:
    """At once, also if the code then waits for nothing new."""
    await begun(tmp_path)
    dying = Planning(tmp_path)
    dying.hang.clear()
    async with opened(dying.app) as client, doomed_worker(dying.app):
        await client.answer("r.2", True)
        await comes(lambda: is_done(dying, "pay"))
    without = Planning(tmp_path)
    async with running(without.app) as client:
        await questions(without.app, client, 1)
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        branch, beside = ctx.branch(), ctx.branch()
        branch.skip()
        with beside.entered():
            closing = asyncio.create_task(closes(ctx, branch))
        await ctx.step("look", lambda: None)
        await ctx.wait_for_signal("go")
        await ctx.step("see", lambda: None)
        await asyncio.gather(closing, ctx.wait_for_signal("end"))

    async def closes(ctx: Context, branch: Branch) -> None:
        await ctx.wait_for_signal("close")
        branch.close()
        await asyncio.Event().wait()

    async with running(app) as client:
        await client.signal("r", "close")
        await until(app, lambda: has_no_questions(client))


async def has_no_questions(client: AsyncClient) -> bool:
    return not await asked(client, "r")


async def is_done(planning: Planning, what: str) -> bool:
    return what in planning.done


@pytest.mark.parametrize("action", ["done", "retry"])
@in_asyncio
async def test_what_people_say_of_an_interrupted_step_is_kept_for_its_code(
    tmp_path: Path, action: str
) -> None:
    await begun(tmp_path)
    dying = Planning(tmp_path)
    dying.hang.clear()
    async with opened(dying.app) as client, doomed_worker(dying.app):
        await client.answer("r.2", True)
        await comes(lambda: is_done(dying, "pay"))
    without = Planning(tmp_path)
    async with running(without.app) as client:
        (doubt,) = await questions(without.app, client, 1)
    skipping = Planning(tmp_path, is_here=False, then="rebuilds")
    async with running(skipping.app) as client:
        verdict = {"action": "done", "result": "by hand"} if action == "done" else {"action": "retry"}
        await client.answer(doubt.id, verdict)
        (now,) = await questions(skipping.app, client, 1)
        assert skipping.done == []
        await client.answer(now.id, "go on")
        expected = "by hand" if action == "done" else "paid"
        assert await (await client.get("r")).result(60) == [[True, expected], True]
        assert skipping.done == (["pay"] if action == "retry" else [])


@in_asyncio
async def test_a_branch_has_no_branches_and_is_of_its_run(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def nested(ctx: Context) -> list[bool]:
        said = [ctx.is_in_branch]
        with ctx.branch().entered():
            said.append(ctx.is_in_branch)
            ctx.branch()
        return said

    @app.workflow
    async def outside(ctx: Context) -> None:
        await ctx.step("look", ctx.branch, retry=RetryPolicy(max_attempts=1))

    async with running(app) as client:
        with pytest.raises(RegistrationError, match="in a branch already"):
            await (await client.start(nested)).result(60)
        with pytest.raises(OutsideWorkflow):
            await (await client.start(outside)).result(60)


@pytest.mark.parametrize("begins_with", ["skip", "calls"])
@in_asyncio
async def test_a_branch_is_skipped_or_entered_and_not_both(tmp_path: Path, begins_with: str) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        branch = ctx.branch()
        if begins_with == "skip":
            branch.skip()
        with branch.entered():
            await ctx.progress("so far")
        branch.skip()

    async with running(app) as client:
        told = "it is skipped" if begins_with == "skip" else "made calls already"
        with pytest.raises(RegistrationError, match=told):
            await (await client.start(work)).result(60)


@in_asyncio
async def test_calls_for_which_a_branch_has_no_number_have_the_runs(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> bool:
        with ctx.branch().entered():
            for index in range(SIZE + 2):
                await ctx.progress(f"{index}")
            return (await ctx.wait_for_user("Sure?")).approved

    async with running(app) as client:
        await client.start(work, id="r")
        (question,) = await questions(app, client, 1)
    assert question.id == f"r.{SIZE + 3}"
    async with running(app) as client:
        await client.answer(question.id, True)
        assert await (await client.get("r")).result(60) is True
        numbers = [entry.n for entry in await journal(app, "r") if entry.kind is EntryKind.PROGRESSED]
    assert numbers == list(range(1, SIZE + 3))


@pytest.mark.parametrize("when", ["before", "meanwhile", "in an earlier generation"])
@in_asyncio
async def test_what_a_branch_has_received_nobody_else_gets(tmp_path: Path, when: str) -> None:
    def app_with(*, is_here: bool) -> Signoff:
        app = new_app(tmp_path)

        @app.workflow
        async def work(ctx: Context, generation: int = 0) -> str:
            if when != "meanwhile" and generation == 0:
                await ctx.wait_for_signal("begin")
            if when == "in an earlier generation" and generation == 0:
                ctx.continue_as_new(1)
            branch = ctx.branch()
            if is_here:
                with branch.entered():
                    await ctx.wait_for_signal("go")
            else:
                branch.skip()
            await ctx.step("look", lambda: None)
            return await ctx.wait_for_signal("go", returns=str)

        return app

    old = app_with(is_here=True)
    async with running(old) as client:
        await client.start("work", id="r")
        await client.signal("r", "go", "first")
        if when != "meanwhile":
            await pauses(old, "r")
            await client.signal("r", "begin")
        await until(old, lambda: has_looked(old))
    new = app_with(is_here=False)
    async with running(new) as client:
        await client.signal("r", "go", "second")
        assert await (await client.get("r")).result(60) == "second"


async def has_looked(app: Signoff) -> bool:
    return any(entry.name == "look" for entry in await journaled(app, "r", EntryKind.COMPLETED))


# Random programs


class _Planning(test_replay.Interpreter):
    """Has its first branch, or does without it: something else waits in its place, in a branch of its own."""

    is_here = True

    async def _branch(self, node: Program, path: str) -> object:
        if path != "/gather0/branch":
            return await super()._branch(node, path)
        branch, place = self.ctx.branch(), self.ctx.branch()
        if self.is_here:
            with branch.entered():
                return await self._of(node, path)
        branch.skip()
        with place.entered():
            return await (await self.ctx.promise())


class _Skipping(_Planning):
    is_here = False


def beside(trace: Trace) -> Trace:
    return [each for each in trace if each[0].startswith("/gather1")]


@pytest.mark.timeout(400)
@in_asyncio
async def test_what_is_beside_a_branch_meets_the_same_without_it_at_any_length_of_the_journal(
    tmp_path: Path,
) -> None:
    print(f"SIGNOFF_SEED={SEED}")
    app, clock = interpreting(tmp_path, _Planning)
    without, _ = interpreting(tmp_path, _Skipping)
    async with running(app) as client:
        for number in range(60):
            chance = random.Random(f"{SEED}:{number}")
            branch = {"do": "branch", "of": [a_program(chance, chance.randint(1, 5))]}
            program = {"do": "gather", "of": [branch, a_program(chance, chance.randint(1, 5))]}
            run = await live(app, client, World(app, client, clock, chance), program, f"r{number}")
            entries = await journal(app, run.id)
            for length in range(1, len(entries)):
                async with rebuilt(app, run, entries[:length]) as execution:
                    assert execution.failure is None
                    if execution.ended:
                        break  # by what the branch came to
                    met = beside(traces[run.id])
                async with rebuilt(without, run, entries[:length]) as execution:
                    assert execution.failure is None, f"{program} at length {length}: {execution.failure}"
                    assert beside(traces[run.id]) == met, f"{program} at length {length}"
