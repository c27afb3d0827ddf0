"""Stop signals: the first SIGTERM or SIGINT asks the process to finish running work, the second to exit at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Counts the signals that ask this process to stop, as a context manager on the running loop.

    Args:
        signals: The signals to handle.
        noticed: Called for each signal.
    """

    def __init__(
        self, signals: Sequence[signal.Signals] = STOP_SIGNALS, *, noticed: Callable[[], None] | None = None
    ) -> None:
        self._signals = signals
        self._loop = asyncio.get_running_loop()
        self._noticed = noticed
        self._count = 0
        self._asked = asyncio.Event()
        self._urged = asyncio.Event()

    def __enter__(self) -> StopSignals:
        for number in self._signals:
            self._loop.add_signal_handler(number, self.ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._signals:
            self._loop.remove_signal_handler(number)

    def ask(self) -> None:
        """Request a stop, as a signal does."""
        self._count += 1
        self._asked.set()
        if self._count > 1:
            self._urged.set()
        if self._noticed is not None:
            self._noticed()

    @property
    def is_urged(self) -> bool:
        """Whether the second signal has arrived."""
        return self._urged.is_set()

    async def asked(self, *others: asyncio.Future[Any]) -> None:
        """Wait for the first signal, or for one of ``others`` to be done."""
        await _first(self._asked.wait(), others)

    async def urged(self, *others: asyncio.Future[Any], seconds: float | None = None) -> None:
        """Wait for the second signal, for one of ``others`` to be done, or for ``seconds``."""
        await _first(self._urged.wait(), others, seconds)


@contextmanager
def interruptible() -> Generator[None]:
    """Let Ctrl-C interrupt code that blocks the running loop, such as a prompt, within the block.

    The loop's own handler would cancel the task, which would notice only after the user has typed something.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _first(
    wait: Coroutine[Any, Any, bool], others: tuple[asyncio.Future[Any], ...], seconds: float | None = None
) -> None:
    waiting = asyncio.create_task(wait)
    try:
        await asyncio.wait((waiting, *others), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
