"""A row that the database silently leaves unchanged is set aside: no periodic job spins on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from signoff.engine.timers.retention import Retention
from signoff.engine.timers.schedules import fire_due
from signoff.engine.timers.schedules import new_failed_items as new_schedules_aside
from signoff.errors import StoreUnavailable
from signoff.people.audit.sealing import Sealing
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.notices import Notice
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.deadlines import new_failed_items, serve_questions
from signoff.records import Amendment, AuditKind, RunState
from signoff.records.deliveries import DeliveryState
from signoff.records.paging import DeliveryFilter
from signoff.stores.contract.store import Store
from signoff.stores.contract.workers import FORGET_SECONDS
from signoff.stores.postgres.store import PostgresStore
from tests.attacks.bad_jobs import NEW, ask, record
from tests.attacks.bad_timers import ITEMS, advance, failing
from tests.attacks.damage import DATABASES, damaged
from tests.stores.scene import Scene
from tests.support import in_asyncio

MOST_CALLS = 400
"""Calls of a store while a job has nothing but one bad row to do; a job that makes no pause goes on and on."""


class Spinning(BaseException):
    """A job calls its store again and again; no ``except Exception`` hides it."""


class Counted:
    """A store that counts its calls, over all its namespaces, and stops a job that makes too many."""

    def __init__(self, store: Store, calls: list[str] | None = None) -> None:
        self._store = store
        self.calls: list[str] = [] if calls is None else calls

    def within(self, namespace: str) -> Counted:
        return Counted(self._store.within(namespace), self.calls)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) > MOST_CALLS:
                raise Spinning(name)
            return found(*args, **kwargs)

        return call


class Collecting:
    """A sender to which everything arrives."""

    is_shared = is_record = True
    is_mailbox = False

    def address_of(self, assignee: str) -> str | None:
        return assignee

    async def send(self, notice: Notice) -> None:
        pass

    async def close(self) -> None:
        pass


Turn = Callable[[], Awaitable[float | None]]


@dataclass(frozen=True)
class PeriodicJob:
    """A periodic job.

    Attributes:
        make: Makes an item of a namespace that is due soon.
        turn: Returns what does the job once, on a store.
        is_done: Whether the item of a namespace is done.
        table: Whose rows are left as they were.
        on: When.
        job: Its name in the list of items that are set aside.
    """

    make: Callable[[Scene], Awaitable[object]]
    turn: Callable[[Any], Turn]
    is_done: Callable[[Scene], Awaitable[bool]]
    table: str
    job: str
    on: str = "UPDATE"


def _schedules(store: Any) -> Turn:
    aside = new_schedules_aside()
    return lambda: fire_due(store, aside)


def _questions(store: Any) -> Turn:
    aside = new_failed_items()
    return lambda: serve_questions(store, aside)


def _sealing(store: Any) -> Turn:
    sealing = Sealing()
    return lambda: sealing.seal(store)


def _outbox(store: Any) -> Turn:
    """Return what seals events, and then dispatches those of both namespaces."""
    sealing = Sealing()
    dispatchers = [
        Dispatcher(
            store.within(name),
            [Channel("mail", Collecting(), frozenset({AuditKind.COMMENTED}), to=("user:ana",))],
        )
        for name in ("evil", "zoo")
    ]

    async def turn() -> float | None:
        await sealing.seal(store)
        times = [await each.serve(store) for each in dispatchers]
        while any(each.is_sending for each in dispatchers):
            await asyncio.sleep(0)
        return min((time for time in times if time is not None), default=None)

    return turn


def _retention(store: Any) -> Turn:
    prunings = [Retention(store.within(name), 1.0) for name in ("evil", "zoo")]

    async def turn() -> None:
        for each in prunings:
            await each.delete()

    return turn


async def _has_fired(scene: Scene) -> bool:
    return bool(await scene.listed())


async def _was_asked(scene: Scene) -> bool:
    return (await scene.store.get_promise("q")).act_at != 1_000_001.0


async def _is_sealed(scene: Scene) -> bool:
    return await scene.store.last_seal() is not None


async def _tell(scene: Scene) -> None:
    await scene.store.expand("mail", None, -1, [])
    await record(scene, "e")


async def _is_delivered(scene: Scene) -> bool:
    found = (await scene.store.list_deliveries(DeliveryFilter())).items
    return [each.state for each in found] == [DeliveryState.DELIVERED]


async def _has_deliveries(scene: Scene) -> bool:
    return bool((await scene.store.list_deliveries(DeliveryFilter())).items)


async def _complete(scene: Scene) -> None:
    await scene.complete(await scene.run())


async def _is_gone(scene: Scene) -> bool:
    return await scene.listed() == []


PERIODIC_JOBS: dict[str, PeriodicJob] = {
    name: PeriodicJob(
        make,
        lambda store: store.due,
        is_done,
        table,
        name.split()[0],
        "DELETE" if table == "workers" else "UPDATE",
    )
    for name, (make, is_done, table) in ITEMS.items()
} | {
    "schedule": PeriodicJob(
        lambda scene: scene.store.put_schedule(NEW), _schedules, _has_fired, "schedules", "schedule"
    ),
    "question": PeriodicJob(ask, _questions, _was_asked, "promises", "question"),
    "seal": PeriodicJob(
        lambda scene: record(scene, "e"), _sealing, _is_sealed, "seals", "audit event", "INSERT"
    ),
    "event that waits": PeriodicJob(
        lambda scene: record(scene, "e"), _sealing, _is_sealed, "unsealed", "audit event", "DELETE"
    ),
    "channel": PeriodicJob(_tell, _outbox, _has_deliveries, "channels", "channel"),
    "delivery": PeriodicJob(_tell, _outbox, _is_delivered, "deliveries", "channel"),
    "ended run": PeriodicJob(_complete, _retention, _is_gone, "runs", "ended run", "DELETE"),
}


@pytest.mark.parametrize("job", PERIODIC_JOBS)
@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_row_that_is_left_as_it_was_is_set_aside_and_the_others_go_on(
    tmp_path: Path, database: str, job: str
) -> None:
    each = PERIODIC_JOBS[job]
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        evil, zoo = scene.within("evil"), scene.within("zoo")
        await each.make(evil)
        await each.make(zoo)
        evils = "namespace = 'evil'"
        if each.table == "unsealed" and not damage.is_postgres:
            evils = "number IN (SELECT number FROM audit WHERE namespace = 'evil')"
        damage.ignore(each.table, on=each.on, row="OLD" if each.on == "DELETE" else "NEW", when=evils)
        advance(scene, 9.0 if job == "rate" else 2 * 86_400 if job == "ended run" else FORGET_SECONDS + 10)
        store = Counted(scene.store)
        turn = each.turn(store)
        await _settle(scene, turn)
        assert await each.is_done(zoo)
        assert not await each.is_done(evil)
        assert list(failing(damage)) == [each.job]

        # It is left alone until its back-off is over.
        tried = len(store.calls)
        for _ in range(20):
            await _settle(scene, turn)
        assert len(store.calls) - tried < 20 * 12, "it is not tried before its time"
        damage.allow(each.table)
        for _ in range(2):
            advance(scene, 700.0)
            await _settle(scene, turn)
        assert await each.is_done(evil)
        assert failing(damage) == {}


async def _settle(scene: Scene, turn: Turn) -> None:
    """Do a job as timers do, until it has nothing to do now."""
    for _ in range(20):
        next_at = await turn()
        if next_at is None or next_at > scene.clock.now():
            return
    raise Spinning("it is due at once, again and again")


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_a_run_that_cannot_be_blocked_does_not_loop_claims(tmp_path: Path, database: str) -> None:
    """A claim passes over runs whose slots are taken, and looks again for those behind them."""
    async with damaged(database, tmp_path) as damage:
        scene = damage.scene
        evil, zoo = scene.within("evil"), scene.within("zoo")
        for id in ("a", "b"):
            await evil.start(id, concurrency_key="k", concurrency_limit=1)
        damage.run("UPDATE runs SET blocked = 0", "UPDATE signoff.runs SET blocked = false")
        assert [claim.run.id for claim in await evil.claim(limit=1)] == ["a"]
        await evil.start("c")
        await zoo.start("c")
        damage.ignore("runs", when="blocked" if damage.is_postgres else "blocked = 1")
        async with asyncio.timeout(30):
            assert [claim.run.id for claim in await evil.claim()] == ["c"]
            assert [claim.run.id for claim in await zoo.claim()] == ["c"]
            assert await evil.claim() == []


@pytest.mark.parametrize("database", DATABASES)
@in_asyncio
async def test_an_answer_to_a_question_that_stays_as_it_was_is_an_error(
    tmp_path: Path, database: str
) -> None:
    async with damaged(database, tmp_path) as damage:
        evil = damage.scene.within("evil")
        await ask(evil)
        damage.ignore("promises")
        amendment = Amendment(0, None, (), None)
        with pytest.raises(StoreUnavailable, match="left its row as it was"):
            await evil.store.amend("q", amendment)


@pytest.mark.parametrize("limit", [1, 1000])
@in_asyncio
async def test_items_that_other_transactions_have_locked_are_left_for_a_while(
    tmp_path: Path, limit: int
) -> None:
    """As by a program that signals runs in a transaction of its own, and keeps it open."""
    async with damaged("postgres", tmp_path) as damage:
        scene = damage.scene
        for number in range(5):
            await scene.paused(f"locked-{number}", wake_at=1_000_008.0)
        await scene.paused("free", wake_at=1_000_009.0)
        advance(scene, 11)
        conninfo = cast("PostgresStore", scene.store).conninfo
        with psycopg.connect(conninfo) as other:
            other.execute("SELECT FROM signoff.runs WHERE id LIKE 'locked-%' FOR UPDATE")
            store = Counted(scene.store)
            await _settle(scene, lambda: store.due(limit))
            assert await scene.state("free") is RunState.READY
            assert failing(damage) == {}
            for _ in range(3):
                advance(scene, 2)
                await _settle(scene, lambda: store.due(limit))
        advance(scene, 2)
        await _settle(scene, lambda: store.due(limit))
        assert await scene.state("locked-4") is RunState.READY
        assert failing(damage) == {}


@in_asyncio
async def test_a_failed_item_that_is_locked_at_its_retry_is_left_for_a_while(
    tmp_path: Path,
) -> None:
    """As where another process tries it at the same time."""
    async with damaged("postgres", tmp_path) as damage:
        scene = damage.scene
        await scene.paused("r", wake_at=1_000_008.0)
        damage.refuse("runs", when="id = 'r'")
        advance(scene, 11)
        await _settle(scene, scene.store.due)
        assert list(failing(damage)) == ["timer"]
        damage.allow("runs")
        advance(scene, 2)
        with psycopg.connect(cast("PostgresStore", scene.store).conninfo) as other:
            other.execute("SELECT FROM signoff.runs FOR UPDATE")
            await _settle(scene, scene.store.due)
        advance(scene, 2)
        await _settle(scene, scene.store.due)
        assert await scene.state("r") is RunState.READY
        assert failing(damage) == {}
