"""A simulated world: processes, one store and virtual time, all determined by a seed."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from signoff.engine.run.loop_callbacks import TimerCallback
from signoff.engine.worker.worker import Programs
from signoff.testing.memory_store import MemoryStore
from signoff.testing.simulation.database import Database
from signoff.testing.simulation.faults import Faults
from signoff.testing.simulation.loop import SimulatedLoop
from signoff.testing.simulation.observer import Observer
from signoff.testing.simulation.process import Main, Process, worker_of
from signoff.testing.simulation.service import Service

START = 1_700_000_000.0  # Unix seconds
TURN = 20  # callbacks of a process before others get a turn

_NO_FAULTS = Faults()


class WorldClock:
    """The time of a world, in Unix seconds."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> float:
        return START + self._world.now

    def on_jump(self, callback: Callable[[], None]) -> None:
        pass  # it never jumps


class World:
    """A world in which everything happens on one thread. A seed determines the order and the faults.

    Args:
        seed: Determines all random choices.
        faults: The faults until ``calm_at``.
        calm_at: The second from which there are no faults, and dead processes are restarted.
        lease_seconds: The duration of a lease.
        punctual_seconds: How late a deadline may be without faults.
        store: Creates the store.

    Attributes:
        now: Seconds since the beginning.
        clock: The same as Unix time, used by the store.
        random: The random number generator for faults.
        faults: The current faults.
        has_faults: Whether there were any faults at the beginning.
        start_at: The time of the beginning, in Unix seconds.
        problems: The violations found.
        observer: Watches the store for violations.
        trace: The history, line by line.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        faults: Faults = _NO_FAULTS,
        calm_at: float = 20.0,
        lease_seconds: float = 5.0,
        punctual_seconds: float = 0.1,
        store: Callable[..., MemoryStore] = MemoryStore,
    ) -> None:
        self.now = 0.0
        self.clock = WorldClock(self)
        self.random = random.Random(f"world {seed}")
        self.faults = faults
        self.calm_at = calm_at
        self.has_faults = faults != _NO_FAULTS
        self.start_at = START
        self.punctual_seconds = punctual_seconds
        self.problems: list[str] = []
        self.trace: list[str] = []
        self.store = store(clock=self.clock, lease_clock=self.clock, lease_seconds=lease_seconds)
        self.database = Database(self, self.store)
        self.observer = Observer(self)
        self._processes: dict[SimulatedLoop, Process] = {}
        self._runnable: deque[SimulatedLoop] = deque()
        self._services: list[Service] = []
        self._living: set[int] = set()
        self._pids = itertools.count(1)
        self._timers: list[tuple[float, int, SimulatedLoop | None, TimerCallback | Callable[[], object]]] = []
        self._numbers = itertools.count()
        for _ in range(faults.outages):
            self.call_later(self.random.random() * calm_at, self._go_down)
        self.call_later(calm_at, self._calm_down)

    # Processes

    def start_process(self, name: str, main: Main, *, host: str | None = None) -> Process:
        """Start a process. Its calls to the store may fail, but the process itself gets no faults.

        Args:
            name: Its name in the trace.
            main: Its code.
            host: Its host; by default a separate one.
        """
        pid = next(self._pids)
        skew = (self.random.random() * 2 - 1) * self.faults.skew_seconds if self.faults.skew_seconds else 0.0
        process = Process(self, f"{name}#{pid}", host or name, pid, skew=skew)
        self._processes[process.loop] = process
        self._living.add(pid)
        process.on_end(lambda: self._bury(process))
        process.begin(main)
        return process

    def add_worker(self, name: str, programs: Programs, *, host: str | None = None, **options: Any) -> None:
        """Add a worker that crashes, freezes and stops as the faults determine, and is restarted.

        Args:
            name: Its name in the trace.
            programs: Its workflows, such as an app's ``registry``.
            host: Its host; by default a separate one.
            options: Options of ``signoff.engine.worker.worker.Worker``.
        """
        self.add_service(name, worker_of(programs, **options), host=host)

    def add_service(self, name: str, main: Main, *, host: str | None = None) -> None:
        """Add a process that crashes, freezes and stops as the faults determine, and is restarted.

        Args:
            name: Its name in the trace.
            main: Its code.
            host: Its host; by default a separate one.
        """
        service = Service(self, name, main, host)
        self._services.append(service)
        service.start()

    def is_dead(self, pid: int) -> bool:
        """Return whether a process has ended."""
        return pid not in self._living

    # Time

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> None:
        """Call a function outside any process, after a delay."""
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), None, partial(callback, *args)))

    def add_timer(self, when: float, loop: SimulatedLoop, timer: TimerCallback) -> None:
        heapq.heappush(self._timers, (when, next(self._numbers), loop, timer))

    def run(self, is_over: Callable[[], bool], *, limit: float) -> bool:
        """Run the world.

        Args:
            is_over: Called repeatedly; returns whether to end.
            limit: The last second.

        Returns:
            Whether it ended in time.
        """
        with self._reading_the_log():
            return self._run(is_over, limit)

    def _run(self, is_over: Callable[[], bool], limit: float) -> bool:
        while not is_over():
            if self._runnable:
                self._run_some()
                continue
            if not self._timers or self._timers[0][0] > limit:
                return False
            when, _, loop, what = heapq.heappop(self._timers)
            if isinstance(what, TimerCallback):
                if what.cancelled() or loop is None:
                    continue
                self.now = max(self.now, when)
                loop.wake(what)
            else:
                self.now = max(self.now, when)
                what()
        return True

    def end(self) -> None:
        """Stop the workers in order, and kill remaining ones."""
        self._calm_down()
        for service in self._services:
            service.stop()
        if not self.run(lambda: not any(service.is_up for service in self._services), limit=self.now + 60):
            self.blame("a worker does not stop")
        for process in list(self._processes.values()):
            process.crash()

    def enqueue(self, loop: SimulatedLoop) -> None:
        self._runnable.append(loop)

    def _run_some(self) -> None:
        """Give a turn to a process that has something to do."""
        loop = self._runnable.popleft()
        process = self._processes.get(loop)
        if process is None:
            return
        for _ in range(TURN):
            if process.is_frozen:
                return  # until it thaws
            if not loop.is_ready:
                return
            process.run_one()
        self._runnable.append(loop)

    # Faults

    def _go_down(self) -> None:
        if self.faults.outages and not self.database.is_down:
            self.note("store", "goes down")
            self.database.is_down = True
            self.call_later(self.random.random() * self.faults.outage_seconds, self._come_up)

    def _come_up(self) -> None:
        if self.database.is_down:
            self.note("store", "is up again")
            self.database.is_down = False

    def _calm_down(self) -> None:
        self.note("world", "is calm")
        self.faults = _NO_FAULTS
        self._come_up()
        for process in self._processes.values():
            process.thaw()
        for service in self._services:
            service.recover()

    def _bury(self, process: Process) -> None:
        del self._processes[process.loop]
        self._living.discard(process.pid)

    # Observation

    def note(self, who: str, what: str, details: object = "") -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now:10.4f} {who:<12} {what} {details}")

    def blame(self, problem: str) -> None:
        """Record a violation."""
        self.note("!", problem)
        self.problems.append(f"at {self.now:.3f} s: {problem}")

    @contextmanager
    def _reading_the_log(self) -> Generator[None]:
        """Record errors that the engine logs as violations; suppress other log lines."""
        log = logging.getLogger("signoff")
        ear, propagate = _Ear(self), log.propagate
        log.addHandler(ear)
        log.propagate = False
        try:
            yield
        finally:
            log.propagate = propagate
            log.removeHandler(ear)

    def digest(self) -> str:
        """Return a digest of the history, identical for the same seed."""
        return hashlib.blake2b("\n".join(self.trace).encode(), digest_size=16).hexdigest()


class _Ear(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._world.blame(f"{record.getMessage()}: {record.exc_info[1]!r}")
