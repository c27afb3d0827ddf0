"""Runs that end every worker are set aside. Runs beside them are not, nor runs of workers killed from outside."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from signoff import AsyncClient, RunState
from signoff.records import Run
from signoff.records.paging import RunFilter
from signoff.stores.contract.store import Store
from tests.crash.poison import make_app, work
from tests.forks import fork
from tests.halves import sample
from tests.support import in_asyncio

PATIENCE_SECONDS = 120.0


class Supervisor:
    """Keeps two workers alive, as an orchestrator does."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.workers: list[ForkServerProcess] = []
        self.deaths = 0

    async def supervise(self) -> None:
        try:
            while True:
                for worker in [each for each in self.workers if not each.is_alive()]:
                    self.workers.remove(worker)
                    self.deaths += 1
                while len(self.workers) < 2:
                    self.workers.append(await asyncio.to_thread(fork, work, self._database))
                await asyncio.sleep(0.02)
        finally:
            for worker in self.workers:
                worker.kill()
                worker.join()


@asynccontextmanager
async def supervised(folder: Path) -> AsyncIterator[tuple[AsyncClient, Store, Supervisor]]:
    app = make_app(folder / "signoff.db")
    supervisor = Supervisor(folder / "signoff.db")
    try:
        async with AsyncClient(app) as client:
            supervising = asyncio.create_task(supervisor.supervise())
            try:
                yield client, app.store, supervisor
            finally:
                supervising.cancel()
                await asyncio.gather(supervising, return_exceptions=True)
    finally:
        await app.store.close()


async def runs_of(store: Store) -> dict[str, Run]:
    return {run.id: run for run in (await store.list_runs(RunFilter(), limit=500)).items}


async def settle(store: Store, are_done: Callable[[dict[str, Run]], bool]) -> dict[str, Run]:
    """Wait until all is as it should be; returns the runs."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not are_done(runs := await runs_of(store)):
                await asyncio.sleep(0.05)
            return runs
    except TimeoutError:
        said = {
            id: f"{run.state} {run.takeovers} {run.suspended_reason}"
            for id, run in (await runs_of(store)).items()
        }
        raise AssertionError(said) from None


def is_set_aside(run: Run) -> bool:
    return run.state is RunState.PAUSED and run.is_suspended and run.suspended_by is None


def was_hit(run: Run) -> bool:
    """Whether a handler of a signal has raised in code of the run, which looks like an error of its own."""
    return run.state is RunState.FAILED and json.loads(run.error or "{}").get("message") == "out of time"


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "killers",
    sample([("exits",), ("crashes",), ("exits", "alarms", "exits_at_once"), ("alarms_and_raises",)]),
)
@in_asyncio
async def test_only_the_runs_that_end_their_workers_are_set_aside(
    tmp_path: Path, killers: tuple[str, ...]
) -> None:
    async with supervised(tmp_path) as (client, store, supervisor):
        for n in range(30):
            await client.start("innocent", 1.0 if n % 2 else 0.01, id=f"innocent-{n}")
            if n in (7, 14, 21) and n // 7 <= len(killers):
                await client.start(killers[n // 7 - 1], id=killers[n // 7 - 1])

        def are_done(runs: dict[str, Run]) -> bool:
            return all(is_set_aside(run) if id in killers else run.state.is_final for id, run in runs.items())

        runs = await settle(store, are_done)
        innocents = {id: run for id, run in runs.items() if id not in killers and not was_hit(run)}
        assert {id: run.state for id, run in innocents.items()} == dict.fromkeys(
            innocents, RunState.SUCCEEDED
        )
        assert len(innocents) == 30 if killers != ("alarms_and_raises",) else len(innocents) >= 15
        assert supervisor.deaths <= 8 * len(killers)
        later = await client.start("innocent", 0.01, id="later")
        await later.result(PATIENCE_SECONDS)


@pytest.mark.timeout(240)
@in_asyncio
async def test_no_run_is_set_aside_for_workers_killed_from_outside(tmp_path: Path) -> None:
    """The worst moment: as soon as one of the runs of a worker has made progress, with all others begun."""
    kills = 0

    async def held_by(pid: int) -> list[Run]:
        return [run for run in (await runs_of(store)).values() if f":{pid}:" in (run.worker_id or "")]

    async def kill_in_progress() -> None:
        nonlocal kills
        known: dict[int, dict[str, int]] = {}
        while True:
            for worker in list(supervisor.workers):
                seen = known.setdefault(worker.pid or 0, {})
                for run in await held_by(worker.pid or 0):
                    length = len(await store.read_journal(run.id))
                    if length > seen.setdefault(run.id, length) and worker.is_alive():
                        worker.kill()
                        kills += 1
                        break
            await asyncio.sleep(0.01)

    async with supervised(tmp_path) as (client, store, supervisor):
        for n in range(60):
            await client.start("innocent", 0.3, id=f"innocent-{n}")
        killing = asyncio.create_task(kill_in_progress())
        try:
            await settle(store, lambda runs: kills >= 12 or all(run.state.is_final for run in runs.values()))
            assert not killing.done()
        finally:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
        runs = await settle(
            store, lambda runs: all(run.state.is_final or run.is_suspended for run in runs.values())
        )
        assert [id for id, run in runs.items() if run.state is not RunState.SUCCEEDED] == []
        assert kills >= 3
