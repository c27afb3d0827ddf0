"""The clock of Postgres' own host jumps by an hour while runs are held, and while some wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from signoff.records import NewRun, RunState
from signoff.stores.contract.leases import Write
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.databases import fresh_database
from tests.support import PATIENCE_SECONDS, comes, in_asyncio

HOUR = 3600.0
LEASE_SECONDS = 2.0
BEAT_SECONDS = 0.3

SET_BY_HAND = """
CREATE SCHEMA faked;
CREATE TABLE faked.clock (ahead double precision);
INSERT INTO faked.clock VALUES (0);
CREATE FUNCTION faked.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
$$ SELECT pg_catalog.clock_timestamp() + (SELECT ahead FROM faked.clock) * interval '1 second' $$;
"""


class Database:
    """A database whose clock a test sets."""

    def __init__(self, url: str) -> None:
        self.url = url
        name = urlsplit(url).path.removeprefix("/")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SET_BY_HAND)
            connection.execute(f'ALTER DATABASE "{name}" SET search_path = faked, pg_catalog, public')

    def step(self, seconds: float) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE faked.clock SET ahead = ahead + %s", [seconds])


@pytest.fixture
def database() -> Iterator[Database]:
    with fresh_database() as url:
        yield Database(url)


def _store(database: Database) -> PostgresStore:
    return PostgresStore(database.url, lease_seconds=LEASE_SECONDS)


async def _holding(store: PostgresStore, id: str) -> int:
    await store.create_run(NewRun(id, "w", "g", "{}"))
    [claim] = await store.claim("holder", "g", ["w"], 1)
    assert claim.run.id == id
    return claim.run.epoch


@pytest.mark.parametrize("steps", [[HOUR], [-HOUR], [HOUR, -HOUR], [-HOUR, HOUR]])
@in_asyncio
async def test_a_step_takes_no_run_from_a_worker_that_holds_it(
    database: Database, steps: list[float]
) -> None:
    mine, other = _store(database), _store(database)
    await mine.open()
    await other.open()
    try:
        epoch = await _holding(mine, "held")
        await other.due()
        for step in steps:
            await asyncio.to_thread(database.step, step)
            for _ in range(int(2 * LEASE_SECONDS / BEAT_SECONDS)):
                await other.due()
                assert not await other.claim("other", "g", ["w"], 1)
                assert not await mine.heartbeat("holder", {"held": epoch})
                await asyncio.sleep(BEAT_SECONDS)
        run = await mine.get_run("held")
        assert (run.state, run.epoch) == (RunState.RUNNING, epoch)
    finally:
        await mine.close()
        await other.close()


@in_asyncio
async def test_a_step_forward_fires_timers_and_frees_abandoned_runs(
    database: Database,
) -> None:
    store = _store(database)
    await store.open()
    try:
        epoch = await _holding(store, "timer")
        assert await store.pause(Write("timer", epoch), wakes=0, wake_at=store.clock.now() + HOUR / 2)
        await _holding(store, "dead")
        await store.due()
        assert (await store.get_run("timer")).state is RunState.PAUSED
        await asyncio.to_thread(database.step, HOUR)
        await store.due()
        assert (await store.get_run("timer")).state is RunState.READY

        async def is_freed() -> bool:
            await store.due()
            return (await store.get_run("dead")).state is RunState.READY

        async with asyncio.timeout(PATIENCE_SECONDS):
            await comes(is_freed)
    finally:
        await store.close()


@in_asyncio
async def test_after_a_step_back_work_continues_and_timers_wait(
    database: Database,
) -> None:
    store = _store(database)
    await store.open()
    try:
        epoch = await _holding(store, "timer")
        assert await store.pause(Write("timer", epoch), wakes=0, wake_at=store.clock.now() + 1.0)
        await _holding(store, "dead")
        await asyncio.to_thread(database.step, -HOUR)
        await asyncio.sleep(2 * LEASE_SECONDS)
        await store.due()
        assert (await store.get_run("timer")).state is RunState.PAUSED
        assert (await store.get_run("dead")).state is RunState.RUNNING
        epoch = await _holding(store, "new")
        assert await store.pause(Write("new", epoch), wakes=0, wake_at=store.clock.now() + 0.5)

        async def is_awake() -> bool:
            await store.due()
            return (await store.get_run("new")).state is RunState.READY

        await comes(is_awake)
        await asyncio.to_thread(database.step, HOUR)  # as its time service does soon

        async def goes_on() -> bool:
            await store.due()
            states = {(await store.get_run(id)).state for id in ("timer", "dead")}
            return states == {RunState.READY}

        await comes(goes_on)
    finally:
        await store.close()
