"""Programs to be killed at every place; their steps record effects in a file."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from signoff import Context, Signoff, current_step
from signoff.records import Promise
from signoff.stores.contract.store import Store
from tests.crash.graph import register_flow

if TYPE_CHECKING:
    from tests.crash.helper import Deployer, Helper

NAMES = ("sequential", "parallel", "children", "timers", "questions", "agent", "flow")
TURN = "agent_turn"
"""The registered agent, once it is brought: its runs are turns of a conversation."""


def make_app(store: Store, effects: Path) -> Signoff:
    """Register the programs on a store. Each execution of a step is a line ``time run.n name`` in ``effects``."""
    app = Signoff(store, public_url="https://signoff.example")

    def effect(value: object) -> object:
        step = current_step()
        file = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{time.time()} {step.run_id}.{step.n} {step.name}\n".encode())
        os.close(file)
        return value

    async def async_effect(value: object) -> object:
        await asyncio.sleep(0)
        return effect(value)

    async def effect_at_once(value: object) -> object:
        done = effect(value)  # before its first await, so it may begin while its start is being written
        await asyncio.sleep(0)
        return done

    @app.workflow
    async def sequential(ctx: Context) -> list[object]:
        done = [await ctx.step("first", effect, 1)]
        done.append(await ctx.step("second", async_effect, 2))
        done.append(await ctx.step("charge", effect_at_once, "paid", effect="once"))
        done.append(await ctx.step("last", effect, str(ctx.uuid4())))
        return done

    @app.workflow
    async def parallel(ctx: Context) -> list[object]:
        async def branch(name: str) -> list[object]:
            return [await ctx.step(f"{name}-{i}", async_effect, f"{name}{i}") for i in range(2)]

        async with asyncio.TaskGroup() as group:
            branches = [group.create_task(branch(name)) for name in "abc"]
        paid = await asyncio.gather(
            ctx.step("charge-a", effect, "a", effect="once"), ctx.step("charge-b", effect, "b", effect="once")
        )
        return [[branch.result() for branch in branches], paid]

    @app.workflow
    def child(ctx: Context, number: int):
        doubled = yield ctx.lfc(lambda _, value: effect(value * 2), number)
        paid = yield ctx.lfc(lambda _, value: effect(value), number).options(effect="once")
        return [doubled, paid]

    @app.workflow
    async def children(ctx: Context) -> list[object]:
        one = await ctx.rfi(child, 1)
        two = await ctx.rfi("child", 2)
        mine = await ctx.step("mine", effect, "mine")
        return [mine, await two, await one, await ctx.rfc(child, 3).options(id=f"{ctx.run_id}-chosen")]

    @app.workflow
    async def timers(ctx: Context) -> list[object]:
        before = await ctx.step("before", effect, 1)
        await ctx.sleep(0.05)
        try:
            async with asyncio.timeout(0.05):
                await ctx.wait_for_signal("never")
        except TimeoutError:
            late = await ctx.step("late", effect, "late")
        await asyncio.sleep(1.2)  # long enough to pause for
        return [before, late, await ctx.step("after", effect, 2, effect="once")]

    @app.workflow
    async def questions(ctx: Context) -> list[object]:
        first = await ctx.wait_for_user("first?")
        done = [first.approved, await ctx.step("between", effect, 1)]
        both = await asyncio.gather(
            ctx.wait_for_user("colour?", input_type="select", options=["red", "blue"]),
            ctx.wait_for_user("why?", input_type="text"),
        )
        done += [answer.value for answer in both]
        done.append(await ctx.step("act", effect, "acted", effect="once"))
        return done

    @app.workflow
    async def paid(ctx: Context) -> list[object]:
        payment = await ctx.callback("paid?")

        def checkout() -> object:
            with urls_of(effects).open("a") as told:
                told.write(f"{payment.url}\n")
            return effect("sent")

        sent = await ctx.step("checkout", checkout)
        answer = await payment
        return [sent, answer.value.body, await ctx.step("thank", effect, "thanked")]

    _register_agents(app, effect)
    register_flow(app, effect)
    return app


def bring_agent() -> None:
    """Import what the agent needs: on a busy machine that takes longer than workflow code may go on without waiting."""
    import tests.crash.helper  # noqa: F401


def _register_agents(app: Signoff, effect: Callable[[object], object]) -> None:
    @functools.cache
    def helper() -> Helper:
        from tests.crash.helper import Helper  # brings Pydantic AI, which takes a second

        return Helper(effect)

    @app.workflow
    async def agent(ctx: Context) -> list[object]:
        return await helper().help()

    if "tests.crash.helper" in sys.modules:
        app.register(helper().agent, name=TURN)

    @functools.cache
    def deployer() -> Deployer:
        from tests.crash.helper import Deployer

        return Deployer(effect)

    @app.workflow
    async def agent_tool(ctx: Context) -> list[object]:
        return await deployer().deploy()


def asked_person(question: Promise) -> str | None:
    """Who is to answer a question; None: anybody."""
    return next((each.removeprefix("user:") for each in question.assignees), None)


def timeless(value: object) -> object:
    """Return JSON without the times in messages, which are those of the process that made them."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name != "timestamp"}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def urls_of(effects: Path) -> Path:
    """The file with the addresses of callbacks, one per line."""
    return effects.with_suffix(".urls")


ANSWERS = {
    "first?": True,
    "colour?": "blue",
    "why?": "because",
    "refund?": {"approved": True, "edited": {"cents": 400}},
    "mail?": True,
    "deploy?": True,
}
UNCLEAR = {
    "support.refund": "refunded 400",
    "support.mail": "mailed bob",
    "charge": "paid",
    "charge-a": "a",
    "charge-b": "b",
    "after": 2,
    "act": "acted",
}
