"""Exceptions that end a process. Raised by user code, they end only its run."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from types import CodeType, FrameType
from typing import Any, Final, cast

from signoff import codec
from signoff.engine.run.user_code_lines import calling_line
from signoff.errors import SignoffError, StepFailed

STOP_SIGNALS: Final = frozenset(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGBREAK")
    if hasattr(signal, name)
)
"""Signals that ask a process to stop. Exceptions of their handlers are the wish of the process's owner."""


def is_stop(error: BaseException) -> bool:
    """Return whether an error asks the process to end: Ctrl-C, or an exception of the app's own SIGTERM handler.

    ``SystemExit`` and ``KeyboardInterrupt`` of user code do not.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if not isinstance(error, KeyboardInterrupt):
        return isinstance(error, SystemExit) and signal_of(error) in STOP_SIGNALS
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return True
    return signal_of(error) in STOP_SIGNALS


def signal_of(error: BaseException) -> int | None:
    """Return the signal whose handler raised an error, or None if no installed handler did."""
    handlers: dict[CodeType, int] | None = None
    traceback = error.__traceback__
    while traceback is not None:
        handlers = _handlers() if handlers is None else handlers
        code = traceback.tb_frame.f_code
        if code in handlers:
            return _signal_given(traceback.tb_frame) or handlers[code]
        traceback = traceback.tb_next
    return None


def is_in_stop_handler() -> bool:
    """Return whether the app's handler for a signal such as SIGTERM is running. It may interrupt any code."""
    handlers = _handlers()
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code in handlers:
            return (_signal_given(frame) or handlers[frame.f_code]) in STOP_SIGNALS
        frame = frame.f_back
    return False


def is_asked_for(error: BaseException) -> bool:
    """Return whether a worker that ends with an error was asked to end, or one of its runs is not to blame.

    Not if a handler of a step's ``signal.alarm`` raised the error, for example.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_asked_for, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    number = signal_of(error)
    if number is not None:
        return number in STOP_SIGNALS
    return isinstance(error, SignoffError) or not isinstance(error, Exception)


def _handlers() -> dict[CodeType, int]:
    """Return the code objects of installed signal handlers, with their signals."""
    found: dict[CodeType, int] = {}
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # asyncio's is a partial
        called: Any = type(handler).__call__ if callable(handler) else None  # of a callable object
        code = getattr(handler, "__code__", None) or getattr(called, "__code__", None)
        if isinstance(code, CodeType):
            found[code] = number
    return found


def _signal_given(frame: FrameType) -> int | None:
    """Return the signal that a handler was called with: it may handle several."""
    code = frame.f_code
    for name in code.co_varnames[: min(2, code.co_argcount)]:
        given = frame.f_locals.get(name)
        if isinstance(given, int) and not isinstance(given, bool):
            return int(given)
    return None


def ends_task(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Return whether an exception ends a task from outside: a cancellation, its closing, or Ctrl-C.

    Args:
        error: The exception.
        task: The task whose code was running.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task  # it is being closed, not running
    return is_stop(error)


def as_failure(what: str, error: BaseException) -> Exception:
    """Return the error with which a run or step fails whose code raised ``error``; always an ``Exception``.

    Args:
        what: The subject, such as ``step 'pay'``.
        error: The exception.
    """
    if isinstance(error, Exception):
        return error
    frame = _innermost(error)
    where = "" if frame is None else f", at {calling_line(frame)}"
    text = text_of(error)
    failure = RuntimeError(f"{what} raised {type(error).__name__}{f': {text}' if text else ''}{where}")
    failure.__cause__ = error
    return failure


def encode_failure(error: BaseException) -> str:
    """Return an error as JSON, even if its own code fails while it is described."""
    try:
        return codec.encode_error(error)
    except BaseException as problem:
        if is_stop(problem):
            raise
        return codec.encode_error(StepFailed(type(error).__qualname__, text_of(error)))


def text_of(error: BaseException) -> str:
    """Return an error's text, even if its own code fails."""
    try:
        return str(error)
    except BaseException as problem:
        if is_stop(problem):
            raise
        return f"(its text cannot be read: str() raised {type(problem).__name__})"


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _innermost(error: BaseException) -> FrameType | None:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return None if traceback is None else traceback.tb_frame
