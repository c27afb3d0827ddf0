"""Watching workflow code while it runs: blocking I/O is refused, endless computation interrupted."""

from __future__ import annotations

import ctypes
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Protocol

from signoff import forks, private_names
from signoff.engine.loop import calling_line

log = logging.getLogger("signoff.worker")

# Audit events of blocking I/O that workflow code has no business with. Opening files is not among them:
# imports, logging and tracebacks open files too.
_BLOCKING = {
    "socket.connect": "a network connection was opened",
    "socket.getaddrinfo": "a host name was looked up",
    "socket.gethostbyname": "a host name was looked up",
    "socket.bind": "a network socket was bound",
    "socket.sendto": "a datagram was sent",
    "subprocess.Popen": "a process was started",
    "os.system": "a process was started",
    "os.posix_spawn": "a process was started",
    "os.fork": "the process was forked",
    "time.sleep": "time.sleep() was called",  # an event from Python 3.13 on
    "_thread.start_new_thread": "a thread was started",  # from 3.12 on
    "_thread.start_joinable_thread": "a thread was started",
    "sqlite3.connect": "a database was opened",
}


# Code that computes nothing all the while, since the machine is busy elsewhere or it waits outside of asyncio,
# is given so many times as long.
_IDLE_PATIENCE = 6


class Interrupted(BaseException):
    """Thrown into workflow code that runs for too long."""


_LEVELS = 200  # of code that catches an interruption, which are left at once; the rest at the next looks

# The same function, but it returns None, as ``__init__`` must.
_interrupt_and_return = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_interrupt_and_return.restype = None


def _insistent(thread: int) -> type[Interrupted]:
    """Return an interruption that a thread cannot get rid of by catching it.

    Raised, it has the thread interrupted by the next one, wherever Python looks next for such a thing: in the handler
    that caught it, or on the way back to the top of the loop around that. So the code is left level by level. All of
    this is C code: Python code would itself be interrupted by it.
    """
    kind = type("Insistent", (Interrupted,), {"__module__": __name__})
    next_ones = map(
        _interrupt_and_return, repeat(ctypes.c_ulong(thread), _LEVELS), repeat(ctypes.py_object(kind))
    )
    kind.__init__ = staticmethod(partial(next, next_ones, None))  # pyright: ignore[reportAttributeAccessIssue]
    return kind


class Watched(Protocol):
    """The run whose code is being driven."""

    def refuse_io(self, what: str) -> None:
        """Raise ``NotInStep``."""
        ...

    def declare_busy(self, seconds: float, where: str) -> None:
        """Note that the code ran for ``seconds`` without waiting, at line ``where``."""
        ...


@dataclass(slots=True)
class _Drive:
    watched: Watched
    since: float
    computed_before: float | None = None  # the processor time of its thread when it was first looked at
    warned: bool = False
    interrupted: bool = False
    insistent: type[Interrupted] | None = (
        None  # what interrupts the code since it has swallowed an interruption
    )


_drives: dict[int, _Drive] = {}


class _Watch:
    """What is done to drives from other threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        forks.in_child(self)

    def forked(self) -> None:
        """Forget the parent's drives: the child may give the numbers of their threads to its own."""
        self.lock = threading.Lock()
        _drives.clear()


_watch = _Watch()


def drive(watched: Watched, run: Callable[[], None]) -> None:
    """Run workflow code with ``run`` on this thread, watched.

    An interruption ends ``run`` early; ``watched`` was told why by then. Code that catches one and goes on is
    interrupted again and again, see ``interrupt_busy``.
    """
    thread = threading.get_ident()
    mine = _Drive(watched, time.monotonic())
    outer = _drives.get(thread)
    _drives[thread] = mine
    try:
        run()
    except Interrupted:  # declare_busy has noted it
        pass
    finally:
        # An interruption may come in the midst of this. Python looks for one at calls and at the ends of loops: not
        # before the insistent one is calmed.
        if mine.insistent is not None:
            mine.insistent.__init__ = BaseException.__init__
        while True:
            try:
                _end(thread, mine, outer)
                break
            except Interrupted:
                continue


def _end(thread: int, mine: _Drive, outer: _Drive | None) -> None:
    with _watch.lock:  # from here on nobody interrupts this drive
        if _drives.get(thread) is mine:
            if outer is None:
                del _drives[thread]
            else:
                _drives[thread] = outer
        if mine.interrupted:
            _use_up_interruption(thread)


def interrupt_busy(limit_seconds: float) -> None:
    """Interrupt every drive of this process that has computed for longer than ``limit_seconds``.

    It is to be called more often than that: what a drive computed before it was first looked at does not count.
    One that computes little, as it blocks, or on a machine that does not get to it, is warned of by then, and
    interrupted when it lasted six times as long. One that goes on after that is interrupted at each of its steps, until
    it has ended. What computes in C and never comes back to Python (``sum(itertools.count())``, a regular expression
    that backtracks) cannot be interrupted.
    """
    now = time.monotonic()
    with _watch.lock:
        for thread, busy in list(_drives.items()):
            computed = _processor_time(thread)
            if busy.computed_before is None:
                busy.computed_before = computed
            lasted = now - busy.since
            if max(lasted, computed - busy.computed_before) < limit_seconds:
                continue
            where = calling_line(private_names.frame_of(thread))
            if computed - busy.computed_before < limit_seconds and lasted < limit_seconds * _IDLE_PATIENCE:
                if not busy.warned:
                    busy.warned = True
                    log.warning(
                        "workflow code holds its worker up for %.1f s, at %s: does it block?", lasted, where
                    )
                continue
            busy.watched.declare_busy(lasted, where)
            if busy.interrupted:
                if busy.insistent is None:
                    log.error(
                        "workflow code has caught the interruption of its busy loop, at %s: it is interrupted wherever "
                        "it goes on",
                        where,
                    )
                busy.insistent = _insistent(thread)
            busy.interrupted = True
            _interrupt(thread, busy.insistent or Interrupted)


def _processor_time(thread: int) -> float:
    """Return how long a living thread has computed, in seconds; where the system does not tell (macOS), the time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic()
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def _interrupt(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _use_up_interruption(thread: int) -> None:
    """Make sure that none is still to come to this thread.

    It is raised and caught here. To withdraw it would leave CPython 3.11 looking for it at every call, and a thread
    that is traced (by coverage or a debugger) looking for ever.
    """
    try:
        _interrupt(thread, Interrupted)  # in the place of one that is still to come
        while True:
            pass
    except Interrupted:
        pass


class _BlockingEvent(str):
    """The name of an audit event of blocking I/O. It refuses the event when a dict finds it.

    So a method of a dict is the audit hook: CPython announces much that no run cares about (every ``f_code`` and
    ``__code__`` that is read), and a hook written in Python would cost more than all that it is called for.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(  # the names of a module are gone before the last events of a process
        self,
        event: object,
        is_equal: Callable[[str, object], bool] = str.__eq__,
        blocking: Mapping[str, str] = _BLOCKING,
        drives: Mapping[int, _Drive] = _drives,
        this_thread: Callable[[], int] = threading.get_ident,
    ) -> bool:
        if is_equal(self, event) and (current := drives.get(this_thread())) is not None:
            current.watched.refuse_io(blocking[str(self)])
        return False


_refused: dict[str, None] = dict.fromkeys(map(_BlockingEvent, _BLOCKING))
sys.addaudithook(_refused.get)
