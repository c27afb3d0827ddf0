"""Keeps a simulated process up: restarts it whenever it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from signoff.testing.simulation.process import Main, Process

if TYPE_CHECKING:
    from signoff.testing.simulation.world import World

EARLY_STEPS = (
    1,
    60,
)  # callbacks after which a process crashes or freezes: early, while it starts ...
LATE_STEPS = (60, 800)  # ... or late, while it works
LIFE_SECONDS = 15.0
DEAD_SECONDS = 6.0


class Service:
    """Starts a process, and a successor when it has ended.

    Args:
        world: The world, whose faults determine how each process ends.
        name: The name of its processes.
        main: Their code.
        host: Their host.
    """

    def __init__(self, world: World, name: str, main: Main, host: str | None) -> None:
        self._world = world
        self._name = name
        self._main = main
        self._host = host
        self._process: Process | None = None
        self._is_over = False

    @property
    def is_up(self) -> bool:
        """Whether a process is running."""
        return self._process is not None

    def start(self) -> None:
        """Start a process, unless one is running or the service has stopped."""
        if self._process is not None or self._is_over:
            return
        process = self._process = self._world.start_process(self._name, self._main, host=self._host)
        process.on_end(self._ended)
        self._draw_fate(process)

    def recover(self) -> None:
        """End all faults from now on."""
        if self._process is None:
            self.start()
        else:
            self._process.crash_after = self._process.freeze_after = None

    def stop(self) -> None:
        """Stop the process in order, and do not restart it."""
        self._is_over = True
        if self._process is not None:
            self._process.stop()

    def _draw_fate(self, process: Process) -> None:
        process.is_spared = False
        faults, source = self._world.faults, self._world.random
        if source.random() < faults.crashes:
            process.crash_after = source.randint(*source.choice((EARLY_STEPS, LATE_STEPS)))
        if source.random() < faults.freezes:
            process.freeze_after = source.randint(*source.choice((EARLY_STEPS, LATE_STEPS)))
            process.freeze_seconds = source.random() * faults.freeze_seconds
        if source.random() < faults.stops:
            self._world.call_later(source.random() * LIFE_SECONDS, process.stop)

    def _ended(self) -> None:
        self._process = None
        if not self._is_over:
            is_calm = self._world.now >= self._world.calm_at
            delay = 0.1 if is_calm else self._world.random.random() * DEAD_SECONDS
            self._world.call_later(delay, self.start)
