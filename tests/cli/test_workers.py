"""``signoff workers``, on a store with a worker."""

from __future__ import annotations

import platform
from pathlib import Path

import signoff
from signoff.stores.contract.store import Store
from tests.cli.conftest import Here
from tests.cli.diagnoses import on_store, worker


def test_workers_are_listed(here: Here, open_shop: Path) -> None:
    [worker] = here("workers", "--json", cwd=open_shop).json["items"]
    assert (worker["group"], worker["held"]) == ("default", 0)
    assert (worker["signoff_version"], worker["build"]) == (signoff.__version__, "8f3a9c1")
    heading, row = here("workers", cwd=open_shop).out.splitlines()
    assert heading.split() == [
        "WORKER",
        "HOST",
        "PID",
        "GROUP",
        "RUNS",
        "THREADS",
        "SEEN",
        "SIGNOFF",
        "PYTHON",
        "BUILD",
    ]
    assert row.split()[:5] == [worker["id"], worker["host"].split("/")[0], str(worker["pid"]), "default", "0"]
    assert row.split()[-3:] == [signoff.__version__, platform.python_version(), "8f3a9c1"]


def test_of_a_worker_that_did_not_say_what_it_is_of_nothing_is_made_up(here: Here, shop: Path) -> None:
    async def enlist(store: Store) -> None:
        await store.enlist(worker())

    on_store(f"sqlite:///{shop}/signoff.db", enlist)
    assert here("workers", cwd=shop).out.splitlines()[1].split()[-3:] == ["-", "-", "-"]
    [listed] = here("workers", "--json", cwd=shop).json["items"]
    assert not {"signoff_version", "python_version", "build"} & set(listed)


def test_where_no_worker_works_it_says_so(here: Here, shop: Path) -> None:
    here("start", "add", "--arg", "1", "--store", "sqlite:///signoff.db", cwd=shop)
    assert here("workers", cwd=shop).err == "no workers\n"
