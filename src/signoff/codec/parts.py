"""What errors carry (their arguments and attributes) to JSON data and back, each with its own type.

Values are read by an annotation; what an error carries has none. So what is no plain JSON data is written as
``{"$type": "module:qualname", "value": ...}``, and read only if that class is imported already and of a kind
that is data: an enum, a model, a dataclass, a date and so on.
"""

from __future__ import annotations

import base64
import math
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from signoff.codec import scalars
from signoff.codec.values import decode, encode

_MOST_LEVELS = 80
"""How deep a record goes, in levels of JSON: with a model in the last one a parser still takes it."""

_MOST_VALUES = 50_000
"""How many values a record holds. Lists that share lists can be endless without being large in memory."""

_TYPE = "$type"
_TUPLE, _ERROR, _BROKEN_TEXT = "builtins:tuple", "error", "builtins:str"

_DATA = frozenset({bytes, set, frozenset, date, datetime, time, timedelta, Decimal, UUID})


class Unkept(ValueError):
    """A part of an error that cannot be kept."""


class Packer:
    """Writes the parts of one error and of the errors in it.

    Args:
        record: Describes an error that is a part, given its level.
    """

    def __init__(self, record: Callable[[Packer, BaseException, int], dict[str, Any]]) -> None:
        self._record = record
        self._left = _MOST_VALUES

    def pack(self, value: Any, level: int) -> Any:
        """Write one part as JSON data.

        Args:
            value: Anything.
            level: How many levels of JSON it is in.

        Raises:
            Exception: It cannot be written so that it comes back equal.
        """
        self._left -= 1
        if level > _MOST_LEVELS or self._left < 0:
            raise Unkept
        kind: type[Any] = _class_of(value)
        if kind in (type(None), bool) or (kind is float and math.isfinite(value)):
            return value
        if kind is int:
            scalars.check_exact(value)
            return value
        if kind is str:
            return value if clean(value) == value else _tagged(_BROKEN_TEXT, _surrogates_to_text(value))
        if kind is list:
            return [self.pack(item, level + 1) for item in value]
        if kind is tuple:
            return _tagged(_TUPLE, [self.pack(item, level + 2) for item in value])
        if kind is dict:
            return {_key(key): self.pack(item, level + 1) for key, item in value.items()}
        if isinstance(value, BaseException):
            return _tagged(_ERROR, self._record(self, value, level + 1))
        return _tagged(path_of(kind), _pack_data(value, kind))


def unpack(packed: Any, rebuild: Callable[[dict[str, Any]], Exception]) -> Any:
    """Read one part back.

    Args:
        packed: What ``Packer.pack`` wrote.
        rebuild: Rebuilds an error that is a part.

    Raises:
        Exception: It does not fit the classes of this process.
    """
    if isinstance(packed, list):
        return [unpack(item, rebuild) for item in cast("list[Any]", packed)]
    if not isinstance(packed, dict):
        return packed
    items = cast("dict[str, Any]", packed)
    if _TYPE not in items:
        return {key: unpack(item, rebuild) for key, item in items.items()}
    name, value = items[_TYPE], items["value"]
    if name == _TUPLE:
        return tuple(unpack(item, rebuild) for item in value)
    if name == _ERROR:
        return rebuild(value)
    if name == _BROKEN_TEXT:
        return base64.b64decode(value).decode("utf-8", "surrogatepass")
    return _unpack_data(find(name), value)


def path_of(kind: type) -> str:
    """Name a class so that ``find`` finds it."""
    return clean(f"{kind.__module__}:{kind.__qualname__}")


def find(path: str) -> object:
    """Find what ``module:qualname`` names, if the module is imported already.

    Looks only at what is there: asking a module for an attribute can make it import others.

    Returns:
        What it names, or None.
    """
    module, _, qualname = path.partition(":")
    found: object = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    return found


def clean(text: str) -> str:
    """Replace lone surrogates, which JSON cannot hold, by escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {_TYPE: name, "value": value}


def _class_of(value: object) -> type[Any]:
    return type(value)


def _key(key: object) -> str:
    if type(key) is not str or key == _TYPE or clean(key) != key:
        raise Unkept
    return key


def _surrogates_to_text(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _is_data(kind: Any) -> bool:
    is_class = isinstance(kind, type)
    return is_class and (
        kind in _DATA or issubclass(kind, Enum | BaseModel | PurePath) or is_dataclass(cast(Any, kind))
    )


def _pack_data(value: Any, kind: type) -> Any:
    if not _is_data(kind):
        raise Unkept
    text = encode(value)
    again = decode(text, kind)
    if type(again) is not kind or again != value:
        raise Unkept
    return from_json(text)


def _unpack_data(kind: object, plain: Any) -> Any:
    if not _is_data(kind):
        raise Unkept
    if kind is datetime or kind is time:
        return kind.fromisoformat(plain)  # with a zone whose repr, which errors print, is the usual one
    return decode(to_json(plain).decode(), kind)
