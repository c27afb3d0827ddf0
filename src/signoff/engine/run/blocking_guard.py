"""Watching workflow code while it runs: blocking I/O is refused, endless computation interrupted."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from signoff.engine.run.async_generators import forget_collection
from signoff.engine.run.thread_interruption import (
    Interrupted,
    insist,
    interrupt,
    interrupt_with,
    log_aside,
    new_kind,
    release_handlers,
    relent,
    restore_switches,
    use_up,
)
from signoff.engine.run.user_code_lines import calling_line
from signoff.runtime import forks, private_names

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
# Code that gets this part of a processor or more, as in a container with a limit, has its limit in computing alone.
_LEAST_SHARE = 0.05

_PULSE_SECONDS = 0.1  # a process that sleeps for longer at once was stopped

# A gather of 100,000 calls takes some seconds until it first waits. Each task and call adds so much to what code may
# compute, up to six times as much as without. So code that makes them without end has an end.
_SECONDS_OF_EACH = 0.0001
_MAKING_PATIENCE = 6

_SPARING_LOOKS = 10  # for which code that may hold a lock of the standard library is not interrupted


class Watched(Protocol):
    """The run whose code is being driven."""

    def refuse_io(self, what: str) -> None:
        """Raise ``NotInStep``."""
        ...

    @property
    def made(self) -> int:
        """How many tasks and calls the code has made. Asked from any thread."""
        ...

    def declare_busy(self, seconds: float, where: str) -> None:
        """Note that the code ran for ``seconds`` without waiting, at line ``where``."""
        ...


class _Drive:
    """One turn of a run's code on a thread. Nearly all end before anything is noted of them."""

    computed_before: float | None = None  # the processor time of its thread when it was first looked at
    made_before = 0  # the same of what it has made
    warned = False
    looks = 0  # at which it was too busy
    interrupted = False
    insisted = False  # it went on after that
    endings = 0
    renewed: type[Interrupted] | None = None  # what interrupts it then, without sys.monitoring

    def __init__(self, watched: Watched, thread: int, since: float) -> None:
        self.watched = watched
        self.thread: int | None = thread  # None once the code is left: nothing interrupts it anymore
        self.since = since


_drives: dict[int, _Drive] = {}


class _Watch:
    """What is done to drives from other threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._pulse_at = 0.0
        self._stopped_seconds = 0.0  # since the last look
        forks.in_child(self)

    def note_pulse(self, since: float) -> None:
        """Note that the process was to sleep for a pulse since then, and wakes now: what is beyond that, it missed."""
        with self.lock:
            now = time.monotonic()
            late = now - max(since, self._pulse_at) - _PULSE_SECONDS
            self._stopped_seconds += max(0.0, late)
            self._pulse_at = now

    def take_stopped(self) -> float:
        """Return for how many seconds the process was stopped since the last look."""
        stopped, self._stopped_seconds = self._stopped_seconds, 0.0
        return stopped

    def forked(self) -> None:
        """Forget the parent's drives: the child may give the numbers of their threads to its own."""
        self.lock = threading.RLock()
        _drives.clear()
        restore_switches()


_watch = _Watch()


def drive(watched: Watched, run: Callable[[], None]) -> None:
    """Run workflow code with ``run`` on this thread, watched.

    An interruption ends ``run`` early; ``watched`` was told why by then. Code that catches one and goes on is
    interrupted again and again, see ``interrupt_busy``.
    """
    thread = threading.get_ident()
    mine = _Drive(watched, thread, time.monotonic())
    outer = _drives.get(thread)
    _drives[thread] = mine
    try:
        run()
    except Interrupted:  # declare_busy has noted it
        pass
    finally:
        # Python looks for an interruption at calls and at the ends of loops: not before this assignment, after which
        # none is sent. One may still be on its way. It may leave ``_end`` at any point: called again, that goes on. A
        # loop that calls it again would not do: the interruption may come at its jump, and leave the loop.
        # sys.monitoring spares this module.
        mine.thread = None
        try:
            _end(thread, mine, outer)
        except Interrupted:
            _end(thread, mine, outer)


def begin_anew() -> Callable[[], None]:
    """Return a function that restarts the clock of this thread's drive, for its next turn."""
    mine, monotonic = _drives[threading.get_ident()], time.monotonic

    def begin() -> None:
        mine.since = monotonic()
        mine.computed_before = None

    return begin


def _end(thread: int, mine: _Drive, outer: _Drive | None) -> None:
    """End a drive."""
    mine.endings += 1
    lock = _watch.lock
    # From Python 3.14 on an interruption may come between the acquisition by a ``with`` and its block.
    lock.acquire()
    if _drives.get(thread) is mine:
        if outer is None:
            del _drives[thread]
        else:
            _drives[thread] = outer
    if mine.endings == 1 and not mine.interrupted:
        lock.release()
        return
    use_up(thread)
    relent(thread)
    forget_collection()  # the interruption may have hit the note of its end
    release_handlers()
    try:
        while True:
            lock.release()
    except RuntimeError:  # released as often as it was acquired
        pass


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait between two looks at what is busy, as ``event.wait``, and notice when the process is stopped meanwhile."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if event.wait(min(_PULSE_SECONDS, end - now)):
            return True
        _watch.note_pulse(now)
    return event.is_set()


def interrupt_busy(limit_seconds: float) -> None:
    """Interrupt every drive of this process that has computed for longer than ``limit_seconds``.

    It is to be called more often than that: what a drive computed before it was first looked at does not count.
    What it makes meanwhile, tasks and calls, adds to the limit.
    One that computes little, as it blocks, or on a machine that does not get to it, is warned of by then, and
    interrupted when it lasted six times as long. Time in which the process was stopped, and time of which it gets a
    twentieth or more, do not count. The caller uses ``wait`` between its calls.
    One that goes on after that is interrupted at each of its steps, until it has ended. What computes in C and never
    comes back to Python (``sum(itertools.count())``, a regular expression that backtracks) cannot be interrupted.
    """
    now = time.monotonic()
    with _watch.lock:
        stopped = _watch.take_stopped()
        for thread, busy in list(_drives.items()):
            busy.since = min(busy.since + stopped, now)
            frame = private_names.frame_of(thread)
            if frame is None:  # the thread is gone: to ask for its time could end the process
                del _drives[thread]
                continue
            computed = _processor_time(thread)
            if busy.computed_before is None:
                busy.computed_before = computed
                busy.made_before = busy.watched.made
            lasted = now - busy.since
            has_computed = computed - busy.computed_before
            if max(lasted, has_computed) < limit_seconds:
                continue
            where = calling_line(frame)
            made_seconds = (busy.watched.made - busy.made_before) * _SECONDS_OF_EACH
            may_compute = min(limit_seconds + made_seconds, limit_seconds * _MAKING_PATIENCE)
            may_last = max(may_compute * _IDLE_PATIENCE, has_computed / _LEAST_SHARE)
            if has_computed < may_compute and lasted < may_last:
                if not busy.warned:
                    busy.warned = True
                    log_aside(
                        logging.WARNING,
                        "workflow code holds its worker up for %.1f s, in which it has computed for %.1f s, at %s: "
                        "does it block, make very many calls at once, or get little of a processor?",
                        lasted,
                        has_computed,
                        where,
                    )
                continue
            busy.watched.declare_busy(lasted, where)
            busy.looks += 1
            anywhere = busy.looks > _SPARING_LOOKS
            if not busy.interrupted:
                busy.interrupted = interrupt(busy, anywhere=anywhere)
                continue
            if not busy.insisted:
                busy.insisted = True
                log_aside(
                    logging.ERROR,
                    "workflow code has caught the interruption of its busy loop, at %s: it is interrupted wherever "
                    "it goes on",
                    where,
                )
            if not insist(thread, anywhere=anywhere):
                busy.renewed = busy.renewed or new_kind()
                interrupt_with(busy.renewed, busy, anywhere=anywhere)


def _processor_time(thread: int) -> float:
    """Return how long a living thread has computed, in seconds; where the system does not tell (macOS), the time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic()
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


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
