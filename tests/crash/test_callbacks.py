"""kill -9 of a worker at every journal position of a run with a callback, in real processes."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, AsyncHandle, Signoff
from signoff.people.links.callback_intake import Incoming, find_callback, receive
from signoff.people.questions.callback_terms import secret_in
from signoff.stores.sqlite.store import SqliteStore
from tests.crash import programs
from tests.crash.killed_runs import PATIENCE_SECONDS, die, executions
from tests.support import in_asyncio

EXPECTED = ["sent", "yes", "thanked"]


def told(effects: Path) -> list[str]:
    """The addresses that the provider got."""
    file = programs.urls_of(effects)
    return file.read_text().splitlines() if file.exists() else []


async def provide(app: Signoff, effects: Path) -> None:
    """Play the provider: call back every received address, repeatedly."""
    while True:
        for url in told(effects):
            await receive(await find_callback(app.store, secret_in(url)), Incoming(body=b"yes"))
        await asyncio.sleep(0.005)


@asynccontextmanager
async def provided(folder: Path) -> AsyncGenerator[tuple[Signoff, AsyncHandle]]:
    """A run that is called back as soon as it says where."""
    app = programs.make_app(SqliteStore(folder / "signoff.db"), folder / "effects")
    try:
        async with AsyncClient(app) as client:
            handle = await client.start("paid", id="paid")
            provider = asyncio.create_task(provide(app, folder / "effects"))
            yield app, handle
            provider.cancel()
            with pytest.raises(asyncio.CancelledError):
                await provider  # it never failed: each received address worked
    finally:
        await app.store.close()


@pytest.mark.long
@pytest.mark.timeout(600)
@in_asyncio
async def test_each_passed_address_works_and_survives_a_worker_kill_anywhere(
    tmp_path: Path,
) -> None:
    (tmp_path / "whole").mkdir()
    async with provided(tmp_path / "whole") as (app, handle), app.worker():
        assert await handle.result(PATIENCE_SECONDS) == EXPECTED
        seqs = [entry.seq for entry in await handle.journal()]
    for seq in seqs:
        for when in ("before", "after"):
            folder = tmp_path / f"{when}-{seq}"
            folder.mkdir()
            effects = folder / "effects"
            async with provided(folder) as (_, handle):
                await die(handle, folder / "signoff.db", effects, "paid", seq, when)
            async with provided(folder) as (app, handle), app.worker():
                assert await handle.result(PATIENCE_SECONDS) == EXPECTED, (when, seq)
            assert len(set(told(effects))) == 1, (when, seq)
            assert max(collections.Counter(executions(effects)).values()) <= 2, (when, seq)
