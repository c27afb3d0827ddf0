"""The event loop of a simulated process: an asyncio loop without I/O, on its world's virtual time."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

from signoff.engine.run.discard_suspended_code import discard
from signoff.engine.run.loop_callbacks import Callback, TimerCallback, run
from signoff.runtime import private_names

T = TypeVar("T")


class Surroundings(Protocol):
    """The world of the loops: it runs them and keeps their timers."""

    now: float

    def enqueue(self, loop: SimulatedLoop) -> None:
        """Note that an idle loop has work again."""
        ...

    def add_timer(self, when: float, loop: SimulatedLoop, timer: TimerCallback) -> None:
        """Return ``timer`` to ``loop`` at a time."""
        ...


class SimulatedTask(asyncio.Task[Any]):
    """A task with a hash that depends only on the seed: asyncio keeps and cancels sets of tasks."""

    number: int

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """An event loop that its world runs, one callback at a time.

    Args:
        world: Runs it, and keeps its timers.
        failed: Called with the errors that asyncio would log.
        opaque: Types at which the search for suspended code stops when the loop is discarded.
    """

    def __init__(
        self, world: Surroundings, failed: Callable[[dict[str, Any]], None], opaque: tuple[type, ...]
    ) -> None:
        self._world = world
        self._failed = failed
        self._opaque = (SimulatedLoop, *opaque)
        self._ready: deque[Callback | TimerCallback] = deque()
        self._numbers = 0
        self._task_factory: Any = self._make_task
        self._is_torn = False

    # Driving

    @property
    def is_ready(self) -> bool:
        """Whether it has callbacks to run."""
        return bool(self._ready)

    def run_one(self) -> None:
        """Run the next callback."""
        callback = self._ready.popleft()
        if callback.is_cancelled:
            return
        with private_names.running(self):
            run(callback, self)

    def wake(self, callback: Callback | TimerCallback) -> None:
        """Make a callback ready."""
        if self._is_torn:
            return
        if not self._ready:
            self._world.enqueue(self)
        self._ready.append(callback)

    def tear(self) -> None:
        """Discard everything, as the end of a process does. No code runs any more."""
        self._is_torn = True
        tasks = asyncio.all_tasks(self)
        discard([task.get_coro() for task in tasks], self._opaque)
        self._ready.clear()

    # The interface of asyncio's event loop

    def time(self) -> float:
        return self._world.now

    def call_soon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        ready = Callback(callback, args, context)
        self.wake(ready)
        return ready

    def call_soon_threadsafe(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = TimerCallback(when, callback, args, context)  # the world skips it if it is cancelled
        if not self._is_torn:
            self._world.add_timer(when, self, timer)
        return timer

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        return self._task_factory(self, coro, name=name, context=context)

    def _make_task(self, loop: object, coro: Any, *, name: str | None = None, context: Any = None) -> Any:
        task = SimulatedTask.__new__(SimulatedTask)
        self._numbers += 1
        task.number = self._numbers
        task.__init__(coro, loop=self, name=name or "task", context=context)
        return task

    def run_in_executor(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run ``func`` immediately on this thread."""
        future: asyncio.Future[T] = asyncio.Future(loop=self)
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def get_task_factory(self) -> Any:
        return self._task_factory

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory or self._make_task

    def is_running(self) -> bool:
        return not self._is_torn

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_torn:
            self._failed(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)
