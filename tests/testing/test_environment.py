"""``signoff.testing.environment``: time skips, people follow a script, and workers die where a test says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from signoff import AlreadySettled, Context, RunState, SignalTimeout, Signoff, WrongAnswer, current_step
from signoff.errors import InvalidValue
from signoff.testing import (
    CrashPoint,
    Environment,
    MemoryStore,
    NothingHappens,
    after_entry,
    after_step,
    at_pause,
    before_entry,
    before_step,
    crash_everywhere,
    environment,
)
from tests.support import in_asyncio

WEEK = timedelta(weeks=1)


@dataclass
class Bank:
    """What steps do in the world: charges by idempotency key, and letters however often they are sent."""

    charges: dict[str, int] = field(default_factory=dict[str, int])
    calls: list[str] = field(default_factory=list[str])

    async def charge(self, amount: int) -> str:
        self.calls.append("charge")
        key = current_step().idempotency_key
        self.charges[key] = amount
        return f"charged {amount}"

    def refund(self) -> str:
        self.calls.append("refund")
        return "refunded"


def new_app(bank: Bank, *, once: bool = False) -> Signoff:
    app = Signoff(MemoryStore())
    effect = "once" if once else "repeatable"

    @app.workflow
    async def checkout(ctx: Context, amount: int) -> list[Any]:
        charged = await ctx.step("charge", bank.charge, amount, effect=effect)
        await ctx.sleep(WEEK.total_seconds())
        try:
            answer = await ctx.wait_for_user(
                f"Refund {amount}?", metadata={"amount": amount}, timeout_seconds=3 * WEEK.total_seconds()
            )
        except SignalTimeout:
            return [charged, "nobody answered"]
        if not answer.approved:
            return [charged, f"kept, says {answer.user_id}"]
        return [charged, await ctx.step("refund", bank.refund)]

    return app


@in_asyncio
async def test_weeks_pass_at_once_and_in_order() -> None:
    began = time.monotonic()
    async with environment(new_app(Bank())) as env:
        start = env.now()
        env.people.answer("Refund*", approved=True, after=timedelta(days=2), by="user:ana")
        assert await env.run("checkout", 7) == ["charged 7", "refunded"]
        assert env.now() - start == WEEK + timedelta(days=2)
    assert time.monotonic() - began < 60


@in_asyncio
async def test_a_deadline_passes_without_an_answer() -> None:
    for after in (4 * WEEK, None):
        async with environment(new_app(Bank())) as env:
            start = env.now()
            if after is None:
                env.people.stay_silent("*")
            else:
                env.people.answer("*", approved=True, after=after)
            assert (await env.run("checkout", 7))[1] == "nobody answered"
            assert env.now() - start == 4 * WEEK


@in_asyncio
async def test_a_late_answer_is_refused_with_the_reason() -> None:
    async with environment(new_app(Bank())) as env:
        env.people.answer("*", approved=True, after=4 * WEEK)
        await env.run("checkout", 7)
        await env.sleep(WEEK)
        [said] = env.people.answers
        assert isinstance(said.error, AlreadySettled)
        assert said.error.state == "timed_out"


@in_asyncio
async def test_of_people_who_answer_at_once_one_wins_and_the_others_are_refused() -> None:
    async with environment(new_app(Bank())) as env:
        env.people.race("Refund*", ("user:ana", True), ("user:ben", False), ("user:eva", False))
        assert await env.run("checkout", 7) == ["charged 7", "refunded"]
        assert [said.error is None for said in env.people.answers] == [True, False, False]
        assert all(isinstance(said.error, AlreadySettled) for said in env.people.answers[1:])


@in_asyncio
async def test_the_first_instruction_that_fits_counts() -> None:
    async with environment(new_app(Bank())) as env:
        env.people.answer(lambda asked: asked.metadata["amount"] > 100, approved=False, by="user:boss")
        env.people.answer("Refund *?", "perhaps", times=1)
        env.people.answer("Refund *?", approved=True)
        assert (await env.run("checkout", 101))[1] == "kept, says user:boss"
        asked_badly = await env.start("checkout", 1)
        assert (await env.run("checkout", 2))[1] == "refunded"
        assert [type(said.error) for said in env.people.answers] == [type(None), WrongAnswer, type(None)]
        assert (await asked_badly.result())[1] == "nobody answered"


@in_asyncio
async def test_time_stands_still_unless_the_test_waits() -> None:
    async with environment(new_app(Bank())) as env:
        run = await env.start("checkout", 7)
        await env.idle()
        assert await run.status() is RunState.PAUSED
        await env.sleep(WEEK)
        [question] = (await env.client.questions()).items
        assert await run.status() is RunState.PAUSED
        await env.client.answer(question.id, True)
        assert (await run.result())[1] == "refunded"


@in_asyncio
async def test_waiting_for_an_impossible_event_is_an_error_with_the_reason() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> bool:
        return bool((await ctx.wait_for_user("Well?")).approved)

    async with environment(app) as env:
        with pytest.raises(NothingHappens, match=r"run 'r' waits for question 'r\.1'.*people\.answer"):
            await env.run("ask", id="r")


@in_asyncio
async def test_a_refused_scripted_answer_is_reported_when_nothing_happens() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> bool:
        return bool((await ctx.wait_for_user("Well?")).approved)

    async with environment(app) as env:
        env.people.answer("Well?", "yes")
        with pytest.raises(
            NothingHappens, match=r"refused: user:test to 'Well\?': .*approved: \"yes\" is not of"
        ):
            await env.run("ask", id="r")


@in_asyncio
async def test_what_makes_no_sense_is_refused_at_once() -> None:
    async with environment(Signoff(MemoryStore())) as env:
        for wrong, why in (
            ({"by": ""}, "by: '' is not a valid user name"),
            ({"by": "group:finance"}, "by: 'group:finance' is not a valid user name"),
            ({"times": 0}, "times: 0 is not a number of questions"),
            ({"after": "5"}, "after: '5' is not a number of seconds"),
            ({"after": float("nan")}, "after: nan is not a number of seconds"),
        ):
            with pytest.raises(InvalidValue, match=why):
                env.people.answer("*", True, **wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match="by: '' is not a valid user name"):
            env.people.race("*", ("", True))
        for odd in ("5", float("nan"), float("inf"), None):
            with pytest.raises(InvalidValue, match="duration: .* is not a number of seconds"):
                await env.sleep(odd)  # type: ignore[arg-type]


@in_asyncio
async def test_time_does_not_skip_while_a_step_runs() -> None:
    app = Signoff(MemoryStore())
    done = asyncio.Event()

    async def slow() -> str:
        asyncio.get_running_loop().call_later(0.2, done.set)
        await done.wait()
        return "done"

    @app.workflow
    async def race(ctx: Context) -> str:
        async with asyncio.timeout(3600):
            return await ctx.step(slow)

    async with environment(app) as env:
        assert await env.run(race) == "done"


@in_asyncio
async def test_retries_with_long_waits_take_no_time() -> None:
    app = Signoff(MemoryStore())

    def fails() -> str:
        if current_step().attempt < 7:
            raise OSError("not yet")
        return "there"

    @app.workflow
    async def stubborn(ctx: Context) -> str:
        return await ctx.step(fails)

    async with environment(app) as env:
        start = env.now()
        assert await env.run(stubborn) == "there"
        assert env.now() - start > timedelta(seconds=30)


@pytest.mark.parametrize(
    ("point", "calls"),
    [
        (before_step("charge"), ["charge", "refund"]),
        (after_step("charge"), ["charge", "charge", "refund"]),
        (before_entry(1), ["charge", "charge", "refund"]),
        (after_entry(1), ["charge", "refund"]),
        (at_pause(), ["charge", "refund"]),
        (at_pause(nth=2), ["charge", "refund"]),
        (after_step("refund"), ["charge", "refund", "refund"]),
    ],
    ids=str,
)
def test_a_worker_dies_where_the_test_says_and_another_goes_on(point: CrashPoint, calls: list[str]) -> None:
    bank = Bank()

    async def scenario() -> None:
        async with environment(new_app(bank)) as env:
            env.people.answer("*", approved=True, after=WEEK)
            env.crash(at=point)
            run = await env.start("checkout", 7)
            assert await run.result() == ["charged 7", "refunded"]
            assert env.pending_crashes == []
            assert len(bank.charges) == 1

    asyncio.run(scenario())
    assert bank.calls == calls


@in_asyncio
async def test_a_once_step_asks_a_person_after_a_crash() -> None:
    bank = Bank()
    async with environment(new_app(bank, once=True)) as env:
        env.people.answer("*was interrupted*", {"action": "done", "result": "charged by hand"})
        env.people.answer("Refund*", approved=True)
        env.crash(at=after_step("charge"))
        assert (await env.run("checkout", 7))[0] == "charged by hand"
        assert bank.calls == ["charge", "refund"]


@in_asyncio
async def test_every_place_can_be_crashed_at() -> None:
    def scenario_of(app: Signoff, bank: Bank) -> Any:
        async def scenario(env: Environment) -> Any:
            bank.charges.clear()
            env.people.answer("*", approved=True, after=WEEK)
            result = await env.run("checkout", 7, id="r")
            assert env.pending_crashes == []
            return result, bank.charges.copy()

        return scenario

    bank = Bank()
    app = new_app(bank)
    assert await crash_everywhere(app, scenario_of(app, bank)) >= 12


@in_asyncio
async def test_a_crash_that_shows_is_found_and_named() -> None:
    app = Signoff(MemoryStore())
    letters: list[str] = []

    @app.workflow
    async def write(ctx: Context) -> None:
        await ctx.step("send", lambda: letters.append("letter"))

    async def scenario(env: Environment) -> int:
        letters.clear()
        await env.run(write, id="r")
        return len(letters)

    with pytest.raises(AssertionError, match="after step 'send' of run 'r', it came to 2"):
        await crash_everywhere(app, scenario)


@in_asyncio
async def test_children_in_other_groups_are_run_too() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def child(ctx: Context) -> str:
        await ctx.sleep(60)
        return "child"

    @app.workflow
    async def parent(ctx: Context) -> str:
        return await ctx.rfc(child).options(target="gpu")

    async with environment(app, groups=["gpu"]) as env:
        env.crash(at=at_pause(nth=2))
        assert await env.run(parent) == "child"


@in_asyncio
async def test_the_apps_own_store_is_not_touched() -> None:
    app = new_app(Bank())
    async with environment(app) as env:
        env.people.answer("*", approved=True)
        await env.run("checkout", 7)
    assert isinstance(app.store, MemoryStore)
    assert app.store.model.tables.runs == {}


@in_asyncio
async def test_what_a_dead_worker_still_does_never_reaches_the_store() -> None:
    """Its other runs and their steps are torn away with it, and go on elsewhere."""
    app = Signoff(MemoryStore())

    async def forever() -> str:
        if current_step().run_id == "slow" and len(starts) < 2:
            starts.append("slow")
            if len(starts) == 1:
                await asyncio.Event().wait()
        return "done"

    starts: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(forever)

    async with environment(app) as env:
        slow = await env.start(flow, id="slow")
        while not starts:
            await asyncio.sleep(0)
        env.crash(at=before_step("forever", run_id="quick"))
        assert await env.run(flow, id="quick") == "done"
        assert await slow.result() == "done"
        assert starts == ["slow", "slow"]
