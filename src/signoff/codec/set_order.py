"""Sets with the same order in every process.

CPython orders a set by hashes, and hashes of strings differ between processes. Sets that the codec reads are sorted
first, and then ordered by insertion. They are sets in every other respect.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from signoff.codec.plain_data import to_plain
from signoff.codec.scalars import EXACT

T = TypeVar("T")


class _Algebra:
    """Set operations of both classes. The result is of the same class, in the order of the left operand first."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def union(self, *others: Iterable[Any]) -> Any:
        return _union(self, others, type(self))

    def intersection(self, *others: Iterable[object]) -> Any:
        return _kept(self, set(self).intersection(*others), type(self))

    def difference(self, *others: Iterable[object]) -> Any:
        return _kept(self, set(self).difference(*others), type(self))

    def symmetric_difference(self, other: Iterable[Any]) -> Any:
        return _either(self, other, type(self))

    def __or__(self, other: Any) -> Any:
        return self.union(other) if _is_set(other) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if _is_set(other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if _is_set(other) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if _is_set(other) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return _union(other, (self,), type(self)) if _is_set(other) else NotImplemented

    def __rand__(self, other: Any) -> Any:
        return self.intersection(other) if _is_set(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return _kept(other, set(other).difference(self), type(self)) if _is_set(other) else NotImplemented

    def __rxor__(self, other: Any) -> Any:
        return _either(other, self, type(self)) if _is_set(other) else NotImplemented


class OrderedSet(_Algebra, set[T]):
    """A set that iterates in insertion order."""

    __slots__ = ("_order",)
    _order: dict[T, None]

    def __init__(self, items: Iterable[T] = ()) -> None:
        super().__init__()
        self._order = {}
        self.update(items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}" if self else "set()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)

    def __copy__(self) -> OrderedSet[T]:
        return self.copy()

    # Changes

    def add(self, element: T, /) -> None:
        super().add(element)
        self._order[element] = None

    def discard(self, element: Any, /) -> None:
        super().discard(element)
        self._order.pop(element, None)

    def remove(self, element: T, /) -> None:
        super().remove(element)
        self._order.pop(element, None)

    def pop(self) -> T:
        if not self._order:
            raise KeyError("pop from an empty set")
        item, _ = self._order.popitem()  # the last: finding the first one is slow after many removals
        super().remove(item)
        return item

    def clear(self) -> None:
        super().clear()
        self._order.clear()

    def update(self, *others: Iterable[T]) -> None:
        for other in others:
            for item in list(other):
                self.add(item)

    def difference_update(self, *others: Iterable[object]) -> None:
        super().difference_update(*others)
        self._settle()

    def intersection_update(self, *others: Iterable[object]) -> None:
        super().intersection_update(*others)
        self._settle()

    def symmetric_difference_update(self, other: Iterable[T], /) -> None:
        items = dict.fromkeys(other)
        mine = [item for item in self if item not in items]
        self._replace([*mine, *(item for item in items if item not in self)])

    def _settle(self) -> None:
        """Drop items from the order that are no longer in the set."""
        for item in [item for item in self._order if item not in self]:
            del self._order[item]

    def _replace(self, items: Iterable[T]) -> None:
        self.clear()
        self.update(items)

    def __ior__(self, other: Any) -> Any:
        if not _is_set(other):
            return NotImplemented
        self.update(other)
        return self

    def __iand__(self, other: Any) -> Any:
        if not _is_set(other):
            return NotImplemented
        self.intersection_update(other)
        return self

    def __isub__(self, other: Any) -> Any:
        if not _is_set(other):
            return NotImplemented
        self.difference_update(list(other))
        return self

    def __ixor__(self, other: Any) -> Any:
        if not _is_set(other):
            return NotImplemented
        self.symmetric_difference_update(other)
        return self

    # New sets

    def copy(self) -> OrderedSet[T]:
        return OrderedSet(self)


class OrderedFrozenSet(_Algebra, frozenset[T]):
    """A frozenset that iterates in the order of the items that it was made from."""

    _order: tuple[T, ...]

    def __new__(cls, items: Iterable[T] = ()) -> OrderedFrozenSet[T]:
        order = tuple(dict.fromkeys(items))
        made = super().__new__(cls, order)
        made._order = order
        return made

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, self))}}})" if self else "frozenset()"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)

    def copy(self) -> OrderedFrozenSet[T]:
        return self

    __copy__ = copy


def kind_of(value: object) -> type[Any]:
    """Return the type of a value, and the plain type of an ordered set."""
    kind = cast("type[Any]", type(value))
    return _KINDS.get(kind, kind)


_KINDS: dict[Any, type[Any]] = {OrderedSet: set, OrderedFrozenSet: frozenset}


def _is_set(other: object) -> bool:
    return isinstance(other, Set)


def in_one_order(value: Any) -> Any:
    """Return a value that was just read with its sets sorted. Containers in it are changed in place."""
    kind = cast("Any", type(value))
    if kind in EXACT:
        return value
    if kind is set:
        return OrderedSet(_sorted(value))
    if kind is frozenset:
        return OrderedFrozenSet(_sorted(value))
    make: Any = tuple if kind is tuple else getattr(kind, "_make", None)
    if make is not None and issubclass(kind, tuple):
        return make([in_one_order(item) for item in value])
    if issubclass(kind, list | deque | dict):
        _order_items(value)
    elif issubclass(kind, BaseModel):
        _order_items(vars(value))
        _order_items(value.__pydantic_extra__ or {})
    elif is_dataclass(cast("Any", kind)):
        _order_fields(value)
    return value


def _order_items(held: Any) -> None:
    keys: Iterable[Any] = list(held) if hasattr(held, "keys") else range(len(held))
    for key in keys:
        item = held[key]
        if type(item) not in EXACT:
            held[key] = in_one_order(item)


def _order_fields(value: Any) -> None:
    for field in fields(value):
        item = getattr(value, field.name, None)
        if type(item) not in EXACT:
            object.__setattr__(value, field.name, in_one_order(item))


def _sorted(items: Iterable[Any]) -> list[Any]:
    """Sort the items of a set, in an order that depends on the items only."""
    found = list(items)
    kinds = set(map(type, found))
    if kinds <= {str} or kinds <= {int}:
        return sorted(found)
    return sorted(map(in_one_order, found), key=lambda item: json.dumps(to_plain(item), sort_keys=True))


def _union(first: Iterable[Any], others: Iterable[Iterable[Any]], kind: Any) -> Any:
    items = dict.fromkeys(first)
    for other in others:
        items.update(dict.fromkeys(other))
    return kind(items)


def _kept(items: Iterable[Any], kept: set[Any], kind: Any) -> Any:
    return kind(item for item in items if item in kept)


def _either(one: Iterable[Any], other: Iterable[Any], kind: Any) -> Any:
    first, second = dict.fromkeys(one), dict.fromkeys(other)
    left = [item for item in first if item not in second]
    return kind([*left, *(item for item in second if item not in first)])
