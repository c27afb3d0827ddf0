"""An environment waits for no run that its group's or workflow's limits keep from starting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from signoff import Context, Rate, RunState, Signoff
from signoff.errors import RunTimeout
from signoff.testing import Environment, MemoryStore, environment
from tests.support import in_asyncio


def new_app() -> Signoff:
    app = Signoff(MemoryStore())

    @app.workflow
    async def asks(ctx: Context) -> bool:
        return (await ctx.wait_for_user("Go on?")).approved

    return app


async def paused(env: Environment) -> None:
    await env.client.groups.pause("default")


async def full(env: Environment) -> None:
    await env.client.groups.limit("default", starts_per=Rate(1, 3600))
    await env.start("asks", id="first")


@pytest.mark.parametrize("hold", [paused, full])
@in_asyncio
async def test_time_passes_while_a_run_may_not_start(hold: Callable[[Environment], Awaitable[None]]) -> None:
    async with environment(new_app()) as env:
        await hold(env)
        await env.idle()
        run = await env.client.start("asks", id="held", timeout_seconds=60)
        await env.idle()
        assert (await env.client.backend.get_run("held")).state is RunState.READY
        await env.sleep(61)
        with pytest.raises(RunTimeout):
            await run.result()


@in_asyncio
async def test_a_run_starts_as_soon_as_its_group_is_resumed() -> None:
    async with environment(new_app()) as env:
        await paused(env)
        await env.client.start("asks", id="held")
        await env.idle()
        await env.client.groups.resume("default")
        await env.idle()
        assert (await env.client.backend.get_run("held")).state is RunState.PAUSED
