"""Lines of user code, for errors and logs: where a run executes, waits or raises."""

from __future__ import annotations

import inspect
import os
import sysconfig
from collections.abc import (
    Iterator,
)
from types import CodeType, FrameType, TracebackType
from typing import Final

from signoff.runtime.private_names import line_of

UNKNOWN_LINE: Final = "an unknown line"


RUNS_GENERATOR: Final = "run_generator"
"""The function that awaits the calls a ``generator`` yields. It identifies the generator's line on a stack."""


_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


_FOREIGN = tuple(
    os.path.abspath(path) + os.sep
    for path in {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
    }
    if path
)


def calling_line(frame: FrameType | None, *, is_own: bool = False) -> str:
    """Return the innermost line of user code on a stack, as ``file:line in function``.

    Args:
        frame: The innermost frame of the stack.
        is_own: Whether only user code counts, and no library line replaces it.
    """
    outermost: FrameType | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            if not file.startswith(_FOREIGN) and not file.startswith("<frozen"):
                return _line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            outermost = frame
        elif frame.f_code.co_name == "run_until_quiet":
            break
        elif (generator := _generator_run_by(frame)) is not None:
            found = waiting_line(generator)
            if found != UNKNOWN_LINE:
                return found
        frame = frame.f_back
    if outermost is None or is_own:
        return UNKNOWN_LINE
    return _line(outermost.f_code.co_filename, outermost.f_lineno, outermost.f_code.co_name)


def is_own_file(file: str) -> bool:
    """Return whether a file belongs to Signoff."""
    return file.startswith(_PACKAGE)


def is_installed(file: str) -> bool:
    """Return whether a file belongs to Python, to an installed package or to Signoff."""
    return file.startswith((_PACKAGE, *_FOREIGN, "<frozen"))


def line_in(code: CodeType, instruction: int) -> str:
    """Return the line of an instruction, see ``private_names.instruction_of``."""
    return _line(code.co_filename, line_of(code, instruction), code.co_name)


def raising_line(traceback: TracebackType | None) -> str | None:
    """Return the outermost line of user code in a traceback, or None if there is none."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith((_PACKAGE, *_FOREIGN, "<frozen")):
            return _line(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return None


def frames_of_run() -> Iterator[FrameType]:
    """Yield the frames of user code that a run's loop is running, the innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            if not file.startswith(_FOREIGN) and not file.startswith("<frozen"):
                yield frame
        elif frame.f_code.co_name == "run_until_quiet":
            return
        frame = frame.f_back


def frames_waiting(waiting: object) -> Iterator[FrameType]:
    """Yield the frames of user code in which a coroutine or generator is suspended, the outermost first."""
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None and not frame.f_code.co_filename.startswith((_PACKAGE, *_FOREIGN)):
            yield frame
        if frame is not None and (generator := _generator_run_by(frame)) is not None:
            yield from frames_waiting(generator)
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _generator_run_by(frame: FrameType) -> object | None:
    """Return the generator whose calls a Signoff frame awaits.

    While a call is awaited, the generator's own frame is not on the stack.
    """
    code = frame.f_code
    if code.co_name != RUNS_GENERATOR or not code.co_filename.startswith(_PACKAGE):
        return None
    return frame.f_locals.get("generator")


def waiting_line(waiting: object) -> str:
    """Return the innermost line of user code at which a coroutine or generator is suspended."""
    found = UNKNOWN_LINE
    for frame in frames_waiting(waiting):
        found = _line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return found


def _line(file: str, line: int | None, function: str) -> str:
    return f"{file}:{line} in {function}"
