"""Listeners of a store's commits in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change

log = own_logger("signoff.store")


class Listeners:
    """Callbacks by namespace. They may be called from any thread. A failing callback does not affect others."""

    def __init__(self) -> None:
        self._callbacks: tuple[tuple[str, Callable[[Change], None]], ...] = ()
        self._lock = threading.Lock()

    def add(self, namespace: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Register ``callback``. Returns a function that removes it."""
        entry = (namespace, callback)
        with self._lock:
            self._callbacks = (*self._callbacks, entry)

        def end() -> None:
            with self._lock:
                self._callbacks = tuple(known for known in self._callbacks if known is not entry)

        return end

    def forget(self) -> None:
        """Remove all listeners, in a forked child."""
        self._callbacks = ()
        self._lock = threading.Lock()

    def notify(self, change_of: Callable[[str], Change]) -> None:
        """Notify listeners of a commit. ``change_of`` returns its changes in a namespace."""
        notified, change = None, _NO_CHANGE
        for namespace, callback in self._callbacks:
            if namespace != notified:
                notified, change = namespace, change_of(namespace)
            if change.runs or change.due or change.ready or change.settled:
                try:  # inlined from ``_notify``: each commit passes here
                    callback(change)
                except Exception:
                    log.exception(_FAILED)

    def notify_disturbance(self) -> None:
        """Notify listeners that anything may have changed."""
        for _, callback in self._callbacks:
            _notify(callback, Change(runs=None))

    def notify_jump(self) -> None:
        """Notify listeners that the clock has jumped."""
        for _, callback in self._callbacks:
            _notify(callback, Change(runs=frozenset(), ready=False, due=True))


_NO_CHANGE: Final = Change()
_FAILED: Final = "a listener of the store failed; the commit is not affected"


def _notify(callback: Callable[[Change], None], change: Change) -> None:
    try:
        callback(change)
    except Exception:
        log.exception(_FAILED)
