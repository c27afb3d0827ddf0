"""Unwinds a tool at a pause, with an exception that the tool's code must not catch."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from signoff.engine.run.discard_suspended_code import discard
from signoff.engine.run.user_code_lines import calling_line, raising_line
from signoff.errors import OutsideWorkflow, PauseSwallowed
from signoff.runtime.loggers import own_logger

T = TypeVar("T")

log = own_logger("signoff.agents")

GRACE_SECONDS: Final = 1.0
"""How long a tool that caught its pause may take to end before its call fails anyway, in seconds."""

_PATIENCE: Final = 8
"""How often a tool may pause again before it is suspended: it does so in a loop."""


class Left(BaseException):
    """Ends a tool's code at a pause. ``except Exception`` does not catch it."""


class Leaving(Generic[T]):
    """Unwinds one call of a tool. ``T`` is the type of its pause.

    Args:
        tool: The tool's name.
    """

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._exits: list[_Exit[T]] = []
        self._again: str | None = None  # the line of the first pause after a caught one
        self._refused = 0
        self._lock = threading.Lock()
        self._has_ended = False
        self._is_held = False  # suspended, because it pauses in a loop
        self._body: asyncio.Task[_Outcome] | None = None
        self._given_up: asyncio.Future[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the tool has paused."""
        return bool(self._exits)

    def leave(self, for_what: T) -> Awaitable[Any]:
        """End the tool's code at a pause.

        Args:
            for_what: The pause.

        Returns:
            An awaitable that never completes, and only to a tool that catches everything and pauses in a loop.

        Raises:
            Left: Ends the tool's code.
            OutsideWorkflow: The call has already ended.
        """
        here = inspect.currentframe()
        line = calling_line(here and here.f_back)
        with self._lock:
            if self._has_ended:
                raise OutsideWorkflow("pause(...)", why=f"the call of {self._tool!r} has ended without it")
            if _left.get() is self:
                return self._refuse(line)
            task = _current_task()
            _left.set(self)  # marks all code that continues from here, in this task and in those it starts
            running = frozenset(each.task for each in self._exits if each.task and not each.task.done())
            left = Left(f"{self._tool} pauses for an answer at {line}; do not catch this exception")
            self._exits.append(_Exit(left, for_what, line, task, running))
            if task is not None and task is not self._body:
                task.add_done_callback(_retrieve)
        raise left

    def _refuse(self, line: str) -> Awaitable[Any]:
        self._again = self._again or line
        self._refused += 1
        assert self._given_up is not None
        loop = self._given_up.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_set, self._given_up)
        if self._refused > _PATIENCE:
            if _current_task() is not None:
                return _Held(self)
            time.sleep(
                min(self._refused / 100, 1)
            )  # a thread cannot be suspended permanently: its pool may be joined
        raise Left(f"{self._tool} has already paused")

    async def run(self, body: Callable[[], Awaitable[object]]) -> tuple[object, T | None]:
        """Run a tool.

        Returns:
            The tool's result, and its pause, if it has paused.

        Raises:
            PauseSwallowed: The tool caught its pause and continued.
        """
        self._given_up = asyncio.get_running_loop().create_future()
        self._body = asyncio.create_task(self._outcome_of(body), name=f"signoff tool {self._tool}")
        ends = (self._body, self._given_up)
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not self._body.done():
                self._body.cancel()
                await asyncio.wait((self._body,), timeout=GRACE_SECONDS)
            return self._end(self._body)
        except asyncio.CancelledError:
            self._body.cancel()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            raise
        finally:
            self._has_ended = True
            self._exits.clear()  # also frees their tracebacks
            if self._body.done():
                self._body = None  # its context has this object: a cycle with all messages of the agent's run

    async def _outcome_of(self, body: Callable[[], Awaitable[object]]) -> _Outcome:
        """Run a body to its end. The task itself never raises, since some exceptions would also end the loop."""

        async def tool() -> object:
            return await body()

        try:
            return _Outcome(await _Steps(tool(), self), None)
        except BaseException as error:
            return _Outcome(None, error)

    async def hold(self) -> None:
        """Suspend a task of a tool that pauses in a loop; the tool's own task is abandoned where it stands."""
        self._is_held = _current_task() is self._body
        await asyncio.get_running_loop().create_future()

    @property
    def is_held(self) -> bool:
        """Whether the tool's own code is suspended."""
        return self._is_held

    def _end(self, body: asyncio.Task[_Outcome]) -> tuple[object, T | None]:
        if not body.done():
            log.warning("tool %r caught its pause and has not ended; it continues unattended", self._tool)
            raise self._swallowed("it has not ended")
        outcome = body.result()
        carried = set(map(id, _with_causes(outcome.error)))
        ended_by = [each for each in self._exits if id(each.left) in carried]
        if self._again is not None:
            raise self._swallowed(f"it paused again at {self._again}")
        if not self._exits:
            if outcome.error is not None:
                raise outcome.error
            return outcome.result, None
        if not ended_by:
            if outcome.error is None:
                raise self._swallowed("it returned")
            raise self._swallowed(f"it raised {outcome.error!r}") from outcome.error
        for index, each in enumerate(self._exits):
            if id(each.left) not in carried and self._was_kept(index, ended_by[0]):
                raise self._swallowed("it paused again", each)
        return None, ended_by[0].for_what

    def _was_kept(self, index: int, ended_by: _Exit[T]) -> bool:
        """Whether the tool's code has caught this pause, and ended by another one."""
        each = self._exits[index]
        is_earlier = index < self._exits.index(ended_by)
        task = each.task
        if task is None or task is self._body:
            return is_earlier
        if not task.done() or task.cancelled():
            return False
        if all(error is not each.left for error in _with_causes(task.exception())):
            return True
        # two tasks that paused at once: the tool ends by one of them
        return is_earlier and task not in ended_by.running

    def _swallowed(self, how: str, exit: _Exit[T] | None = None) -> PauseSwallowed:
        exit = exit or self._exits[0]
        caught = raising_line(exit.left.__traceback__)
        return PauseSwallowed(self._tool, exit.line, caught if caught != exit.line else None, how)


@dataclass(frozen=True, slots=True)
class _Exit(Generic[T]):
    """A pause that has unwound the code."""

    left: Left
    for_what: T
    line: str
    task: asyncio.Task[Any] | None  # None: in a thread
    running: frozenset[asyncio.Task[Any]]  # tasks that had paused before it, and had not ended yet


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: object
    error: BaseException | None


class _Held(Awaitable[Any]):
    """Never completes. For code that catches every exception and pauses in a loop.

    Args:
        leaving: Unwinds its call.
    """

    def __init__(self, leaving: Leaving[Any]) -> None:
        self._leaving = leaving

    def __await__(self) -> Generator[Any, None, Any]:
        return self._leaving.hold().__await__()

    @property
    def value(self) -> Any:
        raise Left("there is no answer")


class _Steps(Awaitable[object]):
    """Runs a coroutine step by step, and abandons it once it is suspended.

    Args:
        coroutine: The tool's code.
        leaving: Unwinds its call.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, object], leaving: Leaving[Any]) -> None:
        self._coroutine = coroutine
        self._leaving = leaving

    def __await__(self) -> Generator[Any, Any, object]:
        step = partial(self._coroutine.send, None)
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            if self._leaving.is_held:
                discard([self._coroutine], (Leaving,))
                return None
            try:
                value = yield awaited
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, value)


_left: contextvars.ContextVar[Leaving[Any] | None] = contextvars.ContextVar("signoff_left", default=None)


def carries(error: BaseException | None, looked_for: BaseException) -> bool:
    """Whether an exception is another one, contains it in a group, or was raised while it was handled."""
    return any(each is looked_for for each in _with_causes(error))


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        todo += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            todo += cast("Iterable[BaseException]", each.exceptions)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return None


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a paused task that is never awaited, so asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
