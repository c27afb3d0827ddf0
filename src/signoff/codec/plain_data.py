"""Python values to plain JSON data: None, bool, int, float, str, list, dict."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Final

from pydantic import JsonValue

from signoff.codec import models, scalars
from signoff.codec.unstorable_values import MAX_DEPTH, SECRETS, TOO_DEEP, Unfit, refuse


def to_plain(value: object, depth: int = 0) -> JsonValue:
    """Turn a value into plain JSON data, by its runtime type.

    Args:
        value: Any object.
        depth: How many containers it is in.

    Returns:
        New data, which shares no container with the value. A model's serializer may return the same object again.

    Raises:
        Unfit: A part of it cannot be stored.
    """
    if type(value) in scalars.EXACT:
        return value  # pyright: ignore[reportReturnType]
    return _converter(type(value))(value, depth)


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a dict or a list consists of exact JSON types only, as most results do.

    The loop visits containers only; builtins check the scalars, which is fast.
    """
    items: Any = value
    if type(value) is dict:
        if not _TEXT.issuperset(map(type, items)):
            return False
        items = items.values()
    kinds = {*map(type, items)} - scalars.EXACT
    if not kinds:
        return depth < MAX_DEPTH
    if depth >= MAX_DEPTH or not kinds <= _JSON:
        return False
    for (
        item
    ) in items:  # stops at the first failure: a list that contains itself twice would take forever otherwise
        kind: object = type(item)  # pyright: ignore[reportUnknownVariableType]
        if (kind is dict or kind is list) and not is_plain(item, depth + 1):
            return False
        if kind is float and not isfinite(item):
            return False
    return True


_JSON: Final = frozenset({dict, list, float})
_TEXT: Final = frozenset({str})


def check_text(plain: JsonValue) -> None:
    """Check that JSON text can hold plain data.

    Raises:
        Unfit: It has a string that is not Unicode, or a number that is too long.
    """
    if not isinstance(plain, list | dict):
        return scalars.check_exact(plain)
    key: object = None
    try:
        for key, item in plain.items() if isinstance(plain, dict) else enumerate(plain):
            scalars.check_exact(key)
            check_text(item)
    except Unfit as unfit:
        unfit.at(key, plain)
        raise


@functools.lru_cache(maxsize=2048)
def _converter(kind: Any) -> scalars.Convert:
    if issubclass(kind, (*SECRETS, BaseException)):
        return refuse
    scalar = scalars.converter(kind)
    if scalar is not None and not models.has_own_schema(kind):
        return scalar
    if models.has_own_schema(kind):
        return models.to_plain
    if is_dataclass(kind):
        return functools.partial(_dataclass, tuple(field.name for field in fields(kind) if field.init))
    return next((convert for bases, convert in _CONTAINERS if issubclass(kind, bases)), refuse)


def _mapping(value: Mapping[object, object], depth: int) -> JsonValue:
    if depth >= MAX_DEPTH:
        raise Unfit(TOO_DEEP)
    plain: dict[str, Any] = {}
    key: object = None
    try:
        for key, item in value.items():
            name = key if type(key) is str else scalars.key_text(key)
            plain[name] = item if type(item) in scalars.EXACT else to_plain(item, depth + 1)
    except Unfit as unfit:
        unfit.at(key, value)
        raise
    if len(plain) < len(value):
        raise Unfit(scalars.SAME_KEYS)
    return plain


def _sequence(value: Iterable[object], depth: int) -> list[Any]:
    if depth >= MAX_DEPTH:
        raise Unfit(TOO_DEEP)
    plain: list[Any] = []
    try:
        plain.extend(item if type(item) in scalars.EXACT else to_plain(item, depth + 1) for item in value)
    except Unfit as unfit:
        unfit.at(len(plain), value)
        raise
    return plain


def _unordered(value: Iterable[object], depth: int) -> list[Any]:
    return models.in_order(_sequence(value, depth))


def _dataclass(names: tuple[str, ...], value: object, depth: int) -> JsonValue:
    if depth >= MAX_DEPTH:
        raise Unfit(TOO_DEEP)
    plain: dict[str, JsonValue] = {}
    name = ""
    try:
        for name in names:
            plain[name] = to_plain(getattr(value, name), depth + 1)
    except Unfit as unfit:
        unfit.at(name, value)
        raise
    return plain


_CONTAINERS: tuple[tuple[type | tuple[type, ...], scalars.Convert], ...] = (
    (dict, _mapping),
    ((list, tuple, deque), _sequence),
    ((set, frozenset), _unordered),
)
