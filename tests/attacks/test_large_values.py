"""What runs with large values take of a worker's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, Signoff
from tests.attacks.measuring import Measured
from tests.support import in_asyncio, pauses

KIB_OF_MIB = 1024

ROWS = [
    {"order_id": number, "customer": f"customer-{number % 97}", "amount": number / 7, "status": "shipped"}
    for number in range(10_500)
]
"""About 0.9 MiB as JSON, and some 5 MiB as Python has it."""


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
def test_paused_runs_with_large_arguments_are_kept_within_a_bound(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    app = Signoff(store=store)

    @in_asyncio
    async def play() -> None:
        async with AsyncClient(app) as client:
            handles = [await client.start("keeping", ROWS) for _ in range(100)]
            with worker(store) as measured:
                for handle in handles:
                    await pauses(app, handle.id)
                assert measured.highest_kib < 400 * KIB_OF_MIB  # 5 MiB each, and all of them over 550
                for handle in handles:
                    await client.signal(handle.id, "go", None)
                for handle in handles:
                    assert await handle.result() == len(ROWS)

    play()
