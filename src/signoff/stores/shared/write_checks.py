"""Checks whether a store accepts writes, and names the cause quickly if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from signoff.errors import StoreUnavailable

SOON_SECONDS: Final = 1.0
"""After this time the cause is reported, while the store itself keeps trying."""


class WriteCheck:
    """Write checks of one store. Concurrent checks share one write, so a hanging store does not get more of them.

    Args:
        location: The store's address, for messages.
        trouble: Returns the known cause of a delay; None: unknown.
    """

    def __init__(self, location: str, trouble: Callable[[], str | None]) -> None:
        self._location = location
        self._trouble = trouble
        self._checking: asyncio.Future[None] | None = None

    async def look(self, check: Callable[[], Awaitable[None]]) -> None:
        """Run a check and wait for it; at most a second if the cause of a delay is known.

        Raises:
            StoreUnavailable: The store accepts no writes.
        """
        checking = self._checking
        if checking is None or checking.done() or checking.get_loop() is not asyncio.get_running_loop():
            checking = self._checking = asyncio.ensure_future(check())
            checking.add_done_callback(_note)
        await asyncio.wait({checking}, timeout=SOON_SECONDS)
        if not checking.done() and (trouble := self._trouble()) is not None:
            raise StoreUnavailable(self._location, trouble)
        await asyncio.shield(checking)


def _note(checking: asyncio.Future[None]) -> None:
    """Retrieve the error of an abandoned check, so that asyncio does not report it."""
    if not checking.cancelled():
        checking.exception()
