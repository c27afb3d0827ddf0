"""Views of a store: they pass every operation on, and change what goes in or comes out."""

from __future__ import annotations

from typing import Any, TypeVar

from signoff.stores.contract.store import Store

S = TypeVar("S", bound=object)


class View:
    """Passes every operation on.

    Args:
        inner: A store.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def lease_seconds(self) -> float:
        return self.inner.lease_seconds

    @lease_seconds.setter
    def lease_seconds(self, seconds: float) -> None:
        self.inner.lease_seconds = seconds


def unwrapped(store: S) -> S | Store:
    """Return the store on the database itself; what is no view of one, as it is."""
    return unwrapped(store.inner) if isinstance(store, View) else store
