"""The calls that wait for a conversation's turns in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from signoff.client.async_client import Backend
from signoff.client.run_ends import refuse_circle
from signoff.client.unserved_runs import unserved
from signoff.errors import Detached, SignoffError
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")

T = TypeVar("T")

UNTAKEN: Final = 5.0
"""Seconds without news until a waiting caller is warned that no worker runs the turn."""


class Waiters:
    """The calls that wait for turns of a session, so that ``detach`` can stop them.

    Args:
        session_id: The session.
    """

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._tasks: set[asyncio.Task[Any]] = set()

    async def begin(self, backend: Backend, run_id: str, coming: Coroutine[Any, Any, T]) -> T:
        """Wait for a turn, and warn if no worker runs it.

        Args:
            backend: The backend with the turn.
            run_id: The turn's run.
            coming: The wait.

        Raises:
            Detached: ``detach`` was called.
            CircularWait: The caller is a step of that turn, or of a run before it in its session.
        """
        try:
            await refuse_circle(backend, run_id)
        except BaseException:
            coming.close()
            raise
        task = asyncio.create_task(coming, name=f"signoff turn {run_id}")
        self._tasks.add(task)
        try:
            done, _ = await asyncio.wait({task}, timeout=UNTAKEN)
            if not done:
                await self._warn_of_unserved(backend, run_id)
                await asyncio.wait({task})
        finally:
            self._tasks.discard(task)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            raise Detached(run_id)
        return task.result()

    async def end(self) -> None:
        """Stop all of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _warn_of_unserved(self, backend: Backend, run_id: str) -> None:
        try:
            warning = await unserved(backend, await backend.get_run(run_id))
        except SignoffError as trouble:
            warning = f"cannot be asked who runs it: {trouble}"
        if warning is not None:
            log.warning("turn %s of session %s: %s", run_id, self._session_id, warning)
