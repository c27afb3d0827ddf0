"""``signoff workers``, on a store for which a worker works."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here

pytestmark = pytest.mark.xdist_group("cli_runs")


def test_workers_are_listed(here: Here, open_shop: Path) -> None:
    [worker] = here("workers", "--json", cwd=open_shop).json["items"]
    assert (worker["group"], worker["held"]) == ("default", 0)
    heading, row = here("workers", cwd=open_shop).out.splitlines()
    assert heading.split() == ["WORKER", "HOST", "PID", "GROUP", "RUNS", "SEEN"]
    assert row.split()[:5] == [worker["id"], worker["host"].split("/")[0], str(worker["pid"]), "default", "0"]


def test_where_no_worker_works_it_says_so(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("workers", cwd=shop).err == "no workers\n"
