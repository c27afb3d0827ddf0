"""Watches running workflow code: rejects blocking I/O and interrupts endless computation."""

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

# Audit events of blocking I/O, which workflow code must not do. Opening files is not included: imports, logging and
# tracebacks open files, too.
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
    "time.sleep": "time.sleep() was called",  # an event since Python 3.13
    "_thread.start_new_thread": "a thread was started",  # since 3.12
    "_thread.start_joinable_thread": "a thread was started",
    "sqlite3.connect": "a database was opened",
}


# Code that does not compute meanwhile, because the machine is busy or it waits outside asyncio, gets this many times
# the limit.
_IDLE_PATIENCE = 6
# Code that gets this share of a processor or more, as in a limited container, is limited by computing time alone.
_LEAST_SHARE = 0.05

_PULSE_SECONDS = 0.1  # a sleep that lasted longer means that the process was stopped

# A gather of 100,000 calls takes some seconds before it first waits. So each task and call adds this to the limit, up
# to six times the limit. Code that creates them endlessly is still interrupted.
_SECONDS_OF_EACH = 0.0001
_MAKING_PATIENCE = 6

# Checks during which code that may hold a lock of the standard library is not interrupted.
_SPARING_LOOKS = 10


class Watched(Protocol):
    """The run whose code is being driven."""

    def refuse_io(self, what: str) -> None:
        """Reject blocking I/O.

        Raises:
            NotInStep: Always.
        """
        ...

    @property
    def made(self) -> int:
        """The number of tasks and calls that the code has made. Read from any thread."""
        ...

    def declare_busy(self, seconds: float, where: str) -> None:
        """Note that the code ran for ``seconds`` without waiting, at line ``where``."""
        ...


class _Drive:
    """One turn of a run's code on a thread. Most end before any field is set."""

    computed_before: float | None = None  # its thread's processor time at the first check
    made_before = 0  # tasks and calls made by then
    warned = False
    looks = 0  # checks that found it too busy
    interrupted = False
    insisted = False  # it continued after an interruption
    endings = 0
    renewed: type[Interrupted] | None = None  # interrupts it in that case, without sys.monitoring

    def __init__(self, watched: Watched, thread: int, since: float) -> None:
        self.watched = watched
        self.thread: int | None = thread  # None once the code is left: nothing interrupts it any more
        self.since = since


_drives: dict[int, _Drive] = {}


class _Watch:
    """The checks of drives from other threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._pulse_at = 0.0
        self._stopped_seconds = 0.0  # since the last check
        forks.in_child(self)

    def note_pulse(self, since: float) -> None:
        """Note that the process slept for one pulse since then. Any additional time means that it was stopped."""
        with self.lock:
            now = time.monotonic()
            late = now - max(since, self._pulse_at) - _PULSE_SECONDS
            self._stopped_seconds += max(0.0, late)
            self._pulse_at = now

    def take_stopped(self) -> float:
        """Return for how many seconds the process was stopped since the last check."""
        stopped, self._stopped_seconds = self._stopped_seconds, 0.0
        return stopped

    def forked(self) -> None:
        """Forget the parent's drives: a child may reuse the numbers of their threads."""
        self.lock = threading.RLock()
        _drives.clear()
        restore_switches()


_watch = _Watch()


def drive(watched: Watched, run: Callable[[], None]) -> None:
    """Run workflow code with ``run`` on this thread, watched.

    An interruption ends ``run`` early, after reporting the reason to ``watched``. Code that catches it and continues is
    interrupted repeatedly; see ``interrupt_busy``.
    """
    thread = threading.get_ident()
    mine = _Drive(watched, thread, time.monotonic())
    outer = _drives.get(thread)
    _drives[thread] = mine
    try:
        run()
    except Interrupted:  # declare_busy has recorded it
        pass
    finally:
        # Python checks for interruptions at calls and at loop ends: not before this assignment, after which none is
        # sent. One may still be pending. It may leave `_end` at any point; calling `_end` again continues it. A retry
        # loop would not do: the interruption may hit its jump and leave the loop. sys.monitoring excludes this module.
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
    # Since Python 3.14 an interruption may occur between a `with` statement's acquisition and its block.
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
    forget_collection()  # an interruption may have hit the reset at its end
    release_handlers()
    try:
        while True:
            lock.release()
    except RuntimeError:  # released as often as acquired
        pass


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait between two checks, like ``event.wait``, and notice when the process is stopped meanwhile."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if event.wait(min(_PULSE_SECONDS, end - now)):
            return True
        _watch.note_pulse(now)
    return event.is_set()


def interrupt_busy(limit_seconds: float) -> None:
    """Interrupt every drive of this process that has computed for longer than ``limit_seconds``.

    Call it more often than that: computation before the first check does not count. Tasks and calls made meanwhile add
    to the limit.
    Code that computes little, because it blocks or the machine is busy, is first warned about, and interrupted after
    six times the limit. Time in which the process was stopped does not count, nor does waiting if the code gets a
    twentieth of a processor or more. The caller uses ``wait`` between its calls.
    Code that continues is interrupted at each of its steps until it ends. Computation in C that never returns to Python
    (``sum(itertools.count())``, a backtracking regular expression) cannot be interrupted.
    """
    now = time.monotonic()
    with _watch.lock:
        stopped = _watch.take_stopped()
        for thread, busy in list(_drives.items()):
            busy.since = min(busy.since + stopped, now)
            frame = private_names.frame_of(thread)
            if frame is None:  # the thread is gone, and asking for its time could crash the process
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
                        "workflow code has blocked its worker for %.1f s, of which it computed for %.1f s, at %s: "
                        "does it block, make very many calls at once, or get little processor time?",
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
    """Return the processor time of a living thread in seconds; where unavailable (macOS), the wall time."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic()
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


class _BlockingEvent(str):
    """The name of an audit event of blocking I/O. It rejects the event when a dict lookup compares it.

    So a dict's method can be the audit hook. CPython raises many irrelevant events (every read of ``f_code`` and
    ``__code__``), and a hook written in Python would cost more than the operations themselves.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(  # the module's globals are gone before the last events of a process
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
