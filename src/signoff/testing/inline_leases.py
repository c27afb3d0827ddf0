"""Leases kept on the worker's own loop, without a thread."""

from __future__ import annotations

import asyncio

from signoff.engine.worker.leases import Leases


class LoopKeeper:
    """Extends leases from the worker's own loop, where tests are about other things than hogged loops."""

    def __init__(self, leases: Leases, *, beat_seconds: float, **_: float) -> None:
        self._leases = leases
        self._beat_seconds = beat_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._leases.loop.create_task(self._keep())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._beat_seconds)
            await self._leases.extend()
