"""Rule: a call of a group of Signoff workers ends with its run, whichever server has begun it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from signoff.errors import NotFound
from signoff.records import (
    NewPromise,
    NewRun,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
    Settlement,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.tasks import NewInvocation, TaskLease, TaskRef, TaskState
from signoff.server.resonate import signoff_groups
from signoff.server.resonate.deliveries import Deliveries
from signoff.server.resonate.durable_promises import Details, to_new
from signoff.server.resonate.push import Push
from signoff.server.resonate.signoff_groups import SignoffGroups
from signoff.stores.contract.store import Store
from signoff.testing import MemoryStore
from signoff.wire.durable_values import encoded
from tests.server.resonate.calling import Database
from tests.server.resonate.speaker import open_store
from tests.server.resonate.watched import Watched
from tests.support import comes

LEASE = TaskLease("signoff", 60_000)


def call(id: str, func: str = "w", *, lease: TaskLease | None = None) -> NewInvocation:
    """The call of a workflow of group ``g``, without arguments."""
    details = Details({"data": encoded(json.dumps({"func": func}))})
    return NewInvocation(to_new(id, details), "poll://any@g", lease=lease)


async def begin(store: Store, id: str) -> None:
    """Begin the run of a task, as a server does that ends then."""
    await store.open_invocation(call(id, lease=LEASE))
    await store.create_run(NewRun(id, "w", "g", '{"args": [], "kwargs": {}}'))
    await store.suspend_task(TaskRef(id, 1), ())


async def enlist(store: Store) -> None:
    await store.announce([WorkflowInfo("g", "w", "1", is_current=True)])
    namespace = store.namespace
    await store.enlist(WorkerInfo(f"worker-{namespace}", "host", 1, 0.0, "g", namespace=namespace))


async def comes_to(store: Store, id: str, state: RunState) -> None:
    async def look() -> Run | None:
        try:
            run = await store.get_run(id)
        except NotFound:
            return None
        return run if run.state is state else None

    await comes(look)


def while_serving(store: Store, test: Callable[[SignoffGroups], Awaitable[None]]) -> None:
    async def scenario() -> None:
        await store.open()
        try:
            groups = SignoffGroups(store)
            serving = asyncio.create_task(groups.serve())
            try:
                await test(groups)
            finally:
                serving.cancel()
        finally:
            await store.close()

    asyncio.run(scenario())


def test_the_run_of_a_server_that_has_ended_settles_its_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff_groups, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(signoff_groups, "MOST_EXAMINED", 2)
    store = Watched(MemoryStore())

    async def test(_: SignoffGroups) -> None:
        await enlist(store)
        await store.reaches("list_tasks", 1)  # it has looked for suspended tasks
        for number in range(5):
            await begin(store, f"r{number}")
            await store.cancel(f"r{number}")
        async with asyncio.timeout(10):
            for number in range(5):
                while (await store.get_promise(f"r{number}")).state is not PromiseState.CANCELLED:
                    await asyncio.sleep(0.01)
        assert (await store.get_task("r4")).state is TaskState.FULFILLED

    while_serving(store, test)


def test_a_promise_settled_while_no_server_runs_cancels_its_run(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signoff_groups, "RUNS_EXAMINED", 2)
    monkeypatch.setattr(signoff_groups, "LOOK_SECONDS", 0.02)

    async def prepare(store: Store) -> None:
        await store.open()
        await enlist(store)
        for number in range(5):
            await begin(store, f"r{number}")
            if number != 3:
                await store.settle(f"r{number}", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
        await store.close()

    async def test(_: SignoffGroups) -> None:
        for number in (0, 1, 2, 4):
            await comes_to(store, f"r{number}", RunState.CANCELLED)
        assert (await store.get_run("r3")).state is RunState.READY

    with database() as url:
        asyncio.run(prepare(open_store(url)))
        store = open_store(url)
        while_serving(store, test)


def test_a_call_waits_for_the_announcement_of_a_worker_that_has_just_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(signoff_groups, "UNANNOUNCED_SECONDS", 0.02)
    store = Watched(MemoryStore())

    async def test(_: SignoffGroups) -> None:
        await store.enlist(WorkerInfo("worker", "host", 1, 0.0, "g"))
        await store.open_invocation(call("r"))
        await store.reaches("list_workflows", 1)  # it is not announced yet
        await store.announce([WorkflowInfo("g", "w", "1", is_current=True)])
        await comes_to(store, "r", RunState.READY)

    while_serving(store, test)


def test_a_run_with_the_id_of_a_settled_promise_by_chance_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff_groups, "LOOK_SECONDS", 0.02)
    store = Watched(MemoryStore())

    async def test(_: SignoffGroups) -> None:
        arguments = '{"args": [], "kwargs": {}}'
        runs = {
            "other workflow": NewRun("other workflow", "v", "g", arguments),
            "other group": NewRun("other group", "w", "h", arguments),
            "other arguments": NewRun("other arguments", "w", "g", '{"args": [1], "kwargs": {}}'),
            "later": NewRun("later", "w", "g", arguments),
        }
        for id, new in runs.items():
            if id != "later":
                await store.create_run(new)
            await store.open_invocation(call(id, lease=LEASE))
            await store.settle(id, PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
        await asyncio.sleep(0.01)
        await store.create_run(runs["later"])
        await enlist(store)
        await store.enlist(WorkerInfo("worker-h", "host", 1, 0.0, "h"))
        looked = store.counts["list_runs"]
        await store.reaches("list_runs", looked + 3)
        for id in runs:
            assert (await store.get_run(id)).state is RunState.READY, id

    while_serving(store, test)


@pytest.mark.parametrize("error", [NotFound("promise", "bad"), ValueError("a fault of the server")])
def test_a_task_that_cannot_be_read_holds_up_no_other(error: Exception) -> None:
    store = Watched(MemoryStore(namespace="first"), error)

    async def test(_: SignoffGroups) -> None:
        places = [store, store.within("second")]
        for place in places:
            await place.open_invocation(call("bad"))
            await place.open_invocation(call("good"))
        for place in places:
            await enlist(place)
        for place in places:
            await comes_to(place, "good", RunState.READY)

    while_serving(store, test)


def test_a_name_that_no_store_keeps_holds_up_no_other(database: Database) -> None:
    async def test(_: SignoffGroups) -> None:
        await store.open_invocation(call("bad", "w\0"))
        await store.open_invocation(call("good"))
        await enlist(store)
        await comes_to(store, "good", RunState.READY)

    with database() as url:
        store = open_store(url)
        while_serving(store, test)


def test_a_promise_that_cannot_be_read_leaves_others_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signoff_groups, "LOOK_SECONDS", 0.02)
    store = Watched(MemoryStore(), ValueError("a fault of the server"))

    async def test(_: SignoffGroups) -> None:
        others = [f"good {number}" for number in range(8)]
        for id in ("bad", *others):
            await begin(store, id)
            await store.cancel(id)
        await enlist(store)

        async def look() -> bool:
            return {(await store.get_promise(id)).state for id in others} == {PromiseState.CANCELLED}

        await comes(look)

    while_serving(store, test)


def test_ended_runs_of_a_namespace_without_signoff_workers_are_forgotten() -> None:
    store = Watched(MemoryStore())

    async def test(groups: SignoffGroups) -> None:
        await store.enlist(WorkerInfo("resonate:worker", "host", 1, 0.0, "g"))
        await store.reaches("list_workers", 1)  # it listens
        for number in range(20):
            await store.create_run(NewRun(f"r{number}", "w", "g", '{"args": [], "kwargs": {}}'))
            await store.cancel(f"r{number}")

        async def look() -> bool:
            return not any(groups._ended.values())  # pyright: ignore[reportPrivateUsage]

        await asyncio.sleep(0)
        await comes(look)

    while_serving(store, test)


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
