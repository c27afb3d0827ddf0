"""Schedules: firing times, catch-up, and that each time fires once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from signoff import AsyncClient, Context, Signoff
from signoff.engine.timers import cron
from signoff.engine.timers.schedules import fire_due
from signoff.errors import InvalidValue, NotFound
from signoff.records import NewSchedule
from signoff.testing import VirtualClock
from tests.support import in_asyncio, new_app, opened, running, until

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3600.0


def at(text: str) -> float:
    """A moment of Berlin, or of the zone it names."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=BERLIN)).timestamp()


def times(expression: str, after: str, count: int) -> list[str]:
    """The next times of an expression in Berlin."""
    found: list[str] = []
    time = at(after)
    for _ in range(count):
        time = cron.next_time(expression, "Europe/Berlin", time)
        found.append(cron.local_text(time, "Europe/Berlin"))
    return found


# Times


def test_a_time_of_day_is_that_of_its_zone_in_summer_and_winter() -> None:
    assert times("0 9 * * *", "2026-03-28T10:00", 2) == ["2026-03-29T09:00+02:00", "2026-03-30T09:00+02:00"]
    assert times("0 9 * * *", "2026-10-23T10:00", 2) == ["2026-10-24T09:00+02:00", "2026-10-25T09:00+01:00"]


def test_a_time_skipped_by_the_clock_change_fires_right_after_it() -> None:
    """On 29 March 2026 in Berlin 02:00 becomes 03:00."""
    assert times("30 2 * * *", "2026-03-28T03:00", 2) == ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]


def test_a_time_that_comes_twice_fires_once() -> None:
    """On 25 October 2026 in Berlin 03:00 becomes 02:00 again."""
    assert times("30 2 * * *", "2026-10-24T03:00", 2) == ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]


def test_what_fires_every_hour_fires_every_hour_whatever_the_clocks_do() -> None:
    spring = times("0 * * * *", "2026-03-29T00:30", 3)
    assert spring == ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00", "2026-03-29T04:00+02:00"]
    autumn = times("0 * * * *", "2026-10-25T01:30", 3)
    assert autumn == ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T03:00+01:00"]


@pytest.mark.parametrize(
    "expression", ["", "* * * *", "0 0 9 * * *", "61 * * * *", "0 9 30 2 *", "daily", "x * * * *"]
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidValue, match="cron"):
        cron.check_cron(expression, "UTC")


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "..", "/etc/passwd", "Europe"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidValue, match="timezone"):
        cron.check_cron("0 9 * * *", zone)


def test_the_latest_times_are_found_without_counting_all() -> None:
    first, until_at = at("2020-01-01T00:00"), at("2026-01-01T00:00:30")
    found = cron.latest_times("* * * * *", "Europe/Berlin", first, until_at, 100)
    assert found == [until_at - 30 - 60 * k for k in reversed(range(100))]
    assert cron.latest_times(
        "0 9 * * *", "UTC", at("2026-01-01T09:00+00:00"), at("2026-01-03T10:00+00:00"), 100
    ) == [at(f"2026-01-0{day}T09:00+00:00") for day in (1, 2, 3)]
    assert cron.latest_times("* * * * *", "UTC", 60.0, 60.0, 1) == [60.0]


# Firing


def app_with_report(folder: Path, clock: VirtualClock) -> Signoff:
    app = new_app(folder, clock=clock)

    @app.workflow(concurrency=1)
    async def report(ctx: Context, what: str) -> str:
        return what

    _ = report
    return app


async def ids(client: AsyncClient) -> list[str]:
    return sorted(run.id for run in (await client.list()).items)


@in_asyncio
async def test_a_schedule_starts_a_run_at_each_of_its_times(tmp_path: Path) -> None:
    clock = VirtualClock(at("2026-03-27T12:00"))
    app = app_with_report(tmp_path, clock)
    async with running(app) as client, app.worker():
        schedule = await client.schedules.put(
            "nightly", "report", "all", cron="0 9 * * *", timezone="Europe/Berlin", priority=4
        )
        assert schedule.next_at == at("2026-03-28T09:00")
        for day, text in ((28, "nightly:2026-03-28T09:00+01:00"), (29, "nightly:2026-03-29T09:00+02:00")):
            clock.advance(at(f"2026-03-{day}T09:00") - clock.now())

            async def started(run_id: str = text) -> bool:
                return run_id in await ids(client)

            await until(app, started)
            assert await (await client.get(text)).result() == "all"
        run = await client.backend.get_run(text)
        assert (run.priority, run.concurrency_key, run.concurrency_limit) == (4, "", 1)
        assert len(await ids(client)) == 2
        assert (await client.schedules.get("nightly")).last_run_id == text


MISSED = {
    "latest": ["s:2026-01-03T09:00+00:00"],
    "all": ["s:2026-01-01T09:00+00:00", "s:2026-01-02T09:00+00:00", "s:2026-01-03T09:00+00:00"],
    "skip": [],
}


@pytest.mark.parametrize("policy", MISSED)
@in_asyncio
async def test_times_missed_while_everything_was_down_follow_the_policy(tmp_path: Path, policy: str) -> None:
    clock = VirtualClock(at("2026-01-01T00:00+00:00"))
    app = app_with_report(tmp_path, clock)
    async with opened(app) as client:
        await client.schedules.put("s", "report", "x", cron="0 9 * * *", catch_up=policy)
        clock.advance(60 * HOUR)  # the 3rd, noon
        assert await fire_due(app.store) == at("2026-01-04T09:00+00:00")
        assert await ids(client) == MISSED[policy]
        clock.advance(21 * HOUR + 30)
        await fire_due(app.store)
        assert await ids(client) == [*MISSED[policy], "s:2026-01-04T09:00+00:00"], (
            "on time, half a minute late"
        )


@in_asyncio
async def test_no_more_than_a_hundred_times_are_made_up_for(tmp_path: Path) -> None:
    clock = VirtualClock(at("2026-01-01T00:00+00:00"))
    app = app_with_report(tmp_path, clock)
    async with opened(app) as client:
        await client.schedules.put("s", "report", "x", cron="* * * * *", catch_up="all")
        clock.advance(1000 * HOUR)
        await fire_due(app.store)
        assert len((await client.list(limit=1000)).items) == 100


@in_asyncio
async def test_a_resumed_schedule_makes_up_for_nothing(tmp_path: Path) -> None:
    clock = VirtualClock(at("2026-01-01T00:00+00:00"))
    app = app_with_report(tmp_path, clock)
    async with opened(app) as client:
        await client.schedules.put("s", "report", "x", cron="0 9 * * *", catch_up="all")
        assert (await client.schedules.pause("s")).is_paused
        clock.advance(60 * HOUR)
        assert await fire_due(app.store) is None
        assert (await client.schedules.resume("s")).next_at == at("2026-01-04T09:00+00:00")
        await fire_due(app.store)
        assert await ids(client) == []
        await client.schedules.delete("s")
        with pytest.raises(NotFound):
            await client.schedules.get("s")


@in_asyncio
async def test_a_schedule_with_a_locally_unknown_zone_is_left_to_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(at("2026-01-01T00:00+00:00"))
    app = app_with_report(tmp_path, clock)
    async with opened(app) as client:
        for name, zone in (("a", "Mars/Base"), ("b", "UTC")):
            new = NewSchedule(
                name, "report", "default", '{"args": ["x"]}', "0 9 * * *", zone, next_at=clock.now() + HOUR
            )
            await app.store.put_schedule(new)
        clock.advance(24 * HOUR)
        assert await fire_due(app.store) is None
        assert await ids(client) == ["b:2026-01-01T09:00+00:00"]
    assert "Mars/Base" in caplog.text


def test_schedules_of_blocking_code(tmp_path: Path) -> None:
    app = app_with_report(tmp_path, VirtualClock(at("2026-01-01T00:00+00:00")))
    try:
        schedule = app.schedule("s", "report", what="x", cron="0 9 * * *", timezone="Europe/Berlin")
        assert app.schedules.get("s") == schedule
        assert [each.id for each in app.schedules.list().items] == ["s"]
        assert app.schedules.pause("s").is_paused
        assert not app.schedules.resume("s").is_paused
        app.schedules.delete("s")
        with pytest.raises(InvalidValue, match="catch_up"):
            app.schedule("s", "report", "x", cron="0 9 * * *", catch_up="sometimes")
    finally:
        app.close()
