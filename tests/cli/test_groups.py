"""``signoff groups``, on a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here

NONE_STOPPED = {"suspended": 0, "set_aside": 0}


def test_groups_are_paused_limited_and_listed(here: Here, shop: Path) -> None:
    assert (
        here("start", "add", "--arg", "1", "--group", "gpu", "--store", "sqlite:///signoff.db", cwd=shop).code
        == 0
    )
    assert here("groups", "pause", "gpu", cwd=shop).out == "group gpu is paused\n"
    limited = here(
        "groups", "limit", "gpu", "--max-running", "2", "--rate", "10/min", "--json", cwd=shop
    ).json
    assert limited == {
        "name": "gpu",
        "is_paused": True,
        "max_running": 2,
        "starts_per": {"count": 10, "seconds": 60.0},
        "ready": 1,
        "running": 0,
        "paused": 0,
        **NONE_STOPPED,
    }
    heading, row = here("groups", "list", cwd=shop).out.splitlines()
    assert heading.split() == ["GROUP", "READY", "RUNNING", "PAUSED", "LIMITS"]
    assert " ".join(row.split()) == "gpu 1 0 0 paused, at most 2 running, 10 starts in 1 min"
    assert here("groups", "resume", "gpu", cwd=shop).out == (
        "group gpu is resumed: at most 2 running, 10 starts in 1 min\n"
    )
    assert here("groups", "limit", "gpu", "--none", cwd=shop).out == "group gpu has no limits\n"
    listed = here("groups", "list", "--json", cwd=shop).json
    assert listed == {
        "items": [{"name": "gpu", "is_paused": False, "ready": 1, "running": 0, "paused": 0, **NONE_STOPPED}],
        "next": None,
    }


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [("5/30s", 30.0), ("5/s", 1.0), ("5/h", 3600.0), ("5/2d", 172_800.0), ("5/0.5min", 30.0)],
)
def test_rates_in_several_units(here: Here, shop: Path, rate: str, seconds: float) -> None:
    store = ("--store", "sqlite:///signoff.db")
    here("start", "add", "--arg", "1", *store, cwd=shop)
    limited = here("groups", "limit", "default", "--rate", rate, "--json", cwd=shop).json
    assert limited["starts_per"] == {"count": 5, "seconds": seconds}


@pytest.mark.parametrize(
    "options",
    [(), ("--rate", "10"), ("--rate", "0/s"), ("--max-running", "0"), ("--none", "--max-running", "1")],
)
def test_limits_that_make_no_sense_are_refused(here: Here, shop: Path, options: tuple[str, ...]) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("groups", "limit", "default", *options, cwd=shop).code == 2
