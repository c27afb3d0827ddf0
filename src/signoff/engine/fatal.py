"""Exceptions that end a process by themselves. Raised by user code, they end its run and nothing else."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType

from signoff import codec
from signoff.engine.loop import calling_line
from signoff.errors import StepFailed


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a KeyboardInterrupt comes from the keyboard, and not from user code that raised it."""
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return True
    frame = _innermost(error)
    handler = getattr(handler, "func", handler)  # asyncio's is a partial
    return frame is not None and getattr(handler, "__code__", None) is frame.f_code


def ends_task(error: BaseException, task: asyncio.Task[object] | None) -> bool:
    """Whether an exception ends a task from outside: a cancellation, its closing, or Ctrl-C.

    Args:
        error: What was raised.
        task: The task whose code was running.
    """
    if isinstance(error, asyncio.CancelledError):
        return task is not None and task.cancelling() > 0
    if isinstance(error, GeneratorExit):
        return task is None or _current_task() is not task  # it is being closed, not running
    return is_ctrl_c(error)


def as_failure(what: str, error: BaseException) -> Exception:
    """Return the error with which a run or a step fails whose code raised ``error``: an ``Exception``, always.

    Args:
        what: What raised it, such as ``step 'pay'``.
        error: What was raised.
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
    """Return an error as JSON, also one whose own code fails when it is asked what it says."""
    try:
        return codec.encode_error(error)
    except BaseException as problem:
        if is_ctrl_c(problem):
            raise
        return codec.encode_error(StepFailed(type(error).__qualname__, text_of(error)))


def text_of(error: BaseException) -> str:
    """Return what an error says, also if its own code fails."""
    try:
        return str(error)
    except BaseException as problem:
        if is_ctrl_c(problem):
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
