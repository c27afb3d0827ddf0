"""Interrupts the code of another thread, even if it catches the interruption and continues.

One interruption is an asynchronous exception (``PyThreadState_SetAsyncExc``). CPython raises it once, at its next
check. Code that catches it is interrupted wherever it continues:

- Since Python 3.12 by ``sys.monitoring``: each line, call and jump of the code raises. The exception belongs to the
  very line, so a handler is left at its first line.
- Python 3.11 has no ``sys.monitoring``. There the asynchronous exception renews itself when it is raised. From 3.12 on
  this does not end all code: a backward jump checks for exceptions after the jump, and attributes them to the
  instruction before its target. If that is inside the ``try``, its handler catches them one after the other.

An exception between the acquisition of a lock and the ``try`` that releases it leaves the lock held. A logging
handler's lock would block every thread that logs. So standard library modules that acquire locks in this way are spared
for a while: they return, or call code that is not spared. Handler locks are released at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import repeat
from types import CodeType, FrameType
from typing import Any, Protocol

from signoff.runtime import forks, private_names
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.worker")

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_ENDS_DRIVES = (os.path.abspath(__file__), os.path.join(_PACKAGE, "engine", "run", "blocking_guard.py"))
# Standard library code that acquires a lock in one statement and releases it in another.
_LOCKING = (
    "<frozen importlib",
    *(
        os.path.join(os.path.abspath(folder), name)
        for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        if folder
        for name in (
            *("concurrent", "http", "importlib", "logging", "multiprocessing", "queue.py", "subprocess.py"),
            *("tempfile.py", "threading.py"),
        )
    ),
)
_MOMENTS = 100  # moments at which an asynchronous exception may find the code without a lock
_MOMENT_SECONDS = 0.001
_SWITCH_SECONDS = 0.00001
_LOG_SECONDS = 1.0

_LEVELS = 200  # handlers that catch an interruption and are left at once; further ones at the next checks
_BEGINNINGS = 20
_BEGINNING_SECONDS = 0.002


_usual_switches: list[float] = []
"""The process's own switch interval, while an interruption has set another one."""

_RLOCK = type(threading.RLock())


class Interrupted(BaseException):
    """Raised in workflow code that runs for too long."""


def log_aside(level: int, message: str, *args: object) -> None:
    """Log from another thread: the interrupted one may hold a handler's lock until it is interrupted again."""
    thread = threading.Thread(target=log.log, args=(level, message, *args), daemon=True)
    with contextlib.suppress(RuntimeError):  # the system has no thread left
        thread.start()
        thread.join(_LOG_SECONDS)


class Target(Protocol):
    """Code that may be interrupted."""

    thread: int | None
    """The thread that runs it. The thread sets it to None when it leaves the code."""


def interrupt(target: Target, error: type[Interrupted] = Interrupted, *, anywhere: bool = False) -> bool:
    """Interrupt code once, at its next call, return or loop.

    Args:
        target: The code. It is not interrupted once ``target.thread`` is None.
        error: The exception to raise.
        anywhere: Whether to interrupt code that may hold a lock of the standard library, too.

    Returns:
        Whether it was interrupted. It was not if it had ended, or stayed in such code for some 100 ms.
    """
    thread = target.thread
    if thread is None:
        return False
    _usual_switches.append(sys.getswitchinterval())
    # Otherwise this thread would mostly run while the other does I/O, such as a handler's under its lock.
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        for _ in range(_MOMENTS):
            if anywhere or not _may_hold_lock(private_names.frame_of(thread)):
                return next(_interruptions(target, error, 1), _LEFT) is not _LEFT
            time.sleep(_MOMENT_SECONDS)
    finally:
        restore_switches()
    return False


def restore_switches() -> None:
    """Restore the process's own switch interval, also in a child forked while another one was set."""
    while _usual_switches:
        sys.setswitchinterval(_usual_switches.pop())


def use_up(thread: int) -> None:
    """Consume pending interruptions of the calling thread.

    An interruption is raised and caught here. Withdrawing it instead would leave CPython 3.11 checking for it at every
    call, and a traced thread (coverage, debugger) checking endlessly.
    """
    try:
        private_names.raise_in(thread, Interrupted)  # in place of a pending one
        while True:
            pass
    except Interrupted:
        pass


def release_handlers() -> None:
    """Release locks of logging handlers that the calling thread still holds after an interruption.

    No logging code is running on this thread when a drive has ended.
    """
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    handlers = {each for logger in loggers for each in getattr(logger, "handlers", ())}
    for handler in {logging.lastResort, *handlers}:
        if handler is not None and isinstance(handler.lock, _RLOCK):  # an RLock knows its owner
            with contextlib.suppress(RuntimeError):
                while True:
                    handler.release()


def insist(thread: int, *, anywhere: bool) -> bool:
    """Interrupt a thread wherever it continues, until ``relent``.

    Args:
        thread: Its identifier.
        anywhere: Whether to interrupt code that may hold a lock of the standard library, and Signoff's own, too.

    Returns:
        Whether ``sys.monitoring`` does so. Otherwise use ``interrupt_with``.
    """
    return _lines is not None and _lines.insist(thread, anywhere)


def relent(thread: int) -> None:
    """Stop interrupting a thread. An interruption may still be pending; see ``use_up``."""
    if _lines is not None:
        _lines.relent(thread)


# By asynchronous exceptions

_LEFT = object()


def _interruptions(target: Target, error: type[BaseException], times: int) -> Iterator[None]:
    """Return an iterator that interrupts a target with each item, and ends when the target was left.

    No Python code runs within an item. So no thread can leave its code between the check of ``target.thread`` and the
    exception, which would otherwise hit unrelated code.
    """
    threads: Iterator[int] = iter(partial(getattr, target, "thread"), None)
    return map(private_names.raise_in, threads, repeat(error, times))


def new_kind() -> type[Interrupted]:
    """Return an interruption class for ``interrupt_with``. Each drive needs its own."""
    return type("Insistent", (Interrupted,), {"__module__": __name__})


def interrupt_with(kind: type[Interrupted], target: Target, *, anywhere: bool) -> None:
    """Interrupt code as ``interrupt`` does, so that catching the interruption does not stop it.

    When raised, it schedules the next one for the thread, at Python's next check: in the handler that caught it, or on
    the way back to the top of the loop around it. So the code is left level by level. All of this is C code, since
    Python code would be interrupted by it. C code that swallows an exception (around ``__del__``) ends the renewal, so
    it is restarted several times.

    Args:
        kind: From ``new_kind``.
        target: The code.
        anywhere: As for ``interrupt``.
    """
    renew = partial(next, _interruptions(target, kind, _LEVELS), None)
    kind.__init__ = staticmethod(renew)  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(_BEGINNINGS):
        if not interrupt(target, kind, anywhere=anywhere):
            return
        time.sleep(_BEGINNING_SECONDS)


def _may_hold_lock(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename not in _ENDS_DRIVES:
        if frame.f_code.co_filename.startswith(_LOCKING):
            return True
        frame = frame.f_back
    return False


# By sys.monitoring


if sys.version_info >= (3, 12):
    from sys import monitoring

    # The last four are reserved for optimizers, profilers, coverage and debuggers.
    _TOOLS = (4, 3, 5, 2, 1, 0)
    _EVENTS = (monitoring.events.LINE, monitoring.events.PY_START, monitoring.events.JUMP)

    class _Lines:
        """Raises ``Interrupted`` at each line, start and backward jump of code on some threads.

        A loop within one line has jumps only. Other threads run slower meanwhile. Call its methods under the guard's
        lock.
        """

        def __init__(self) -> None:
            self._anywhere: dict[int, bool] = {}  # by thread
            self._tool: int | None = None
            self._warned = False
            forks.in_child(self)

        def forked(self) -> None:
            """Reset it in a forked child, which has none of the threads."""
            self._anywhere.clear()
            self._end()

        def insist(self, thread: int, anywhere: bool) -> bool:
            """Begin or continue. Returns whether ``sys.monitoring`` has a free tool id."""
            if self._tool is None and not self._begin():
                return False
            self._anywhere[thread] = anywhere
            return True

        def relent(self, thread: int) -> None:
            self._anywhere.pop(thread, None)
            if not self._anywhere:
                self._end()

        def _begin(self) -> bool:
            for tool in _TOOLS:
                try:
                    monitoring.use_tool_id(tool, "signoff")
                except ValueError:  # in use
                    continue
                self._tool = tool
                for event in _EVENTS:
                    monitoring.register_callback(tool, event, self._at)
                monitoring.set_events(tool, sum(_EVENTS))
                return True
            if not self._warned:
                self._warned = True
                log_aside(
                    logging.WARNING,
                    "all tools of sys.monitoring are in use: code that catches its interruption may go on busily",
                )
            return False

        def _end(self) -> None:
            tool, self._tool = self._tool, None
            if tool is None:
                return
            monitoring.set_events(tool, 0)
            for event in _EVENTS:
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

        def _at(self, code: CodeType, *_: Any) -> None:
            anywhere = self._anywhere.get(threading.get_ident())
            if anywhere is None or code.co_filename in _ENDS_DRIVES:
                return
            if anywhere or not code.co_filename.startswith((_PACKAGE, *_LOCKING)):
                raise Interrupted

    _lines = _Lines()
else:
    _lines = None
