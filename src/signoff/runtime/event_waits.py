"""Waits for events, for a limited time."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def wait_at_most(seconds: float | None, event: asyncio.Event) -> None:
    """Wait until an event is set, or for some seconds; None sets no limit.

    ``asyncio.wait_for`` of Python 3.11 may lose a cancellation that comes as the event is set.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
