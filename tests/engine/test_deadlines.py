"""Deadlines that pass during an outage, or while clocks are set: each fires once."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.errors import PromiseTimeout, RunTimeout, SignalTimeout
from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests import worker_keys
from tests.places import NewStore
from tests.postgres.server import FAST, PostgresServer
from tests.support import PATIENCE_SECONDS, in_asyncio, pauses

IN_SECONDS = 60.0
WAYS = ("question", "signal", "promise", "sleep", "timeout")


class Site:
    """An app whose runs wait until deadlines in every way there is.

    Attributes:
        fired: How often each way came to its end.
        at: When it did so last, by the runs' clock.
    """

    def __init__(self, app: Signoff) -> None:
        self.app = app
        self.fired: Counter[str] = Counter()
        self.at: dict[str, float] = {}

        @app.workflow
        async def waits(ctx: Context, way: str) -> None:
            match way:
                case "question":
                    with contextlib.suppress(SignalTimeout):
                        await ctx.wait_for_user("ok?", timeout_seconds=IN_SECONDS)
                case "signal":
                    with contextlib.suppress(SignalTimeout):
                        await ctx.wait_for_signal("go", timeout_seconds=IN_SECONDS)
                case "sleep":
                    await ctx.sleep(IN_SECONDS)
                case "timeout":
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(IN_SECONDS):
                            await ctx.wait_for_signal("go")
                case _:
                    promise = await ctx.promise(timeout_seconds=IN_SECONDS)
                    with contextlib.suppress(PromiseTimeout):
                        await promise
            at = ctx.now().timestamp()
            await ctx.step("note", self.note, way, at)

        @app.workflow
        async def fine(ctx: Context) -> None:
            await ctx.step("fine", lambda: None)

        @app.workflow
        async def limited(ctx: Context) -> None:
            try:
                await ctx.wait_for_signal("go")
            finally:
                await ctx.step("note", self.note, "run", ctx.now().timestamp())

    async def note(self, way: str, at: float) -> None:
        self.fired[way] += 1
        self.at[way] = at

    async def start(self, client: AsyncClient) -> None:
        """Start a run for each way, and wait until all wait."""
        for way in WAYS:
            await client.start("waits", way, id=way)
        await client.start("limited", id="run", timeout_seconds=IN_SECONDS)
        for id in (*WAYS, "run"):
            await pauses(self.app, id)

    async def end(self, client: AsyncClient, at: float) -> None:
        """Wait for the ends of all runs, and see that each deadline has fired once, at a moment of the runs' clock."""
        for way in WAYS:
            await (await client.get(way)).result(PATIENCE_SECONDS)
        ending = await client.get("run")
        with pytest.raises(RunTimeout):
            await ending.result(PATIENCE_SECONDS)
        is_remote = isinstance(self.app.store, RemoteStore)
        if is_remote and "run" not in self.fired:  # the server ended it while its group had no worker
            await (await client.start("fine")).result(PATIENCE_SECONDS)
            assert self.fired == dict.fromkeys(WAYS, 1)
        else:
            assert self.fired == dict.fromkeys((*WAYS, "run"), 1)
        # A remote worker lets the server's time pass by its own clock, from reply to reply.
        late = PATIENCE_SECONDS if is_remote else 0.0
        assert all(at - 1 <= each <= at + late for each in self.at.values()), (at, self.at)


@asynccontextmanager
async def site_on(new_store: NewStore, clock: VirtualClock) -> AsyncIterator[tuple[Site, AsyncClient]]:
    app = Signoff(new_store(clock=clock))
    try:
        async with AsyncClient(app) as client:
            yield Site(app), client
    finally:
        await app.store.close()


@in_asyncio
async def test_what_passed_while_no_worker_was_up_fires_once_as_soon_as_one_is(new_store: NewStore) -> None:
    clock = VirtualClock()
    async with site_on(new_store, clock) as (site, client):
        async with site.app.worker():
            await site.start(client)
        clock.advance(IN_SECONDS - 1)
        async with site.app.worker():
            await (await client.start("fine")).result(PATIENCE_SECONDS)
            assert site.fired == {}
        clock.advance(3_600)
        async with site.app.worker():
            await site.end(client, clock.now())
        async with site.app.worker():
            await (await client.start("fine")).result(PATIENCE_SECONDS)
            await site.end(client, clock.now())


@in_asyncio
async def test_a_clock_that_is_set_back_and_forth_has_each_deadline_fire_once(new_store: NewStore) -> None:
    clock = VirtualClock()
    async with site_on(new_store, clock) as (site, client), site.app.worker():
        await site.start(client)
        for seconds in (-7_200, +3_600, +3_600, +IN_SECONDS - 1, -10_000, +10_000):
            clock.advance(seconds)
            await (await client.start("fine")).result(PATIENCE_SECONDS)
            assert site.fired == {}
        clock.advance(600)
        due_at = clock.now()
        await site.end(client, due_at)
        for seconds in (-7_200, +7_200, +7_200):
            clock.advance(seconds)
            await (await client.start("fine")).result(PATIENCE_SECONDS)
            await site.end(client, due_at)


@in_asyncio
async def test_due_items_of_a_servers_outage_fire_once_for_remote_workers(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    served = SqliteStore(tmp_path / "signoff.db", clock=clock)
    observer = Signoff(SqliteStore(tmp_path / "signoff.db", clock=clock))
    try:
        async with AsyncClient(observer) as client:
            async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
                site = Site(Signoff(RemoteStore(server.url, key=worker_keys.SECRET)))
                working = site.app.worker()
                await working.__aenter__()
                await site.start(client)
            clock.advance(3_600)
            async with Server(served, port=server.port, worker_keys=worker_keys.KEYS):
                await site.end(client, clock.now())
                await working.__aexit__(None, None, None)
                await site.app.store.close()
    finally:
        await observer.store.close()
        await served.close()


@in_asyncio
async def test_due_items_of_a_database_restart_fire_once() -> None:
    clock = VirtualClock()
    with PostgresServer(settings=FAST) as database:
        site = Site(Signoff(PostgresStore(database.url(), clock=clock)))
        try:
            async with AsyncClient(site.app) as client, site.app.worker():
                await site.start(client)
                await asyncio.to_thread(database.stop)
                clock.advance(3_600)
                await asyncio.to_thread(database.start)
                await site.end(client, clock.now())
        finally:
            await site.app.store.close()
