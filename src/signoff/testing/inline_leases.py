"""Leases extended on the worker's event loop, without a thread."""

from __future__ import annotations

import asyncio

from signoff.engine.worker.leases import Leases


class LoopKeeper:
    """Extends leases on the worker's event loop, for tests that do not block it."""

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
