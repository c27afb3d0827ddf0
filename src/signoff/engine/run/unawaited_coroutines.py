"""Reports coroutines of user code that are dropped without an await, however their function was called.

CPython issues a ``RuntimeWarning`` at the line that drops a coroutine: ``if HELPERS["ask"](ctx):`` does so before its
next line runs. ``warnings.showwarning`` is the public hook for warnings.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any, Final, TextIO

from signoff.engine.run.async_generators import is_collecting
from signoff.engine.run.current_step import current_attempt
from signoff.engine.run.event_loop import WorkflowLoop
from signoff.engine.run.user_code_lines import is_installed, is_own_file
from signoff.errors import NotAwaited

_OURS: Final = "(coroutine '.*') was never awaited(?! )"
"""CPython's warning. The same text with a trailing space is left to the process's filters."""

RETURNED: Final = "the return of the function that called it"

_shown: dict[Any, Any] = {}  # the registry of warnings left to those filters


def watch_coroutines() -> None:
    """Report coroutines that run code drops without an await to their run, or to the running step."""
    previous: Callable[..., object] = warnings.showwarning
    warnings.filterwarnings("always", _OURS, RuntimeWarning)
    if getattr(previous, "watches_coroutines", False):
        return

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = str(message)
        found = re.match(_OURS, text) if issubclass(category, RuntimeWarning) else None
        if found is None:
            previous(message, category, filename, lineno, file, line)
        elif not _is_reported(found[1], filename, lineno, _origin_in(text)):
            spaced = f"{found[0]} {text[found.end() :]}"
            warnings.warn_explicit(spaced, category, filename, lineno, registry=_shown)

    show.watches_coroutines = True  # pyright: ignore[reportFunctionMemberAccess]
    warnings.showwarning = show


def _origin_in(text: str) -> str | None:
    """Return the user's line that created the coroutine, if the warning has it: a workflow's loop tracks origins."""
    found = re.search(r'^  File "(.+)", line (\d+), in (\S+)', text, re.MULTILINE)
    if found is None or is_installed(found[1]):
        return None
    return f"{found[1]}:{found[2]} in {found[3]}"


def _is_reported(what: str, filename: str, lineno: int, origin: str | None) -> bool:
    # The collector may find coroutines of code other than the running one; a library's own are the library's affair.
    is_own = is_own_file(filename)  # the code has returned to it, and drops its remaining coroutines there
    if is_collecting() or (is_installed(filename) and not is_own):
        return False
    loop: object = None
    with contextlib.suppress(RuntimeError):  # without a task: a step with a plain function, in its thread
        loop = asyncio.get_running_loop()
    where = origin
    if where is None:
        where = RETURNED if is_own else f"{filename}:{lineno} in {_function_at(filename, lineno)}"
    if isinstance(loop, WorkflowLoop):
        loop.note_dropped(what, where)
        return True
    attempt = current_attempt.get(None)
    if attempt is None:
        return False
    call = attempt[0]
    call.refused = call.refused or NotAwaited(f"step {call.name!r} of run {call.run.id!r}", what, where)
    return True


def _function_at(filename: str, lineno: int) -> str:
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_lineno == lineno and frame.f_code.co_filename == filename:
            return frame.f_code.co_name
        frame = frame.f_back
    return "an unknown function"
