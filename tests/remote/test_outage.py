"""Outages: one of the database longer than a lease on it, one of the network longer than that."""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Sequence

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.records import Entry, EntryKind
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys
from tests.postgres.server import FAST, PostgresServer
from tests.remote.proxy import Proxy
from tests.support import PATIENCE_SECONDS, in_asyncio

pytestmark = pytest.mark.long  # minutes of outages: tests/remote/test_bad_world.py has one of each kind

LEASE_SECONDS = 7.0
FAIL_OVER_SECONDS = 9.0
CUT_SECONDS = 13.0
TICK_SECONDS = 0.25


class Site:
    """An app at work whose runs do one step after the other until the outage is over.

    Attributes:
        ticks: How often each step of each run was executed.
    """

    def __init__(self, store: Store, group: str, over: asyncio.Event) -> None:
        self.app = Signoff(store, group=group)
        self.ticks: collections.Counter[tuple[str, int]] = collections.Counter()
        self._over = over

        @self.app.workflow
        async def count(ctx: Context) -> tuple[int, str]:
            """Return the number of steps, and the notifications meanwhile."""
            number = 0
            while not await ctx.step("tick", self.tick, ctx.run_id, number):
                number += 1
            return number, await ctx.wait_for_signal("go")

    async def tick(self, run_id: str, number: int) -> bool:
        self.ticks[run_id, number] += 1
        await asyncio.sleep(TICK_SECONDS)
        return self._over.is_set()


@pytest.mark.timeout(240)
@in_asyncio
async def test_outages_of_the_database_and_the_network_are_invisible_to_runs() -> None:
    over = asyncio.Event()
    with PostgresServer(settings=FAST) as postgres:
        direct = Site(PostgresStore(postgres.url(), lease_seconds=LEASE_SECONDS), "direct", over)
        served = PostgresStore(postgres.url())
        async with (
            Server(served, port=0, worker_keys=worker_keys.KEYS) as server,
            Proxy(server.port).running() as proxy,
        ):
            remote = Site(RemoteStore(proxy.url, key=worker_keys.SECRET), "remote", over)
            sites = {"direct": direct, "remote": remote}
            async with direct.app.worker(), remote.app.worker(), AsyncClient(direct.app) as client:
                handles = {
                    name: [await client.start("count", id=f"{name}-{k}", group=name) for k in range(3)]
                    for name in sites
                }
                await _ticks(sites, 3)
                proxy.is_cut = True
                proxy.cut()
                cut_at = time.monotonic()
                await asyncio.to_thread(postgres.stop)
                told = asyncio.gather(
                    *(client.signal(f"{name}-{k}", "go", name) for name in sites for k in range(3))
                )
                await asyncio.sleep(FAIL_OVER_SECONDS)
                assert not told.done()
                await asyncio.to_thread(postgres.start)
                await asyncio.wait_for(told, PATIENCE_SECONDS)  # what was given meanwhile is not lost
                before = sum(direct.ticks.values())
                left = cut_at + CUT_SECONDS - time.monotonic()
                await asyncio.sleep(left)
                assert sum(direct.ticks.values()) > before
                proxy.is_cut = False
                await _ticks(sites, 6)
                over.set()
                for name, started in handles.items():
                    for handle in started:
                        count, heard = await handle.result(PATIENCE_SECONDS * 2)
                        entries = await served.read_journal(handle.id)
                        assert heard == name
                        assert _journaled(entries) == count + 1
                        # A lease of 90 s outlives the cut; one of 7 s did not outlive the database.
                        executed = [sites[name].ticks[handle.id, number] for number in range(count + 1)]
                        assert max(executed) == 1 if name == "remote" else sum(executed) <= count + 2, (
                            executed
                        )
            await remote.app.store.close()
        await direct.app.store.close()
        await served.close()


def _journaled(entries: Sequence[Entry]) -> int:
    """How many steps have ended, each once."""
    ends = [entry.n for entry in entries if entry.kind is EntryKind.COMPLETED and entry.name == "tick"]
    assert len(ends) == len(set(ends))
    return len(ends)


async def _ticks(sites: dict[str, Site], more: int) -> None:
    """Wait until each site has done so many steps more."""
    before = {name: sum(site.ticks.values()) for name, site in sites.items()}
    async with asyncio.timeout(PATIENCE_SECONDS * 3):
        while any(sum(site.ticks.values()) < before[name] + more for name, site in sites.items()):
            await asyncio.sleep(0.05)
