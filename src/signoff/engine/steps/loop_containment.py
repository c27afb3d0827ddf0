"""Protects a worker's event loop from its steps: ``SystemExit`` in a task or ``loop.stop()`` ends only the step."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from types import CoroutineType
from typing import Any, Final, NoReturn

from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.fatal_exceptions import as_failure, is_asked_for, is_in_stop_handler, is_stop
from signoff.engine.steps.own_tasks import OwnTask, fail_attempt, refuse
from signoff.observability.current_run import fields_of
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.worker")


async def let_begin() -> None:
    """Let the tasks created by the running step begin, so that it is known how each begins."""
    attempt = current_attempt.get(None)
    if attempt is not None and attempt[0].has_tasks:
        await asyncio.sleep(0)


_REFUSED: Final = (
    "close",
    "set_default_executor",
    "set_task_factory",
    "shutdown_asyncgens",
    "shutdown_default_executor",
    "stop",
)
"""Methods that would end or change an event loop for everything on it."""


class Containment:
    """Limits the effect of steps on an event loop while workers run on it.

    Tasks created by steps keep the exceptions they raise. A callback that would end the process fails its step, and so
    do calls of ``loop.stop()`` and the like.

    Attributes:
        ended_by: The error that ended the loop, unless the process's owner asked for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ended_by: BaseException | None = None
        self._loop = loop
        self._workers = 0

    def begin(self) -> None:
        """Begin, for one more worker."""
        self._workers += 1
        if self._workers > 1:
            return
        loop = self._loop
        self._outer = current_attempt.get(None)  # the worker itself may run in a step, on a loop of its own
        self._before = loop.get_task_factory()
        self._factory = _Factory(loop, self._before, self._outer)
        loop.set_task_factory(self._factory)
        self._end_callbacks = private_names.contain_callbacks(loop, self._contain)
        self._replaced: dict[str, Any] = {}
        for name in _REFUSED:
            method = self._refusing(name, getattr(loop, name, None))
            with contextlib.suppress(AttributeError):  # a loop whose methods cannot be replaced
                setattr(loop, name, method)
                self._replaced[name] = method

    def end(self) -> bool:
        """End, for one worker. Returns whether it was the last."""
        self._workers -= 1
        if self._workers:
            return False
        loop = self._loop
        for name, method in self._replaced.items():
            if loop.__dict__.get(name) is method:
                delattr(loop, name)
        self._end_callbacks()
        if loop.get_task_factory() is self._factory:
            loop.set_task_factory(self._before)
        self._factory.is_over = True
        return True

    def _refusing(self, name: str, method: Any) -> Any:
        def refusing(*args: Any, **kwargs: Any) -> Any:
            attempt = current_attempt.get(None)
            if attempt is not None and attempt is not self._outer and not is_in_stop_handler():
                raise refuse(*attempt, f"called loop.{name}()", self._loop)
            return method(*args, **kwargs)

        return refusing

    def _contain(self, error: BaseException, context: Context | None) -> bool:
        """Fail the step whose callback raised ``error``. Returns False if it was not a step's: the loop ends."""
        attempt = None if context is None else context.get(current_attempt)
        if attempt is None or not isinstance(error, SystemExit | KeyboardInterrupt) or is_stop(error):
            if not is_asked_for(error):
                self.ended_by = error
            return False
        call, number = attempt
        is_failed = fail_attempt(call, number, error)
        log.error(
            "a callback of step %r of run %s%s: %s",
            call.name,
            call.run.id,
            "" if is_failed else ", which had ended before,",
            as_failure("it", error),
            extra=fields_of(call.run),
        )
        return True


_containments: dict[asyncio.AbstractEventLoop, Containment] = {}


@contextmanager
def contained(loop: asyncio.AbstractEventLoop) -> Generator[Containment]:
    """Protect an event loop from steps while a worker runs on it. See ``Containment``."""
    containment = _containments.setdefault(loop, Containment(loop))
    containment.begin()
    try:
        yield containment
    finally:
        if containment.end():
            del _containments[loop]  # otherwise it would never be freed


class _Factory:
    """Creates tasks as the loop did before. Those created by steps are contained."""

    def __init__(self, loop: asyncio.AbstractEventLoop, before: Any, outer: Any) -> None:
        self._before = before
        self._has_own_tasks = not _is_simulated(loop)
        self.outer = outer
        self.is_over = False

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> Any:
        attempt = None if self.is_over else current_attempt.get(None)
        if attempt is not None and attempt is not self.outer and asyncio.iscoroutine(coro):
            attempt[0].has_tasks = True
            coro = _Contained(coro)
        elif self._has_own_tasks and _is_own(coro):
            return OwnTask(coro, loop=loop, **more)
        if self._before is not None:
            return self._before(loop, coro, **more)
        return asyncio.Task(coro, loop=loop, **more)


_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN: Final = tuple(os.path.join(_PACKAGE, folder, "") for folder in ("engine", "stores"))
"""The folders of a worker's own code. Steps may use other parts of Signoff, such as clients."""


def _is_own(coro: object) -> bool:
    return isinstance(coro, CoroutineType) and coro.cr_code.co_filename.startswith(_OWN)


def _is_simulated(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop belongs to a simulation, which has its own task class."""
    return type(loop).run_forever is asyncio.AbstractEventLoop.run_forever


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises RuntimeError in place of an exception that would end the process."""

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except (SystemExit, KeyboardInterrupt) as error:
            _raise(error)

    def throw(self, *error: Any) -> Any:
        try:
            return self._inner.throw(*error)
        except (SystemExit, KeyboardInterrupt) as raised:
            _raise(raised)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __repr__(self) -> str:
        return repr(self._inner)


def _raise(error: BaseException) -> NoReturn:
    if is_stop(error):
        raise error
    raise as_failure("a task of a step", error) from error
