"""The signals of a run: those it has received, and the calls that wait for one."""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Any

from signoff.engine.run.calls import SignalCall
from signoff.records import Entry


class Signals:
    """Matches the signals of one run with the calls that wait for them, both in order."""

    def __init__(self) -> None:
        self._unread: dict[str, deque[Entry]] = {}
        self._listeners: dict[str, deque[SignalCall]] = {}

    def keep(self, signal: Entry) -> None:
        """Keep a signal until a call waits for it."""
        self._unread.setdefault(signal.name or "", deque()).append(signal)

    def take_kept(self, name: str) -> Entry | None:
        """Remove and return the oldest signal of a name that no call has received, if any."""
        unread = self._unread.get(name)
        return unread.popleft() if unread else None

    def listen(self, call: SignalCall) -> None:
        """Let a call wait for the next signal of its name."""
        self._listeners.setdefault(call.name, deque()).append(call)

    def listener(self, name: str, open_calls: Container[int]) -> SignalCall | None:
        """Return the call that receives the next signal of a name, if one is waiting.

        Args:
            name: The name.
            open_calls: The numbers of the run's open calls.
        """
        return next((call for call in self._listeners.get(name, ()) if call.n in open_calls), None)

    def take_listener(self, name: str, open_calls: Container[int]) -> SignalCall | None:
        """Remove and return the call that receives the next signal of a name, if one is waiting."""
        listeners = self._listeners.get(name)
        while listeners:
            call = listeners.popleft()
            if call.n in open_calls:
                return call
        return None

    def unread(self) -> list[dict[str, Any]]:
        """Return the signals that no call has received, as the next generation begins with them."""
        return [
            {"name": signal.name, "value": signal.value}
            for signals in self._unread.values()
            for signal in signals
        ]
