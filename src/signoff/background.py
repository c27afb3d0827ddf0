"""An event loop on a thread of its own, for callers that may block."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from signoff import forks
from signoff.errors import BegunBeforeFork, BlockingCall, ClientClosed

T = TypeVar("T")

GRACE_SECONDS = 1.0  # to end what was cancelled when a client is closed
QUIET_TURNS = 3  # a generator that is freed is closed by a task, which begins two turns later


class Background:
    """An event loop on a thread of its own, for blocking callers.

    A forked child has no such thread: it begins another one with its first call.

    Args:
        reopen: Opens in a forked child what was open in its parent.
    """

    def __init__(self, reopen: Callable[[], Awaitable[None]]) -> None:
        self._reopen = reopen
        self._stopping = False
        self._forks = 0  # between the process that made this and the present one
        self._lock = threading.Lock()  # around what must not happen while it stops, or is forked
        self._is_open = True
        self._begin()
        forks.in_child(self)

    def _begin(self) -> None:
        self._calls: set[Future[Any]] = set()
        self._streams: set[AsyncGenerator[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = threading.Thread(
            target=self._loop.run_forever, name="signoff client", daemon=True
        )
        self._thread.start()

    def forked(self) -> None:
        """Leave the parent's loop and thread alone."""
        forks.keep(self._loop, self._thread, self._calls, self._streams)
        self._lock = threading.Lock()
        self._thread = None
        self._forks += 1
        self._is_open = False

    def call(self, work: Coroutine[Any, Any, T], method: str) -> T:
        """Run ``work`` and return what it returns.

        Raises:
            BlockingCall: An event loop runs on this thread.
            ClientClosed: The loop was stopped before the work was done.
        """
        _refuse_to_block(work, method)
        with self._lock:
            if self._stopping:
                work.close()
                raise ClientClosed(method)
            if not self._is_open:
                if self._thread is None:
                    self._begin()
                try:
                    asyncio.run_coroutine_threadsafe(_done(self._reopen()), self._loop).result()
                except BaseException:
                    work.close()
                    raise
                self._is_open = True
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._calls.add(future)
        try:
            return future.result()
        except CancelledError:
            if not self._stopping:
                raise
            raise ClientClosed(method) from None
        except BaseException:
            future.cancel()
            raise
        finally:
            self._calls.discard(future)

    def iterate(self, stream: AsyncGenerator[T], method: str) -> Iterator[T]:
        """Yield what ``stream`` yields.

        Raises:
            BegunBeforeFork: The iteration was begun in the parent of this process.
        """
        forks_before = self._forks
        self._streams.add(stream)
        try:
            while True:
                yield self.call(_next(stream), method)
                if self._forks != forks_before:
                    forks.keep(stream)
                    raise BegunBeforeFork(method)
        except StopAsyncIteration:
            return
        finally:
            try:
                # else the loop's thread is gone
                if not sys.is_finalizing() and self._forks == forks_before:
                    with suppress(ClientClosed):  # then stop() closed the stream
                        self.call(stream.aclose(), method)
            finally:
                self._streams.discard(stream)

    def stop(self, last: Coroutine[Any, Any, None], method: str) -> None:
        """End the calls of other threads, do ``last``, end the loop and its thread. The second time, do nothing.

        Raises:
            BlockingCall: An event loop runs on this thread.
        """
        _refuse_to_block(last, method)
        with self._lock:
            if self._stopping:
                last.close()
                return
            self._stopping = True
            if self._thread is None:  # it was made in the parent, and not used here
                last.close()
                return
            thread = self._thread
            calls = self._calls.copy()
        for future in calls:
            future.cancel()
        try:
            asyncio.run_coroutine_threadsafe(self._wind_up(last), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _wind_up(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await _others_end()  # the calls that were cancelled
            for stream in self._streams.copy():
                await stream.aclose()
            await _others_end()  # httpx leaves the inside of a stream to the garbage collector
        finally:
            await last


def _refuse_to_block(work: Coroutine[Any, Any, Any], method: str) -> None:
    """Raise BlockingCall, and drop the work, where an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    work.close()
    raise BlockingCall(method)


async def _others_end() -> None:
    """Wait for all other tasks of the loop; cancel them when it takes too long."""
    loop = asyncio.get_running_loop()
    late = loop.time() + GRACE_SECONDS
    quiet = 0
    while quiet < QUIET_TURNS:
        await asyncio.sleep(0)
        quiet += 1
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            quiet = 0
            await asyncio.wait(others, timeout=max(late - loop.time(), 0.1))
            if loop.time() > late:
                for task in others:
                    task.cancel()
            del others  # which hold generators, whose end begins another task


async def _done(work: Awaitable[None]) -> None:
    await work


async def _next(stream: AsyncGenerator[T]) -> T:
    return await anext(stream)
