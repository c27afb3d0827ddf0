"""Large values come back complete. SQLite stores each separately, so that a run's row stays short."""

from __future__ import annotations

import json
import random
import sqlite3
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from signoff import AsyncClient, Signoff
from signoff.errors import InvalidValue, UnreadableRecord
from signoff.records import Entry, EntryKind, RunState
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.sqlite.large_values import (
    LARGE_CHARACTERS,
    MOST_BYTES,
    is_large,
    pack,
    readable,
    unpacked,
)
from signoff.workflow.context import Context
from tests.stores.scene import STORE_NAMES, SUCCESS, Scene, entry, rule, sqlite_scene
from tests.support import in_asyncio

MIB = 1024 * 1024
MIB_OF_TEXT = MIB - 100
TEXTS = (
    "",
    "x" * (LARGE_CHARACTERS - 2),
    "x" * LARGE_CHARACTERS,
    "x" * (MIB - 100),
    random.Random(1).randbytes(MIB // 2 - 100).hex(),
    "\N{PILE OF POO}" * LARGE_CHARACTERS,
    "\0\x01\x7f" * LARGE_CHARACTERS,
)


def called_with(text: str) -> str:
    return json.dumps({"args": [text], "kwargs": {}}, ensure_ascii=False)


def valued(seq: int, value: str | None, kind: EntryKind = EntryKind.COMPLETED) -> Entry:
    return replace(entry(seq, kind), value=value)


@asynccontextmanager
async def file_and_scene(tmp_path: Path) -> AsyncIterator[tuple[sqlite3.Connection, Scene]]:
    """A store in SQLite, and a connection to its file past it."""
    async with sqlite_scene(tmp_path) as scene:
        file = Path(str(scene.store.location).removeprefix("sqlite:///"))
        with closing(sqlite3.connect(file, isolation_level=None)) as db:
            yield db, scene


@pytest.mark.parametrize("store_name", STORE_NAMES)
@rule
async def test_large_values_come_back_as_they_were(scene: Scene) -> None:
    def same(text: str | None, other: str) -> bool:
        return json.loads(text or "null") == json.loads(other)  # a server may spell it otherwise

    for number, text in enumerate(TEXTS):
        id, value = f"r{number}", json.dumps(text, ensure_ascii=False)
        await scene.start(id, arguments=called_with(text))
        assert same((await scene.store.get_run(id)).arguments, called_with(text))
        [claim] = await scene.claim()
        assert same(claim.run.arguments, called_with(text))
        entries = [valued(0, None, EntryKind.STARTED), valued(1, value)]
        await scene.append(claim.run, *entries)
        await scene.append(claim.run, *entries)  # again, as after a reply that was lost
        await scene.complete(claim.run, Outcome(RunState.SUCCEEDED, result=value))
        ended = await scene.store.get_run(id)
        assert same(ended.arguments, called_with(text))
        assert same(ended.result, value)
        started, completed, *_ = await scene.store.read_journal(id)
        assert started.value is None
        assert same(completed.value, value)


def test_what_is_no_json_does_not_stand_for_a_large_value(tmp_path: Path) -> None:
    @in_asyncio
    async def play() -> None:
        async with file_and_scene(tmp_path) as (_, scene):
            run = await scene.run(arguments="")
            assert run.arguments == ""
            await scene.append(run, valued(0, ""))
            assert [each.value for each in await scene.store.read_journal("r")] == [""]

    play()


def test_a_run_that_goes_on_does_not_write_its_arguments_again(tmp_path: Path) -> None:
    @in_asyncio
    async def play() -> None:
        async with file_and_scene(tmp_path) as (db, scene):
            text = random.Random(2).randbytes(MIB // 2 - 100).hex()
            await scene.start("r", arguments=called_with(text))
            [length] = db.execute("SELECT max(length(arguments)) FROM runs").fetchone()
            assert length == 0
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            for n in range(50):
                [claim] = await scene.claim()
                await scene.pause(claim.run)
                assert await scene.store.signal("r", "go", str(n))
            log = Path(f"{db.execute('PRAGMA database_list').fetchone()[2]}-wal")
            assert log.stat().st_size < 5 * MIB

    play()


def test_retention_deletes_large_values(tmp_path: Path) -> None:
    @in_asyncio
    async def play() -> None:
        async with file_and_scene(tmp_path) as (db, scene):
            large = json.dumps("x" * MIB)
            run = await scene.run(arguments=large)
            await scene.append(run, valued(0, large))
            await scene.complete(run, Outcome(RunState.SUCCEEDED, result=large))
            assert db.execute("SELECT count(*) FROM large_values").fetchone() == (3,)
            assert await scene.store.delete_ended(scene.clock.now() + 1, 10) == 1
            assert db.execute("SELECT count(*) FROM large_values").fetchone() == (0,)

    play()


BOMB = b"z" + zlib.compress(bytes(MOST_BYTES + 1), 9)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"z",
        b"zx",
        BOMB,
        b"?1",
        b"t\xff",
        b"z" + zlib.compress(b"{}" * 99)[:-3],
        b"z" + zlib.compress(b"\xff"),
    ],
)
def test_what_is_damaged_is_not_read(stored: bytes) -> None:
    with pytest.raises(UnreadableRecord, match="run 'r' cannot be read"):
        unpacked(stored, "run", "r")
    with pytest.raises(json.JSONDecodeError):
        json.loads(readable(stored))


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_packed_is_unpacked(text: str) -> None:
    size, packed = pack(text)
    assert size == len(text.encode())
    assert len(packed) <= size + 1
    assert unpacked(packed, "run", "r") == readable(packed) == text
    assert is_large(text) is (len(text) > LARGE_CHARACTERS or not text)


@pytest.mark.parametrize("seq", [-1, 1])
def test_only_the_run_of_a_damaged_value_fails(tmp_path: Path, seq: int) -> None:
    """Its arguments (-1), or an entry of its journal."""

    @in_asyncio
    async def play() -> None:
        async with file_and_scene(tmp_path) as (db, scene):
            large = json.dumps("x" * 2 * LARGE_CHARACTERS)
            for id in ("damaged", "sound"):
                run = await scene.run(id, arguments=large)
                await scene.append(run, valued(0, None, EntryKind.STARTED), valued(1, large))
                await scene.pause(run)
            for id in ("damaged", "sound"):
                await scene.store.signal(id, "go", "1")
            db.execute("UPDATE large_values SET value = ? WHERE run_id = 'damaged' AND seq = ?", (BOMB, seq))
            claims = {claim.run.id: claim.run for claim in await scene.claim(limit=10)}
            assert claims["sound"].arguments == large
            assert [each.value for each in await scene.store.read_journal("sound")] == [None, large]
            assert await scene.listed() == ["sound", "damaged"]
            if seq == -1:
                assert claims["damaged"].arguments.startswith("unreadable")
                assert (await scene.store.get_run("damaged")).arguments.startswith("unreadable")
            else:
                with pytest.raises(UnreadableRecord, match="journal of run 'damaged'"):
                    await scene.store.read_journal("damaged")
            await scene.complete(claims["sound"], SUCCESS)
            await scene.store.complete(Write("damaged", claims["damaged"].epoch), SUCCESS)

    play()


def test_a_worker_fails_the_run_whose_arguments_are_damaged(tmp_path: Path) -> None:
    app = Signoff(store=f"sqlite:///{tmp_path}/s.db")

    @app.workflow
    async def length(ctx: Context, text: str) -> int:
        return len(text)

    @in_asyncio
    async def play() -> None:
        async with AsyncClient(app) as client:
            damaged, sound = [await client.start(length, "x" * MIB_OF_TEXT) for _ in range(2)]
            with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
                db.execute("UPDATE large_values SET value = x'7a' WHERE run_id = ?", (damaged.id,))
            async with app.worker():
                assert await sound.result() == MIB_OF_TEXT
                with pytest.raises(InvalidValue, match="args: Invalid JSON"):
                    await damaged.result()
        await app.store.close()

    play()
