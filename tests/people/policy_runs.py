"""Runs whose questions have a policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from signoff import (
    Answer,
    Context,
    Signoff,
)
from signoff.records import AuditKind, Promise
from signoff.testing import Environment, MemoryStore, environment


@asynccontextmanager
async def asking(started_by: str | None = None, **policy: Any) -> AsyncGenerator[tuple[Environment, str]]:
    """An environment in which run ``r`` asks one question under a policy; yields it with the question's id."""
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> Answer:
        return await ctx.wait_for_user("Deploy?", **policy)

    async with environment(app) as env:
        env.people.stay_silent("*")
        await env.client.start(ask, id="r", started_by=started_by)
        await env.sleep(0)
        [question] = await opened(env)
        yield env, question.id


async def opened(env: Environment) -> Sequence[Promise]:
    return (await env.client.questions()).items


async def result(env: Environment) -> Any:
    return await (await env.client.get("r")).result()


async def kinds(env: Environment) -> list[AuditKind]:
    return [event.kind for event in (await env.client.inbox.history(run_id="r")).items]
