"""The private names of Python and of libraries that Signoff relies on, where there is no public equivalent.

No other module uses private names, except for an overridden method: ``Durable._model_stream_event_handler``.
``tests/test_private_names.py`` has a test for each: if a new version changes a name, its test fails and says what
breaks.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any, Final, cast

from pydantic_core import SchemaValidator
from pydantic_core.core_schema import CoreConfig

# asyncio


Outer = tuple[asyncio.AbstractEventLoop | None, "asyncio.Task[Any] | None"]
"""The loop that ran in a thread, and its current task."""

# Each turn of a run enters and leaves its loop. A module lookup takes longer than the call itself.
_running_loop = asyncio._get_running_loop  # pyright: ignore[reportPrivateUsage]
_set_running_loop = asyncio._set_running_loop  # pyright: ignore[reportPrivateUsage]
_SETS_TASK_ASIDE: Final = sys.version_info >= (3, 14)


def enter(loop: asyncio.AbstractEventLoop) -> Outer:
    """Make ``loop`` the running loop of the calling thread, in place of the one that runs there, if any.

    From Python 3.14 on the outer loop's current task is set aside until ``leave``: asyncio does not enter a task while
    another task of the thread is current.

    asyncio exports these names for other implementations of loops and tasks. The public functions refuse to run one
    loop inside another.

    Returns:
        The state for ``leave``.
    """
    outer = _running_loop()
    task = None
    if _SETS_TASK_ASIDE and outer is not None:
        task = asyncio.current_task(outer)
        if task is not None:
            asyncio._leave_task(outer, task)  # pyright: ignore[reportPrivateUsage]
    _set_running_loop(loop)
    return outer, task


def leave(outside: Outer) -> None:
    """Restore the loop and the task from before ``enter``."""
    outer, task = outside
    _set_running_loop(outer)
    if task is not None and outer is not None:
        asyncio._enter_task(outer, task)  # pyright: ignore[reportPrivateUsage]


@contextmanager
def running(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Make ``loop`` the running loop of the calling thread while in the block. See ``enter``."""
    outer = enter(loop)
    try:
        yield
    finally:
        leave(outer)


def contain_callbacks(
    loop: asyncio.AbstractEventLoop, contain: Callable[[BaseException, Context | None], bool]
) -> Callable[[], None]:
    """Keep a loop running when a callback raises ``SystemExit`` or ``KeyboardInterrupt``, which end asyncio's loops.

    An exception of a signal handler while the loop waits is contained likewise. It has no callback.

    Loops of other libraries (uvloop) lack the patched method, so nothing changes there (docs/operating.md).

    Args:
        loop: The loop. It may be running.
        contain: Gets the error and the context of the callback that raised it. Returns whether the loop continues.

    Returns:
        A function that undoes this.
    """
    run_once: Callable[[], None] | None = getattr(loop, "_run_once", None)
    if run_once is None:
        return lambda: None

    def run_once_contained() -> None:
        try:
            run_once()
        except BaseException as error:
            if not contain(error, _context_of_callback(error)):
                raise

    vars(loop)["_run_once"] = run_once_contained

    def end() -> None:
        if vars(loop).get("_run_once") is run_once_contained:
            del vars(loop)["_run_once"]

    return end


def _context_of_callback(error: BaseException) -> Context | None:
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is asyncio.Handle._run.__code__:  # pyright: ignore[reportPrivateUsage]
            return traceback.tb_frame.f_locals["self"]._context
        traceback = traceback.tb_next
    return None


def agent_run_here() -> str | None:
    """Return the id of the Pydantic AI run that the current code belongs to, if any.

    Pydantic AI passes its run context to functions that declare it. ``pause`` must know the run without that.
    """
    from pydantic_ai._run_context import get_current_run_context  # an optional dependency

    context = get_current_run_context()
    return None if context is None else context.run_id


# CPython


def frame_of(thread: int) -> FrameType | None:
    """Return the innermost frame of another thread, by its identifier; None if it has ended.

    ``sys._current_frames`` is documented. ``faulthandler`` can write such frames into files only.
    """
    # CPython holds a lock meanwhile. A garbage collection in it may need the same lock, and the process would hang.
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    finally:
        if is_enabled:
            gc.enable()


def before_threads_end(call: Callable[[], object]) -> None:
    """Call a function when the main thread has ended, while executors still accept work.

    ``atexit`` is too late: Python first waits for all threads and shuts executors down.
    """
    register: Callable[[Callable[[], object]], None] | None = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(call)


def set_finalized(suspended: object) -> None:
    """Make CPython free a suspended coroutine or generator later without running its code.

    An object is finalized at most once. A bit in its garbage collection header marks that: the lowest bit of the second
    of the two words before the object. Free-threaded builds have no such header.
    """
    word = ctypes.sizeof(ctypes.c_size_t)
    ctypes.c_size_t.from_address(id(suspended) - word).value |= 1


raise_in = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
"""Raises an exception in another thread, given its identifier and the class: the only way to stop code that is busy.

The function is documented, but only for C. It is declared to return None, as an ``__init__`` must.
"""
raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
raise_in.restype = None


instruction_of: Callable[[FrameType], int] = attrgetter("f_lasti")
"""Returns where a frame is, for ``line_of``. ``f_lineno`` would search the function's whole code each time: 18 us at
the end of 100 lines, for each call that workflow code makes."""


def line_of(code: CodeType, instruction: int) -> int | None:
    """Return the number of the line that an instruction belongs to."""
    return next((line for start, end, line in code.co_lines() if start <= instruction < end), None)


def bytecode_of(code: CodeType) -> bytes:
    """Return what distinguishes the code of lambdas that have the same constants and names.

    It differs from one version of Python to the next. The source of a lambda may be missing, or be shared with others.
    """
    return code.co_code


# Pydantic


def own_validator(schema: Any, config: CoreConfig) -> SchemaValidator | None:
    """Return a validator of a core schema that does not reuse the prebuilt validators of the classes in it.

    ``SchemaValidator`` is public, but the option that disables this reuse is not.

    Returns:
        The validator; None if this version of pydantic cannot make one.
    """
    try:
        return SchemaValidator(schema, config, _use_prebuilt=False)  # pyright: ignore[reportCallIssue]
    except TypeError:
        return None


# Pydantic AI, an optional dependency: imported on use


def threads_disabled() -> AbstractContextManager[None]:
    """Make Pydantic AI call plain functions directly in this context, not in threads."""
    from pydantic_ai._utils import disable_threads

    return disable_threads()


def enable_threads() -> None:
    """Make it use threads again in this context, for a step that inherits the context of workflow code."""
    from pydantic_ai._utils import _disable_threads  # pyright: ignore[reportPrivateUsage]

    _disable_threads.set(False)


def profile_of(stream: object) -> Mapping[str, object]:
    """Return the model profile of a ``StreamedResponse``, empty if it has none."""
    return cast("Mapping[str, object]", getattr(stream, "_model_profile", None) or {})
