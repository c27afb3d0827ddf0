"""How a tool leaves its step for a pause: by an exception of its own, which the tool's code must let through."""

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
"""How long a tool that has caught its leaving may take to end, before its call fails without it."""

_PATIENCE: Final = 8
"""How often a tool may pause again before it is held there, since it does so in a loop."""


class Left(BaseException):
    """Ends a tool's code at a pause; ``except Exception`` does not catch it."""


class Leaving(Generic[T]):
    """One call of a tool, which may leave. What it leaves for is a ``T``.

    Args:
        tool: The tool's name.
    """

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._exits: list[_Exit[T]] = []
        self._again: str | None = None  # the line at which it paused after it had caught its leaving
        self._refused = 0
        self._lock = threading.Lock()
        self._has_ended = False
        self._is_held = False  # where it pauses in a loop
        self._body: asyncio.Task[_Outcome] | None = None
        self._given_up: asyncio.Future[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a pause has left."""
        return bool(self._exits)

    def leave(self, for_what: T) -> Awaitable[Any]:
        """Leave the tool for ``for_what``.

        Returns:
            Only to a tool that pauses in a loop and catches everything: something that is never there.

        Raises:
            Left: What ends the tool's code.
            OutsideWorkflow: The call has ended.
        """
        here = inspect.currentframe()
        line = calling_line(here and here.f_back)
        with self._lock:
            if self._has_ended:
                raise OutsideWorkflow("pause(...)", why=f"the call of {self._tool!r} has ended without it")
            if _left.get() is self:
                return self._refuse(line)
            task = _current_task()
            _left.set(self)  # whatever code goes on from here, in this task or in those that it begins
            running = frozenset(each.task for each in self._exits if each.task and not each.task.done())
            left = Left(f"{self._tool} leaves for people at {line}; let this exception through")
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
            )  # a thread cannot be held for good: its pool may be joined
        raise Left(f"{self._tool} has left already")

    async def run(self, body: Callable[[], Awaitable[object]]) -> tuple[object, T | None]:
        """Run a tool.

        Returns:
            What it returned, and what it has left for, if it has.

        Raises:
            PauseSwallowed: It has caught its leaving and gone on.
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
            self._exits.clear()  # and with them, tracebacks

    async def _outcome_of(self, body: Callable[[], Awaitable[object]]) -> _Outcome:
        """Run a body to its end. No exception ends the task, since some of them end the loop as well."""

        async def tool() -> object:
            return await body()

        try:
            return _Outcome(await _Steps(tool(), self), None)
        except BaseException as error:
            return _Outcome(None, error)

    async def hold(self) -> None:
        """Hold a task of the tool that pauses in a loop; the tool's own is let go where it stands."""
        self._is_held = _current_task() is self._body
        await asyncio.get_running_loop().create_future()

    @property
    def is_held(self) -> bool:
        """Whether the tool's own code is held."""
        return self._is_held

    def _end(self, body: asyncio.Task[_Outcome]) -> tuple[object, T | None]:
        if not body.done():
            log.warning("tool %r caught its pause and has not ended; it goes on by itself", self._tool)
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
        """Whether the tool's code has caught a leaving that is not what the tool ended by."""
        each = self._exits[index]
        is_earlier = index < self._exits.index(ended_by)
        task = each.task
        if task is None or task is self._body:
            return is_earlier
        if not task.done() or task.cancelled():
            return False
        if all(error is not each.left for error in _with_causes(task.exception())):
            return True
        # two tasks that leave at once: the tool ends by one of them
        return is_earlier and task not in ended_by.running

    def _swallowed(self, how: str, exit: _Exit[T] | None = None) -> PauseSwallowed:
        exit = exit or self._exits[0]
        caught = raising_line(exit.left.__traceback__)
        return PauseSwallowed(self._tool, exit.line, caught if caught != exit.line else None, how)


@dataclass(frozen=True, slots=True)
class _Exit(Generic[T]):
    """A pause that has left."""

    left: Left
    for_what: T
    line: str
    task: asyncio.Task[Any] | None  # None: in a thread
    running: frozenset[asyncio.Task[Any]]  # tasks that had left before it, and had not ended yet


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: object
    error: BaseException | None


class _Held(Awaitable[Any]):
    """Never there, for code that pauses again and again whatever it is told.

    Args:
        leaving: How its call leaves.
    """

    def __init__(self, leaving: Leaving[Any]) -> None:
        self._leaving = leaving

    def __await__(self) -> Generator[Any, None, Any]:
        return self._leaving.hold().__await__()

    @property
    def value(self) -> Any:
        raise Left("nobody has answered")


class _Steps(Awaitable[object]):
    """Goes through a coroutine step by step, and lets it go where it stands once it is held.

    Args:
        coroutine: The tool's code.
        leaving: How its call leaves.
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
    """Whether an exception is another, has it among its parts, or was raised while that was handled."""
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
    """Keep asyncio from complaining of a task that left and that nobody waits for."""
    if not task.cancelled():
        task.exception()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
