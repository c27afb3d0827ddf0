"""Limits in Postgres with racing processes: never exceeded, and no waiting run is forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from signoff.records import NewRun, Rate, RunState
from signoff.records.paging import RunFilter
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.stores.postgres import write_requests as operations
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database
from tests.stores.limits import STORES, WAITING, four_stores
from tests.stores.scene import GROUP, SUCCESS, WORKFLOW
from tests.support import in_asyncio

RUNS = 40
RUNNING = RunFilter(states=frozenset({RunState.RUNNING}))


class Crew:
    """Workers that claim and complete until all runs are done. Who gets nothing waits to be told, and never polls."""

    def __init__(self) -> None:
        self.done = 0
        self.most = 0
        self._told: list[asyncio.Event] = []

    async def work(self, store: PostgresStore, name: str) -> None:
        told = asyncio.Event()
        self._told.append(told)
        loop = asyncio.get_running_loop()

        def heard(change: Change) -> None:
            if change.ready:
                loop.call_soon_threadsafe(told.set)

        stop = store.listen(heard)
        try:
            while self.done < RUNS:
                told.clear()
                claims = await store.claim(name, GROUP, [WORKFLOW], 3)
                if not claims and self.done < RUNS:
                    await told.wait()
                for claim in claims:
                    self.most = max(self.most, len((await store.list_runs(RUNNING)).items))
                    await self._finish(store, claim.run.id, claim.run.epoch, claim.run.wakes)
        finally:
            stop()

    async def _finish(self, store: PostgresStore, run_id: str, epoch: int, wakes: int) -> None:
        """Every other run is paused once and woken, so that it needs its slot twice."""
        write = Write(run_id, epoch)
        if epoch == 1 and int(run_id[1:]) % 2:
            assert await store.pause(write, wakes=wakes, wake_at=None)
            await store.signal(run_id, "go", "1")
            return
        await store.complete(write, SUCCESS)
        self.done += 1
        if self.done == RUNS:
            for told in self._told:
                told.set()


@pytest.mark.parametrize("limited_by", ["group", "key", "both"])
@in_asyncio
async def test_of_four_processes_none_exceeds_a_limit_and_none_waits_in_vain(limited_by: str) -> None:
    async with four_stores() as stores:
        if limited_by != "key":
            await stores[0].limit_group(GROUP, max_running=3)
        slot = (None, None) if limited_by == "group" else ("k", 2)
        for number in range(RUNS):
            new = NewRun(
                f"r{number}", WORKFLOW, GROUP, "{}", concurrency_key=slot[0], concurrency_limit=slot[1]
            )
            await stores[number % STORES].create_run(new)
        crew = Crew()
        async with asyncio.timeout(60):
            await asyncio.gather(*(crew.work(store, f"w{n}") for n, store in enumerate(stores)))
        assert 1 <= crew.most <= (3 if limited_by == "group" else 2)
        assert (await stores[0].list_runs(RUNNING)).items == ()


@in_asyncio
async def test_a_run_created_while_a_slot_is_freed_is_not_blocked_permanently() -> None:
    with fresh_database() as url:
        store = PostgresStore(url)
        await store.open()
        try:
            await _end_while_creating(store, url, "k")
        finally:
            await store.close()


async def _end_while_creating(store: PostgresStore, url: str, name: str) -> None:
    """End a run in a transaction that is not yet committed when the next one of its key is created."""
    slot: dict[str, Any] = {"concurrency_key": name, "concurrency_limit": 1}
    await store.create_run(NewRun(f"{name}-ends", WORKFLOW, GROUP, "{}", **slot))
    [claim] = await store.claim("w", GROUP, [WORKFLOW], 1)
    end = operations.complete("default", Write(claim.run.id, claim.run.epoch), SUCCESS)
    with psycopg.connect(url) as connection, psycopg.connect(url, autocommit=True) as observer:
        connection.execute("SELECT signoff.apply(%s)", (end.alone.decode(),))
        creating = asyncio.create_task(
            store.create_run(NewRun(f"{name}-waits", WORKFLOW, GROUP, "{}", **slot))
        )
        while not creating.done() and observer.execute(WAITING).fetchone() is None:
            await asyncio.sleep(0.001)
        connection.commit()
        await creating
    assert [claim.run.id for claim in await store.claim("w", GROUP, [WORKFLOW], 1)] == [f"{name}-waits"]


@in_asyncio
async def test_runs_of_a_key_created_while_others_end_are_never_forgotten() -> None:
    """A run is blocked because a slot is taken, at the moment at which the slot is freed."""
    async with four_stores() as stores:

        async def create(store: PostgresStore, begin: int) -> None:
            for number in range(begin, RUNS, 2):
                new = NewRun(f"r{number}", WORKFLOW, GROUP, "{}", concurrency_key="k", concurrency_limit=1)
                await store.create_run(new)

        crew = Crew()
        async with asyncio.timeout(60):
            await asyncio.gather(
                create(stores[0], 0),
                create(stores[1], 1),
                crew.work(stores[2], "w2"),
                crew.work(stores[3], "w3"),
            )
        assert crew.most == 1


@in_asyncio
async def test_four_processes_start_no_more_than_the_rate() -> None:
    async with four_stores() as stores:
        await stores[0].limit_group(GROUP, starts_per=Rate(7, 86_400.0))
        for number in range(RUNS):
            await stores[0].create_run(NewRun(f"r{number}", WORKFLOW, GROUP, "{}"))
        asked = (
            store.claim(f"w{n}.{time}", GROUP, [WORKFLOW], 2)
            for time in range(5)
            for n, store in enumerate(stores)
        )
        assert sum(len(claims) for claims in await asyncio.gather(*asked)) == 7


@in_asyncio
async def test_four_claiming_processes_share_the_slots_that_a_worker_released() -> None:
    """Then more runs of the key are candidates than there are slots."""
    async with four_stores() as stores:
        for number in range(RUNS):
            new = NewRun(f"r{number}", WORKFLOW, GROUP, "{}", concurrency_key="k", concurrency_limit=2)
            await stores[0].create_run(new)
        for _ in range(15):
            async with asyncio.TaskGroup() as claims:
                for n, store in enumerate(stores):
                    claims.create_task(store.claim(f"w{n}", GROUP, [WORKFLOW], 1))
            assert len((await stores[0].list_runs(RUNNING)).items) <= 2
            for n, store in enumerate(stores):
                await store.release(f"w{n}")
        assert len(await stores[0].claim("last", GROUP, [WORKFLOW], 10)) == 2
