"""Calls of a store from any thread: with a running event loop, or without."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StoreThread:
    """An event loop on a thread of its own, which begins at the first blocking call.

    A thread that already runs an event loop may call it, too: LangGraph's blocking methods are called in notebooks.
    A forked child begins its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._running: _Running | None = None

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._begun().loop).result()

    def _begun(self) -> _Running:
        with self._lock:
            if self._running is None or self._process != os.getpid():
                self._process = os.getpid()
                self._running = _Running()
                weakref.finalize(self, self._running.stop)
            return self._running

    def stop(self) -> None:
        """End the thread. A later call begins another."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None and self._process == os.getpid():
                running.stop()


class _Running:
    """The loop and its thread, which do not refer to their owner: it may be collected."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="signoff saver", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def stop(self) -> None:
        if self._process == os.getpid() and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            if threading.current_thread() is not self._thread:  # the collector may run there
                self._thread.join()
