"""``signoff prune``, on a store."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Here


def test_ended_runs_are_pruned(here: Here, shop: Path) -> None:
    store = ("--store", "sqlite:///signoff.db")
    for id in ("a", "b"):
        here("start", "add", "--arg", "1", "--id", id, *store, cwd=shop)
    here("cancel", "a", cwd=shop)
    assert here("prune", "--older-than", "1", cwd=shop).out == "0 runs deleted\n"
    assert here("prune", "--older-than", "0", cwd=shop).out == "1 run deleted\n"
    assert here("prune", "--older-than", "0", "--json", cwd=shop).json == {"deleted": 0}
    assert here("show", "a", cwd=shop).code == 3
    assert here("show", "b", cwd=shop).code == 0
    assert here("prune", cwd=shop).code == 2
