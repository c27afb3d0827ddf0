"""Branches: a replay can do without the calls of one, and the rest of the run finds its own."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, RetryPolicy, Signoff
from signoff.engine.run import branches
from signoff.engine.run.branches import GROWING, GROWN_FROM, SIZE, Branch
from signoff.engine.run.execution import Execution
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.records import CallKind, EntryKind, Promise, PromiseState, RunState
from tests.engine import test_replay
from tests.engine.test_replay import SEED, Program, Trace, World, a_program, interpreting, live, traces
from tests.halves import sample
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
        await ctx.step("look", lambda what: None, "look")
        await ctx.wait_for_signal("go")
        await ctx.step("see", lambda what: None, "see")
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
        (question,) = await questions(without.app, client, 1)
    skipping = Planning(tmp_path, is_here=False, then="rebuilds")
    async with running(skipping.app) as client:
        verdict = {"action": "done", "result": "by hand"} if action == "done" else {"action": "retry"}
        await client.answer(question.id, verdict)
        (now,) = await questions(skipping.app, client, 1)
        assert skipping.done == []
        await client.answer(now.id, "go on")
        expected = "by hand" if action == "done" else "paid"
        assert await (await client.get("r")).result(60) == [[True, expected], True]
        assert skipping.done == (["pay"] if action == "retry" else [])


@in_asyncio
async def test_branches_are_begun_by_workflow_code(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        await ctx.step("look", ctx.branch, retry=RetryPolicy(max_attempts=1))

    async with running(app) as client:
        with pytest.raises(OutsideWorkflow):
            await (await client.start(work)).result(60)


@pytest.mark.parametrize("begins_with", ["skip", "calls", "inner branches"])
@in_asyncio
async def test_a_branch_is_skipped_or_entered_and_not_both(tmp_path: Path, begins_with: str) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        branch = ctx.branch()
        if begins_with == "skip":
            branch.skip()
        with branch.entered():
            if begins_with == "calls":
                await ctx.progress("so far")
            else:
                ctx.branch()
        branch.skip()

    async with running(app) as client:
        told = "it is skipped" if begins_with == "skip" else "made calls already"
        with pytest.raises(RegistrationError, match=told):
            await (await client.start(work)).result(60)


# Many calls, and branches within branches


def counting(folder: Path, *, is_here: bool = True, generations: int = 0) -> Signoff:
    """Have a branch of more calls than it has numbers for ask, beside one within another, and skip them or not."""
    app = new_app(folder)

    @app.workflow
    async def work(ctx: Context, generation: int = 0) -> list[Any]:
        long, outer = ctx.branch(), ctx.branch()
        branches = asyncio.gather(in_long(ctx, long), in_outer(ctx, outer))
        if generation < generations:
            await branches
            ctx.continue_as_new(generation + 1)
        await ctx.wait_for_signal("go")
        await ctx.step("see", lambda: None)
        return [await branches, len(long.recorded), len(outer.recorded)]

    async def in_long(ctx: Context, branch: Branch) -> object:
        if not is_here:
            return branch.skip()
        with branch.entered():
            for index in range(SIZE + 2):
                await ctx.progress(f"{index}")
            return (await ctx.wait_for_user("Long?")).approved

    async def in_outer(ctx: Context, branch: Branch) -> object:
        if not is_here:
            return branch.skip()
        with branch.entered():
            await ctx.progress("outer")
            inner = ctx.branch()
            with inner.entered(), ctx.branch().entered():
                await ctx.progress("innermost")
                said = (await ctx.wait_for_user("Inner?")).approved
            return [said, (await ctx.wait_for_user("Outer?")).approved]

    return app


async def answered(client: AsyncClient, questions: list[Promise], texts: str) -> None:
    for question in questions:
        if question.data is not None and json.loads(question.data)["text"] in texts:
            await client.answer(question.id, True)


@in_asyncio
async def test_a_branch_grows_and_has_branches(tmp_path: Path) -> None:
    app = counting(tmp_path)
    async with running(app) as client:
        await client.start("work", id="r")
        before = await questions(app, client, 2)
    assert {each.id for each in before} == {f"r.{GROWN_FROM + 2}", f"r.{GROWN_FROM + SIZE + 1}"}
    again = counting(tmp_path)
    async with running(again) as client:
        await answered(client, before, "Long? Inner?")
        (last,) = await questions(again, client, 1)
        assert last.id == f"r.{SIZE + 2}"
        await client.answer(last.id, False)
        await client.signal("r", "go")
        assert await (await client.get("r")).result(60) == [[True, [True, False]], 0, 0]
        numbers = {entry.name: entry.n for entry in await journal(again, "r") if entry.n}
    assert (numbers["999"], numbers["1000"], numbers["1001"]) == (SIZE, GROWN_FROM, GROWN_FROM + 1)
    assert numbers["see"] == 2 * SIZE + 2


@in_asyncio
async def test_all_calls_of_a_branch_are_skipped_and_closed_those_within_it_included(tmp_path: Path) -> None:
    """What they come to later, too."""
    old = counting(tmp_path)
    async with running(old) as client:
        await client.start("work", id="r")
        before = await questions(old, client, 2)
    without = counting(tmp_path, is_here=False)
    async with running(without) as client:
        await answered(client, before, "Inner?")
        await client.signal("r", "go")
        assert await (await client.get("r")).result(60) == [[None, None], SIZE + 3, 4]
        states = [(await client.promises.get(each.id)).state for each in before]
        assert sorted(states) == [PromiseState.CANCELLED, PromiseState.RESOLVED]


@in_asyncio
async def test_a_branch_that_is_skipped_closes_the_questions_of_those_within_it(tmp_path: Path) -> None:
    old = counting(tmp_path)
    async with running(old) as client:
        await client.start("work", id="r")
        before = await questions(old, client, 2)
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        branches = ctx.branch(), ctx.branch()
        for branch in branches:
            branch.skip()
        await ctx.wait_for_signal("go")
        for branch in branches:
            branch.close()
        await ctx.wait_for_signal("end")

    async with running(app) as client:
        await client.signal("r", "go")
        await until(app, lambda: has_no_questions(client))
        states = [(await client.promises.get(each.id)).state for each in before]
        assert states == [PromiseState.CANCELLED] * 2


@in_asyncio
async def test_generations_do_not_share_what_their_branches_have_grown_by(tmp_path: Path) -> None:
    app = counting(tmp_path, generations=1)
    async with running(app) as client:
        await client.start("work", id="r")
        first = await questions(app, client, 2)
        await answered(client, first, "Long? Inner?")
        (last,) = await questions(app, client, 1)
        await client.answer(last.id, True)
        second = await questions(app, client, 2)
        assert not {each.id for each in first} & {each.id for each in second}
    again = counting(tmp_path, generations=1)
    async with running(again) as client:
        await answered(client, second, "Long? Inner?")
        (last,) = await questions(again, client, 1)
        await client.answer(last.id, True)
        await client.signal("r", "go")
        assert await (await client.get("r")).result(60) == [[True, [True, True]], 0, 0]


@in_asyncio
async def test_a_run_whose_branch_had_no_numbers_left_before_branches_grew_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def long_one() -> Signoff:
        app = new_app(tmp_path)

        @app.workflow
        async def work(ctx: Context) -> bool:
            with ctx.branch().entered():
                for index in range(SIZE + 2):
                    await ctx.progress(f"{index}")
                return (await ctx.wait_for_user("Sure?")).approved

        return app

    old = long_one()
    with monkeypatch.context() as patch:
        is_patched = Execution.is_patched
        patch.setattr(Execution, "is_patched", lambda run, id: id != GROWING and is_patched(run, id))
        async with running(old) as client:
            await client.start("work", id="r")
            (question,) = await questions(old, client, 1)
    assert question.id == f"r.{SIZE + 3}"
    new = long_one()
    async with running(new) as client:
        await client.answer(question.id, True)
        assert await (await client.get("r")).result(60) is True
        numbers = [entry.n for entry in await journal(new, "r") if entry.kind is EntryKind.PROGRESSED]
    assert numbers == list(range(1, SIZE + 3))


@pytest.mark.parametrize(
    ("limit", "told"), [("_END", "grown its branches"), ("GROWN_FROM", "begun a million")]
)
@in_asyncio
async def test_a_run_that_has_no_numbers_left_for_branches_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, told: str
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        for _ in range(2):
            with ctx.branch().entered(), ctx.branch().entered():
                await ctx.progress("within")

    ends = {"_END": GROWN_FROM + SIZE, "GROWN_FROM": SIZE + 1}
    monkeypatch.setattr(branches, limit, ends[limit])
    async with running(app) as client:
        with pytest.raises(RegistrationError, match=told):
            await (await client.start(work)).result(60)


@in_asyncio
async def test_what_people_say_of_an_interrupted_step_within_a_skipped_branch_is_kept(tmp_path: Path) -> None:
    """For its code, as for a step of the branch itself."""
    done = list[str]()
    hangs = asyncio.Event()

    async def pay() -> str:
        done.append("pay")
        await hangs.wait()
        return "paid"

    def app_with(way: str) -> Signoff:
        app = new_app(tmp_path)

        @app.workflow
        async def work(ctx: Context) -> str:
            outer = ctx.branch()
            beside = ctx.branch()
            if way == "skips":
                outer.skip()
                with beside.entered():
                    await ctx.wait_for_signal("never")
            beside.skip()
            with outer.entered(), ctx.branch().entered():
                return await ctx.step("pay", pay, effect="once", returns=str)

        return app

    dying = app_with("enters")
    async with opened(dying) as client, doomed_worker(dying):
        await client.start("work", id="r")
        await comes(lambda: has_paid(done))
    asking = app_with("enters")
    async with running(asking) as client:
        (question,) = await questions(asking, client, 1)
    skipping = app_with("skips")
    async with running(skipping) as client:
        await client.answer(question.id, {"action": "done", "result": "by hand"})
        await pauses(skipping, "r")
    back = app_with("enters")
    async with running(back) as client:
        await client.signal("r", "look")
        assert await (await client.get("r")).result(60) == "by hand"
    assert done == ["pay"]


async def has_paid(done: list[str]) -> bool:
    return bool(done)


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
    """Has a branch, or does without it: something else waits in its place, in a branch of its own."""

    is_here = True
    planned = "/gather0/branch"

    async def _branch(self, node: Program, path: str) -> object:
        if path != self.planned:
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


class _PlanningWithin(_Planning):
    planned = "/gather0/branch0/gather0/branch"


class _SkippingWithin(_PlanningWithin):
    is_here = False


def beside(trace: Trace, *, is_within: bool) -> Trace:
    paths = ("/gather1", "/gather0/branch0/gather1") if is_within else ("/gather1",)
    return [each for each in trace if each[0].startswith(paths)]


def a_branch(chance: random.Random, *, is_within: bool) -> Program:
    """Make a program whose first branch, or the first one within that, is the one that may be skipped."""
    first: Program = {"do": "branch", "of": [a_program(chance, chance.randint(1, 5))]}
    program = {"do": "gather", "of": [first, a_program(chance, chance.randint(1, 5))]}
    if is_within:
        outer = {"do": "branch", "of": [program]}
        program = {"do": "gather", "of": [outer, a_program(chance, chance.randint(1, 5))]}
    return program


@pytest.mark.timeout(400)
@pytest.mark.parametrize("is_within", sample([False, True]), ids=["", "within another"])
@in_asyncio
async def test_what_is_beside_a_branch_meets_the_same_without_it_at_any_length_of_the_journal(
    tmp_path: Path, is_within: bool
) -> None:
    print(f"SIGNOFF_SEED={SEED}")
    app, clock = interpreting(tmp_path, _PlanningWithin if is_within else _Planning)
    without, _ = interpreting(tmp_path, _SkippingWithin if is_within else _Skipping)
    async with running(app) as client:
        for number in range(60):
            chance = random.Random(f"{SEED}:{number}")
            program = a_branch(chance, is_within=is_within)
            run = await live(app, client, World(app, client, clock, chance), program, f"r{number}")
            entries = await journal(app, run.id)
            for length in range(1, len(entries)):
                async with rebuilt(app, run, entries[:length]) as execution:
                    assert execution.failure is None
                    if execution.ended:
                        break  # by what the branch came to
                    met = beside(traces[run.id], is_within=is_within)
                async with rebuilt(without, run, entries[:length]) as execution:
                    assert execution.failure is None, f"{program} at length {length}: {execution.failure}"
                    assert beside(traces[run.id], is_within=is_within) == met, f"{program} at length {length}"
