"""A clock that programs of the durable promise protocol may stop and set, for their tests."""

from __future__ import annotations

from collections.abc import Callable

from signoff.runtime.clock import SystemClock


class DebugClock:
    """The machine's clock until it is stopped. A store with it as both of its clocks can be debugged.

    Example::

        clock = DebugClock()
        store = SqliteStore("test.db", clock=clock, lease_clock=clock)
        async with Server(store, resonate_port=8001):
            ...
    """

    def __init__(self) -> None:
        self._real = SystemClock()
        self._stopped_at: float | None = None
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_stopped(self) -> bool:
        """Whether it stands still."""
        return self._stopped_at is not None

    def now(self) -> float:
        """Return the time in unix seconds."""
        stopped_at = self._stopped_at  # read once: another thread may set it
        return self._real.now() if stopped_at is None else stopped_at

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Call ``callback``, on the thread that sets the clock, whenever it is set."""
        self._callbacks.append(callback)

    def stop(self) -> None:
        """Stand still. Repeated, it has no effect."""
        self._stopped_at = self.now()

    def set(self, to: float) -> None:
        """Stand still at a time, in unix seconds."""
        self._stopped_at = to
        self._jumped()

    def run(self) -> None:
        """Show the machine's time again."""
        self._stopped_at = None
        self._jumped()

    def _jumped(self) -> None:
        for callback in tuple(self._callbacks):
            callback()
