"""Memory of a worker that runs large values."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, Signoff
from tests.attacks.large_value import ROWS
from tests.attacks.measuring import Measured
from tests.support import in_asyncio, pauses

pytestmark = pytest.mark.long

KIB_OF_MIB = 1024


@contextmanager
def worker(store: str) -> Generator[Measured]:
    """A worker in a process of its own, of which is known what memory it takes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "signoff", "worker", "tests.attacks.large_values_program:app"],
        env={**os.environ, "SIGNOFF_STORE": store},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield Measured(process.pid)
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_many_runs_with_large_values_take_little_memory_at_once(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"

    @in_asyncio
    async def play() -> None:
        async with AsyncClient(Signoff(store=store)) as client:
            handles = [await client.start("passing", ROWS) for _ in range(50)]
            with worker(store) as measured:
                for handle in handles:
                    assert len(await handle.result()) == len(ROWS)
                assert measured.highest_kib < 450 * KIB_OF_MIB

    play()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("workflow", ["keeping", "reading", "receiving"])
def test_paused_runs_that_hold_large_values_are_kept_within_a_bound(workflow: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    app = Signoff(store=store)
    arguments = [ROWS] if workflow == "keeping" else []

    @in_asyncio
    async def play() -> None:
        async with AsyncClient(app) as client:
            handles = [await client.start(workflow, *arguments) for _ in range(100)]
            with worker(store) as measured:
                if workflow == "receiving":
                    for handle in handles:
                        await pauses(app, handle.id)
                        await client.signal(handle.id, "rows", ROWS)
                for handle in handles:
                    await pauses(app, handle.id)
                assert measured.highest_kib < 400 * KIB_OF_MIB  # 5 MiB each, and all of them over 550
                for handle in handles:
                    await client.signal(handle.id, "go", None)
                for handle in handles:
                    assert await handle.result() == len(ROWS)

    play()
