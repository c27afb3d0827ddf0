"""Who in this process wants to know of a store's commits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change

log = own_logger("signoff.store")


class Listeners:
    """Callbacks by namespace. They may be called from any thread; one that fails harms nobody."""

    def __init__(self) -> None:
        self._callbacks: tuple[tuple[str, Callable[[Change], None]], ...] = ()
        self._lock = threading.Lock()

    def add(self, namespace: str, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Have ``callback`` called; returns a function that ends it."""
        entry = (namespace, callback)
        with self._lock:
            self._callbacks = (*self._callbacks, entry)

        def end() -> None:
            with self._lock:
                self._callbacks = tuple(known for known in self._callbacks if known is not entry)

        return end

    def forget(self) -> None:
        """Forget all of them, in a forked child."""
        self._callbacks = ()
        self._lock = threading.Lock()

    def tell(self, change_of: Callable[[str], Change]) -> None:
        """Tell everybody of a commit: ``change_of`` returns what it changed in a namespace."""
        told, change = None, Change()
        for namespace, callback in self._callbacks:
            if namespace != told:
                told, change = namespace, change_of(namespace)
            if change.runs or change.due or change.ready:
                _tell(callback, change)

    def tell_disturbance(self) -> None:
        """Tell everybody that anything may have changed."""
        for _, callback in self._callbacks:
            _tell(callback, Change(runs=None))

    def tell_jump(self) -> None:
        """Tell everybody that the clock has jumped."""
        for _, callback in self._callbacks:
            _tell(callback, Change(runs=frozenset(), ready=False, due=True))


def _tell(callback: Callable[[Change], None], change: Change) -> None:
    try:
        callback(change)
    except Exception:
        log.exception("a listener of the store failed; the commit stands")
