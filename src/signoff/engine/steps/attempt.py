"""Runs one attempt of a step: async functions on the worker's event loop, plain functions in its threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import astuple, dataclass, field
from typing import Any, TypeVar

from signoff import codec
from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.fatal_exceptions import as_failure, ends_task, is_stop
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.live_stream import LiveStream
from signoff.engine.steps.own_tasks import OwnTask
from signoff.engine.steps.retry import NEVER_RETRIED, NO_RETRY, RetryPolicy
from signoff.engine.steps.step_arguments import StepArguments
from signoff.engine.steps.threads import StepThreads
from signoff.engine.steps.time_limit import TimeLimit
from signoff.engine.steps.wrong_arguments import is_wrong_call
from signoff.engine.worker.compute_throttle import LONG_SECONDS, ComputeThrottle
from signoff.errors import OutsideWorkflow, StepTimeout
from signoff.observability import events
from signoff.observability.events import (
    AttemptCancelled,
    AttemptFailed,
    AttemptInfo,
    AttemptStarted,
    AttemptSucceeded,
    RunInfo,
    ThreadAwaited,
)
from signoff.runtime.loggers import own_logger

T = TypeVar("T")

log = own_logger("signoff.worker")

DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True)
class _StepFacts:
    __slots__ = ("attempt", "idempotency_key", "n", "name", "run_id")

    run_id: str
    n: int
    name: str
    attempt: int
    idempotency_key: str


class StepInfo(_StepFacts):
    """Information about the running step, for its code.

    Attributes:
        run_id: The run's id.
        n: The number of the step's call.
        name: The step's name.
        attempt: The attempt's number, from 1.
        idempotency_key: A key identical for all attempts of this step, to pass to the services it calls.
    """

    __slots__ = ("_live_stream",)
    _live_stream: LiveStream | None

    def __init__(
        self,
        run_id: str,
        n: int,
        name: str,
        attempt: int,
        idempotency_key: str,
        *,
        live_stream: LiveStream | None = None,
    ) -> None:
        super().__init__(run_id, n, name, attempt, idempotency_key)
        self._live_stream = live_stream

    def __reduce__(self) -> tuple[type[StepInfo], tuple[object, ...]]:
        """Leave the live stream out of copies: it belongs to this process, and is not part of the step's data."""
        return StepInfo, astuple(self)

    def live(self, text: str, kind: str = "text") -> None:
        """Publish intermediate output to observers of the run. Thread-safe.

        The text is added to the attempt's earlier output. It is not journaled and is deleted when the attempt ends;
        only the step's result is kept. The call never blocks, and the step does not fail if the text cannot be
        delivered. The output of all steps of a process is written about ten times a second. For late readers, the last
        65,536 characters of each step are kept.

        Args:
            text: The text to add.
            kind: A category, if there are several to tell apart.

        Example::

            async for token in tokens:
                signoff.current_step().live(token)
        """
        live_stream: LiveStream | None = getattr(self, "_live_stream", None)
        if live_stream is not None:
            live_stream.write(text, kind)


def current_step() -> StepInfo:
    """Return information about the running step.

    Raises:
        OutsideWorkflow: No step is running here.

    Example::

        httpx.post(url, headers={"Idempotency-Key": signoff.current_step().idempotency_key})
    """
    try:
        call, number = current_attempt.get()
    except LookupError:
        raise OutsideWorkflow("current_step()", why="no step is running here") from None
    live_stream = call.live_of(number)
    return StepInfo(call.run.id, call.n, call.name, number, call.idempotency_key, live_stream=live_stream)


@dataclass(slots=True)
class Attempt:
    """The result of one attempt: a value with its JSON, or an error."""

    call: StepCall
    number: int
    text: str | None = None
    value: Any = None
    error: Exception | None = None
    started_at: float = 0.0  # Unix seconds; set by the caller that runs the attempt
    # The step returned a value that cannot be stored: a retry would repeat its effect.
    is_final: bool = False
    waits: list[float | None] | None = field(default=None, repr=False)

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt; None for no further attempt. The retry policy is asked once.

        A policy whose own code fails adds a note to the error, so read this before the error is recorded.
        """
        if self.waits is None:
            self.waits = [self._wait_by_policy()]
        return self.waits[0]

    def _wait_by_policy(self) -> float | None:
        options = self.call.step_options
        if (
            self.error is None
            or self.is_final
            or isinstance(self.error, (*NEVER_RETRIED, *options.non_retryable))
            or is_wrong_call(self.error)
        ):
            return None
        policy = NO_RETRY if options.effect == "once" else options.retry or DEFAULT_RETRY
        return policy.wait_after_error(self.error, self.number)


def create_step_task(
    call: StepCall, running: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop
) -> asyncio.Task[T]:
    """Create the task of an attempt on the running loop, in a copy of the context of the code that called the step."""
    assert call.context is not None
    context = call.context.copy()
    if sys.version_info >= (3, 12):  # it may end without a turn of the event loop
        return OwnTask(running, loop=loop, name="signoff step", context=context, eager_start=True)
    return OwnTask(running, loop=loop, name="signoff step", context=context)


def run_attempt(
    call: StepCall, run_id: str, number: int, threads: StepThreads, throttle: ComputeThrottle
) -> Coroutine[Any, Any, Attempt]:
    """Run attempt ``number`` of a step.

    An error of the step is part of the result. ``CancelledError`` propagates only if this task was cancelled. A plain
    function then continues in its thread, and its result is dropped.
    """
    if events.subscribers:
        return _run_announced(call, number, threads, throttle)
    return _run(call, number, threads, throttle)


def _info(call: StepCall, number: int) -> AttemptInfo:
    return AttemptInfo(
        RunInfo.of(call.run), call.n, call.name, number, call.step_options.effect, call.idempotency_key
    )


async def _run_announced(
    call: StepCall, number: int, threads: StepThreads, throttle: ComputeThrottle
) -> Attempt:
    """Run an attempt and announce it, in the context of the step's function."""
    current_attempt.set((call, number))
    info = _info(call, number)
    events.announce(AttemptStarted(info))
    began = time.perf_counter()
    attempt: Attempt | None = None
    try:
        attempt = await _run(call, number, threads, throttle)
        return attempt
    finally:
        seconds = max(0.0, time.perf_counter() - began - call.thread_wait)
        if attempt is None:
            events.announce(AttemptCancelled(info, seconds))
        elif attempt.error is None:
            events.announce(AttemptSucceeded(info, seconds))
        else:
            retried = attempt.retry_after is not None
            events.announce(AttemptFailed(info, seconds, attempt.error, retried))


async def _run(call: StepCall, number: int, threads: StepThreads, throttle: ComputeThrottle) -> Attempt:
    current_attempt.set((call, number))  # in the context of the attempt's task, which starts here
    call.refused, call.threads = None, threads
    task = asyncio.current_task(throttle.loop)
    assert task is not None
    call.task = task
    try:
        callee = call.callee
        if (
            callee is not None
            and callee.is_async
            and call.given is None
            and call.step_options.timeout is None
        ):
            # Inlined from `_invoke` for the common case.
            value = await call.function(*call.args, **call.kwargs)
        else:
            value = await _invoke(call, threads)
        # An outcome that a cancellation must not lose.
        if throttle.is_behind and call.step_options.effect != "once":
            await throttle.turn()
        began = throttle.time()
        attempt = _attempt_with(call, number, value)
        if throttle.time() - began >= LONG_SECONDS:
            throttle.computed(began)
        return attempt
    except asyncio.CancelledError as error:
        fatal: BaseException | None = getattr(call, "fatal", None)
        if fatal is not None:
            del call.fatal
            task.uncancel()
        if _is_cancelled():
            raise
        if fatal is not None:
            return Attempt(call, number, error=as_failure(f"a callback of step {call.name!r}", fatal))
        return Attempt(call, number, error=RuntimeError(f"step {call.name!r} cancelled itself: {error}"))
    except Exception as error:
        return Attempt(call, number, error=error)
    except BaseException as error:
        if ends_task(error, task):
            raise
        return Attempt(call, number, error=as_failure(f"step {call.name!r}", error))
    finally:
        if getattr(call, "task", None) is task:
            del call.task  # its result refers to the call


def _attempt_with(call: StepCall, number: int, value: Any) -> Attempt:
    """Return the attempt for a returned value. A value that cannot be stored is not retried."""
    if call.refused is not None:
        return Attempt(call, number, error=call.refused)
    options = call.step_options
    limit = codec.MAX_BYTES if options.durable else sys.maxsize  # only journaled values have a limit
    try:
        text, value = codec.normalize(
            value, options.returns, path=f"result of step {call.name!r}", limit=limit
        )
    except Exception as error:
        return Attempt(call, number, error=error, is_final=True)
    except BaseException as error:  # of a validator of the user's
        if is_stop(error):
            raise
        return Attempt(call, number, error=as_failure(f"step {call.name!r}", error), is_final=True)
    return Attempt(call, number, text, value)


async def _invoke(call: StepCall, threads: StepThreads) -> Any:
    if call.given is None:
        return await _call(call, StepArguments(call.function, call.args, call.kwargs, True), threads)
    given = call.given.fresh()
    try:
        return await _call(call, given, threads)
    finally:
        _look_for_changes(call, call.given, given)


def _look_for_changes(call: StepCall, given: StepArguments, called: StepArguments) -> None:
    """Warn of what a step has changed. If the check fails, the step does not: a retry would repeat its effect."""
    try:
        given.warn_of_changes(call.name, called, call.shared)
    except BaseException as error:
        if is_stop(error):
            raise
        log.warning(
            "step %r: cannot write whether it changed its arguments or variables: %r", call.name, error
        )


async def _call(call: StepCall, given: StepArguments, threads: StepThreads) -> Any:
    seconds = call.step_options.timeout
    if _is_async(given.function) if call.callee is None else call.callee.is_async:
        if seconds is None:
            return await given.function(*given.args, **given.kwargs)
        return await _in_time(call, seconds, given.function(*given.args, **given.kwargs))
    context = contextvars.copy_context()
    what = f"step {call.name!r} of run {call.run.id}"

    def work() -> Any:
        return context.run(_invoke_plain, call.name, given)

    def waited(seconds: float) -> None:
        context.run(note_thread_wait, call, seconds)

    if seconds is None:
        outcome = threads.run_step(what, work, None, waited)
        if outcome.done():  # since Python 3.14; callbacks that its thread has sent to the loop come first
            if not outcome.cancelled():
                # Otherwise asyncio logs it as never retrieved if this attempt is cancelled now.
                outcome.exception()
            await asyncio.sleep(0)
        return await _with_rest(outcome)
    loop = asyncio.get_running_loop()
    begun = loop.create_future()
    outcome = threads.run_step(
        what,
        work,
        lambda: loop.call_soon_threadsafe(_begin, begun),
        waited,
    )
    try:
        await begun  # its timeout starts once it has a thread
    except asyncio.CancelledError:
        outcome.cancel()
        raise
    return await _in_time(call, seconds, _with_rest(outcome))


def note_thread_wait(call: StepCall, seconds: float) -> None:
    """Note how long an attempt waited for a thread. That time does not count as its duration."""
    call.thread_wait += seconds
    if events.subscribers:
        events.announce(ThreadAwaited(_info(call, call.attempt), seconds))


def _begin(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)


async def _with_rest(outcome: Awaitable[Any]) -> Any:
    """Return the result of a plain function; await it if it is awaitable."""
    value = await outcome
    return await value if inspect.isawaitable(value) else value


def _is_async(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return inspect.iscoroutinefunction(function)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _invoke_plain(name: str, given: StepArguments) -> Any:
    try:
        return given.function(*given.args, **given.kwargs)
    except StopIteration as error:  # futures cannot carry StopIteration
        raise RuntimeError(f"step {name!r} raised StopIteration") from error
    except Exception:
        raise
    except BaseException as error:
        raise as_failure(f"step {name!r}", error) from error


async def _in_time(call: StepCall, seconds: float | None, running: Awaitable[Any]) -> Any:
    if seconds is None:
        return await running
    limit = TimeLimit(seconds)
    try:
        async with limit:
            return await running
    except TimeoutError:
        if limit.has_expired:
            raise StepTimeout(call.name, seconds) from None
        raise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
