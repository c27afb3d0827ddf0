"""A run's deadline holds, in every store, whatever keeps the run from a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from signoff import AsyncClient, Context, Rate, RunState, Signoff
from signoff.errors import RunTimeout
from tests.places import NewStore
from tests.support import in_asyncio, reaches, running

SECONDS = 1.0


async def of_no_worker(client: AsyncClient) -> None:
    await client.start("asks", id="no worker", group="of nobody", timeout_seconds=SECONDS)


async def of_no_code(client: AsyncClient) -> None:
    await client.start("gone", id="no code", timeout_seconds=SECONDS)


async def in_a_paused_group(client: AsyncClient) -> None:
    await client.groups.pause("paused")
    await client.start("asks", id="paused group", group="paused", timeout_seconds=SECONDS)


async def in_a_limited_group(client: AsyncClient) -> None:
    await client.groups.limit("limited", starts_per=Rate(1, 3600))
    for id in ("first of its group", "limited group"):
        await client.start("asks", id=id, group="limited", timeout_seconds=SECONDS)


async def behind_another_of_its_workflow(client: AsyncClient) -> None:
    await client.start("alone", id="first of its workflow", timeout_seconds=600)
    await client.start("alone", id="limited workflow", timeout_seconds=SECONDS)


async def behind_another_of_its_session(client: AsyncClient) -> None:
    await client.start("asks", id="first of its session", session_id="s")
    await client.start("asks", id="session", session_id="s", timeout_seconds=SECONDS)


async def suspended_before_it_began(client: AsyncClient) -> None:
    await client.start("asks", id="suspended", group="of nobody", timeout_seconds=SECONDS)
    await client.suspend("suspended")


HELD: dict[str, Callable[[AsyncClient], Awaitable[None]]] = {
    "no worker": of_no_worker,
    "no code": of_no_code,
    "paused group": in_a_paused_group,
    "limited group": in_a_limited_group,
    "limited workflow": behind_another_of_its_workflow,
    "session": behind_another_of_its_session,
    "suspended": suspended_before_it_began,
}


@in_asyncio
async def test_a_run_that_never_begins_fails_at_its_deadline(new_store: NewStore) -> None:
    app, let_go = Signoff(new_store()), asyncio.Event()

    @app.workflow
    async def asks(ctx: Context) -> None:
        await ctx.wait_for_user("Go on?")

    @app.workflow(concurrency=1)
    async def alone(ctx: Context) -> None:
        await ctx.step(let_go.wait)

    async with running(app) as client, app.worker(group="paused"), app.worker(group="limited"):
        for hold in HELD.values():
            await hold(client)
        for id in HELD:
            await reaches(app, id, RunState.FAILED, RunState.SUCCEEDED, RunState.CANCELLED)
            with pytest.raises(RunTimeout):
                await (await client.get(id)).result(60)
        let_go.set()


@in_asyncio
async def test_a_deadline_in_a_deployment_loses_no_clean_up(new_store: NewStore) -> None:
    """For a moment the group has no worker: the old ones have left it, and the new ones have not joined."""
    app, done = Signoff(new_store()), list[str]()

    @app.workflow
    async def pays(ctx: Context) -> None:
        await ctx.step("charge", done.append, "charge")
        try:
            await ctx.wait_for_user("Ship?")
        finally:
            await ctx.step("refund", done.append, "refund")

    async with running(app) as client:
        async with app.worker(group="shop"):
            run = await client.start(pays, id="r", group="shop", timeout_seconds=2 * SECONDS)
            await reaches(app, "r", RunState.PAUSED)
        await reaches(app, "r", RunState.READY, RunState.FAILED)
        await asyncio.sleep(SECONDS)
        async with app.worker(group="shop"):
            with pytest.raises(RunTimeout):
                await run.result(60)
    assert done == ["charge", "refund"]
