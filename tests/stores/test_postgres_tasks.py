"""Tasks in Postgres: several processes, locks, and rows that cannot be changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest

from signoff.errors import SignoffError
from signoff.records import NewPromise, PromiseKind, PromiseState, Settlement
from signoff.records.tasks import Invocation, Listener, NewInvocation, TaskLease, TaskRef, TaskState
from signoff.stores.contract.store import Change
from signoff.stores.postgres.store import PostgresStore
from signoff.testing import VirtualClock
from tests.postgres.databases import fresh_database
from tests.stores.scene import until
from tests.support import in_asyncio

TARGET = "poll://any@workers"
LEASE = TaskLease("p", 60_000)
DONE = Settlement(PromiseState.RESOLVED, value="1")
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


@pytest.fixture
def database() -> Iterator[str]:
    with fresh_database() as url:
        yield url


@asynccontextmanager
async def opened(
    url: str, count: int = 2, lease_clock: VirtualClock | None = None, clock: VirtualClock | None = None
) -> AsyncIterator[list[PostgresStore]]:
    """Stores of as many processes."""
    async with AsyncExitStack() as stack:
        clocks = {"lease_clock": lease_clock, "clock": clock}
        stores = [PostgresStore(url, inline_below_seconds=0, **clocks) for _ in range(count)]
        for store in stores:
            await store.open()
            stack.push_async_callback(store.close)
        yield stores


def new(id: str, **more: Any) -> NewInvocation:
    return NewInvocation(NewPromise(id), TARGET, **more)


def anything(store: PostgresStore, chance: random.Random, ids: Sequence[str]) -> Awaitable[object]:
    """Do something with a task and the promises of others."""
    ref, others = TaskRef(chance.choice(ids), chance.randint(1, 3)), chance.sample(ids, 3)
    operations: Sequence[Callable[[], Awaitable[object]]] = (
        lambda: store.suspend_task(ref, others),
        lambda: store.suspend_task(ref, others),
        lambda: store.acquire_task(ref, LEASE),
        lambda: store.open_invocation(new(ref.id, lease=LEASE, holder=TaskRef(others[0], 1))),
        lambda: store.release_task(ref),
        lambda: store.await_promise(others[0], ref.id),
        lambda: store.halt_task(ref.id),
        lambda: store.continue_task(ref.id),
        lambda: store.heartbeat_tasks("p", None),
        lambda: store.take_task_messages([TARGET], 5),
        lambda: store.resend_task_messages([TaskRef(id, 1) for id in ids], [Listener(others[0], TARGET)]),
        lambda: store.settle_held(ref, others[0], DONE),
        lambda: store.settle(ref.id, PromiseKind.PROMISE, DONE),
        store.due,
    )
    return chance.choice(operations)()


@in_asyncio
async def test_operations_on_tasks_never_deadlock(database: str) -> None:
    """Tasks await each other, and three processes settle, suspend and acquire them in any order."""
    chance = random.Random(7)
    async with opened(database, 3) as stores:
        for turn in range(12):
            ids = [f"{turn}-{number}" for number in range(10)]
            for id in ids:
                lasts = 0.001 if chance.random() < 0.2 else 60.0
                promise = NewPromise(id, due_at=stores[0].clock.now() + lasts)
                await stores[0].open_invocation(NewInvocation(promise, TARGET, lease=LEASE))
            jobs = [anything(store, chance, ids) for _ in range(60) for store in stores]
            found = await asyncio.gather(*jobs, return_exceptions=True)
            assert all(isinstance(each, SignoffError) for each in found if isinstance(each, BaseException))
        with psycopg.connect(database) as connection:
            assert connection.execute(DEADLOCKS).fetchone() == (0,)


@in_asyncio
async def test_other_processes_are_notified_of_due_messages(database: str) -> None:
    lease_clock = VirtualClock()
    async with opened(database, lease_clock=lease_clock) as (one, two):
        heard: list[Change] = []
        two.listen(heard.append)

        async def tells(work: Awaitable[object]) -> None:
            heard.clear()
            await work
            await until(lambda: any(change.due for change in heard if change.runs is not None))

        await tells(one.open_invocation(new("t")))
        await one.acquire_task(TaskRef("t", 0), LEASE)
        await one.open_invocation(NewInvocation(NewPromise("a")))
        assert await one.suspend_task(TaskRef("t", 1), ["a"])
        await tells(one.settle("a", PromiseKind.PROMISE, DONE))
        assert [message.task for message in await two.take_task_messages([TARGET], 5)]
        await one.listen_promise("t", TARGET)
        await tells(one.settle("t", PromiseKind.PROMISE, DONE))
        assert [message.promise for message in await two.take_task_messages([TARGET], 5)]
        await one.open_invocation(new("u", lease=LEASE))
        lease_clock.advance(61)
        await tells(one.due())


@in_asyncio
async def test_processes_that_acquire_a_task_at_once_share_no_version(database: str) -> None:
    async with opened(database, 3) as stores:
        for number in range(20):
            await stores[0].open_invocation(new(f"t{number}"))
            jobs = [store.acquire_task(TaskRef(f"t{number}", 0), LEASE) for store in stores for _ in range(2)]
            found = await asyncio.gather(*jobs, return_exceptions=True)
            assert sum(isinstance(each, Invocation) for each in found) == 1


@in_asyncio
async def test_a_locked_task_keeps_no_due_item_waiting(database: str) -> None:
    clock, lease_clock = VirtualClock(), VirtualClock()
    async with opened(database, 1, lease_clock, clock) as (store,):
        for id in ("t", "u"):
            await store.open_invocation(new(id, lease=LEASE))
        with psycopg.connect(database) as connection:
            late = NewPromise("late", due_at=clock.now() + 5)
            await store.open_invocation(NewInvocation(late))
            assert await store.suspend_task(TaskRef("t", 1), ["late"])
            connection.execute("SELECT FROM signoff.tasks WHERE id = 't' FOR UPDATE")
            lease_clock.advance(61)
            clock.advance(6)
            await store.due()
            assert (await store.get_task("u")).state is TaskState.PENDING
            assert (await store.get_promise("late")).state is PromiseState.PENDING
            connection.rollback()
        await until_state(store, "t", TaskState.PENDING)
        assert (await store.get_promise("late")).state is PromiseState.TIMED_OUT


async def until_state(store: PostgresStore, id: str, state: TaskState) -> None:
    async with asyncio.timeout(30):
        while (await store.get_task(id)).state is not state:
            await store.due()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("fails", ["RAISE EXCEPTION 'no'", "RETURN NULL"])
@in_asyncio
async def test_a_task_that_cannot_be_freed_holds_up_no_other(database: str, fails: str) -> None:
    lease_clock = VirtualClock()
    async with opened(database, 1, lease_clock) as (store,):
        for id in ("bad", "good"):
            await store.open_invocation(new(id, lease=LEASE))
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                f"CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {fails}; END $$".encode()
            )
            connection.execute(
                "CREATE TRIGGER fail BEFORE UPDATE ON signoff.tasks FOR EACH ROW WHEN (OLD.id = 'bad') "
                "EXECUTE FUNCTION fail()"
            )
        lease_clock.advance(61)
        await store.due()
        assert (await store.get_task("good")).state is TaskState.PENDING
        assert (await store.get_task("bad")).state is TaskState.ACQUIRED
        await store.open_invocation(new("later", lease=LEASE))
        lease_clock.advance(61)
        await store.due()
        assert (await store.get_task("later")).state is TaskState.PENDING


@in_asyncio
async def test_leases_of_tasks_are_held_after_an_outage_as_those_of_runs(database: str) -> None:
    lease_clock = VirtualClock()
    async with opened(database, lease_clock=lease_clock) as (one, two):
        await one.open_invocation(new("t", lease=LEASE))
        lease_clock.advance(61)
        one.hold_leases()
        await one.due()
        assert (await one.get_task("t")).state is TaskState.ACQUIRED
        await two.due()
        assert (await one.get_task("t")).state is TaskState.PENDING
