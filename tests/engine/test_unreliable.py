"""Workers on a store that fails, loses replies and notifications, and workers that stood still: found by simulation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from signoff import Context, Signoff
from signoff.errors import InvalidValue, StoreUnavailable
from signoff.records import EntryKind, NewRun, RunState
from signoff.stores.contract.leases import Outcome, Write
from signoff.testing import MemoryStore
from signoff.testing.model.tables import Commit
from signoff.testing.simulation import Process, World
from signoff.testing.simulation.process import worker_of
from tests.support import in_asyncio, reaches, running


class MutedStore(MemoryStore):
    """Each write is done once, and its reply is lost."""

    async def append(self, write: Write) -> None:
        await super().append(write)
        self._lose(write, "append")

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        paused = await super().pause(write, wakes=wakes, wake_at=wake_at)
        self._lose(write, "pause")
        return paused

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await super().complete(write, outcome)
        self._lose(write, "complete")

    def _lose(self, write: Write, operation: str) -> None:
        lost = self.__dict__.setdefault("lost", [])
        this = (operation, [entry.seq for entry in write.entries])
        if this not in lost:
            lost.append(this)
            raise StoreUnavailable(self.location, "the connection was lost")


@in_asyncio
async def test_a_write_with_a_lost_reply_is_written_once_and_keeps_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MutedStore()
    app = Signoff(store)
    ran: list[str] = []

    @app.workflow
    async def flow(ctx: Context, generation: int = 1) -> str:
        await ctx.step("one", lambda: ran.append("one"))
        await ctx.step("two", lambda: ran.append("two"), effect="once")
        if generation == 1:
            ctx.continue_as_new(2)
        heard = await ctx.wait_for_signal("go")
        return f"{heard} in {generation}"

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await client.signal("r", "go", "heard")
        assert await run.result(60) == "heard in 2"
    assert ran == ["one", "two"] * 2
    assert {"append", "complete"} <= {operation for operation, _ in store.__dict__["lost"]}
    completed = [entry.name for entry in await store.read_journal("r") if entry.kind is EntryKind.COMPLETED]
    assert completed == ["one", "two"] * 2
    assert (await store.get_run("r")).epoch == 1, "the lease was never lost"
    assert not [record for record in caplog.records if record.exc_info]


class HoldingStore(MemoryStore):
    """Before the first pause a signal comes, and the pause fails."""

    is_over = False

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        if not self.is_over:
            self.is_over = True
            await self.signal(write.run_id, "go", '"heard"')
            raise StoreUnavailable(self.location, "the connection was refused")
        return await super().pause(write, wakes=wakes, wake_at=wake_at)


@in_asyncio
async def test_input_during_a_repeated_pause_is_not_slept_through() -> None:
    app = Signoff(HoldingStore())

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.wait_for_signal("go")

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "heard"


@pytest.mark.parametrize("effect", ["repeatable", "once"])
def test_a_worker_that_stood_still_past_its_lease_begins_no_step(effect: Any) -> None:
    world = World("frozen", lease_seconds=5)
    app = Signoff(world.store)
    ran: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("first", lambda: ran.append("first"))
        await ctx.step("second", lambda: ran.append("second"), effect=effect)
        return "done"

    frozen = world.start_process("frozen", worker_of(app.registry))
    world.start_process("starter", _starts("flow"))
    journal = world.store.model.tables.journals

    def writes_before_second() -> bool:
        """What leads to the second step is durable, and the worker does not know yet."""
        entries = journal.get(("default", "r"), [])
        return any(entry.name == ("second" if effect == "once" else "first") for entry in entries)

    assert world.run(writes_before_second, limit=10)
    frozen.freeze(20)
    world.start_process("other", worker_of(app.registry))
    _answer_with_retry(world)
    assert world.run(lambda: not frozen.is_frozen, limit=60)
    assert world.run(lambda: False, limit=world.now + 20) is False
    assert world.store.model.tables.runs["default", "r"].state is RunState.SUCCEEDED
    assert ran == ["first", "second"]
    world.end()
    assert world.problems == []


def _starts(workflow: str) -> Callable[[Process], Any]:
    async def main(process: Process) -> None:
        await process.store.create_run(NewRun("r", workflow, "default", '{"args": [], "kwargs": {}}'))

    return main


def _answer_with_retry(world: World) -> None:
    """The other worker finds a once-step begun: a person lets it run."""

    def answer(promise: Any) -> None:
        async def main(process: Process) -> None:
            from signoff.people.questions.answers import answer

            await answer(process.store, promise.id, {"action": "retry"})

        world.call_later(0.1, world.start_process, "person", main)

    world.observer.on_promise(answer)


class DeafStore(MemoryStore):
    """Hides notifications of new messages."""

    def _tell_commit(self, commit: Commit) -> None:
        if not commit.woken:
            super()._tell_commit(commit)


def test_a_worker_with_many_notifications_still_polls_for_missed_ones() -> None:
    world = World("deaf", lease_seconds=5, store=DeafStore)
    app = Signoff(world.store)

    @app.workflow
    async def flow(ctx: Context) -> str:
        signal = asyncio.create_task(ctx.wait_for_signal("go"))  # type: ignore[arg-type]
        step = asyncio.create_task(ctx.step("slow", asyncio.sleep, 60))  # type: ignore[arg-type]
        await asyncio.wait([signal, step], return_when=asyncio.FIRST_COMPLETED)
        return signal.result()

    async def noise(process: Process) -> None:
        for number in range(1000):
            await process.store.create_run(NewRun(f"n{number}", "other", "other", "{}"))
            await asyncio.sleep(0.2)

    async def signal(process: Process) -> None:
        await asyncio.sleep(3)
        await process.store.signal("r", "go", '"heard"')

    worker = world.start_process("worker", worker_of(app.registry))
    worker.loop.create_task(noise(worker))  # commits of its own process are reported exactly
    for name, main in (("starter", _starts("flow")), ("signal", signal)):
        world.start_process(name, main)
    runs = world.store.model.tables.runs
    assert world.run(lambda: ("default", "r") in runs and runs["default", "r"].state.is_final, limit=10)
    assert runs["default", "r"].result == '"heard"'
    world.end()
    assert world.problems == []


@in_asyncio
async def test_a_decision_on_a_step_that_another_worker_asked_is_left_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "signoff.worker")
    store = MemoryStore()
    app = Signoff(store)
    begun, go_on = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def charge() -> str:
        ran.append("charge")
        if len(ran) == 1:
            begun.set()
            await go_on.wait()
        return "charged"

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(charge, effect="once")

    async with running(app, beat_seconds=3600, concurrency=1) as client:
        run = await client.start(flow, id="r")
        await begun.wait()
        [held] = [run for run in store.model.tables.runs.values() if run.worker_id]
        assert held.worker_id is not None
        other = Signoff(store)
        other.workflow(name="flow")(flow)
        store.model.workers.release(held.worker_id)  # its lease ran out, and it does not know
        async with other.worker():
            while not (await client.questions()).items:
                await asyncio.sleep(0)
            [question] = (await client.questions()).items
            await client.answer(question.id, {"action": "retry"})
            assert await run.result(60) == "charged"
    assert ran == ["charge", "charge"]
    assert not [record for record in caplog.records if record.exc_info]


@in_asyncio
async def test_a_worker_that_reclaims_a_run_it_lost_drops_its_old_copy() -> None:
    store = MemoryStore()
    app = Signoff(store)
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def charge() -> str:
        if begun.is_set():
            return "charged"
        begun.set()
        try:
            return await asyncio.Event().wait() or "never"
        finally:
            stopped.set()

    @app.workflow
    async def flow(ctx: Context) -> str:
        return await ctx.step(charge)

    async with running(app, beat_seconds=3600) as client:
        run = await client.start(flow, id="r")
        await begun.wait()
        await store.release((await store.get_run("r")).worker_id or "")
        assert await run.result(60) == "charged"
        async with asyncio.timeout(60):
            await stopped.wait()
        assert (await store.get_run("r")).epoch == 2


class PickyStore(MemoryStore):
    """Refuses every write that opens a promise."""

    async def append(self, write: Write) -> None:
        self._check(write)
        await super().append(write)

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        self._check(write)
        return await super().pause(write, wakes=wakes, wake_at=wake_at)

    def _check(self, write: Write) -> None:
        if write.opens and not self.__dict__.get("takes_promises", False):
            raise InvalidValue("opens", "there are none here")


@in_asyncio
async def test_a_run_whose_writes_are_refused_fails_and_can_be_retried() -> None:
    store = PickyStore()
    app = Signoff(store)
    ran: list[str] = []

    @app.workflow
    async def flow(ctx: Context) -> str:
        await ctx.step("one", lambda: ran.append("one"))
        return await (await ctx.promise(id="p"))

    async with running(app) as client:
        run = await client.start(flow, id="r")
        with pytest.raises(InvalidValue, match="there are none here"):
            await run.result(60)
        assert (await store.get_run("r")).retryable
        kinds = [entry.kind for entry in await store.read_journal("r")]
        assert kinds == [EntryKind.STARTED, EntryKind.COMPLETED, EntryKind.FAILED]
        store.__dict__["takes_promises"] = True
        await client.retry("r")
        await reaches(app, "r", RunState.PAUSED)
        await client.promises.resolve("p", "done")
        assert await run.result(60) == "done"
    assert ran == ["one"]
