"""Copies of data, so that two pieces of code do not share it.

Data means Python's containers, dataclasses, pydantic models and NumPy arrays, and their contents. Other objects (a
connection, a lock, an instance of a plain class) are shared by a copy.
"""

from __future__ import annotations

import copy
import functools
import operator
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from uuid import UUID

from pydantic import BaseModel

from signoff.codec.canonical_json import numpy_kind

UNCHANGING: Final = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        Decimal,
        UUID,
        date,
        datetime,
        time,
        timedelta,
        range,
        types.FunctionType,
        types.BuiltinFunctionType,
        type,
    }
)
"""Immutable types. Functions are shared, too."""


def are_unchanging(values: Iterable[object]) -> bool:
    """Return whether all values are immutable."""
    for value in values:  # noqa: SIM110 - each step asks, and ``all`` takes three times as long
        if type(value) not in UNCHANGING:
            return False
    return True


def is_data(value: object) -> bool:
    """Return whether a value is data, and so copied."""
    return type(value) in UNCHANGING or _is_kind_of_data(type(value))


@functools.lru_cache(maxsize=1_024)
def _is_kind_of_data(kind: Any) -> bool:
    is_container = issubclass(kind, list | deque | set | bytearray | dict | tuple | BaseModel)
    return is_container or is_dataclass(kind) or numpy_kind(kind) is not None


_MOST_ITEMS: Final = 100
_DEEPEST: Final = 3


def may_hold_objects(value: Any) -> bool:
    """Return whether a list, tuple or dict has mutable items. Fast, since each step asks."""
    kind = cast("Any", type(value))
    if kind is list or kind is tuple:
        return len(value) <= _MOST_ITEMS and not UNCHANGING.issuperset(map(type, value))
    return kind is dict and len(value) <= _MOST_ITEMS and not UNCHANGING.issuperset(map(type, value.values()))


def objects_in(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the objects in a list, tuple or dict that are not data, with their names: ``orders[0]``.

    Args:
        value: Data.
        name: Its own name.
        depth: Its depth of nesting. Values nested deeper than three, or among more than 100, are left out.
    """
    if depth >= _DEEPEST or not may_hold_objects(value):
        return
    items = cast("Iterable[tuple[Any, Any]]", value.items() if type(value) is dict else enumerate(value))
    for key, item in items:
        if is_data(item):
            yield from objects_in(item, f"{name}[{key!r}]", depth + 1)
        else:
            yield f"{name}[{key!r}]", item


Memo = dict[int, Any]
"""The copies made so far, by the identity of their originals."""


def copied(value: Any, memo: Memo) -> Any:
    """Return a copy of a value that shares no data with it, or the value itself if nothing is shared.

    Args:
        value: Any value.
        memo: The copies so far. Two references to one object become two references to one copy.
    """
    kind = cast("Any", type(value))
    if kind in UNCHANGING:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known[1]
    try:
        made = _copier(kind)(value, memo)
    except Exception:  # its class does not support copying
        made = value
    memo[id(value)] = (value, made)  # keeping the value keeps its id valid
    return made


@functools.lru_cache(maxsize=1_024)
def _copier(kind: Any) -> Callable[[Any, Memo], Any]:
    """Return the copy function for a type."""
    if issubclass(kind, dict):
        return _of_dict
    if issubclass(kind, list | deque):
        return _of_list
    if issubclass(kind, set | bytearray):
        return _of_set
    if kind is tuple:
        return _of_tuple
    if getattr(kind, "_make", None) is not None and tuple in kind.__mro__:
        return _of_named_tuple
    if numpy_kind(kind) == "ndarray":
        return _of_array
    if issubclass(kind, BaseModel):
        return _of_frozen_model if kind.model_config.get("frozen") else _of_model
    if not is_dataclass(kind):
        return _itself
    is_frozen = cast("Any", kind).__dataclass_params__.frozen
    return (
        functools.partial(_of_frozen_dataclass, [field.name for field in fields(kind)])
        if is_frozen
        else _of_dataclass
    )


def _itself(value: Any, _: Memo) -> Any:
    return value


def _of_tuple(value: tuple[Any, ...], memo: Memo) -> Any:
    parts = [copied(each, memo) for each in value]
    return value if all(map(operator.is_, parts, value)) else tuple(parts)


def _of_named_tuple(value: Any, memo: Memo) -> Any:
    make = cast("Any", type(value))._make
    return make([copied(each, memo) for each in value])


def _of_array(value: Any, _: Memo) -> Any:
    return copy.deepcopy(value)  # an array may hold objects


def _of_set(value: Any, _: Memo) -> Any:
    return copy.copy(value)  # items of a set are hashable, and so immutable


def _of_dict(value: dict[Any, Any], memo: Memo) -> Any:
    made: dict[Any, Any] = value.copy() if type(value) is dict else copy.copy(value)
    if UNCHANGING.issuperset(map(type, value.values())):
        return made
    memo[id(value)] = (value, made)  # it may contain itself
    for key, item in value.items():
        if type(item) not in UNCHANGING:
            made[key] = copied(item, memo)
    return made


def _of_list(value: list[Any], memo: Memo) -> Any:
    made = value.copy() if type(value) is list else copy.copy(value)
    if UNCHANGING.issuperset(map(type, value)):
        return made
    memo[id(value)] = (value, made)
    for index, item in enumerate(value):
        if type(item) not in UNCHANGING:
            made[index] = copied(item, memo)
    return made


def _of_model(value: Any, memo: Memo) -> Any:
    made: Any = value.__copy__()
    memo[id(value)] = (value, made)
    if not UNCHANGING.issuperset(map(type, made.__dict__.values())):
        _copy_items(made.__dict__, memo)
    if made.__pydantic_extra__:
        _copy_items(made.__pydantic_extra__, memo)
    if made.__pydantic_private__:
        _copy_items(made.__pydantic_private__, memo)
    return made


def _of_frozen_model(value: Any, memo: Memo) -> Any:
    """Return the value itself if nothing in it is mutable."""
    has_more = value.__pydantic_extra__ or value.__pydantic_private__
    if not has_more and UNCHANGING.issuperset(map(type, value.__dict__.values())):
        return value
    return _of_model(value, memo)


def _of_frozen_dataclass(names: Sequence[str], value: Any, memo: Memo) -> Any:
    """Return the value itself if nothing in it is mutable."""
    held: dict[str, Any] = getattr(value, "__dict__", {})
    is_fixed = all(type(getattr(value, name, value)) in UNCHANGING for name in names)
    if is_fixed and UNCHANGING.issuperset(map(type, held.values())):
        return value
    return _of_dataclass(value, memo)


def _copy_items(held: dict[str, Any], memo: Memo) -> None:
    for name, item in held.items():
        if type(item) not in UNCHANGING:
            held[name] = copied(item, memo)


def _of_dataclass(value: Any, memo: Memo) -> Any:
    made = copy.copy(value)
    memo[id(value)] = (value, made)
    names = {field.name for field in fields(value)} | set(getattr(made, "__dict__", ()))
    for name in names:
        item = getattr(made, name, None)
        part = copied(item, memo)
        if part is not item:
            object.__setattr__(made, name, part)
    return made
