"""The server's time on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from signoff.stores.shared.clock_changes import ClockWatch

DRIFT: Final = 1e-4  # how far this machine's clock may drift from the server's, per second
STEP_SECONDS: Final = 1.0  # if the server's clock is set back further, this clock follows it


class RemoteClock:
    """Estimates the server's time from its replies, and advances it by this machine's monotonic clock.

    It does not go back, unless the server's clock was set back. Until the first reply it is this machine's time.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._error = math.inf
        self._learned_at = 0.0
        self._last = -math.inf
        self._set = ClockWatch("remote")

    def now(self) -> float:
        """Return the time in unix seconds."""
        now = time.monotonic() + self._offset
        if now < self._last - STEP_SECONDS:
            self._last = now
        self._last = max(self._last, now)
        return self._last

    def on_jump(self, callback: Callable[[], None]) -> None:
        """Do nothing: the server's store reports jumps of the server's clock."""

    def learn(self, server_now: float, sent_at: float, received_at: float) -> None:
        """Update the estimate from a reply.

        Args:
            server_now: The server's time when it replied.
            sent_at: When the request was sent, by ``time.monotonic``.
            received_at: When the reply arrived.
        """
        offset = server_now - (sent_at + received_at) / 2
        error = (received_at - sent_at) / 2
        expected_error = self._error + DRIFT * (received_at - self._learned_at)
        was_set = abs(offset - self._offset) > error + expected_error
        self._set.note(offset - self._offset if was_set else 0.0)
        if error <= expected_error or was_set:
            self._offset, self._error, self._learned_at = offset, error, received_at
