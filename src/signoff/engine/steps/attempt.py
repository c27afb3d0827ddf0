"""Running one attempt of a step on a worker: async functions on its loop, plain ones in its threads."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from signoff import codec
from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.fatal_exceptions import as_failure, ends_task, is_stop
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.live_stream import Voice
from signoff.engine.steps.own_tasks import OwnTask
from signoff.engine.steps.retry import NEVER_RETRIED, NO_RETRY, RetryPolicy
from signoff.engine.steps.step_arguments import Given
from signoff.engine.steps.threads import StepThreads
from signoff.engine.steps.wrong_calls import is_wrong_call
from signoff.engine.worker.pace import Pace
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


class _Speaker:
    """Has a voice, which is none of its facts."""

    __slots__ = ("voice",)
    voice: Voice | None


@dataclass(frozen=True, slots=True)
class StepInfo(_Speaker):
    """What the code of a step may know of itself.

    Attributes:
        run_id: The run.
        n: The number of the step's call.
        name: The step's name.
        attempt: Which attempt this is, from 1.
        idempotency_key: The same at every attempt of this step, for whatever it calls.
    """

    run_id: str
    n: int
    name: str
    attempt: int
    idempotency_key: str

    def live(self, text: str, kind: str = "text") -> None:
        """Say what the step has so far, for whoever follows the run live; may be called from any thread.

        It is added to what this attempt has said before. Nothing of it is journaled: it is gone when the attempt ends,
        and what the step returns is what counts. It never waits, and the step does not fail if it cannot be delivered.
        What all steps of a process say is written together, about ten times a second; of each the last 65,536
        characters are kept for readers who come later.

        Args:
            text: What to add.
            kind: What it is, if there are several things to tell apart.

        Example::

            async for token in tokens:
                signoff.current_step().live(token)
        """
        voice: Voice | None = getattr(self, "voice", None)
        if voice is not None:
            voice.say(text, kind)


def current_step() -> StepInfo:
    """Return what the running step may know of itself.

    Raises:
        OutsideWorkflow: No step is running here.

    Example::

        httpx.post(url, headers={"Idempotency-Key": signoff.current_step().idempotency_key})
    """
    try:
        call, number = current_attempt.get()
    except LookupError:
        raise OutsideWorkflow("current_step()", why="no step is running here") from None
    info = StepInfo(call.run.id, call.n, call.name, number, call.idempotency_key)
    object.__setattr__(info, "voice", call.voice_of(number))
    return info


@dataclass(slots=True)
class Attempt:
    """What came of one attempt: a value with its JSON, or an error."""

    call: StepCall
    number: int
    text: str | None = None
    value: Any = None
    error: Exception | None = None
    started_at: float = 0.0  # unix seconds; whoever made the attempt says so
    is_final: bool = False  # it returned what cannot be kept: its effect has happened, and would happen again
    waits: list[float | None] | None = field(default=None, repr=False)

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next attempt, or None if there is none. The policy is asked once.

        A policy whose own code fails adds a note to the error: look at this before the error is recorded.
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


def create_step_task(call: StepCall, running: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Make the task of an attempt, in a copy of the context of the code that called the step."""
    assert call.context is not None
    context = call.context.copy()
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):  # it may end without a turn of the loop
        return OwnTask(running, loop=loop, name="signoff step", context=context, eager_start=True)
    return OwnTask(running, loop=loop, name="signoff step", context=context)


def run_attempt(
    call: StepCall, run_id: str, number: int, threads: StepThreads, pace: Pace
) -> Coroutine[Any, Any, Attempt]:
    """Run attempt ``number`` of a step.

    An error of the step is part of the result. ``CancelledError`` comes through only if this very task was
    cancelled; a plain function goes on in its thread then, and what it returns is dropped.
    """
    if events.subscribers:
        return _run_announced(call, number, threads, pace)
    return _run(call, number, threads, pace)


def _info(call: StepCall, number: int) -> AttemptInfo:
    return AttemptInfo(
        RunInfo.of(call.run), call.n, call.name, number, call.step_options.effect, call.idempotency_key
    )


async def _run_announced(call: StepCall, number: int, threads: StepThreads, pace: Pace) -> Attempt:
    """Run an attempt and announce it, in the context in which the step's function is called."""
    current_attempt.set((call, number))
    info = _info(call, number)
    events.announce(AttemptStarted(info))
    began = time.perf_counter()
    attempt: Attempt | None = None
    try:
        attempt = await _run(call, number, threads, pace)
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


async def _run(call: StepCall, number: int, threads: StepThreads, pace: Pace) -> Attempt:
    current_attempt.set((call, number))  # in the context of the attempt's task, which begins here
    call.refused = None
    task = asyncio.current_task()
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
            value = await call.function(*call.args, **call.kwargs)  # as ``_invoke`` does: most steps
        else:
            value = await _invoke(call, threads)
        if pace.is_behind and call.step_options.effect != "once":  # whose outcome no cancellation may lose
            await pace.turn()
        began = pace.time()
        attempt = _attempt_with(call, number, value)
        pace.computed(began)
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
            del call.task  # whose result refers to the call


def _attempt_with(call: StepCall, number: int, value: Any) -> Attempt:
    """Return what came of an attempt that returned. A value that cannot be kept is not tried for again."""
    if call.refused is not None:
        return Attempt(call, number, error=call.refused)
    options = call.step_options
    limit = codec.MAX_BYTES if options.durable else sys.maxsize  # only what is journaled has a limit
    path = f"result of step {call.name!r}"
    try:
        text, value = codec.normalize(value, options.returns, path=path, limit=limit)
    except Exception as error:
        return Attempt(call, number, error=error, is_final=True)
    return Attempt(call, number, text, value)


async def _invoke(call: StepCall, threads: StepThreads) -> Any:
    if call.given is None:
        return await _call(call, Given(call.function, call.args, call.kwargs, True), threads)
    given = call.given.fresh()
    try:
        return await _call(call, given, threads)
    finally:
        _look_for_changes(call, call.given, given)


def _look_for_changes(call: StepCall, given: Given, called: Given) -> None:
    """Warn of what a step has changed. If the check fails, the step does not: a retry would repeat its effect."""
    try:
        given.warn_of_changes(call.name, called, call.shared)
    except BaseException as error:
        if is_stop(error):
            raise
        log.warning("step %r: cannot say whether it changed its arguments or variables: %r", call.name, error)


async def _call(call: StepCall, given: Given, threads: StepThreads) -> Any:
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
        context.run(_note_wait, call, seconds)

    if seconds is None:
        outcome = threads.run_step(what, work, None, waited)
        if outcome.done():  # from Python 3.14 on; callbacks that its thread has sent to the loop come first
            if not outcome.cancelled():
                outcome.exception()  # else asyncio logs it as never retrieved, if this attempt is cancelled now
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
        await begun  # its time begins when it has a thread
    except asyncio.CancelledError:
        outcome.cancel()
        raise
    return await _in_time(call, seconds, _with_rest(outcome))


def _note_wait(call: StepCall, seconds: float) -> None:
    """Note that an attempt had to wait for a thread: that time is not counted in it."""
    call.thread_wait = seconds
    if events.subscribers:
        events.announce(ThreadAwaited(_info(call, call.attempt), seconds))


def _begin(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)


async def _with_rest(outcome: Awaitable[Any]) -> Any:
    """Return what a plain function returned, and what came of it if it returned an awaitable."""
    value = await outcome
    return await value if inspect.isawaitable(value) else value


def _is_async(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    if code is None:
        return inspect.iscoroutinefunction(function)
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _invoke_plain(name: str, given: Given) -> Any:
    try:
        return given.function(*given.args, **given.kwargs)
    except StopIteration as error:  # which no future can carry
        raise RuntimeError(f"step {name!r} raised StopIteration") from error
    except Exception:
        raise
    except BaseException as error:
        raise as_failure(f"step {name!r}", error) from error


async def _in_time(call: StepCall, seconds: float | None, running: Awaitable[Any]) -> Any:
    if seconds is None:
        return await running
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await running
    except TimeoutError:
        if limit.expired():
            raise StepTimeout(call.name, seconds) from None
        raise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
