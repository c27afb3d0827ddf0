"""The machine's clock jumps, or the machine sleeps, while processes have an SQLite file open."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from signoff import AsyncClient, Context
from signoff.observability import events
from signoff.observability.events import ClockJumped
from signoff.records import NewRun, NewSchedule, RunState
from signoff.runtime import clock
from signoff.stores.contract.leases import Write
from signoff.stores.sqlite import clock as sqlite_clock
from signoff.stores.sqlite.store import SqliteStore
from tests.shared import leave_all
from tests.support import in_asyncio, new_app

HOUR = 3600.0
START = 1_800_000_000.0


@dataclass
class Machine:
    """A machine whose clocks a test owns."""

    wall: float = START
    up: float = 5000.0
    slept: float = 0.0
    boot: str = "first"

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def sleeps(self, seconds: float) -> None:
        self.passes(seconds)
        self.slept += seconds

    def reboots(self, *, seconds: float, wall: float | None = None) -> None:
        self.wall = self.wall + seconds if wall is None else wall
        self.up, self.slept, self.boot = 20.0, 0.0, self.boot + "+"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    leave_all()
    made = Machine()
    for module in (clock, sqlite_clock):
        monkeypatch.setattr(module, "wall", lambda: made.wall)
        monkeypatch.setattr(module, "since_boot", lambda: made.up)
        monkeypatch.setattr(module, "awake", lambda: made.up - made.slept)
    monkeypatch.setattr(sqlite_clock, "boot", lambda: made.boot)
    return made


def store_in(folder: Path) -> SqliteStore:
    return SqliteStore(folder / "signoff.db")


def new_run(id: str = "r") -> NewRun:
    return NewRun(id, "refund", "default", "{}")


async def _epoch(store: SqliteStore) -> int:
    return (await store.get_run("r")).epoch


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 400 * 24 * HOUR])
@pytest.mark.parametrize("starts_after", [False, True], ids=["same process", "process started after it"])
@in_asyncio
async def test_a_jump_takes_no_lease_and_makes_none_last(
    tmp_path: Path, machine: Machine, jump: float, *, starts_after: bool
) -> None:
    mine = store_in(tmp_path)
    await mine.open()
    await mine.create_run(new_run())
    await mine.claim("w1", "default", ["refund"], 1)
    machine.passes(1.0)
    machine.wall += jump
    other = store_in(tmp_path) if starts_after else mine
    await other.open()
    for _ in range(8):
        await other.due()
        assert not await other.claim("w2", "default", ["refund"], 1)
        machine.passes(1.0)
    assert (await mine.get_run("r")).state is RunState.RUNNING
    machine.passes(2.0)
    await other.due()
    [claim] = await other.claim("w2", "default", ["refund"], 1)
    assert claim.run.epoch == 2
    await other.close()
    await mine.close()


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("starts_after", [False, True], ids=["same process", "process started after it"])
@in_asyncio
async def test_a_timer_waits_for_as_long_as_it_was_set(
    tmp_path: Path, machine: Machine, jump: float, *, starts_after: bool
) -> None:
    mine = store_in(tmp_path)
    await mine.open()
    await mine.create_run(new_run())
    [claim] = await mine.claim("w1", "default", ["refund"], 1)
    assert await mine.pause(Write("r", claim.run.epoch), wakes=0, wake_at=mine.clock.now() + 30.0)
    machine.wall += jump
    other = store_in(tmp_path) if starts_after else mine
    await other.open()
    for passed in range(40):
        await other.due()
        state = (await other.get_run("r")).state
        assert state is (RunState.PAUSED if passed < 30 else RunState.READY), passed
        machine.passes(1.0)
    await other.close()
    await mine.close()


@in_asyncio
async def test_a_machine_that_sleeps_loses_no_lease_and_serves_what_became_due(
    tmp_path: Path, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_in(tmp_path)
    await store.open()
    for id in ("held", "timer"):
        await store.create_run(new_run(id))
    claims = {each.run.id: each.run for each in await store.claim("w", "default", ["refund"], 2)}
    await store.pause(Write("timer", claims["timer"].epoch), wakes=0, wake_at=store.clock.now() + 60.0)
    await store.due()
    machine.sleeps(8 * HOUR)
    await store.due()
    assert (await store.get_run("held")).state is RunState.RUNNING
    assert (await store.get_run("timer")).state is RunState.READY
    assert store.clock.now() == pytest.approx(machine.wall)
    assert any("suspended for 28800.0 s" in message for message in caplog.messages)
    await store.close()


@in_asyncio
async def test_jumps_are_logged_with_their_size_and_counted(
    tmp_path: Path, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[ClockJumped] = []
    end = events.subscribe(lambda event: heard.append(event) if isinstance(event, ClockJumped) else None)
    store = store_in(tmp_path)
    await store.open()
    for step in (0.3, HOUR, -0.4, -2 * HOUR):
        machine.wall += step
        for _ in range(2):
            await store.due()
            machine.passes(1.0)
    end()
    assert [(each.store, round(each.seconds)) for each in heard] == [("sqlite", 3600), ("sqlite", -7200)]
    assert [message for message in caplog.messages if "set forward by 3600.0 s" in message]
    assert [message for message in caplog.messages if "set back by 7200.0 s" in message]
    await store.close()


@in_asyncio
async def test_a_clock_that_stays_ahead_is_followed_by_all_processes(
    tmp_path: Path, machine: Machine
) -> None:
    """As after a virtual machine was suspended: its clocks stood still, and the time has passed."""
    stores = [store_in(tmp_path) for _ in range(3)]
    for store in stores:
        await store.open()
    machine.wall += HOUR
    for _ in range(59):
        await stores[0].due()
        machine.passes(1.0)
        assert stores[0].clock.now() == pytest.approx(machine.wall - HOUR)
    for _ in range(3):
        machine.passes(1.0)
        await stores[0].due()
    async with asyncio.timeout(60):
        for store in stores:
            while store.clock.now() != pytest.approx(machine.wall):
                await asyncio.sleep(0.01)
    for store in stores:
        await store.close()


@in_asyncio
async def test_a_clock_that_stays_behind_is_followed_slowly_and_never_backwards(
    tmp_path: Path, machine: Machine
) -> None:
    store = store_in(tmp_path)
    await store.open()
    machine.wall -= 60.0
    last = store.clock.now()
    for _ in range(61 + 12 * 60 + 2):
        machine.passes(1.0)
        await store.due()
        now = store.clock.now()
        assert 11 / 12 - 1e-6 <= now - last <= 1.0 + 1e-6
        last = now
    assert last == pytest.approx(machine.wall, abs=1.0)
    await store.close()


@in_asyncio
async def test_a_clock_that_comes_back_within_a_minute_is_not_followed(
    tmp_path: Path, machine: Machine
) -> None:
    store = store_in(tmp_path)
    await store.open()
    machine.wall += HOUR
    for _ in range(30):
        machine.passes(1.0)
        await store.due()
    machine.wall -= HOUR
    for _ in range(100):
        machine.passes(1.0)
        await store.due()
    assert store.clock.now() == pytest.approx(machine.wall)
    await store.close()


@pytest.mark.parametrize("wall", [None, START - 30 * 24 * HOUR, START + 30 * 24 * HOUR])
@in_asyncio
async def test_leases_from_before_a_boot_end_soon_whatever_the_clock_says(
    tmp_path: Path, machine: Machine, wall: float | None
) -> None:
    store = store_in(tmp_path)
    await store.open()
    await store.create_run(new_run())
    await store.claim("w1", "default", ["refund"], 1)
    await store.close()
    machine.reboots(seconds=30.0, wall=wall)
    again = store_in(tmp_path)
    await again.open()
    assert again.clock.now() == pytest.approx(machine.wall)
    machine.passes(10.5)
    await again.due()
    [claim] = await again.claim("w2", "default", ["refund"], 1)
    assert claim.run.epoch == 2
    await again.close()


@pytest.mark.parametrize("jump", [2 * HOUR, -2 * HOUR, 30 * HOUR, -30 * HOUR])
@in_asyncio
async def test_each_time_of_a_schedule_fires_once_through_a_reverted_jump(
    tmp_path: Path, machine: Machine, jump: float
) -> None:
    from signoff.engine.timers import cron
    from signoff.engine.timers.schedules import fire_due

    store = store_in(tmp_path)
    await store.open()
    first = cron.next_time("0 * * * *", "UTC", store.clock.now())
    await store.put_schedule(
        NewSchedule("hourly", "report", "default", "{}", cron="0 * * * *", timezone="UTC", next_at=first)
    )
    begin, hours = machine.up, 100

    def at(minute: int) -> None:
        machine.up = begin + minute * 60.0
        set_by = jump if 600 <= minute < 1200 or minute >= 3000 else 0.0
        machine.wall = START + minute * 60.0 + set_by

    for minute in range(0, hours * 60, 10):
        at(minute)
        await store.due()
        await fire_due(store)
    runs = await _run_ids(store)
    assert len(runs) == len(set(runs))
    whole = [cron.local_text(START + hour * HOUR, "UTC") for hour in range(1, hours)]
    fired = {id.removeprefix("hourly:") for id in runs}
    first_jump = [text for text in whole if text < cron.local_text(START + 9 * HOUR, "UTC")]
    assert fired >= set(first_jump)
    if jump < 0:
        assert len(fired) >= hours - 1 - 30 - int(-jump / HOUR)
    await store.close()


async def _run_ids(store: SqliteStore) -> list[str]:
    from signoff.records.paging import RunFilter

    found: list[str] = []
    after: str | None = None
    while True:
        page = await store.list_runs(RunFilter(), after=after, limit=100)
        found += [run.id for run in page.items]
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@in_asyncio
async def test_a_live_step_runs_once_and_a_sleep_ends_though_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """With the real clocks, but for the machine's."""
    real, off, ran = time.time, [0.0], list[str]()
    monkeypatch.setattr(time, "time", lambda: real() + off[0])
    apps = [new_app(tmp_path) for _ in range(2)]
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def step() -> str:
        ran.append("step")
        begun.set()
        await goes_on.wait()
        return "done"

    async def flow(ctx: Context) -> str:
        await ctx.sleep(0.2)
        return await ctx.step("step", step)

    for app in apps:
        app.workflow(flow)
    async with AsyncClient(apps[0]) as client, apps[0].worker(), apps[1].worker():
        sleeping = await client.start(flow, id="a")
        off[0] = jump
        async with asyncio.timeout(30):
            await begun.wait()
        off[0] = 0.0
        await asyncio.sleep(1.5)  # for both workers to look for lost leases
        off[0] = jump
        await asyncio.sleep(1.5)
        goes_on.set()
        assert await sleeping.result(30) == "done"
    assert ran == ["step"]
    for app in apps:
        await app.store.close()
