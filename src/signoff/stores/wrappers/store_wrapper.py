"""Base of store wrappers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Self, TypeVar

from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Change, Store

S = TypeVar("S", bound=object)


class StoreWrapper(Store):
    """Store wrapper that passes every operation on. Subclasses change arguments or results in ``perform``.

    Args:
        inner: The wrapped store.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.namespace = inner.namespace
        self.clock = inner.clock

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        return await operation.call(self.inner, arguments)

    def over(self, inner: Store) -> Self:
        """Return the same wrapper around another store."""
        view = copy(self)
        StoreWrapper.__init__(view, inner)
        return view

    def within(self, namespace: str) -> Self:
        return self.over(self.inner.within(namespace))

    @property
    def location(self) -> str:
        return self.inner.location

    # A remote store learns its lease when it is opened, so this is not an attribute of its own.
    @property
    def lease_seconds(self) -> float:
        return self.inner.lease_seconds

    @lease_seconds.setter
    def lease_seconds(self, seconds: float) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.inner.lease_seconds = seconds

    async def open(self) -> None:
        await self.inner.open()

    async def close(self) -> None:
        await self.inner.close()

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        return self.inner.listen(callback)

    def hold_leases(self) -> None:
        self.inner.hold_leases()

    async def check_writable(self) -> None:
        await self.inner.check_writable()


def unwrapped(store: S) -> S | Store:
    """Return the store that all wrappers are around."""
    return unwrapped(store.inner) if isinstance(store, StoreWrapper) else store
