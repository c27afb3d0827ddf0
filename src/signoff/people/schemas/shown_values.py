"""Writes validated Python values as the JSON described by their own schema, to show them to people.

Values are written as they are, not as their serializer would write them: with the names used in the schema, with
excluded fields, and without computed ones. No validator runs. A value equal to the JSON it was parsed from, such as a
date sent as text, keeps that JSON. A value that JSON cannot represent keeps it, too, and its place is recorded.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path, PurePath
from typing import Any, Final, cast
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    RootModel,
    SecretBytes,
    SecretStr,
    TypeAdapter,
)
from pydantic.types import Secret

from signoff import codec
from signoff.codec.annotations import has_aliases
from signoff.people.questions.edits import is_same
from signoff.people.schemas.type_fields import (
    Place,
    Slot,
    dataclass_slots,
    model_slots,
    part_type,
    typed_dict_in,
    typed_dict_slots,
)

DEEPEST: Final = 200
"""Maximum nesting of a value. Parsed JSON is never nested deeper."""

ABSENT: Final = cast("Any", object())
"""Marks a value that was not in the JSON."""


@dataclass(slots=True)
class Shown:
    """A value as people see it.

    Attributes:
        value: The JSON.
        unseen: Places of values that JSON cannot represent; they are written as they were sent.
        made: Places of values that were not sent and come from a default factory, such as an id.
    """

    value: Any = None
    unseen: list[Place] = field(default_factory=list[Place])
    made: list[Place] = field(default_factory=list[Place])


def show(value: object, sent: Any = ABSENT, declared: Any = None, *, bytes_as: str = "utf8") -> Shown:
    """Write a value as its schema describes it.

    Args:
        value: The value, validated by its type.
        sent: The JSON that it was parsed from, if any.
        declared: Its type. Needed only for TypedDicts with aliases.
        bytes_as: The encoding of bytes outside of models: ``utf8`` or ``base64``.
    """
    writer = _Writer(bytes_as)
    writer.shown.value = writer.write(value, sent, declared, ())
    return writer.shown


def written(value: object, text: str, path: str) -> str:
    """Return the JSON of a value with the names used in its form: ``text``, unless the value has models with aliases.

    Args:
        value: The value.
        text: Its JSON with the Python names.
        path: Its name, for error messages.
    """
    if not _holds_aliases(value):
        return text
    return codec.encode(show(value, declared=cast("object", type(value)), bytes_as="base64").value, path=path)


def _holds_aliases(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_aliases, cast("dict[Any, object]", value).values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(_holds_aliases, cast("list[object]", value)))
    return (isinstance(value, BaseModel) or is_dataclass(value)) and has_aliases(cast("object", type(value)))


def show_slots(slots: Sequence[Slot], values: Mapping[str, Any], sent: Mapping[str, Any]) -> Shown:
    """Write named values, such as a tool's arguments, as their schema describes them.

    Args:
        slots: The known fields; others are written under their own names.
        values: The values by Python name.
        sent: The JSON that they were parsed from.
    """
    writer = _Writer()
    writer.shown.value = writer.slots(slots, values, sent, (), {})
    return writer.shown


class _Writer:
    def __init__(self, bytes_as: str = "utf8") -> None:
        self.shown = Shown()
        self._bytes_as = bytes_as

    def write(self, value: Any, sent: Any, declared: Any, place: Place) -> Any:
        """Return a value as JSON."""
        if len(place) > DEEPEST:
            return self._as_sent(sent, place)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return self.write(value.value, sent, None, place)
        if isinstance(value, str):
            return self._text(str.__str__(value), sent, place)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return _number(value, sent)
        if isinstance(value, (SecretStr, SecretBytes, Secret)):
            hidden = cast("Any", value).get_secret_value()
            return self.write(hidden, sent, None, place)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return _bytes(bytes(cast("bytes", value)), sent, self._bytes_as)
        if isinstance(sent, str) and _is_container(value):
            return self._from_text(value, sent, declared, place)
        return self._container(value, sent, declared, place)

    def _container(self, value: Any, sent: Any, declared: Any, place: Place) -> Any:
        if isinstance(value, RootModel):
            root = type(cast("RootModel[Any]", value)).model_fields["root"].annotation
            return self.write(cast("Any", value).root, sent, root, place)
        if isinstance(value, BaseModel):
            slots = model_slots(type(value))
            values = {slot.name: value.__dict__[slot.name] for slot in slots if slot.name in value.__dict__}
            outside = self._bytes_as
            self._bytes_as = type(value).model_config.get("val_json_bytes", "utf8")
            try:
                return self.slots(slots, values, _object(sent), place, value.model_extra or {})
            finally:
                self._bytes_as = outside
        if is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value, _object(sent), place)
        if isinstance(value, tuple) and hasattr(cast("object", value), "_fields"):
            return self._named_tuple(cast("Any", value), sent, place)
        if isinstance(value, Mapping):
            return self._mapping(cast("Mapping[Any, Any]", value), _object(sent), declared, place)
        if isinstance(value, (set, frozenset)):
            return self._set(cast("Collection[Any]", value), sent, place)
        if isinstance(value, Sequence) or _is_deque(value):
            return self._list(list(cast("Collection[Any]", value)), sent, declared, place)
        return self._scalar(value, sent, place)

    # Named parts

    def slots(
        self,
        slots: Sequence[Slot],
        values: Mapping[str, Any],
        sent: Mapping[str, Any],
        place: Place,
        extra: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return named parts as an object."""
        made: dict[str, Any] = {}
        known: set[str] = set()
        for slot in slots:
            known.add(slot.name)
            if slot.name in values:
                self._slot(made, slot, values[slot.name], sent, place)
        others = {name: part for name, part in values.items() if name not in known}
        for name, part in {**others, **extra}.items():
            made[name] = self.write(part, sent.get(name, ABSENT), None, (*place, name))
        return made

    def _slot(
        self, made: dict[str, Any], slot: Slot, value: Any, sent: Mapping[str, Any], place: Place
    ) -> None:
        for path in slot.paths:
            found = _at(sent, path)
            if found is ABSENT:
                continue
            written = self.write(value, found, slot.declared, (*place, *path))
            _put(made, path, written, sent)
            return
        where = (*place, slot.key)
        if slot.is_made:
            self.shown.made.append(where)
        made[slot.key] = self.write(value, ABSENT, slot.declared, where)

    def _dataclass(self, value: Any, sent: Mapping[str, Any], place: Place) -> dict[str, Any]:
        slots, only_sent = dataclass_slots(cast("Any", type(value)))
        values = {slot.name: getattr(value, slot.name) for slot in slots if hasattr(value, slot.name)}
        extra = {name: sent[name] for name in only_sent if name in sent}
        held: Mapping[str, Any] = getattr(value, "__dict__", {})
        known = {each.name for each in fields(value)}
        more = {name: part for name, part in held.items() if name in sent and name not in known}
        return self.slots(slots, values, sent, place, {**extra, **more})

    def _named_tuple(self, value: Any, sent: Any, place: Place) -> Any:
        names: Sequence[str] = value._fields
        if isinstance(sent, Mapping):
            given = cast("Mapping[str, Any]", sent)
            return {
                name: self.write(part, given.get(name, ABSENT), None, (*place, name))
                for name, part in zip(names, value, strict=True)
            }
        given = cast("list[Any]", sent) if isinstance(sent, list) else []
        return [
            self.write(part, given[n] if n < len(given) else ABSENT, None, (*place, n))
            for n, part in enumerate(value)
        ]

    def _mapping(
        self, value: Mapping[Any, Any], sent: Mapping[str, Any], declared: Any, place: Place
    ) -> dict[str, Any]:
        kind = typed_dict_in(declared, value)
        if kind is not None:
            return self.slots(typed_dict_slots(kind), value, sent, place, {})
        inner = part_type(declared, 1)
        made: dict[str, Any] = {}
        for key, part in value.items():
            name = self._key(key, sent, place)
            made[name] = self.write(part, sent.get(name, ABSENT), inner, (*place, name))
        return made

    def _key(self, key: Any, sent: Mapping[str, Any], place: Place) -> str:
        if type(key) is str:
            return key
        if isinstance(key, bool):
            written: Any = str(cast("object", key)).lower()
        else:
            written = self.write(key, ABSENT, None, place)
        text = written if isinstance(written, str) else json.dumps(written)
        if text in sent or not isinstance(cast("object", key), _PLAIN):
            return text
        return next((each for each in sent if _reads_as(each, key)), text)

    # Sequences

    def _list(self, value: list[Any], sent: Any, declared: Any, place: Place) -> list[Any]:
        given = cast("list[Any]", sent) if isinstance(sent, list) else []
        is_aligned = len(given) == len(value)
        return [
            self.write(
                part, given[n] if is_aligned else ABSENT, part_type(declared, n, is_row=True), (*place, n)
            )
            for n, part in enumerate(value)
        ]

    def _set(self, value: Collection[Any], sent: Any, place: Place) -> list[Any]:
        given = cast("list[Any]", sent) if isinstance(sent, list) else []
        rest, found = list(value), list[Any]()
        for each in given:
            for part in rest:
                written = self.write(part, each, None, (*place, len(found)))
                if is_same(written, each):
                    found.append(written)
                    rest.remove(part)
                    break
        others = [self.write(part, ABSENT, None, (*place, len(found))) for part in rest]
        return [*found, *sorted(others, key=lambda each: json.dumps(each, sort_keys=True))]

    # Single values

    def _text(self, value: str, sent: Any, place: Place) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            self.shown.unseen.append(place)
            return value.encode("utf-8", "backslashreplace").decode()
        return value

    def _from_text(self, value: Any, sent: str, declared: Any, place: Place) -> Any:
        """Write a value that was parsed from a string of JSON as that string."""
        try:
            read = json.loads(sent)
        except (ValueError, RecursionError):
            return self._container(value, ABSENT, declared, place)
        written = self._container(value, read, declared, place)
        return sent if is_same(written, read) else written

    def _scalar(self, value: Any, sent: Any, place: Place) -> Any:
        if isinstance(value, ZoneInfo) and value.key:
            return value.key
        if sent is not ABSENT and isinstance(value, _PLAIN) and _reads_as(sent, value):
            return sent
        try:
            written = _adapter(_base_of(value)).dump_python(value, mode="json", warnings="error")
            json.dumps(written, allow_nan=False).encode()
        except Exception:  # whatever a type's own serializer raises
            return self._as_sent(sent, place)
        return written

    def _as_sent(self, sent: Any, place: Place) -> Any:
        self.shown.unseen.append(place)
        return None if sent is ABSENT else _finite(sent)


_PLAIN: Final = (
    datetime, date, time, timedelta, Decimal, UUID, PurePath, Fraction,
    IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network,
)  # fmt: skip
"""Types whose parsing runs no user code."""


def _base_of(value: Any) -> Any:
    if isinstance(value, PurePath):
        return Path if isinstance(value, Path) else PurePath
    return cast("Any", type(value))


def _reads_as(sent: Any, value: Any) -> bool:
    """Whether the JSON that was sent parses to exactly this value."""
    if isinstance(sent, bool) or not isinstance(sent, (str, int, float)):
        return False
    plain = next(each for each in _PLAIN if isinstance(value, each))
    if isinstance(value, PurePath):
        return isinstance(sent, str) and sent == str(value)
    try:
        read = _adapter(plain).validate_python(sent)
    except Exception:
        return False
    if isinstance(value, datetime):
        return read == value and read.utcoffset() == value.utcoffset()
    return read == value


def _number(value: float, sent: Any) -> Any:
    if math.isfinite(value):
        is_whole = isinstance(sent, int) and not isinstance(sent, bool) and sent == value
        return sent if is_whole else float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _finite(sent: Any) -> Any:
    """Return JSON without the numbers that JSON does not have."""
    match sent:
        case float():
            return _number(sent, ABSENT)
        case list():
            return [_finite(each) for each in cast("list[Any]", sent)]
        case dict():
            return {name: _finite(each) for name, each in cast("dict[str, Any]", sent).items()}
        case _:
            return sent


def _bytes(value: bytes, sent: Any, form: str) -> str:
    if isinstance(sent, str) and any(read(sent) == value for read in _READINGS):
        return sent
    if form == "hex":
        return value.hex()
    if form == "utf8":
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return base64.urlsafe_b64encode(value).decode()


def _read_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if _is_urlsafe(text) else None)
    except (binascii.Error, ValueError):
        return None


def _is_urlsafe(text: str) -> bool:
    return "-" in text or "_" in text


def _read_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None


def _read_text(text: str) -> bytes | None:
    return text.encode("utf-8", "surrogatepass")


_READINGS: Final[tuple[Callable[[str], bytes | None], ...]] = (_read_text, _read_base64, _read_hex)


def _is_container(value: Any) -> bool:
    is_row = isinstance(value, (Sequence, set, frozenset)) or _is_deque(value)
    return is_row or isinstance(value, (Mapping, BaseModel)) or is_dataclass(cast("object", value))


def _is_deque(value: Any) -> bool:
    return type(value).__name__ == "deque" and type(value).__module__ == "collections"


def _object(sent: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", sent) if isinstance(sent, Mapping) else {}


def _at(sent: Any, path: Place) -> Any:
    """Return the value at a path of the JSON that was sent, or ``ABSENT``."""
    for part in path:
        if isinstance(part, int):
            if not isinstance(sent, list) or not -len(cast("list[Any]", sent)) <= part < len(
                cast("list[Any]", sent)
            ):
                return ABSENT
            sent = cast("list[Any]", sent)[part]
        elif isinstance(sent, Mapping) and part in sent:
            sent = cast("Mapping[str, Any]", sent)[part]
        else:
            return ABSENT
    return sent


def _put(made: dict[str, Any], path: Place, written: Any, sent: Mapping[str, Any]) -> None:
    """Write a value to the path that it was read from."""
    if len(path) == 1:
        made[cast("str", path[0])] = written
        return
    first = cast("str", path[0])
    target: Any = made.setdefault(first, _finite(deepcopy(sent[first])))
    for part in path[1:-1]:
        target = target[part]
    target[path[-1]] = written


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
