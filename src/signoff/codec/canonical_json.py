"""The stable form of a value: one JSON text for equal values, in every process and Python version.

It is compared, never read back. So it accepts more than ``encode``: NaN, keys of any type, functions (by name) and
errors. The order of dict keys and of sets does not matter.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import operator
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from signoff.codec import models, scalars
from signoff.codec.plain_data import to_plain
from signoff.codec.unstorable_values import MAX_DEPTH, SECRETS, Unfit, name_of

_ENCODE: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode

LEFT_OUT: Final = "$left_out"
"""The key of the object that replaces a value without a stable form."""

_MOST_PARTS: Final = 200
_DEEPEST_STATE: Final = 6

GETTERS: Final = (operator.attrgetter, operator.itemgetter, operator.methodcaller)

_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{4,}")

_LARGEST_ARRAY: Final = 16 * 1024 * 1024
"""The largest array that is compared, in bytes: each step reads its arrays twice."""

_VALUES: Final = (Fraction, IPv4Address, IPv6Address, IPv4Network, IPv6Network, ZoneInfo)
"""Types whose values are equal if their ``str`` is."""

_CODE: Final = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)

_NOT_WRITTEN_ALIKE: Final = "\x7f"
"""The one ASCII character that ``json`` and pydantic write differently."""

_DEEPEST_BARE: Final = 8
_SHORT: Final = 200

# How data of plain types can be written. See ``_bare``.
_NOT_BARE, _IN_ANY_ORDER, _AS_WRITTEN = 0, 1, 2


class Unstable(Exception):
    """A value has no stable form.

    Attributes:
        kind: The type of the value, or of the part without a stable form.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} has no stable form")
        self.kind = kind


def stable_text(value: object) -> str:
    """Return JSON text that is the same for equal values in every process.

    Args:
        value: Any value that ``encode`` accepts, and more (see above).

    Raises:
        Unstable: A part of it has an identity only, such as a connection or an open file.
    """
    text = _text_of_bare(value)
    if text is not None:
        return text
    try:
        return _ENCODE(_data(value))
    except Unstable:
        raise
    except Exception as error:  # code of the value's class failed
        raise Unstable(name_of(type(value))) from error


def _text_of_bare(value: Any) -> str | None:
    """Return the stable form by pydantic's writer, which is much faster; None if that could differ from ours."""
    kind = cast("Any", type(value))
    try:
        if kind is str:
            if value.isascii() and _NOT_WRITTEN_ALIKE not in value:
                return to_json(value).decode()
            return _ENCODE(value)
        if kind is int:
            return repr(value)
        how = _bare(value, 0, within=False)
        if how == _NOT_BARE:
            return None
        raw = to_json(value, by_alias=False, round_trip=True)
        if how == _AS_WRITTEN and len(raw) <= _SHORT and raw.isascii() and b"\x7f" not in raw:
            return raw.decode()
        return _ENCODE(from_json(raw, allow_inf_nan=False))
    except Exception:  # such as a string that is not Unicode, or a number with too many digits
        return None


def _bare(value: Any, depth: int, *, within: bool) -> int:
    """Whether a value consists of plain data, lists, dicts with string keys and models written field by field.

    Args:
        value: The value.
        depth: How many containers it is in.
        within: Whether one of them is a model, which writes its parts as its fields declare them.

    Returns:
        ``_NOT_BARE`` if not; ``_AS_WRITTEN`` if equal values have the same text; else ``_IN_ANY_ORDER``.
    """
    kind = cast("Any", type(value))
    if kind in scalars.EXACT:
        return _AS_WRITTEN
    if kind is float:
        if 1e-4 <= abs(value) < 1e15 or value == 0:
            return _AS_WRITTEN
        return _IN_ANY_ORDER if math.isfinite(value) else _NOT_BARE
    if depth > _DEEPEST_BARE:
        return _NOT_BARE
    if kind is list or kind is tuple:
        if scalars.EXACT.issuperset(map(type, value)):
            return _AS_WRITTEN
        return min([_bare(each, depth + 1, within=within) for each in value])
    if kind is dict:
        if not _ONLY_TEXT.issuperset(map(type, value)):
            return _NOT_BARE
        held, how = value, _AS_WRITTEN if len(value) < 2 else _IN_ANY_ORDER
    elif issubclass(kind, BaseModel) and models.is_written_by_field(kind) and not value.__pydantic_extra__:
        if within and models.is_derived(kind):
            return _NOT_BARE
        held, how, within = value.__dict__, _AS_WRITTEN, True
    else:
        return _NOT_BARE
    for each in held.values():
        if type(each) not in scalars.EXACT:
            how = min(how, _bare(each, depth + 1, within=within))
    return how


_ONLY_TEXT: Final = frozenset({str})


def state_text(value: object) -> str:
    """Return the stable form of a value, or of its state: the attributes of an object of a plain class.

    Fields of dataclasses and pydantic models without a stable form are left out. Any other object with such an
    attribute, such as a client or a lock, counts as a service and has no stable form.

    Args:
        value: Data, or an object of a user's class.

    Raises:
        Unstable: It is neither, or too large.
    """
    try:
        return stable_text(value)
    except Unstable:
        pass
    try:
        return _ENCODE(_State().of(value, 0))
    except Unstable:
        raise
    except Exception as error:
        raise Unstable(name_of(type(value))) from error


class _State:
    """Reads the state of objects, up to ``_MOST_PARTS`` parts."""

    def __init__(self) -> None:
        self._parts = 0

    def of(self, value: Any, depth: int) -> Any:
        kind = cast("Any", type(value))
        if kind in scalars.EXACT:
            return value
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _DEEPEST_STATE:
            raise Unstable(name_of(kind))
        try:
            return _data(value)
        except Unstable:
            pass
        if issubclass(kind, logging.Logger):
            return value.name
        if issubclass(kind, list | tuple | deque):
            return [self.of(each, depth + 1) for each in value]
        if issubclass(kind, dict):
            return {str(key): self.of(each, depth + 1) for key, each in value.items()}
        if is_dataclass(kind):
            return {
                field.name: self._field(getattr(value, field.name, None), depth) for field in fields(kind)
            }
        if isinstance(value, BaseModel):
            held = value.__dict__
            return {name: self._field(held[name], depth) for name in type(value).model_fields if name in held}
        return self._attributes(value, kind, depth)

    def _field(self, value: Any, depth: int) -> Any:
        try:
            return self.of(value, depth + 1)
        except Unstable as unstable:
            return {LEFT_OUT: unstable.kind}

    def _attributes(self, value: Any, kind: Any, depth: int) -> Any:
        if of_library(kind) and kind is not types.SimpleNamespace:
            raise Unstable(name_of(kind))
        found = {name: self.of(each, depth + 1) for name, each in _attributes_of(value, kind).items()}
        if not found:
            raise Unstable(name_of(kind))
        return found


def of_library(kind: type) -> bool:
    """Whether a class belongs to the standard library or to Signoff."""
    top = str(kind.__module__).partition(".")[0]
    return top == "signoff" or (top in sys.stdlib_module_names and top != "__main__")


def _attributes_of(value: Any, kind: Any) -> dict[str, Any]:
    """Return the attributes of an object, without those that its class computes and caches."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    held: dict[str, Any] = getattr(value, "__dict__", {})
    found |= {name: each for name, each in held.items() if not _is_computed(getattr(kind, name, None))}
    return found


def _is_computed(attribute: object) -> bool:
    """Whether an attribute is computed on first access and then kept in the object, as by ``cached_property``."""
    kind = type(attribute)
    return (
        hasattr(kind, "__get__") and not hasattr(kind, "__set__") and not issubclass(kind, types.FunctionType)
    )


def _data(value: object) -> Any:
    try:
        plain = to_plain(value)
    except Unfit:
        return _stable(value, 0)
    if _has_all(value, plain):
        return plain
    try:
        return _stable(value, 0)
    except Unstable:
        return plain


def _has_all(value: Any, plain: Any) -> bool:
    """Whether plain data has all fields of the models in a value. A field's declared type may be a base with fewer."""
    if isinstance(value, BaseModel):
        if not isinstance(plain, dict):
            return True
        written, held = cast("dict[str, Any]", plain), _fields_of(value)
        return all(name in written and _has_all(each, written[name]) for name, each in held.items())
    if is_dataclass(value) and isinstance(plain, dict):
        written = cast("dict[str, Any]", plain)
        return all(
            field.name in written and _has_all(getattr(value, field.name, None), written[field.name])
            for field in fields(value)
        )
    if isinstance(value, Mapping) and isinstance(plain, dict):
        return all(map(_has_all, cast("Any", value).values(), cast("Any", plain).values()))
    if isinstance(value, list | tuple | deque) and isinstance(plain, list):
        return all(map(_has_all, cast("Any", value), cast("Any", plain)))
    return True


def _fields_of(value: BaseModel) -> dict[str, Any]:
    """Return the values of a model by field name, without excluded fields."""
    held = value.__dict__  # which also has cached properties
    found = {
        name: held[name]
        for name, field in type(value).model_fields.items()
        if name in held and not field.exclude
    }
    return found | value.__pydantic_extra__ if value.__pydantic_extra__ else found


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
        return _mapping(cast("Any", _fields_of(value)), depth)
    return _single(value, depth)


def _single(value: Any, depth: int) -> Any:
    kind = cast("Any", type(value))
    if issubclass(kind, SECRETS):
        return "**********"
    if issubclass(kind, float | Decimal | date | time | timedelta | range | slice | complex | int | str):
        return str(value)
    if issubclass(kind, bytearray | memoryview):
        return bytes(value).hex()
    if issubclass(kind, _VALUES):
        return str(value)
    if issubclass(kind, re.Pattern):
        return [_stable(value.pattern, depth + 1), value.flags]
    if (array := numpy_kind(kind)) is not None:
        return _array(value, depth) if array == "ndarray" else _scalar(value)
    if issubclass(kind, BaseException):
        return [type(value).__qualname__, _ADDRESS.sub("0x", str(value))]
    if isinstance(value, functools.partial):
        made = cast("functools.partial[Any]", value)
        return [_stable(each, depth + 1) for each in (made.func, made.args, made.keywords)]
    if issubclass(kind, (type, *_CODE)):
        return value.__qualname__
    if issubclass(kind, GETTERS):
        return _stable(value.__reduce__()[1], depth + 1)
    try:
        return to_plain(value)
    except Exception as error:
        raise Unstable(name_of(kind)) from error


def numpy_kind(kind: type) -> str | None:
    """Return ``ndarray`` for NumPy's array class, ``generic`` for its scalar classes, None for any other class."""
    for base in kind.__mro__:
        if base.__module__ == "numpy" and base.__name__ in ("ndarray", "generic"):
            return base.__name__
    return None


def _scalar(value: Any) -> Any:
    return f"{value.dtype.str}:{value!s}"


def _array(value: Any, depth: int) -> Any:
    if value.dtype.hasobject:
        return _items(value.tolist(), depth)
    if value.nbytes > _LARGEST_ARRAY:
        raise Unstable(f"an array of {value.nbytes:,} bytes")
    return [value.dtype.str, list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]


def _items(values: Iterable[Any], depth: int) -> list[Any]:
    return [_stable(each, depth + 1) for each in values]


def _mapping(value: Mapping[object, object], depth: int) -> Any:
    if all(type(key) is str for key in value):
        return {key: _stable(item, depth + 1) for key, item in value.items()}
    pairs = [[_stable(key, depth + 1), _stable(item, depth + 1)] for key, item in value.items()]
    return sorted(pairs, key=_ENCODE)
