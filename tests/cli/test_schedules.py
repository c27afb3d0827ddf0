"""``signoff schedules``, on a store."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Here


def test_schedules_are_created_listed_paused_resumed_and_deleted(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    options = (
        "--cron",
        "0 9 * * *",
        "--timezone",
        "Europe/Berlin",
        "--catch-up",
        "all",
        "--arg",
        "2",
        "--json",
    )
    created = here("schedules", "create", "nightly", "add", *options, cwd=shop).json
    assert created["arguments"] == {"args": [2], "kwargs": {}}
    assert (created["cron"], created["timezone"], created["catch_up"]) == (
        "0 9 * * *",
        "Europe/Berlin",
        "all",
    )
    heading, row = here("schedules", "list", cwd=shop).out.splitlines()
    assert heading.split() == ["SCHEDULE", "WORKFLOW", "CRON", "ZONE", "NEXT", "LAST", "RUN"]
    assert row.split()[:8] == ["nightly", "add", "0", "9", "*", "*", "*", "Europe/Berlin"]
    assert here("schedules", "pause", "nightly", cwd=shop).out == "schedule nightly is paused\n"
    assert " paused" in here("schedules", "list", cwd=shop).out
    assert here("schedules", "resume", "nightly", cwd=shop).out.startswith("schedule nightly fires in ")
    assert here("schedules", "delete", "nightly", cwd=shop).out == "schedule nightly is deleted\n"
    assert here("schedules", "delete", "nightly", cwd=shop).code == 3
    assert here("schedules", "list", "--json", cwd=shop).json == {"items": [], "next": None}


def test_a_schedule_that_makes_no_sense_is_refused(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    for options in (("--cron", "often"), ("--cron", "0 9 * * *", "--timezone", "Mars"), ()):
        assert here("schedules", "create", "s", "add", *options, cwd=shop).code == 2
