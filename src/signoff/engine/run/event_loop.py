"""The deterministic event loop that runs workflow code.

It is an ``asyncio`` loop without I/O and without a clock of its own. Callbacks run in the order in which they were
scheduled, time is journal time, and every timer is a durable call. So everything that asyncio builds on futures and
``call_at`` (gather, TaskGroup, wait_for, timeout, Queue ...) works in a workflow, and does the same at every replay.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import inspect
import itertools
import math
import sys
import threading
import weakref
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, NoReturn, Protocol, cast

from signoff.engine.run.async_generators import Generators, is_collecting
from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.loop_callbacks import Callback, TimerCallback, report
from signoff.engine.run.user_code_lines import UNKNOWN_LINE, calling_line, waiting_line
from signoff.errors import NotInStep, OutsideWorkflow
from signoff.observability.current_run import refused
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.workflow")

TURNS_WITHOUT_WAITING = 100_000
TURNS_OF_EACH = (
    # To begin and end a task or a call; any number may exist at once.
    10
)


_AS_COMPLETED = asyncio.as_completed.__code__


class LoopOwner(Protocol):
    """The run that a loop belongs to, as the loop uses it."""

    def open_timer(self, timer: TimerCallback) -> None:
        """Create a durable timer for a ``call_at``."""
        ...

    def close_timer(self, timer: TimerCallback) -> None:
        """Drop the timer of a cancelled callback."""
        ...

    def fail_for(self, error: BaseException) -> None:
        """Fail the run because a callback raised an exception that ends a process.

        Raises the exception again if it is a real Ctrl-C.
        """
        ...

    def excuse(self, given: Iterable[object]) -> None:
        """Excuse a task that was cancelled before it began: it could not await its arguments."""
        ...

    def refuse(self, error: NotInStep) -> None:
        """Fail the run for a forbidden call, even if its code catches the error."""
        ...

    def note_dropped(self, what: str, where: str) -> None:
        """Note that the code has dropped a coroutine without an await."""
        ...


class _Future(asyncio.Future[Any]):
    """A future with a hash that is identical at every replay: asyncio keeps and returns sets of futures."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    """A task with a hash that is identical at every replay."""

    number: int

    def __new__(cls, *args: Any, **kwargs: Any) -> _Task:
        task = super().__new__(cls)
        task.number = kwargs["loop"].next_number()
        return task

    def __hash__(self) -> int:
        return self.number

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        coroutine: Any = self.get_coro()
        if inspect.isgenerator(coroutine):
            is_begun = inspect.getgeneratorstate(coroutine) != inspect.GEN_CREATED
            frame = coroutine.gi_frame
        else:
            is_begun = not inspect.iscoroutine(coroutine) or (
                inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED
            )
            frame = None if is_begun else coroutine.cr_frame
        if not is_begun and frame is not None:
            cast("WorkflowLoop", self.get_loop()).never_begins(frame.f_locals)
        return True


class Stuck(Exception):
    """Raised when code takes ``TURNS_WITHOUT_WAITING`` turns without waiting. ``where`` is its line."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


_Outside = tuple[Any, int, private_names.Outer]


class _Entered:
    """The running state of a loop on a thread. A class, since a generator is slower and each turn needs one."""

    __slots__ = ("_loop", "_outside")

    _outside: _Outside

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._outside = self._loop.enter()

    def __exit__(self, *_: object) -> None:
        self._loop.leave(self._outside)


def first_future_of(run_id: str) -> int:
    """Return the first number of a run's futures: far from those of other runs, and small sets iterate in order."""
    digest = hashlib.blake2b(run_id.encode(errors="surrogatepass"), digest_size=5).digest()
    return (int.from_bytes(digest, "big") << 20) + 1


class WorkflowLoop(asyncio.AbstractEventLoop):
    """An event loop that runs until nothing is ready, and never waits.

    Args:
        owner: The run that keeps the timers.
        time: The journal time at the start, in Unix seconds.
        first_number: The hash of its first future or task. It must be identical at every replay of a run, and far from
            those of other runs: asyncio keeps the tasks of all loops in one set.
    """

    def __init__(self, owner: LoopOwner, time: float, first_number: int) -> None:
        # The owner holds this loop. A reference cycle would live until the next garbage collection.
        self._owner: LoopOwner = weakref.proxy(owner)
        self._time = time
        self._ready: deque[Callback | TimerCallback] = deque()
        self._numbers = itertools.count(first_number)
        self._entered_by: int | None = None
        self.made = 0  # futures and tasks; read by the guard's thread
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.generators = Generators()
        self._is_dropped = False

    def next_number(self) -> int:
        """Return the next number for a future or task."""
        self.made += 1
        return next(self._numbers)

    # Driving

    def entered(self) -> AbstractContextManager[None]:
        """Enter the loop on the calling thread, for a whole replay instead of for each entry."""
        return _Entered(self)

    def enter(self) -> _Outside:
        """Become the running loop of the calling thread. Returns the state for ``leave``."""
        hooks = sys.get_asyncgen_hooks()
        depth = sys.get_coroutine_origin_tracking_depth()
        if not depth:  # for the line in the error about a coroutine that is not awaited
            sys.set_coroutine_origin_tracking_depth(1)
        outer = private_names.enter(self)
        sys.set_asyncgen_hooks(firstiter=self.generators.begin, finalizer=self._finish_generator)
        self._entered_by = threading.get_ident()
        return hooks, depth, outer

    def leave(self, outside: _Outside) -> None:
        """Restore the state that ``enter`` returned."""
        hooks, depth, outer = outside
        self._entered_by = None
        if not depth:
            sys.set_coroutine_origin_tracking_depth(0)
        sys.set_asyncgen_hooks(*hooks)
        private_names.leave(outer)

    def is_running_here(self) -> bool:
        """Return whether this is the running loop of the calling thread."""
        # fast path: on CPython 3.11, finding the running loop takes a system call
        return self._entered_by == threading.get_ident()

    def run_until_quiet(self) -> None:
        """Run ready callbacks on the calling thread until none is ready.

        Raises:
            Stuck: It never became quiet.
        """
        if not self._ready:
            return
        if self._entered_by is not None:
            self._run_ready()
            return
        with self.entered():
            self._run_ready()

    def _run_ready(self) -> None:
        ready = self._ready
        turns = 0
        while ready:
            callback = ready.popleft()
            if not callback.is_cancelled:  # inlined from ``callbacks.run``, to save a call for each
                try:
                    callback.within.run(callback.function, *callback.arguments)
                except (SystemExit, KeyboardInterrupt) as error:  # a task re-raises these
                    self._contain(callback, error)
                except BaseException as error:
                    report(callback, self, error)
            turns += 1
            if turns >= TURNS_WITHOUT_WAITING + TURNS_OF_EACH * self.made:
                raise Stuck(self._busiest_line())

    def _contain(self, callback: Callback | TimerCallback, error: BaseException) -> None:
        """Contain an exception that would end the process. A task that raised it keeps it as its outcome."""
        task = getattr(callback.function, "__self__", None)
        if not (isinstance(task, asyncio.Task) and task.done()):
            self._owner.fail_for(error)

    def advance(self, time: float) -> None:
        """Move journal time forward to ``time``. It never moves back."""
        if time > self._time:
            self._time = time

    def drop(self) -> None:
        """Drop everything scheduled. The code of tasks stays suspended."""
        self._ready.clear()
        self.tasks.clear()
        self.generators.drop()
        self._is_dropped = True

    def note_dropped(self, what: str, where: str) -> None:
        """Note that code which runs here has dropped a coroutine without an await."""
        self._owner.note_dropped(what, where)

    def _finish_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a dropped generator. One found by the garbage collector is closed when the run ends."""
        if self._is_dropped:
            return
        if is_collecting() or not self.is_running_here():
            self.generators.keep(generator)
        else:
            self.create_task(generator.aclose())

    def _busiest_line(self) -> str:
        for callback in self._ready:
            task = getattr(callback.function, "__self__", None)
            if isinstance(task, asyncio.Task):
                return waiting_line(cast("object", task.get_coro()))
        return UNKNOWN_LINE

    # The interface of asyncio's event loop

    def time(self) -> float:
        return self._time

    def call_soon(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        ready = Callback(callback, args, context)
        self._ready.append(ready)
        if self._entered_by is None:
            self._refuse_steps()
        return ready

    def _refuse_steps(self) -> None:
        """Stop the run retryably if one of its own steps wakes its code.

        Raises:
            OutsideWorkflow: The caller is a step of this run.
        """
        attempt = current_attempt.get(None)
        if attempt is None or not attempt[0].is_on(self):
            return
        step = attempt[0]
        error = OutsideWorkflow(
            "an asyncio object of the workflow",
            why=f"step {step.name!r} has set a future, an event or a queue that run {step.run.id!r} waits for. A "
            "replay does not run the step again, and the run would never continue. Return the value from the step, or "
            "have it send the run a signal; then retry the run",
        )
        step.disturb(refused(error))
        raise error

    def call_later(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise ValueError("a timer cannot be set for NaN")
        timer = TimerCallback(when, callback, args, context, self._close_timer)
        self._owner.open_timer(timer)
        return timer

    def _close_timer(self, timer: TimerCallback) -> None:
        self._owner.close_timer(timer)

    def fire(self, timer: TimerCallback) -> None:
        """Make a timer's callback ready."""
        self._ready.append(timer)

    def create_future(self) -> asyncio.Future[Any]:
        future = _Future(loop=self)
        self.made += 1  # as ``next_number`` does
        future.number = next(self._numbers)
        return future

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any] | Awaitable[Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[Any]:
        """Create a task, as asyncio does. A call such as ``ctx.step(...)`` may be passed directly.

        Args:
            coro: The coroutine or call to run.
            name: The task's name.
            context: Its ``contextvars`` context.
            kwargs: Further parameters of this Python version's ``asyncio.Task``, such as ``eager_start``.
        """
        if _is_asked_by_as_completed(inspect.currentframe()):
            if asyncio.iscoroutine(coro):
                coro.close()
            raise TypeError(
                "asyncio.as_completed() starts coroutines and calls in an order that differs between replays: "
                "pass it tasks made with asyncio.create_task(...)"
            )
        if not asyncio.iscoroutine(coro):
            coro = _await(coro)  # pyright: ignore[reportArgumentType, reportUnknownArgumentType]
        task = _Task(coro, loop=self, name=name or "task", context=context, **kwargs)
        self.tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def never_begins(self, variables: Mapping[str, object]) -> None:
        """Note that a task was cancelled before its code began.

        Args:
            variables: The variables of its code: its arguments and closure.
        """
        if not self._is_dropped:
            self._owner.excuse(variables.values())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def get_task_factory(self) -> None:
        return None

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        task = context.get("task")
        if task is not None and not task.done():
            return  # a task of a paused run that was discarded
        log.error("in workflow code: %s", context.get("message"), exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def refuse(self, what: str) -> NoReturn:
        """Raise ``NotInStep`` for ``what``, with the workflow's line that led here."""
        error = NotInStep(what, calling_line(inspect.currentframe()))
        self._owner.refuse(error)
        raise error


def _is_asked_by_as_completed(frame: FrameType | None) -> bool:
    """Whether this frame of ``create_task`` was called by ``asyncio.as_completed`` itself."""
    frame = frame and frame.f_back
    while frame is not None and frame.f_code.co_filename == _AS_COMPLETED.co_filename:
        if frame.f_code is _AS_COMPLETED:
            return True
        frame = frame.f_back
    return False


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _refuses(name: str) -> Callable[..., NoReturn]:
    def method(self: WorkflowLoop, *args: object, **kwargs: object) -> NoReturn:
        self.refuse(f"loop.{name}() was called")

    return method


# All other methods of an asyncio loop are I/O, threads or signals.
_OFFERED = {*vars(WorkflowLoop), "__init__", "__new__"}
_DUNDERS = {name for name in vars(asyncio.AbstractEventLoop) if name.startswith("__")}
for _name in set(vars(asyncio.AbstractEventLoop)) - _OFFERED - _DUNDERS:
    setattr(WorkflowLoop, _name, _refuses(_name))


# Lines of user code
