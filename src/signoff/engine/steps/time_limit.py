"""Time limits of steps, which stand still while the limited code waits for a thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from types import TracebackType
from typing import Final

_limits: Final[contextvars.ContextVar[tuple[TimeLimit, ...]]] = contextvars.ContextVar(
    "signoff_time_limits", default=()
)


class TimeLimit:
    """Limits the time of the code in its ``async with``, as ``asyncio.timeout`` does.

    Args:
        seconds: The limit.
    """

    def __init__(self, seconds: float) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._loop: asyncio.AbstractEventLoop | None = None  # while the limit holds
        self._stops = 0
        self._rest: float | None = None

    async def __aenter__(self) -> TimeLimit:
        await self._timeout.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._token = _limits.set((*_limits.get(), self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._loop = None
        _limits.reset(self._token)
        return await self._timeout.__aexit__(kind, error, traceback)

    @property
    def has_expired(self) -> bool:
        """Whether the code was cancelled because its time was up."""
        return self._timeout.expired()

    def stop(self) -> None:
        """Let the time stand still until ``resume`` was called as often."""
        if self._loop is None or self.has_expired:
            return
        self._stops += 1
        deadline = self._timeout.when()
        if self._stops == 1 and deadline is not None:
            self._rest = deadline - self._loop.time()
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Let the time go on."""
        if self._loop is None or not self._stops:
            return
        self._stops -= 1
        if not self._stops and self._rest is not None:
            self._timeout.reschedule(self._loop.time() + self._rest)
            self._rest = None


def stop_limits(loop: asyncio.AbstractEventLoop) -> Callable[[], None] | None:
    """Let the limits of the calling code stand still.

    Args:
        loop: The loop of the calling code.

    Returns:
        A function that resumes them, to be called on the loop. Only its first call counts. None: there are no limits.
    """
    stopped = [limit for limit in _limits.get() if limit._loop is loop]  # pyright: ignore[reportPrivateUsage]
    if not stopped:
        return None
    for limit in stopped:
        limit.stop()

    def resume() -> None:
        while stopped:
            stopped.pop().resume()

    return resume
