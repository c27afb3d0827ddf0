"""Store wrapper that stamps every write with its origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from signoff.records import Amendment, NewAuditEvent, Origin, Settlement
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import StoreWrapper

T = TypeVar("T")


def origin_stamped(store: Store, origin: Origin) -> Store:
    """Return a store that stamps its writes with an origin, except those that have one.

    Of two stamps, the outer one counts.

    Args:
        store: The store.
        origin: The origin.

    Example::

        await answer(origin_stamped(store, Origin(OriginWay.LINK, link.id)), question_id, True, user_id="ana")
    """
    return cast("Store", OriginStampedStore(store, origin))


def without_origin(value: T) -> T:
    """Return an argument of a write without origins."""
    return _with_origins(value, lambda _: None)


class OriginStampedStore(StoreWrapper):
    """Stamps settlements and audit events with their origin.

    Args:
        inner: The wrapped store.
        origin: The origin.
    """

    def __init__(self, inner: Store, origin: Origin) -> None:
        super().__init__(inner)
        self._origin = origin

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        if not operation.is_read:
            arguments = {name: _with_origins(value, self._stamp) for name, value in arguments.items()}
        return await operation.call(self.inner, arguments)

    def _stamp(self, known: Origin | None) -> Origin:
        return known or self._origin


def _with_origins(value: T, change: Callable[[Origin | None], Origin | None]) -> T:
    """Return an argument with the origins of its settlements and audit events changed."""
    if value is None or isinstance(value, str):  # most arguments
        return value
    if isinstance(value, Settlement | NewAuditEvent):
        return replace(value, origin=change(value.origin))
    if isinstance(value, Amendment):
        events = tuple(_with_origins(event, change) for event in value.events)
        return replace(value, settlement=_with_origins(value.settlement, change), events=events)
    if isinstance(value, list | tuple):
        return cast("T", [_with_origins(each, change) for each in cast("list[Any]", value)])
    return value
