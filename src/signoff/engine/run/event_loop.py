"""The deterministic event loop on which workflow code runs.

It is an ``asyncio`` loop with no I/O and no clock of its own: callbacks run in the order in which they
were scheduled, time is what the journal says, and every timer is handed to the run as a durable call.
So whatever asyncio builds on futures and ``call_at`` (gather, TaskGroup, wait_for, timeout, Queue ...)
works in a workflow and does the same at every replay.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import itertools
import math
import os
import sys
import sysconfig
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
    Iterator,
    Mapping,
)
from contextlib import AbstractContextManager
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, NoReturn, Protocol, cast

from signoff.engine.run.async_generators import Generators, is_collecting
from signoff.engine.run.branches import current_branch
from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.loop_callbacks import Callback, TimerCallback, report
from signoff.errors import NotInStep, OutsideWorkflow
from signoff.observability.current_run import refused
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.workflow")

TURNS_WITHOUT_WAITING = 100_000
TURNS_OF_EACH = (
    10  # that it takes to begin and end a task or a call, of which there may be any number at once
)

UNKNOWN_LINE: Final = "an unknown line"
RUNS_GENERATOR: Final = "run_generator"
"""The function that awaits what a ``generator`` yields, by which the generator's line is found."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_FOREIGN = tuple(
    os.path.abspath(path) + os.sep
    for path in {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
    }
    if path
)
_AS_COMPLETED = asyncio.as_completed.__code__


class LoopOwner(Protocol):
    """What the loop asks of the run it belongs to."""

    def open_timer(self, timer: TimerCallback) -> None:
        """Make a durable timer of a ``call_at``."""
        ...

    def close_timer(self, timer: TimerCallback) -> None:
        """Forget the timer of a cancelled callback."""
        ...

    def fail_for(self, error: BaseException) -> None:
        """Fail the run, since a callback raised what ends a process. Raises it again if it is a real Ctrl-C."""
        ...

    def excuse(self, given: Iterable[object]) -> None:
        """Note that a task was cancelled before it began: it cannot await what it was given."""
        ...

    def refuse(self, error: NotInStep) -> None:
        """Note that the code broke the rules; the run fails even if the code swallows the error."""
        ...


class _Future(asyncio.Future[Any]):
    """A future whose place in a set is the same at every replay: asyncio keeps and hands out sets of them."""

    number: int

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is the same at every replay."""

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
    """The code took ``TURNS_WITHOUT_WAITING`` turns without waiting for anything; ``where`` names the line."""

    def __init__(self, where: str) -> None:
        super().__init__(where)
        self.where = where


_Outside = tuple[Any, private_names.Outer]


class _Entered:
    """A loop while it is the running one of a thread. Each turn of a run makes one: a generator would take longer."""

    __slots__ = ("_loop", "_outside")

    _outside: _Outside

    def __init__(self, loop: WorkflowLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._outside = self._loop.enter()

    def __exit__(self, *_: object) -> None:
        self._loop.leave(self._outside)


class WorkflowLoop(asyncio.AbstractEventLoop):
    """A loop that runs until nothing is ready, and never waits.

    Args:
        owner: The run that keeps the timers.
        time: The journal's time at the start, in unix seconds.
        first_number: The hash of its first future or task. It must be the same at every replay of a run, and far
            from those of other runs: asyncio keeps the tasks of all loops in one set.
    """

    def __init__(self, owner: LoopOwner, time: float, first_number: int) -> None:
        # The owner holds this loop: a cycle would keep what is over until the collector looks.
        self._owner: LoopOwner = weakref.proxy(owner)
        self._time = time
        self._ready: deque[Callback | TimerCallback] = deque()
        self._numbers = itertools.count(first_number)
        self._entered_by: int | None = None
        self.made = 0  # futures and tasks. Read by the guard's thread
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.generators = Generators()
        self._is_dropped = False

    def next_number(self) -> int:
        """Number a future or task of this loop, among those of the branch that makes it."""
        self.made += 1
        branch = current_branch.get()
        return next(self._numbers if branch is None else branch.futures)

    # Driving

    def entered(self) -> AbstractContextManager[None]:
        """Be the running loop of the calling thread: for a replay once, instead of for each of its entries."""
        return _Entered(self)

    def enter(self) -> _Outside:
        """Become the running loop of the calling thread. Returns what ``leave`` restores."""
        hooks = sys.get_asyncgen_hooks()
        outer = private_names.enter(self)
        sys.set_asyncgen_hooks(firstiter=self.generators.begin, finalizer=self._finish_generator)
        self._entered_by = threading.get_ident()
        return hooks, outer

    def leave(self, outside: _Outside) -> None:
        """Restore what ``enter`` found."""
        hooks, outer = outside
        self._entered_by = None
        sys.set_asyncgen_hooks(*hooks)
        private_names.leave(outer)

    def is_running_here(self) -> bool:
        """Whether this is the running loop of the calling thread."""
        # asked often: the running loop is known to CPython 3.11 only by a system call
        return self._entered_by == threading.get_ident()

    def run_until_quiet(self) -> None:
        """Run what is ready, and what becomes ready by it, on the calling thread.

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
            if not callback.is_cancelled:  # as ``callbacks.run`` does it, without a call for each
                try:
                    callback.within.run(callback.function, *callback.arguments)
                except (SystemExit, KeyboardInterrupt) as error:  # asyncio has them end its loop
                    self._contain(callback, error)
                except BaseException as error:
                    report(callback, self, error)
            turns += 1
            if turns >= TURNS_WITHOUT_WAITING + TURNS_OF_EACH * self.made:
                raise Stuck(self._busiest_line())

    def _contain(self, callback: Callback | TimerCallback, error: BaseException) -> None:
        """Keep in the run what would end the process. A task that raised it has it as its outcome."""
        task = getattr(callback.function, "__self__", None)
        if not (isinstance(task, asyncio.Task) and task.done()):
            self._owner.fail_for(error)

    def advance(self, time: float) -> None:
        """Move journal time forward to ``time``; it never goes back."""
        self._time = max(self._time, time)

    def drop(self) -> None:
        """Forget everything scheduled. The tasks' code is left where it stands."""
        self._ready.clear()
        self.tasks.clear()
        self.generators.drop()
        self._is_dropped = True

    def _finish_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a generator that was dropped. One that the collector has found is closed when the run ends."""
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

    # What asyncio asks of a loop

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
        """Raise OutsideWorkflow in a step of this run, whose code has woken the run's. The run stops, retryably."""
        attempt = current_attempt.get(None)
        if attempt is None or not attempt[0].is_on(self):
            return
        step = attempt[0]
        error = OutsideWorkflow(
            "an asyncio object of the workflow",
            why=f"step {step.name!r} has set a future, an event or a queue that run {step.run.id!r} waits for. A "
            "replay does not run the step again, and the run would wait for ever. Return the value from the step, or "
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
            raise ValueError("a timer was set for no time: NaN")
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
        if current_branch.get() is None:  # nearly all; ``next_number`` does the same
            self.made += 1
            future.number = next(self._numbers)
        else:
            future.number = self.next_number()
        return future

    def create_task(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any] | Awaitable[Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[Any]:
        """Like asyncio's, and a call such as ``ctx.step(...)`` may be given as it is.

        Args:
            coro: What the task runs.
            name: The task's name.
            context: Its context.
            kwargs: What else this version's ``asyncio.Task`` takes: from Python 3.12 on ``eager_start``.
        """
        if _is_asked_by_as_completed(inspect.currentframe()):
            if asyncio.iscoroutine(coro):
                coro.close()
            raise TypeError(
                "asyncio.as_completed() begins coroutines and calls in an order that differs at each replay: "
                "give it tasks, made with asyncio.create_task(...)"
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
            variables: Those of its code: what it was called with, and what it closes over.
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
            return  # a task of a paused run that is let go
        log.error("in workflow code: %s", context.get("message"), exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def refuse(self, what: str) -> NoReturn:
        """Raise ``NotInStep`` for ``what`` at the line of the workflow that led here."""
        error = NotInStep(what, calling_line(inspect.currentframe()))
        self._owner.refuse(error)
        raise error


def _is_asked_by_as_completed(frame: FrameType | None) -> bool:
    """Whether ``create_task``, whose frame this is, was called by ``asyncio.as_completed`` itself."""
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


# Whatever a real loop offers beyond this is I/O, threads or signals.
_OFFERED = {*vars(WorkflowLoop), "__init__", "__new__"}
_DUNDERS = {name for name in vars(asyncio.AbstractEventLoop) if name.startswith("__")}
for _name in set(vars(asyncio.AbstractEventLoop)) - _OFFERED - _DUNDERS:
    setattr(WorkflowLoop, _name, _refuses(_name))


# Lines of user code


def calling_line(frame: FrameType | None, *, is_own: bool = False) -> str:
    """Name the innermost line of the user's own code on a stack, as ``file:line in function``.

    Args:
        frame: Where to begin; the stack is searched outwards.
        is_own: Whether a line of a library is not named in place of one of the user's.
    """
    outermost: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            if not file.startswith(_FOREIGN) and not file.startswith("<frozen"):
                return _line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            outermost = frame
        elif frame.f_code.co_name == "run_until_quiet":
            break
        elif (generator := _generator_run_by(frame)) is not None:
            found = waiting_line(generator)
            if found != UNKNOWN_LINE:
                return found
        frame = frame.f_back
    if outermost is None or is_own:
        return UNKNOWN_LINE
    return _line(outermost.f_code.co_filename, outermost.f_lineno, outermost.f_code.co_name)


def is_own_file(file: str) -> bool:
    """Whether a file is Signoff's."""
    return file.startswith(_PACKAGE)


def is_installed(file: str) -> bool:
    """Whether a file is of Python, of an installed package or of Signoff, and not the user's own."""
    return file.startswith((_PACKAGE, *_FOREIGN, "<frozen"))


def line_in(code: CodeType, instruction: int) -> str:
    """Name the line of an instruction."""
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end)
    return _line(code.co_filename, next(lines, None), code.co_name)


def raising_line(traceback: TracebackType | None) -> str | None:
    """Name the outermost line of the user's own code that an exception has come through; None: it came through none."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith((_PACKAGE, *_FOREIGN, "<frozen")):
            return _line(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return None


def frames_of_run() -> Iterator[FrameType]:
    """Return the frames of the user's own code that a run's loop is running, from the innermost outwards."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            if not file.startswith(_FOREIGN) and not file.startswith("<frozen"):
                yield frame
        elif frame.f_code.co_name == "run_until_quiet":
            return
        frame = frame.f_back


def frames_waiting(waiting: object) -> Iterator[FrameType]:
    """Return the frames of the user's own code in which a coroutine or generator is suspended, the outermost first."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_PACKAGE, *_FOREIGN)):
            yield frame
        if frame is not None and (generator := _generator_run_by(frame)) is not None:
            yield from frames_waiting(generator)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _generator_run_by(frame: FrameType) -> object | None:
    """Return the generator that a frame of ours awaits the calls of: its own frame is not on the stack meanwhile."""
    code = frame.f_code
    if code.co_name != RUNS_GENERATOR or not code.co_filename.startswith(_PACKAGE):
        return None
    return frame.f_locals.get("generator")


def waiting_line(waiting: object) -> str:
    """Name the innermost line of the user's own code at which a coroutine or generator is suspended."""
    found = UNKNOWN_LINE
    for frame in frames_waiting(waiting):
        found = _line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return found


def _line(file: str, line: int | None, function: str) -> str:
    return f"{file}:{line} in {function}"
