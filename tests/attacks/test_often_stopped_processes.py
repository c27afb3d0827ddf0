"""Workers and servers that are stopped for long or repeatedly, like containers with a CPU limit.

Innocent runs, agents and flows go on: none is taken for a busy loop, and no step runs again.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.website_summary.processes import free_port
from signoff import AsyncClient, Signoff
from signoff.stores.remote.store import RemoteStore
from tests import worker_keys
from tests.attacks import computing_programs as programs
from tests.postgres.databases import fresh_database
from tests.remote.processes import Process, lines
from tests.support import PATIENCE_SECONDS, comes, in_asyncio

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Stops:
    """How processes are stopped, and what the code may compute.

    Attributes:
        times: How often; 0: until all runs have ended.
        stop_seconds: How long each time.
        go_seconds: How long they go on between.
        lease_seconds: The leases of the server's workers.
        busy_seconds: After how long of computing code is taken for a busy loop.
        burn_seconds: How long the code computes.
    """

    times: int
    stop_seconds: float
    go_seconds: float
    lease_seconds: float = 10.0
    busy_seconds: float = 1.0
    burn_seconds: float = 0.8


THROTTLED = Stops(times=0, stop_seconds=0.4, go_seconds=0.1, burn_seconds=0.3)  # longer than may be computed
OFTEN = Stops(times=14, stop_seconds=0.8, go_seconds=0.1)  # for longer than a lease
ONCE = Stops(
    times=1, stop_seconds=12.0, go_seconds=0.0, lease_seconds=30.0, busy_seconds=3.0, burn_seconds=2.0
)
LONG = Stops(
    times=1, stop_seconds=35.0, go_seconds=0.0, lease_seconds=90.0, busy_seconds=5.0, burn_seconds=3.0
)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path or the URL of an empty database."""
    if request.param == "sqlite":
        yield str(tmp_path / "signoff.db")
        return
    with fresh_database() as url:
        yield url


@contextlib.contextmanager
def working(folder: Path, url: str, stops: Stops) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        *(sys.executable, "-m", "tests.attacks.computing_programs"),
        *(url, str(folder / "effects"), str(stops.burn_seconds), str(stops.busy_seconds)),
    ]
    with (folder / "computing.log").open("wb") as log:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"works\n", (folder / "computing.log").read_text()
            yield worker
        finally:
            worker.kill()
            worker.communicate()


async def _approve(client: AsyncClient) -> None:
    while True:
        for question in (await client.questions()).items:
            await client.answer(question.id, True, user_id="ana", request_id=question.id)
        await asyncio.sleep(0.2)


async def _stop(stops: Stops, pids: Sequence[int]) -> None:
    for _ in range(stops.times or 1_000_000):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(stops.stop_seconds)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(stops.go_seconds)


async def _attack(app: Signoff, folder: Path, stops: Stops, pids: Sequence[int]) -> None:
    async with AsyncClient(app) as client:
        handles = [await client.start(name, id=f"{name}-1") for name in programs.NAMES]
        people = asyncio.create_task(_approve(client))

        async def has_begun() -> bool:
            return bool(lines(folder / "effects"))

        await comes(has_begun)
        stopping = asyncio.create_task(_stop(stops, pids))
        try:
            for handle in handles:
                await handle.result(2 * PATIENCE_SECONDS)
        finally:
            for task in (people, stopping):
                task.cancel()
            await asyncio.gather(people, stopping, return_exceptions=True)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("database", "stops", "stopped"),
    [
        pytest.param("sqlite", THROTTLED, "both", id="throttled sqlite"),
        pytest.param("postgres", THROTTLED, "worker", id="throttled postgres"),
        pytest.param("sqlite", OFTEN, "worker", id="often sqlite"),
        pytest.param("postgres", OFTEN, "both", id="often postgres"),
        pytest.param("postgres", OFTEN, "server", id="often server"),
        pytest.param("postgres", ONCE, "worker", id="once postgres"),
        pytest.param("sqlite", ONCE, "server", id="once server"),
        pytest.param("sqlite", LONG, "both", id="long both"),
    ],
    indirect=["database"],
)
@in_asyncio
async def test_stopped_processes_fail_no_run_and_run_no_step_again(
    tmp_path: Path, database: str, stops: Stops, stopped: str
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    app = programs.make_app(RemoteStore(url, key=worker_keys.SECRET), tmp_path / "effects", 0.0)
    with (
        Process(tmp_path, "server", database, port, stops.lease_seconds) as server,
        working(tmp_path, url, stops) as worker,
    ):
        pids = {"worker": [worker.pid], "server": [server.pid], "both": [worker.pid, server.pid]}[stopped]
        try:
            await _attack(app, tmp_path, stops, pids)
        finally:
            await app.store.close()
    executed = collections.Counter(lines(tmp_path / "effects"))
    assert {step: times for step, times in executed.items() if times > 1} == {}
    log = (tmp_path / "computing.log").read_text()
    assert "Traceback" not in log, log
