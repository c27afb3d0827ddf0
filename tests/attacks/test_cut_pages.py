"""Rows larger than a page or a request, or unreadable: nothing is lost, and no loop occurs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signoff import Context
from signoff.records import EntryKind, RunState
from signoff.redaction import Redaction, Redactor
from signoff.stores.contract.leases import Write
from signoff.stores.sqlite.store import SqliteStore
from signoff.stores.sqlite.write_ahead_log import MIB, LogLimit
from tests.cli.commands import signoff
from tests.stores.scene import Scene, entry, rule
from tests.support import in_asyncio, new_app, opened, reaches, running


@in_asyncio
async def test_a_message_that_cannot_be_read_keeps_its_worker_from_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a later version. It comes while the run is held: the run pauses, and does not look again and again."""
    app = new_app(tmp_path)
    begun, go_on = asyncio.Event(), asyncio.Event()
    looks = 0
    read = SqliteStore.read_messages

    async def counted(self: SqliteStore, run_ids: Sequence[str]) -> Any:
        nonlocal looks
        looks += 1
        return await read(self, run_ids)

    async def slow() -> None:
        begun.set()
        await go_on.wait()

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step(slow)
        return str(await ctx.wait_for_signal("go"))

    async with running(app) as client:
        handle = await client.start(flow, id="r")
        await begun.wait()
        with closing(sqlite3.connect(tmp_path / "signoff.db", isolation_level=None)) as db:
            db.execute(
                "CREATE TRIGGER later AFTER INSERT ON messages BEGIN UPDATE messages SET kind = 'new'; END"
            )
            await client.signal("r", "other", 1)
            db.execute("DROP TRIGGER later")
        monkeypatch.setattr(SqliteStore, "read_messages", counted)
        go_on.set()
        await reaches(app, "r", RunState.PAUSED)
        assert looks < 20
        await client.signal("r", "go", "gone")
        assert await handle.result(60) == "gone"


@rule
async def test_what_many_steps_came_to_is_kept_however_much_it_is_together(scene: Scene) -> None:
    """Through a server in parts: a request has a bound, also of characters of four bytes."""
    run = await scene.run()
    value = json.dumps("x" * 900_000 + "\N{PILE OF POO}", ensure_ascii=False)
    entries = [replace(entry(seq), value=value) for seq in range(24)]
    last = replace(entry(24), kind=EntryKind.PROGRESSED, call=None, name=None, value='{"done": 1}')
    for _ in range(2):  # the reply was lost
        await scene.store.append(Write(run.id, run.epoch, entries=[*entries, last]))
    found: list[Any] = []
    while page := await scene.store.read_journal(run.id, after=len(found) - 1, limit=100):
        found += page
    assert [each.seq for each in found] == list(range(25))
    assert {each.value for each in found[:24]} == {value}


@in_asyncio
async def test_what_hides_in_a_session_is_hidden_however_large_its_runs_are(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context, password: str, text: str) -> str:
        return text

    async with running(app) as client:
        for number in range(45):
            handle = await client.start(
                flow, password=f"secret-{number:02d}-of-a-run", text=f"{62_000 * 'x'}{number}", session_id="s"
            )
            await handle.result(60)
        text = "they say secret-00-of-a-run"
        last = await client.start(flow, password="secret-of-the-last", text=text, session_id="s")
        await last.result(60)
        shown = await Redactor(app.store, Redaction(["password"])).shown(
            await client.backend.get_run(last.id)
        )
    assert "secret-00-of-a-run" not in str(shown.result)


def test_a_run_whose_error_is_large_is_listed_as_such(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        raise ValueError("x" * 70_000)

    async def fail() -> None:
        async with opened(app) as client, app.worker():
            await client.start(flow, id="r")
            await reaches(app, "r", RunState.FAILED)

    asyncio.run(fail())
    shown = signoff("runs", "--store", f"sqlite:///{tmp_path}/signoff.db", cwd=tmp_path)
    assert "signoff show r" in shown.out
    assert "unknown error" not in shown.out


def test_a_log_that_another_process_has_cut_meanwhile_is_no_trouble() -> None:
    limit = LogLimit("x")
    assert limit.patience(0) == limit.patience(65 * MIB)
    limit.note(is_empty=False, length=0, took=1.0, now=0.0)
