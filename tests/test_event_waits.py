"""Rule: a wait for an event ends when it is set, when its time has passed, or when it is cancelled."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import signoff
from signoff.runtime.event_waits import wait_at_most
from tests.support import in_asyncio


@in_asyncio
async def test_wait_ends_when_the_event_is_set_or_its_time_has_passed() -> None:
    event = asyncio.Event()
    await wait_at_most(0.01, event)
    asyncio.get_running_loop().call_soon(event.set)
    await asyncio.wait_for(wait_at_most(3600, event), 60)


@in_asyncio
async def test_cancellation_is_not_lost_when_the_event_is_set_at_the_same_time() -> None:
    event = asyncio.Event()
    waiting = asyncio.create_task(wait_at_most(3600, event))
    await asyncio.sleep(0)
    event.set()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@in_asyncio
async def test_wait_without_a_limit_ends_when_the_event_is_set() -> None:
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    await asyncio.wait_for(wait_at_most(None, event), 60)


def test_signoff_waits_for_nothing_in_a_way_that_loses_cancellations() -> None:
    package = Path(signoff.__file__).parent
    uses = [
        path for path in package.rglob("*.py") if re.search(r"await asyncio\.wait_for\(", path.read_text())
    ]
    assert uses == []
