"""In an environment, schedules fire as often as their times pass."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.testing import Environment, MemoryStore, NothingHappens, environment
from tests.support import in_asyncio

MINUTE = 60.0


def new_app(fired: list[datetime]) -> Signoff:
    app = Signoff(MemoryStore())

    @app.workflow
    async def tick(ctx: Context) -> None:
        fired.append(ctx.now())

    @app.workflow
    async def slow(ctx: Context) -> int:
        await ctx.sleep(5 * MINUTE)
        return len(fired)

    @app.workflow
    async def stuck(ctx: Context) -> Any:
        return await ctx.wait_for_signal("never")

    return app


async def to_the_minute(env: Environment) -> None:
    await env.sleep(MINUTE - env.clock.now() % MINUTE + 1)


@in_asyncio
@pytest.mark.parametrize("catch_up", ["latest", "all", "skip"])
async def test_each_time_that_passes_fires_once(catch_up: str) -> None:
    fired: list[datetime] = []
    async with environment(new_app(fired)) as env:
        await to_the_minute(env)
        await env.client.schedules.put("s", "tick", cron="* * * * *", catch_up=catch_up)
        await env.sleep(5 * MINUTE)
        assert len(fired) == 5
        assert [each.second for each in fired] == [0] * 5
        await env.client.schedules.pause("s")
        await env.sleep(5 * MINUTE)
        assert len(fired) == 5
        assert await env.run("slow") == 5
        await env.client.schedules.resume("s")
        assert await env.run("slow") in (9, 10), "time that a run waits for passes for schedules, too"


@in_asyncio
async def test_schedules_alone_do_not_keep_a_stuck_run_waiting() -> None:
    async with environment(new_app([])) as env:
        await env.client.schedules.put("s", "tick", cron="* * * * *")
        with pytest.raises(NothingHappens):
            await env.run("stuck")
