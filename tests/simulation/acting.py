"""Actions of people and callers in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from signoff.testing.simulation import Process, World


class Acting:
    """Acts in a world, on a process of its own.

    Attributes:
        world: The world. It runs until all actions are done.
        busy: How many are not.
    """

    world: World
    busy: int

    def begin(self, process: Process) -> None:
        """Act on this process from now on."""
        self._process = process
        self._tasks = set[asyncio.Task[None]]()

    def act(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin an action."""

        async def counted() -> None:
            try:
                await work
            finally:
                self.busy -= 1

        self.busy += 1
        task = self._process.loop.create_task(counted())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.blame(f"a caller got {error!r}")
