"""Rule: a call of a group of Signoff workers ends with its run, whichever server has begun it."""

from __future__ import annotations

import asyncio

import pytest

from signoff.records import NewPromise, NewRun, PromiseKind, PromiseState, WorkerInfo
from signoff.records.tasks import NewInvocation, TaskLease, TaskRef, TaskState
from signoff.server.resonate import signoff_groups
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.push import Push
from signoff.server.resonate.signoff_groups import SignoffGroups
from signoff.testing import MemoryStore

LEASE = TaskLease("signoff", 60_000)


async def begin(store: MemoryStore, id: str) -> None:
    """Begin the run of a task, as a server does that ends then."""
    new = NewInvocation(NewPromise(id, PromiseKind.PROMISE), "poll://any@g", lease=LEASE)
    await store.open_invocation(new)
    await store.create_run(NewRun(id, "w", "g", '{"args": [], "kwargs": {}}'))
    await store.suspend_task(TaskRef(id, 1), ())


def test_the_run_of_a_server_that_has_ended_settles_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff_groups, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(signoff_groups, "MOST_EXAMINED", 2)

    async def scenario() -> None:
        store = MemoryStore()
        await store.enlist(WorkerInfo("worker", "host", 1, 0.0, "g"))
        other = asyncio.create_task(SignoffGroups(store).serve())
        await asyncio.sleep(0.05)  # it has looked for suspended tasks
        for number in range(5):
            await begin(store, f"r{number}")
            await store.cancel(f"r{number}")
        async with asyncio.timeout(10):
            for number in range(5):
                while (await store.get_promise(f"r{number}")).state is not PromiseState.CANCELLED:
                    await asyncio.sleep(0.01)
        other.cancel()
        assert (await store.get_task("r4")).state is TaskState.FULFILLED

    asyncio.run(scenario())


def test_a_server_stops_although_a_message_becomes_due_meanwhile() -> None:
    """``asyncio.wait_for`` of Python 3.11 loses a cancellation that comes as the wait ends."""

    async def scenario() -> None:
        for turns in range(8):
            store = MemoryStore()
            deliveries = Deliveries(lambda _: {}, Push(()), passes_on=True)
            deliveries.of(store)
            await asyncio.sleep(0.01)  # it waits for messages
            await store.open_invocation(NewInvocation(NewPromise("p", PromiseKind.PROMISE), "poll://any@g"))
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await deliveries.close()

    asyncio.run(scenario())
