"""``signoff start --session`` and ``signoff sessions``, on a store."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Here


def test_sessions_are_listed_and_shown(here: Here, shop: Path) -> None:
    store = ("--store", "sqlite:///signoff.db")
    for id in ("one", "two"):
        started = here("start", "add", "--arg", "1", "--id", id, "--session", "c-1", *store, cwd=shop)
        assert started.out == f"{id}\n"
    heading, row = here("sessions", "list", cwd=shop).out.splitlines()
    assert heading.split() == ["SESSION", "RUNS", "LAST", "ACTIVE"]
    assert (row.split()[:2], row.split()[-1]) == (["c-1", "2"], "one")
    heading, *rows = here("sessions", "show", "c-1", cwd=shop).out.splitlines()
    assert heading.split() == ["PLACE", "RUN", "WORKFLOW", "STATE", "STARTED"]
    assert " ".join(rows[0].split()[:6]) == "2 two add awaits its turn"
    assert " ".join(rows[1].split()[:5]) == "1 one add ready, active"
    shown = here("sessions", "show", "c-1", "--json", cwd=shop).json
    assert shown["active_run_id"] == "one"
    assert [run["position"] for run in shown["runs"]["items"]] == [2, 1]
    assert "awaits its turn in c-1" in here("runs", cwd=shop).out
    assert "2 of session c-1, awaits its turn" in here("show", "two", cwd=shop).out
    assert here("sessions", "show", "none", cwd=shop).code != 0
