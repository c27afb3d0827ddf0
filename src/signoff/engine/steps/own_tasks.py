"""Signoff's own tasks. A step that cancels one, for example with ``asyncio.all_tasks()``, fails instead."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.fatal_exceptions import is_in_stop_handler
from signoff.errors import BeyondStep

if TYPE_CHECKING:
    from signoff.engine.run.step_call import StepCall

T = TypeVar("T")


class OwnTask(asyncio.Task[T]):
    """A task that steps cannot cancel, except for the task of their own attempt."""

    def cancel(self, msg: Any | None = None) -> bool:
        """See ``asyncio.Task.cancel``.

        Raises:
            BeyondStep: The code of a step called it. The step fails with this error even if its code continues.
        """
        attempt = current_attempt.get(None)
        if attempt is not None and not self.done() and _is_refused(self, attempt[0]):
            raise refuse(*attempt, f"cancelled the task {self.get_name()!r}", self.get_loop())
        return super().cancel(msg)


def _is_refused(task: asyncio.Task[Any], call: StepCall) -> bool:
    if getattr(call, "task", None) is task:
        return False
    outer = getattr(task.get_loop().get_task_factory(), "outer", None)
    if outer is not None and outer[0] is call:  # the worker itself runs in a step, on a loop of its own
        return False
    return not is_in_stop_handler()


def own_task(
    coro: Coroutine[Any, Any, T], *, name: str | None = None, context: contextvars.Context | None = None
) -> asyncio.Task[T]:
    """Create a task on the running loop that steps cannot cancel."""
    return OwnTask(coro, loop=asyncio.get_running_loop(), name=name, context=context)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, as ``asyncio.run`` does.

    Steps on this loop cannot cancel the tasks of the coroutine.
    """
    with asyncio.Runner() as runner:
        runner.get_loop().set_task_factory(_own_outside_of_steps)
        return runner.run(main)


def _own_outside_of_steps(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
    if current_attempt.get(None) is not None:
        return asyncio.Task(coro, loop=loop, **more)
    return OwnTask(coro, loop=loop, **more)


def refuse(call: StepCall, number: int, what: str, loop: asyncio.AbstractEventLoop) -> BeyondStep:
    """Return the error for a step that touched its worker's tasks or loop, and fail its attempt.

    Args:
        call: The step.
        number: The attempt's number.
        what: The action, such as ``"called loop.stop()"``.
        loop: The worker's event loop. The code may run in another thread.
    """
    error = call.refused = call.blamed = BeyondStep(call.name, what)
    # Not at once: the attempt fails anyway if the code propagates the error or returns.
    loop.call_soon_threadsafe(fail_attempt, call, number, error)
    return error


def fail_attempt(call: StepCall, number: int, error: BaseException) -> bool:
    """Fail the attempt of a step with an error, wherever its code waits. Call it on the worker's event loop.

    Returns:
        Whether the attempt was still running.
    """
    task: asyncio.Task[object] | None = getattr(call, "task", None)
    if task is None or task.done() or call.attempt != number:
        return False
    call.fatal = error
    task.cancel()
    return True
