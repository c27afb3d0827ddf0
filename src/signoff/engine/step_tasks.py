"""What steps do to their worker's loop: SystemExit in a task or callback, or ``loop.stop()``, ends the step alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, NoReturn

from signoff import private_names
from signoff.engine.fatal import as_failure, is_ctrl_c
from signoff.engine.scope import current_attempt, fields_of
from signoff.own_logs import own_logger

log = own_logger("signoff.worker")


async def let_begin() -> None:
    """Have tasks begin that the step which runs here has made, so that it is known of each how it begins."""
    attempt = current_attempt.get(None)
    if attempt is not None and attempt[0].has_tasks:
        await asyncio.sleep(0)


@contextmanager
def contained(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Have steps end nothing but themselves on a loop, while a worker runs there.

    The tasks that they make keep what they raise, a callback that would end the process fails its step, and
    ``loop.stop()`` raises a RuntimeError in a step.
    """
    before = loop.get_task_factory()
    outer = current_attempt.get(None)  # the worker itself may run in a step, on a loop of its own
    stop = loop.stop

    def stop_outside_of_steps() -> None:
        if current_attempt.get(None) is not outer:
            raise RuntimeError("a step called loop.stop(): the loop is its worker's, which runs other steps")
        stop()

    with contextlib.suppress(AttributeError):  # of a loop whose methods cannot be replaced
        setattr(loop, "stop", stop_outside_of_steps)  # noqa: B010
    factory = _Factory(before)
    loop.set_task_factory(factory)
    end = private_names.contain_callbacks(loop, _contain)
    try:
        yield
    finally:
        end()
        if loop.get_task_factory() is factory:
            loop.set_task_factory(before)
        factory.is_over = True
        if loop.__dict__.get("stop") is stop_outside_of_steps:
            del loop.stop


def _contain(error: BaseException, context: Context | None) -> bool:
    """Fail the step whose callback raised ``error``. Returns False if none did so."""
    attempt = None if context is None else context.get(current_attempt)
    if attempt is None or is_ctrl_c(error):
        return False
    call, number = attempt
    task: asyncio.Task[object] | None = getattr(call, "task", None)
    is_over = task is None or task.done() or call.attempt != number
    log.error(
        "a callback of step %r of run %s%s: %s",
        call.name,
        call.run.id,
        ", which had ended before," if is_over else "",
        as_failure("it", error),
        extra=fields_of(call.run),
    )
    if task is not None and not is_over:
        call.fatal = error
        task.cancel()
    return True


class _Factory:
    """Makes tasks as the loop did before; those made by steps are contained."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self.is_over = False

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> Any:
        attempt = None if self.is_over else current_attempt.get(None)
        if attempt is not None and asyncio.iscoroutine(coro):
            attempt[0].has_tasks = True
            coro = _Contained(coro)
        if self._before is not None:
            return self._before(loop, coro, **more)
        return asyncio.Task(coro, loop=loop, **more)


class _Contained(Coroutine[Any, Any, Any]):
    """A coroutine that raises a RuntimeError where its inside raises what ends a process."""

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
    if is_ctrl_c(error):
        raise error
    raise as_failure("a task of a step", error) from error
