"""The worker's step threads as an executor, for libraries that run plain functions inside an async step."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import note_thread_wait
from signoff.engine.steps.time_limit import stop_limits

T = TypeVar("T")
P = ParamSpec("P")


def step_executor() -> Executor | None:
    """Return an executor whose work counts as plain work of the step that runs here.

    Returns:
        The executor; None if no step runs on this very loop.
    """
    attempt = current_attempt.get(None)
    task = None if attempt is None else getattr(attempt[0], "task", None)
    loop = asyncio.get_running_loop()
    if attempt is None or task is None or task.get_loop() is not loop:
        return None
    return StepExecutor(attempt[0], loop)


class StepExecutor(Executor):
    """Runs plain functions of one step in the worker's threads for plain steps.

    A function that waits for a thread is warned about and measured as a plain step is. The wait counts for no time
    limit of the step.

    Args:
        call: The step.
        loop: The worker's loop.
    """

    def __init__(self, call: StepCall, loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue a function. Cancelling the future withdraws it, unless it has begun."""
        loop = asyncio.get_running_loop()
        threads = self._call.threads
        if loop is not self._loop or threads is None:
            # a plain function, which holds a thread already, runs a loop of its own: it must not wait for a second
            with_own_thread = ThreadPoolExecutor(1, thread_name_prefix="signoff step")
            try:
                return with_own_thread.submit(fn, *args, **kwargs)
            finally:
                with_own_thread.shutdown(wait=False)
        call, context = self._call, contextvars.copy_context()
        resume = stop_limits(loop)

        def work() -> T:
            try:
                return fn(*args, **kwargs)
            except StopIteration as error:  # which no future can carry
                raise RuntimeError(f"a function of step {call.name!r} raised StopIteration") from error

        outcome: Future[T] = Future()
        running = threads.run_step(
            f"step {call.name!r} of run {call.run.id}",
            work,
            None if resume is None else lambda: loop.call_soon_threadsafe(resume),
            lambda seconds: context.run(note_thread_wait, call, seconds),
        )

        def ended(done: asyncio.Future[T]) -> None:
            if resume is not None:
                resume()
            if done.cancelled():
                outcome.cancel()
            elif not outcome.set_running_or_notify_cancel():
                done.exception()  # else asyncio logs it as never retrieved
            elif (error := done.exception()) is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(done.result())

        def withdraw(future: Future[Any]) -> None:  # without `outcome`, which keeps this function
            if future.cancelled():
                running.cancel()

        running.add_done_callback(ended)
        outcome.add_done_callback(withdraw)
        return outcome
