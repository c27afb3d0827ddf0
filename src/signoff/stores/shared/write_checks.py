"""Trying whether a store takes writes, with the cause soon if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from signoff.errors import StoreUnavailable

SOON_SECONDS: Final = 1.0
"""After so long the cause is said, while the store itself goes on trying for longer."""


class WriteCheck:
    """Checks of one store. Those that are asked for while one is under way share it: a store that hangs gets no more.

    Args:
        location: The store's address, for messages.
        trouble: Returns what the store waits for now; None: for nothing that is known.
    """

    def __init__(self, location: str, trouble: Callable[[], str | None]) -> None:
        self._location = location
        self._trouble = trouble
        self._checking: asyncio.Future[None] | None = None

    async def look(self, check: Callable[[], Awaitable[None]]) -> None:
        """Check, and wait for it; but for a second at most if the store's trouble is known.

        Raises:
            StoreUnavailable: The store takes no writes.
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
