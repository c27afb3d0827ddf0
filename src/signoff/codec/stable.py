"""The stable form of a value: one JSON text for equal values, in every process and on every Python.

It is for comparing, not for storing: nothing is read back from it. So it takes more than ``encode`` does: NaN, keys
of any type, functions (by name) and errors. The order of dict keys and of sets makes no difference.
"""

from __future__ import annotations

import functools
import json
import re
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast

from pydantic import BaseModel

from signoff.codec import scalars
from signoff.codec.plain import to_plain
from signoff.codec.refusals import MAX_DEPTH, SECRETS, Unfit, name_of

_ENCODE: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{4,}")

_CODE: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class Unstable(Exception):
    """A value has no stable form.

    Attributes:
        kind: The type of the value, or of the part of it that has none.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} has no stable form")
        self.kind = kind


def stable_text(value: object) -> str:
    """Return JSON text that is the same for equal values in every process.

    Args:
        value: Data: whatever ``encode`` takes, and what is made of it.

    Raises:
        Unstable: A part of it is known by its identity only, such as a connection or an open file.
    """
    try:
        return _ENCODE(_data(value))
    except Unstable:
        raise
    except Exception as error:  # code of the value's own class failed
        raise Unstable(name_of(type(value))) from error


def _data(value: object) -> Any:
    try:
        return to_plain(value)
    except Unfit:
        return _stable(value, 0)


def _stable(value: Any, depth: int) -> Any:
    kind = cast("Any", type(value))
    if kind in scalars.EXACT:
        return value
    if depth >= MAX_DEPTH:
        raise Unstable(name_of(kind))
    if isinstance(value, Mapping):
        return _mapping(cast("Mapping[object, object]", value), depth)
    if issubclass(kind, set | frozenset):
        return sorted(_items(value, depth), key=_ENCODE)
    if issubclass(kind, list | tuple | deque):
        return _items(value, depth)
    if is_dataclass(kind):
        return {field.name: _stable(getattr(value, field.name, None), depth + 1) for field in fields(kind)}
    if isinstance(value, BaseModel):
        return _mapping(cast("Any", value.__dict__), depth)
    return _single(value, depth)


def _single(value: Any, depth: int) -> Any:
    kind = cast("Any", type(value))
    if issubclass(kind, SECRETS):
        return "**********"
    if issubclass(kind, float | Decimal | date | time | timedelta | range | slice | complex | int | str):
        return str(value)
    if issubclass(kind, bytearray | memoryview):
        return bytes(value).hex()
    if issubclass(kind, BaseException):
        return [type(value).__qualname__, _ADDRESS.sub("0x", str(value))]
    if isinstance(value, functools.partial):
        made = cast("functools.partial[Any]", value)
        return [_stable(each, depth + 1) for each in (made.func, made.args, made.keywords)]
    if issubclass(kind, (type, *_CODE)):
        return value.__qualname__
    try:
        return to_plain(value)
    except Exception as error:
        raise Unstable(name_of(kind)) from error


def _items(values: Iterable[Any], depth: int) -> list[Any]:
    return [_stable(each, depth + 1) for each in values]


def _mapping(value: Mapping[object, object], depth: int) -> Any:
    if all(type(key) is str for key in value):
        return {key: _stable(item, depth + 1) for key, item in value.items()}
    pairs = [[_stable(key, depth + 1), _stable(item, depth + 1)] for key, item in value.items()]
    return sorted(pairs, key=_ENCODE)
