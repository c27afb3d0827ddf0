"""A failing row stops no other row of its job, and no other job, in any namespace."""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from signoff.engine.timers.schedules import AT_ONCE, fire_due, new_failed_items
from signoff.engine.timers.timers import TimerService
from signoff.errors import StoreUnavailable
from signoff.people.audit.sealing import seal_events
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.webhook import WebhookSender
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.deadlines import AT_ONCE as QUESTIONS_AT_ONCE
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.periodic_jobs import serve_due_questions
from signoff.records import Amendment, AuditEvent, Due, NewRun, NewSchedule, Promise, Seal
from signoff.records.deliveries import NewDelivery
from signoff.records.paging import DeliveryFilter
from signoff.server.process.prometheus import of_jobs
from signoff.stores.contract.store import Store
from tests.stores.scene import GROUP, WORKFLOW, Scene, memory_scene, postgres_scene, question, rule, until
from tests.support import in_asyncio

NEW = NewSchedule("s", WORKFLOW, GROUP, '{"args": []}', "* * * * *", "UTC", next_at=1_000_060.0)


class Poisoned:
    """A store in which all that is done in the namespace ``evil`` fails as if the database were not available."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.is_down = False
        self.attempts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def within(self, namespace: str) -> Poisoned:
        view = Poisoned(self._inner.within(namespace))
        view.note = self.note  # type: ignore[method-assign]
        return view

    def note(self) -> None:
        self.attempts += 1

    def _fail(self) -> None:
        if self._inner.namespace == "evil":
            self.note()
            raise StoreUnavailable("here", "index row size 5016 exceeds btree version 4 maximum 2704")

    async def fire_schedule(self, id: str, expected: float, runs: Sequence[NewRun], next_at: float) -> bool:
        self._fail()
        return await self._inner.fire_schedule(id, expected, runs, next_at)

    async def seal(self, seals: Sequence[Seal]) -> bool:
        self._fail()
        return await self._inner.seal(seals)

    async def amend(self, id: str, amendment: Amendment, *, token: str | None = None) -> tuple[Promise, bool]:
        self._fail()
        return await self._inner.amend(id, amendment, token=token)

    async def check_writable(self) -> None:
        if self.is_down:
            raise StoreUnavailable("here", "it is down")


def _unchecked(_: object) -> None:
    """Check nothing, as an earlier version."""


def poisoned(store: Store) -> Store:
    return cast("Store", Poisoned(store))


@rule
async def test_schedules_that_fail_keep_no_other_from_firing(scene: Scene) -> None:
    """There are more of them than one page has, and they are all due before the others."""
    evil = scene.within("evil")
    for number in range(AT_ONCE + 5):
        await evil.store.put_schedule(replace(NEW, id=f"bad-{number}", next_at=1_000_001.0))
    for name in ("acme", "default"):
        await scene.within(name).store.put_schedule(NEW)
    scene.clock.advance(61)
    store, aside = Poisoned(scene.store), new_failed_items()
    assert await fire_due(cast("Store", store), aside) is None
    for name in ("acme", "default"):
        assert len(await scene.within(name).listed()) == 1
    assert len(aside) == AT_ONCE + 5
    assert aside.failures == AT_ONCE + 5
    [items, failures, _] = of_jobs()
    counts = {(each.name, each.labels["job"]): each.value for each in (*items.samples, *failures.samples)}
    assert counts["signoff_set_aside_items", "schedule"] >= AT_ONCE + 5
    assert counts["signoff_set_aside_failures_total", "schedule"] >= AT_ONCE + 5

    # They are tried again later, each time later, and the others go on.
    attempts = store.attempts
    assert await fire_due(cast("Store", store), aside) is None
    assert store.attempts == attempts, "too soon"
    scene.clock.advance(60)
    await fire_due(cast("Store", store), aside)
    assert store.attempts == attempts + AT_ONCE + 5
    for name in ("acme", "default"):
        assert len(await scene.within(name).listed()) == 2
    await fire_due(scene.store, aside)
    assert await evil.listed() == [], "their time has not come yet"
    scene.clock.advance(300)
    await fire_due(scene.store, aside)
    assert len(await evil.listed()) > 0
    assert len(aside) == 0


@in_asyncio
async def test_a_schedule_in_an_unknown_zone_keeps_no_other_from_firing(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:
        await scene.store.put_schedule(replace(NEW, id="mars", timezone="Mars/Olympus", next_at=1_000_001.0))
        await scene.store.put_schedule(NEW)
        scene.clock.advance(61)
        assert await fire_due(scene.store) is None
        assert len(await scene.listed()) == 1


@in_asyncio
async def test_an_outage_of_the_store_is_no_fault_of_a_schedule(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:
        await scene.within("evil").store.put_schedule(NEW)
        scene.clock.advance(61)
        store, aside = Poisoned(scene.store), new_failed_items()
        store.is_down = True
        with pytest.raises(StoreUnavailable, match="it is down"):
            await fire_due(cast("Store", store), aside)
        assert len(aside) == 0


@in_asyncio
async def test_the_audit_trail_of_one_namespace_keeps_no_other_from_being_sealed(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:
        for name in ("evil", "zoo"):
            await scene.within(name).store.create_promise(replace(question("r", id="q"), run_id=None, n=None))
        await seal_events(poisoned(scene.store))
        assert await scene.within("evil").store.last_seal() is None
        assert await scene.within("zoo").store.last_seal() is not None


@in_asyncio
async def test_one_question_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:
        for name in ("evil", "zoo"):
            new = replace(question("r", id="q", act_at=1_000_001.0), run_id=None, n=None)
            await scene.within(name).store.create_promise(new)
        scene.clock.advance(5)
        await serve_questions(poisoned(scene.store))
        assert (await scene.within("evil").store.get_promise("q")).act_at == 1_000_001.0
        assert (await scene.within("zoo").store.get_promise("q")).act_at != 1_000_001.0


@in_asyncio
async def test_more_questions_than_a_page_has_keep_no_other_from_being_served(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:
        bad = replace(question("r", act_at=1_000_001.0), run_id=None, n=None)
        for number in range(QUESTIONS_AT_ONCE + 5):
            await scene.within("evil").store.create_promise(replace(bad, id=f"q-{number}"))
        await scene.within("zoo").store.create_promise(replace(bad, id="q", act_at=1_000_002.0))
        scene.clock.advance(5)
        store = Poisoned(scene.store)
        for _ in range(2):
            await serve_due_questions(cast("Store", store))
        assert store.attempts == QUESTIONS_AT_ONCE + 5, "they are tried again later"
        assert (await scene.within("zoo").store.get_promise("q")).act_at != 1_000_002.0


@in_asyncio
async def test_one_channel_keeps_no_other_from_its_notifications(tmp_path: Path) -> None:
    async with memory_scene(tmp_path) as scene:

        class Failing(Poisoned):
            async def read_cursor(self, channel: str) -> int | None:
                if channel == "bad":
                    raise StoreUnavailable("here", "one of its rows is damaged")
                return await self._inner.read_cursor(channel)

        store = cast("Store", Failing(scene.store))
        sender = WebhookSender("https://example.org/hook", ["s" * 32])
        dispatcher = Dispatcher(store, [Channel("bad", sender), Channel("good", sender)])
        try:
            await dispatcher.serve(store)
        finally:
            await dispatcher.close()
        assert await scene.store.read_cursor("good") is not None


@in_asyncio
async def test_one_event_stops_no_other_of_its_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Dispatcher._made  # pyright: ignore[reportPrivateUsage]

    async def failing(self: Dispatcher, line: Any, event: AuditEvent, seq: int) -> list[NewDelivery]:
        if event.question_id == "bad":
            raise ValueError("one of its fields is damaged")
        return await made(self, line, event, seq)

    monkeypatch.setattr(Dispatcher, "_made", failing)
    async with memory_scene(tmp_path) as scene:
        sender = WebhookSender("https://example.org/hook", ["s" * 32])
        dispatcher = Dispatcher(scene.store, [Channel("hook", sender, begin="open")])
        for id in ("bad", "good"):
            await scene.store.create_promise(replace(question("r", id=id), run_id=None, n=None))
        await seal_events(scene.store)
        try:
            await dispatcher.serve(scene.store)
        finally:
            await dispatcher.close()
        listed = (await scene.store.list_deliveries(DeliveryFilter())).items
        assert [each.question_id for each in listed] == ["good"]


@in_asyncio
async def test_timers_that_fail_stop_no_other_job_and_are_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.engine.timers.timers.LATE_SECONDS", 0.0)
    async with memory_scene(tmp_path) as scene:

        class Failing(Poisoned):
            async def due(self, limit: int = 1000) -> float | None:
                raise StoreUnavailable("here", "one of its rows is damaged")

            async def due_schedules(self, limit: int) -> tuple[Sequence[Due], float | None]:
                return await self._inner.due_schedules(limit)

        store = cast("Store", Failing(scene.store))
        done = asyncio.Event()

        async def other(_: Store) -> None:
            done.set()

        await scene.store.put_schedule(NEW)
        scene.clock.advance(61)
        service = TimerService(store, look_seconds=0.01, periodic_jobs=[other])
        timers = asyncio.create_task(service.run())
        async with asyncio.timeout(30):
            await done.wait()
        assert len(await scene.listed()) == 1
        await until(lambda: "damaged" in (service.trouble or ""))
        timers.cancel()
        await asyncio.wait([timers])


@pytest.mark.long
def test_an_old_schedule_with_long_names_stops_no_other_on_postgres(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stored by an earlier version; its runs fit into no index."""

    async def play() -> None:
        async with postgres_scene(tmp_path) as scene:
            evil = scene.within("evil")
            long = "".join(random.Random(3).choices(string.ascii_letters + string.digits, k=5_000))
            with monkeypatch.context() as earlier:
                earlier.setattr("signoff.stores.postgres.store.check_arguments", _unchecked)
                await evil.store.put_schedule(replace(NEW, workflow=long, next_at=1_000_001.0))
            for checks in (True, False):
                await scene.within(f"acme-{checks}").store.put_schedule(
                    replace(NEW, next_at=scene.clock.now() + 1)
                )
                scene.clock.advance(61)
                if not checks:
                    monkeypatch.setattr("signoff.stores.postgres.rows.check_run", _unchecked)
                assert await fire_due(scene.store) is None
                assert await evil.listed() == []
                assert len(await scene.within(f"acme-{checks}").listed()) == 1

    asyncio.run(play())
