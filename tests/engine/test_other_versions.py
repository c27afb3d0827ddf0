"""Workers of an old and a new version of a workflow, side by side: each takes the runs whose code it has."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.engine.worker import process_identity
from signoff.records import RunState
from tests.flows.two_workers import two_work
from tests.flows.worlds import WORLDS, store_of
from tests.support import comes, in_asyncio, new_app, reaches, running


def app_of(store: Any, version: str) -> Signoff:
    """An app with one version of a workflow, which no other version could go on with."""
    app = Signoff(store)

    @app.workflow(name="refund", version=version)
    async def refund(ctx: Context) -> list[Any]:
        await ctx.step(f"charge {version}", lambda: None)
        approved = await ctx.wait_for_user(f"Refund, {version}?")
        return [version, approved.approved]

    assert refund
    return app


async def all_wait(client: AsyncClient, count: int) -> None:
    async def asked() -> bool:
        return len((await client.questions()).items) == count

    await comes(asked)


async def deployed(folder: Path) -> Signoff:
    """Have a run wait under version 1. Returns the app of version 2, on its store."""
    async with running(app_of(new_app(folder).store, "1")) as client:
        await client.start("refund", id="r")
        await all_wait(client, 1)
    return app_of(new_app(folder).store, "2")


@pytest.mark.parametrize("kind", WORLDS)
@in_asyncio
async def test_each_run_goes_on_with_its_own_version(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "signoff.engine.worker.missing_code.AVOIDS_SECONDS", 0.5
    )  # times three, for the other worker to come to it
    monkeypatch.setattr("signoff.engine.worker.driver.LEFT_SECONDS", 0.01)
    async with store_of(kind, tmp_path) as make:
        for number, version in enumerate(("1", "2"), 1):
            async with running(app_of(make(), version)) as client:
                for each in "ab":
                    await client.start("refund", id=f"{version}{each}")
                await all_wait(client, 2 * number)
        async with running(app_of(make(), "2")) as client, running(app_of(make(), "1")):
            await two_work(client)
            for question in (await client.questions()).items:
                await client.answer(question.id, True)
            for version in ("1", "2"):
                for each in "ab":
                    handle = await client.get(f"{version}{each}")
                    assert await handle.result(60) == [version, True]


@in_asyncio
async def test_a_version_that_is_gone_is_driven_with_the_newest_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = await deployed(tmp_path)
    later = replace(process_identity.new_worker("default", "default"), process_started_at=time.time() + 3600)
    async with running(app) as client:
        await app.store.enlist(later)  # it began when version 1 was not there any more
        await client.answer((await client.questions()).items[0].id, True)
        failed = await reaches(app, "r", RunState.FAILED)
        assert failed.retryable
        assert failed.error is not None
        assert "charge 1" in failed.error
    assert "released to another worker" not in caplog.text


@in_asyncio
async def test_workers_of_other_namespaces_take_no_run_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = await deployed(tmp_path)
    async with running(app) as client:
        await app.store.within("elsewhere").enlist(process_identity.new_worker("default", "elsewhere"))
        await client.answer((await client.questions()).items[0].id, True)
        await reaches(app, "r", RunState.FAILED)
    assert "released to another worker" not in caplog.text
