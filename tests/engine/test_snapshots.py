"""Runs that are saved in one store and continue in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import InvalidValue, NotFound, SnapshotRefused
from signoff.service.snapshots import load, save
from tests.support import asked, in_asyncio, new_app, opens, running


def _flow(folder: Path, calls: list[str]) -> tuple[Signoff, Any]:
    folder.mkdir(exist_ok=True)
    app = new_app(folder)

    @app.workflow
    async def child(ctx: Context) -> bool:
        return (await ctx.wait_for_user("child?")).approved

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        first = await ctx.step("first", lambda: calls.append("first") or "done")
        begun = await ctx.rfi(child)
        answer = await ctx.wait_for_user("ok?")
        return [first, answer.approved, await ctx.wait_for_signal("paid"), await begun]

    return app, flow


async def _saved(app: Signoff, flow: Any) -> dict[str, Any]:
    async with running(app) as client:
        await client.start(flow, id="r")
        await opens(app, "r.3")
        await opens(app, "r.2.1")
        await client.signal("r", "paid", 7)
        return json.loads(json.dumps(await save(app.store, "r")))


@in_asyncio
async def test_a_loaded_run_continues_with_its_child_and_signal(tmp_path: Path) -> None:
    calls: list[str] = []
    snapshot = await _saved(*_flow(tmp_path / "here", calls))
    there, _ = _flow(tmp_path / "there", calls)
    async with running(there) as client:
        await load(there.store, snapshot, by="user:ana")
        for run_id in ("r", "r.2"):
            for question in await asked(client, run_id):
                await client.answer(question.id, True)
        assert await (await client.get("r")).result(60) == ["done", True, 7, True]
        with pytest.raises(SnapshotRefused):
            await load(there.store, snapshot)
    assert calls == ["first"]


@in_asyncio
async def test_an_invalid_or_changed_snapshot_is_refused_and_not_loaded(tmp_path: Path) -> None:
    snapshot = await _saved(*_flow(tmp_path / "here", []))
    there, _ = _flow(tmp_path / "there", [])
    changed: list[tuple[str, Any]] = [
        ("snapshot", json.dumps(snapshot)),
        ("snapshot", [snapshot]),
        ("schema", {}),
        ("schema", {**snapshot, "schema": "signoff/snapshot/2"}),
        ("digest", {**snapshot, "saved_at": 1.0}),
        ("runs", {**snapshot, "runs": []}),
        ("runs.0.run", {**snapshot, "runs": [{}]}),
        ("runs.1.run.parent_id", {**snapshot, "runs": list(reversed(snapshot["runs"]))}),
        ("runs.0.entries.0.seq", {**snapshot, "runs": [_cut(snapshot["runs"][0]), *snapshot["runs"][1:]]}),
    ]
    async with running(there):
        for path, each in changed:
            with pytest.raises(InvalidValue) as refused:
                await load(there.store, each)
            assert refused.value.path.startswith(path)
        with pytest.raises(NotFound):
            await there.store.get_run("r")


def _cut(run: dict[str, Any]) -> dict[str, Any]:
    return {**run, "entries": run["entries"][1:]}
