"""An event loop on a separate thread, for blocking callers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from signoff.errors import BegunBeforeFork, BlockingCall, ClientClosed
from signoff.runtime import forks
from signoff.runtime.real_threads import check_threads

T = TypeVar("T")

GRACE_SECONDS = 1.0  # for cancelled tasks to end when a client is closed
QUIET_TURNS = 3  # a freed generator is closed by a task that begins two turns later


class _Call(Generic[T]):
    """A coroutine on the loop's thread, for whose result another thread waits.

    A signal handler may make a call while the code it interrupts makes another. A ``concurrent.futures`` future has a
    lock that the interrupted code may hold: the loop's thread would wait for that code, and the handler for the loop's
    thread. Here the waiting thread acquires one lock, which only the end of the call releases.
    """

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[T] | None = None
        self._result: T | None = None
        self._error: BaseException | None = None
        self._under_way = threading.Lock()
        self._under_way.acquire()
        loop.call_soon_threadsafe(self._begin, work)

    def result(self) -> T:
        """Wait for the coroutine, and return its result or raise its error.

        Raises:
            CancelledError: It was cancelled.
        """
        with self._under_way:
            pass
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # it refers to this frame
        return cast("T", self._result)

    def cancel(self) -> None:
        """Cancel the coroutine. Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._end)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._error = CancelledError()
        elif (error := task.exception()) is not None:
            self._error = error
        else:
            self._result = task.result()
        self._under_way.release()


class Background:
    """An event loop on a separate thread, for blocking callers.

    A forked child starts its own thread at its first call.

    Args:
        reopen: Reopens the parent's resources in a forked child.
    """

    def __init__(self, reopen: Callable[[], Awaitable[None]]) -> None:
        check_threads("Client")
        self._reopen = reopen
        self._stopping = False
        self._forks = 0  # between the creating process and the current one
        # Held while it stops or is forked. A signal handler may interrupt its holder.
        self._lock = threading.RLock()
        self._is_open = True
        self._begin()
        forks.in_child(self)

    def _begin(self) -> None:
        self._calls: set[_Call[Any]] = set()
        self._streams: set[AsyncGenerator[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = threading.Thread(
            target=self._loop.run_forever, name="signoff client", daemon=True
        )
        self._thread.start()

    def forked(self) -> None:
        """Drop the parent's loop and thread in a forked child without stopping them."""
        forks.keep(self._loop, self._thread, self._calls, self._streams)
        self._lock = threading.RLock()
        self._thread = None
        self._forks += 1
        self._is_open = False

    def call(self, work: Coroutine[Any, Any, T], method: str) -> T:
        """Run ``work`` and return its result.

        Raises:
            BlockingCall: An event loop is running on this thread.
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
                    _Call(_done(self._reopen()), self._loop).result()
                except BaseException:
                    work.close()
                    raise
                self._is_open = True
            call = _Call(work, self._loop)
            self._calls.add(call)
        try:
            return call.result()
        except CancelledError:
            if not self._stopping:
                raise
            raise ClientClosed(method) from None
        except BaseException:
            call.cancel()
            raise
        finally:
            self._calls.discard(call)

    def iterate(self, stream: AsyncGenerator[T], method: str) -> Iterator[T]:
        """Yield the items of ``stream``.

        Raises:
            BegunBeforeFork: The iteration began in the parent of this process.
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
                # otherwise the loop's thread is gone
                if not sys.is_finalizing() and self._forks == forks_before:
                    with suppress(ClientClosed):  # stop() has already closed the stream
                        self.call(stream.aclose(), method)
            finally:
                self._streams.discard(stream)

    def stop(self, last: Coroutine[Any, Any, None], method: str) -> None:
        """Cancel the calls of other threads, run ``last``, and end the loop and its thread. Later calls do nothing.

        Raises:
            BlockingCall: An event loop is running on this thread.
        """
        _refuse_to_block(last, method)
        with self._lock:
            if self._stopping:
                last.close()
                return
            self._stopping = True
            if self._thread is None:  # it was created in the parent, and not used here
                last.close()
                return
            thread = self._thread
            calls = self._calls.copy()
        for call in calls:
            call.cancel()
        try:
            _Call(self._wind_up(last), self._loop).result()
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _wind_up(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await _others_end()  # the cancelled calls
            for stream in self._streams.copy():
                await stream.aclose()
            await _others_end()  # httpx leaves the inner parts of a stream to the garbage collector
        finally:
            await last


def _refuse_to_block(work: Coroutine[Any, Any, Any], method: str) -> None:
    """Close the coroutine if this thread must not block.

    Raises:
        BlockingCall: An event loop is running on this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    work.close()
    raise BlockingCall(method)


async def _others_end() -> None:
    """Wait for all other tasks of the loop, and cancel them if that takes too long."""
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
            del others  # they hold generators, whose end starts another task


async def _done(work: Awaitable[None]) -> None:
    await work


async def _next(stream: AsyncGenerator[T]) -> T:
    return await anext(stream)
