"""Programs on the newest Python and TypeScript SDKs of Resonate, unmodified, as they run against a Signoff server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from signoff.records.paging import PromiseFilter
from signoff.server.resonate.schedules import ScheduledPromises
from signoff.server.server import Server
from signoff.testing import VirtualClock
from tests.halves import sample
from tests.server.resonate.calling import Database
from tests.server.resonate.sdk_programs import CASES, check_effects, effects_in, place, try_case
from tests.server.resonate.speaker import open_store
from tests.support import comes

SDKS = ("python", "typescript")
LONG = 60
"""The lease of processes that nobody kills: on a busy machine, their heartbeats may be late."""


@pytest.mark.parametrize("sdk", SDKS)
def test_programs_have_the_results_and_effects_that_they_have_anywhere(
    database: Database, tmp_path: Path, sdk: str
) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            program = await here.program(sdk, lease_seconds=LONG)
            async with asyncio.TaskGroup() as cases:
                for id, case in CASES.items():
                    cases.create_task(try_case(here, program, id, case))
            for id, case in CASES.items():
                check_effects(here, id, case)
            await program.stop()

    with database() as url:
        asyncio.run(run(url))


def test_workers_of_both_sdks_call_each_other(database: Database, tmp_path: Path) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            programs = {
                "python": await here.program("python", lease_seconds=LONG),
                "typescript": await here.program("typescript", lease_seconds=LONG),
                "python-2": await here.program("python", "python-2", lease_seconds=LONG),
            }
            way = ["python", "typescript", "python-2", "python", "python-2", "typescript"]
            ways = {f"from-{n}": way[n:] + way[:n] for n in range(3)}
            called = (programs[way[0]].outcome("run", id, "ping", id, way) for id, way in ways.items())
            assert await asyncio.gather(*called) == [("value", way) for way in ways.values()]
            for id, way in ways.items():
                assert here.effects(id) == [f"{id}-{n}" for n in range(1, len(way) + 1)]

    with database() as url:
        asyncio.run(run(url))


@pytest.mark.long
@pytest.mark.parametrize("sdk", SDKS)
def test_a_thousand_calls_at_once_run_once_each(database: Database, tmp_path: Path, sdk: str) -> None:
    async def run(url: str) -> None:
        async with place(tmp_path, url) as here:
            program = await here.program(sdk, lease_seconds=LONG)
            ids = [f"many-{n:03}" for n in range(1000)]
            calls = [program.outcome("rpc" if n % 2 else "run", id, "step", id) for n, id in enumerate(ids)]
            assert await asyncio.gather(*calls) == [("value", id) for id in ids]
            assert here.effects("many") == ids

    with database() as url:
        asyncio.run(run(url))


@pytest.mark.parametrize("sdk", sample(SDKS))
def test_a_schedule_calls_its_function_once_for_each_of_its_times(
    database: Database, tmp_path: Path, sdk: str
) -> None:
    """Two servers create its promises."""
    clock = VirtualClock(time.time())

    async def run(url: str) -> None:
        other = open_store(url, clock=clock)
        async with (
            place(tmp_path, open_store(url, clock=clock)) as here,
            Server(other, port=0, resonate_port=0),
        ):
            program = await here.program(sdk, lease_seconds=LONG)
            assert await program.outcome("schedule", "each-minute", "* * * * *", "step", "tick") == (
                "value",
                None,
            )

            async def ticks(number: int) -> None:
                async def has_ticked() -> bool:
                    return len(here.effects("tick")) >= number

                await comes(has_ticked)

            for number in (1, 2):
                clock.advance(60)
                await ticks(number)
            clock.advance(180)  # as if the server had been down: it catches up
            await ticks(5)
            assert await program.outcome("unschedule", "each-minute") == ("value", None)
            clock.advance(60)
            await ScheduledPromises(here.app.store).create_due()
            created = (await here.app.store.list_promises(PromiseFilter())).items
            ids = {promise.id for promise in created if promise.id.startswith("each-minute-")}
            first = min(int(id.removeprefix("each-minute-")) for id in ids)
            assert ids == {f"each-minute-{first + n * 60_000}" for n in range(5)}
            assert Counter(id for _, id in effects_in(tmp_path)) == Counter(ids)
        await other.close()

    with database() as url:
        asyncio.run(run(url))
