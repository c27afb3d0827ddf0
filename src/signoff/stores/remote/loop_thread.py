"""An event loop on a thread of its own, which outlives the event loops of its users."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs an event loop until ``stop`` is called.
    Args:
        name: The thread's name.

    Attributes:
        loop: The event loop.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the loop. Safe from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, callback: Callable[..., object], *args: Any) -> None:
        """Call a function on the loop. Safe from any thread; after ``stop`` it does nothing."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, *args)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Run ``last`` on the loop, then end the loop and the thread. Blocks."""
        try:
            self.begin(last).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()
