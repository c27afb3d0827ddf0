"""Sessions in Postgres with racing processes: one run of each is active, none is forgotten or blocked permanently."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import psycopg
import pytest

from signoff.records import NewRun, RunState
from signoff.records.paging import RunFilter
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.stores.postgres import write_requests as operations
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database
from tests.stores.limits import WAITING, four_stores
from tests.stores.scene import GROUP, SUCCESS, WORKFLOW
from tests.support import in_asyncio

RUNS = 60
SESSIONS = ("a", "b", "c")


class Crew:
    """Workers that claim and complete until all runs have ended. Who gets nothing waits to be told, and never polls."""

    def __init__(self) -> None:
        self.began: dict[str, list[int]] = {session: [] for session in SESSIONS}
        self.ended: set[str] = set()
        self._told: list[asyncio.Event] = []

    def note_end(self, run_id: str) -> None:
        self.ended.add(run_id)
        if len(self.ended) == RUNS:
            for told in self._told:
                told.set()

    async def work(self, store: PostgresStore, name: str) -> None:
        told = asyncio.Event()
        self._told.append(told)
        loop = asyncio.get_running_loop()

        def heard(change: Change) -> None:
            if change.ready:
                loop.call_soon_threadsafe(told.set)

        stop = store.listen(heard)
        try:
            while len(self.ended) < RUNS:
                told.clear()
                claims = await store.claim(name, GROUP, [WORKFLOW], 3)
                if not claims and len(self.ended) < RUNS:
                    await told.wait()
                sessions = [claim.run.session_id for claim in claims]
                assert len(set(sessions)) == len(sessions)
                for claim in claims:
                    self.began[claim.run.session_id or ""].append(claim.run.position or 0)
                # In one batch: runs of several sessions end and start what is next at once.
                await asyncio.gather(
                    *(store.complete(Write(claim.run.id, claim.run.epoch), SUCCESS) for claim in claims)
                )
                for claim in claims:
                    self.note_end(claim.run.id)
        finally:
            stop()


@pytest.mark.parametrize("slot", [(None, None), ("k", 2)], ids=["without a key", "with a key"])
@in_asyncio
async def test_of_four_processes_none_begins_out_of_turn_and_none_waits_in_vain(
    slot: tuple[str | None, int | None],
) -> None:
    source = random.Random(7)
    async with four_stores() as stores:
        crew = Crew()

        async def create(store: PostgresStore, numbers: range) -> None:
            for batch in range(numbers.start, numbers.stop, 5):
                news = [
                    NewRun(
                        f"r{number}",
                        WORKFLOW,
                        GROUP,
                        "{}",
                        session_id=source.choice(SESSIONS),
                        concurrency_key=slot[0],
                        concurrency_limit=slot[1],
                    )
                    for number in range(batch, batch + 5)
                ]
                await asyncio.gather(*(store.create_run(new) for new in news))
                for new in news[:2]:  # some never begin
                    if (await store.cancel(new.id)).state is RunState.CANCELLED:
                        crew.note_end(new.id)

        share = RUNS // len(stores)
        async with asyncio.timeout(60):
            await asyncio.gather(
                *(create(store, range(n * share, (n + 1) * share)) for n, store in enumerate(stores)),
                *(crew.work(store, f"w{n}") for n, store in enumerate(stores)),
            )
        for session in SESSIONS:
            assert crew.began[session] == sorted(set(crew.began[session]))
            page = await stores[0].list_runs(RunFilter(session_id=session))
            places = sorted(run.position or 0 for run in page.items)
            assert places == list(range(1, len(places) + 1))
            assert (await stores[0].get_session(session)).active_run_id is None


@in_asyncio
async def test_a_run_created_while_the_one_before_it_ends_gets_its_turn() -> None:
    with fresh_database() as url:
        store = PostgresStore(url)
        await store.open()
        try:
            await _end_while_creating(store, url)
        finally:
            await store.close()


async def _end_while_creating(store: PostgresStore, url: str) -> None:
    session: dict[str, Any] = {"session_id": "c"}
    await store.create_run(NewRun("ends", WORKFLOW, GROUP, "{}", **session))
    [claim] = await store.claim("w", GROUP, [WORKFLOW], 1)
    end = operations.complete("default", Write(claim.run.id, claim.run.epoch), SUCCESS)
    with psycopg.connect(url) as connection, psycopg.connect(url, autocommit=True) as observer:
        connection.execute("SELECT signoff.apply(%s)", (end.alone.decode(),))
        creating = asyncio.create_task(store.create_run(NewRun("next", WORKFLOW, GROUP, "{}", **session)))
        while not creating.done() and observer.execute(WAITING).fetchone() is None:
            await asyncio.sleep(0.001)
        assert not creating.done()
        connection.commit()
        await creating
    assert [claim.run.id for claim in await store.claim("w", GROUP, [WORKFLOW], 1)] == ["next"]
