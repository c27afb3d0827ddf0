"""What runs with large values take of a worker's memory, and of its time."""

from __future__ import annotations

import asyncio
import os
import random
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, Signoff, codec
from signoff.client import AsyncHandle
from signoff.codec import scalars, values
from signoff.records import RunState
from tests.attacks.measuring import Measured
from tests.support import in_asyncio

MIB = 1024 * 1024
KIB_OF_MIB = 1024

ROWS = [
    {"order_id": number, "customer": f"customer-{number % 97}", "amount": number / 7, "status": "shipped"}
    for number in range(10_500)
]
"""About 1 MiB as JSON, and some 5 MiB as Python has it."""


@asynccontextmanager
async def worker(store: str) -> AsyncGenerator[Measured]:
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
            async with worker(store) as measured:
                for handle in handles:
                    assert len(await handle.result()) == len(ROWS)
                assert measured.highest_kib < 450 * KIB_OF_MIB  # all 50 at once take over 700

    play()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_paused_runs_in_memory_hold_no_more_than_is_said(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    app = Signoff(store=store)

    @in_asyncio
    async def play() -> None:
        async with AsyncClient(app) as client, worker(store) as measured:
            handles: list[AsyncHandle] = []
            for _ in range(100):  # one after the other: what is computed at once is held at once
                handles.append(await client.start("holding"))
                while (await app.store.get_run(handles[-1].id)).state is not RunState.PAUSED:
                    await asyncio.sleep(0.005)
            assert measured.resident_kib < 250 * KIB_OF_MIB  # 5,000 times 16 KiB; all 100 hold 400
            for handle in handles:
                await client.signal(handle.id, "go", None)
                assert await handle.result() == 4 * MIB

    play()


def test_long_numbers_in_a_row_of_texts_are_looked_at_once() -> None:
    """To look for a number of too many digits from each digit on takes seconds for each of these."""
    worst = ["1" * scalars.MAX_DIGITS] * 240
    for _ in range(50):
        assert codec.decode(codec.encode(worst)) == worst


@pytest.mark.parametrize("most", [3, 4, 7])
def test_a_number_of_too_many_digits_is_found_wherever_it_is(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalars, "MAX_DIGITS", most)
    long_number = re.compile(rb"[0-9]{%d}" % (most + 1))
    choose = random.Random(most)
    for _ in range(20_000):
        raw = bytes(choose.choices(b"01a", weights=(4, 4, 1), k=choose.randrange(40)))
        assert values._has_long_number(raw) == bool(long_number.search(raw)), raw
