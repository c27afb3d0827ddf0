"""A periodic job that never returns stops no other job, is shown, and is called again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from signoff.doctor.remote import Server as Remote
from signoff.doctor.remote import set_aside
from signoff.engine.timers import timers
from signoff.engine.timers.timers import PeriodicJob, TimerService
from signoff.records import NewSchedule
from signoff.stores.contract.store import Store
from tests.server.conftest import app_in, serving
from tests.stores.scene import GROUP, WORKFLOW, Scene, memory_scene
from tests.support import comes, in_asyncio

NEW = NewSchedule("s", WORKFLOW, GROUP, '{"args": []}', "* * * * *", "UTC", next_at=1_000_001.0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "PATIENCE_SECONDS", 0.02)
    monkeypatch.setattr(timers, "LATE_SECONDS", 0.2)


class Hung:
    """A store one of whose operations never returns."""

    def __init__(self, inner: Store, operation: str) -> None:
        self._inner = inner
        self._operation = operation

    def __getattr__(self, name: str) -> Any:
        return _never if name == self._operation else getattr(self._inner, name)


async def _never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


class Jobs:
    """A job that never returns, and one that counts its calls."""

    def __init__(self) -> None:
        self.begun = self.done = 0

    async def hang(self, _: Store) -> None:
        self.begun += 1
        await _never()

    async def count(self, _: Store) -> None:
        self.done += 1


@asynccontextmanager
async def _serving(store: Store, periodic_jobs: Sequence[PeriodicJob]) -> AsyncGenerator[TimerService]:
    service = TimerService(store, look_seconds=0.01, periodic_jobs=periodic_jobs)
    running = asyncio.create_task(service.run())
    try:
        yield service
    finally:
        running.cancel()
        await asyncio.wait([running])


async def _listed(scene: Scene) -> bool:
    return bool(await scene.listed())


@in_asyncio
async def test_a_job_that_never_returns_stops_no_other_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Jobs()
    async with memory_scene(tmp_path) as scene, _serving(scene.store, [jobs.hang, jobs.count]) as service:
        await scene.store.put_schedule(NEW)
        scene.clock.advance(61)
        await comes(lambda: _listed(scene))

        async def is_logged() -> bool:
            return jobs.done > 20 and "Jobs.hang has not returned" in caplog.text

        await comes(is_logged)
        assert service.trouble is None
        assert service.running_seconds["Jobs.hang"] > 0.2
        assert timers.running_seconds()["Jobs.hang"] > 0.2
        assert jobs.begun == 1
        assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 1


@pytest.mark.parametrize("operation", ["due", "due_schedules"])
@in_asyncio
async def test_deadlines_that_hang_stop_no_other_job_and_are_not_ready(
    tmp_path: Path, operation: str
) -> None:
    jobs = Jobs()
    async with memory_scene(tmp_path) as scene:
        store = cast("Store", Hung(scene.store, operation))
        async with _serving(store, [jobs.count]) as service:

            async def has_trouble() -> bool:
                return jobs.done > 20 and "has not returned" in (service.trouble or "")

            await comes(has_trouble)


@in_asyncio
async def test_a_job_that_hangs_for_long_is_cancelled_and_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "HUNG_SECONDS", 0.3)
    jobs = Jobs()
    async with memory_scene(tmp_path) as scene, _serving(scene.store, [jobs.hang]):

        async def is_begun_again() -> bool:
            return jobs.begun > 2

        await comes(is_begun_again)


@in_asyncio
async def test_metrics_and_doctor_show_a_job_that_does_not_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.doctor.remote.LATE_SECONDS", 0.2)
    jobs = Jobs()
    monkeypatch.setattr("signoff.server.app.PERIODIC_JOBS", (jobs.hang,))
    async with serving(app_in(tmp_path)) as server:
        await asyncio.sleep(0.5)

        def verdicts() -> list[str]:
            with httpx.Client(base_url=server.url, trust_env=False) as http:
                assert http.get("/ready").is_success
                return [each.message for each in set_aside(Remote(http, server.url, None, "default"))]

        assert any("'Jobs.hang' has not returned" in each for each in await asyncio.to_thread(verdicts))
