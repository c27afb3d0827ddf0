"""A worker's entry in the register: its Signoff, its Python and its build."""

from __future__ import annotations

import asyncio
import platform

import pytest

import signoff
from signoff import Signoff
from signoff.engine.worker.worker import Worker
from signoff.errors import InvalidValue
from signoff.records import WorkerInfo
from signoff.stores.contract.operations import OPERATIONS
from signoff.testing import MemoryStore
from tests.support import in_asyncio


async def enlisted(**options: str) -> WorkerInfo:
    """What is known of a worker that has begun."""
    app = Signoff(MemoryStore())
    async with app.worker(**options) as worker:
        while not worker.is_ready:
            await asyncio.sleep(0)
        [known] = await app.store.list_workers()
    return known


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGNOFF_BUILD", raising=False)


@in_asyncio
async def test_a_worker_reports_its_versions_and_only_a_given_build() -> None:
    known = await enlisted()
    assert known.signoff_version == signoff.__version__
    assert known.python_version == platform.python_version()
    assert known.build is None


@in_asyncio
async def test_the_build_named_to_a_worker_comes_before_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGNOFF_BUILD", "8f3a9c1")
    assert (await enlisted()).build == "8f3a9c1"
    assert (await enlisted(build="mine")).build == "mine"
    monkeypatch.setenv("SIGNOFF_BUILD", "")
    assert (await enlisted()).build is None


@in_asyncio
async def test_a_worker_whose_build_cannot_be_kept_does_not_begin() -> None:
    app = Signoff(MemoryStore())
    with pytest.raises(InvalidValue, match="build"):
        await Worker(app.store, app.registry, build="x" * 201).run()


def test_remote_workers_and_servers_of_older_versions_work_together() -> None:
    before = {"id": "w", "host": "h", "pid": 7, "process_started_at": 1.5, "group": "default"}
    of_before = OPERATIONS["enlist"].read_arguments({"worker": before})["worker"]
    assert of_before == WorkerInfo("w", "h", 7, 1.5, "default")
    of_later = OPERATIONS["enlist"].read_arguments({"worker": {**before, "build": "8f3", "told_later": 1}})[
        "worker"
    ]
    assert of_later == WorkerInfo("w", "h", 7, 1.5, "default", build="8f3")
