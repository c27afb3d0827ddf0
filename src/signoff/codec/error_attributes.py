"""Arguments and attributes of errors to JSON data and back, each with its type.

They have no annotation to be read by. So a part that is not plain JSON data is written as
``{"$type": "module:qualname", "value": ...}``. It is read only if that class is already imported and holds data: an
enum, a model, a dataclass, a date and so on.
"""

from __future__ import annotations

import base64
import math
import sys
from collections import deque
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

from signoff.codec import scalars, time_zones
from signoff.codec.set_order import kind_of
from signoff.codec.values import decode, encode

_MOST_LEVELS = 80
"""Maximum depth of a record, in levels of JSON. With a model in the last level a parser still accepts it."""

_MOST_VALUES = 50_000
"""Maximum number of values in a record. Lists that share lists can be huge as JSON but small in memory."""

_TYPE = "$type"
_TUPLE, _ERROR, _BROKEN_TEXT, _REMAINS = "builtins:tuple", "error", "builtins:str", "remains"
_DEQUE, _CLASS = "collections:deque", "builtins:type"

_MEMBER = "$member"

_STATUS = frozenset({"status", "reason", "reason_phrase", "method", "http_version", "encoding"})
"""Attributes whose strings are kept. Others may be secrets."""

_DATA = frozenset({bytes, set, frozenset, date, datetime, time, timedelta, Decimal, UUID})


class Unkept(ValueError):
    """A part of an error that cannot be kept."""


class Remains:
    """Replaces an object that cannot be kept, with the object's numbers and status texts.

    Attributes:
        type_name: The type of the object.
        kept: The kept attributes, by name. They are also attributes of this object: ``error.response.status_code``.
    """

    def __init__(self, type_name: str, kept: dict[str, Any]) -> None:
        self.type_name = type_name
        self.kept = kept

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("type_name", "kept"):
            raise AttributeError(name)
        if name in self.kept:
            return self.kept[name]
        raise AttributeError(
            f"{name!r} of a {self.type_name} in an error was not kept, only {', '.join(self.kept)};"
            " read it inside the step and raise an error that carries it"
        )

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.kept.items())
        return f"<what is left of a {self.type_name}: {parts}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remains) and (self.type_name, self.kept) == (other.type_name, other.kept)

    __hash__ = None  # type: ignore[assignment]


class Packer:
    """Writes the parts of one error and of the errors in it.

    Args:
        record: Returns the record of a nested error, given its level.
    """

    def __init__(self, record: Callable[[Packer, BaseException, int], dict[str, Any]]) -> None:
        self._record = record
        self._left = _MOST_VALUES

    def pack_remains(self, value: object, level: int) -> dict[str, Any]:
        """Write the numbers and the status texts of an object that cannot be kept, such as a response.

        Other attributes may be secrets, and properties may run code: neither is read.

        Raises:
            Unkept: It has no such attributes.
        """
        held = value.kept if type(value) is Remains else vars(value)
        kept = {
            name: self.pack(item, level + 2)
            for name, item in held.items()
            if not name.startswith("_") and _is_harmless(name, item)
        }
        if not kept:
            raise Unkept
        kind = value.type_name if type(value) is Remains else path_of(type(value)).replace(":", ".")
        return _tagged(_REMAINS, {"type": kind, "kept": kept})

    def pack(self, value: Any, level: int) -> Any:
        """Write one part as JSON data.

        Args:
            value: Any object.
            level: Its depth, in levels of JSON.

        Raises:
            Exception: It would not come back equal.
        """
        self._left -= 1
        if level > _MOST_LEVELS or self._left < 0:
            raise Unkept
        kind = kind_of(value)
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
        if kind is deque:
            return _tagged(_DEQUE, [value.maxlen, [self.pack(item, level + 3) for item in value]])
        if isinstance(value, type):
            return _tagged(_CLASS, _pack_class(value))
        if kind is dict:
            return {_key(key): self.pack(item, level + 1) for key, item in value.items()}
        if isinstance(value, BaseException):
            return _tagged(_ERROR, self._record(self, value, level + 1))
        return _tagged(path_of(kind), _pack_data(value, kind))


def unpack(packed: Any, rebuild: Callable[[dict[str, Any]], Exception]) -> Any:
    """Read one part.

    Args:
        packed: The data from ``Packer.pack``.
        rebuild: Rebuilds a nested error.

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
    if name == _DEQUE:
        return deque((unpack(item, rebuild) for item in value[1]), value[0])
    if name == _CLASS:
        return _unpack_class(value)
    if name == _REMAINS:
        return Remains(value["type"], {key: unpack(item, rebuild) for key, item in value["kept"].items()})
    if name == _BROKEN_TEXT:
        return base64.b64decode(value).decode("utf-8", "surrogatepass")
    return _unpack_data(find(name), value)


def path_of(kind: type) -> str:
    """Return the path of a class, with which ``find`` finds it in any process."""
    module = kind.__module__
    if module == "__main__":
        module = _name_of_main() or module
    return clean(f"{module}:{kind.__qualname__}")


def find(path: str) -> object:
    """Return the object at ``module:qualname`` if the module is already imported, else None.

    It reads ``__dict__`` only, because attribute access on a module can import others. A module that runs as a script
    is found by its import name.
    """
    name, _, qualname = path.partition(":")
    modules = [sys.modules.get(name)]
    if _is_main(name):
        modules.insert(0, sys.modules.get("__main__"))
    for found in modules:
        for part in qualname.split("."):
            found = getattr(found, "__dict__", {}).get(part)
        if found is not None:
            return found
    return None


def _name_of_main() -> str | None:
    """Return the import name of the module that runs as a script, or None if it cannot be imported."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return spec.name
    stem = PurePath(getattr(main, "__file__", None) or "").stem
    return stem if stem.isidentifier() else None


def _is_main(name: str) -> bool:
    """Whether this is the import name of the module that runs as a script."""
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return name == _name_of_main()
    file = getattr(main, "__file__", None)
    names = tuple(name.split("."))
    return bool(file) and PurePath(file).with_suffix("").parts[-len(names) :] == names


def clean(text: str) -> str:
    """Escape lone surrogates, which JSON cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _tagged(name: str, value: Any) -> dict[str, Any]:
    return {_TYPE: name, "value": value}


def _key(key: object) -> str:
    if type(key) is not str or key == _TYPE or clean(key) != key:
        raise Unkept
    return key


def _surrogates_to_text(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _pack_class(kind: type) -> str:
    """Return the path of a class. A class is data: reading it creates no instance."""
    path = path_of(kind)
    if find(path) is not kind:
        raise Unkept
    return path


def _unpack_class(path: str) -> type:
    found = find(path)
    if not isinstance(found, type):
        raise Unkept
    return found


def _is_data(kind: Any) -> bool:
    is_class = isinstance(kind, type)
    return is_class and (
        kind in _DATA or issubclass(kind, Enum | BaseModel | PurePath) or is_dataclass(cast(Any, kind))
    )


def _pack_data(value: Any, kind: type) -> Any:
    if not _is_data(kind):
        raise Unkept
    if isinstance(value, Enum):
        return _pack_member(value)
    text = encode(value)
    again = decode(text, kind)
    if kind_of(again) is not kind or again != value:
        raise Unkept
    return from_json(text)


def _pack_member(member: Enum) -> Any:
    """Write a member by its value, or by its name if the value is not plain data."""
    if type(member.value) in scalars.EXACT:
        return from_json(encode(member))
    if type(member).__members__.get(member.name) is not member:
        raise Unkept
    return {_MEMBER: member.name}


def _is_harmless(name: str, value: object) -> bool:
    kind = type(value)
    return kind in (bool, int, float) or (kind is str and name in _STATUS)


def _unpack_data(kind: object, plain: Any) -> Any:
    if not _is_data(kind):
        raise Unkept
    if isinstance(plain, dict) and _MEMBER in plain:
        return cast("type[Enum]", kind).__members__[cast("dict[str, str]", plain)[_MEMBER]]
    if kind is datetime or kind is time:
        # Not by pydantic, whose time zones have another repr.
        return time_zones.read(cast(Any, kind), cast(Any, plain))
    return decode(to_json(plain).decode(), kind)
