"""Writers of values that are one JSON scalar. Read by their annotation, the values come back equal."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import JsonValue
from pydantic_core import to_json, to_jsonable_python

from signoff.codec import time_zones
from signoff.codec.unstorable_values import Unfit, name_of

EXACT = frozenset({type(None), bool, int, str})
"""Types whose values are JSON data as they are. ``float`` is not one, because of NaN and the infinities."""

MAX_DIGITS = 4300
"""Maximum number of digits of an integer: the limit of Python's own conversion and of the JSON parser."""

SAME_KEYS = "has keys that are the same in JSON, such as 1 and '1'; make them all strings"

Convert = Callable[[Any, int], JsonValue]


def converter(kind: type) -> Convert | None:
    """Return the writer of a type's values, or None if they are not scalars."""
    if issubclass(kind, Enum):
        return _enum
    return next((convert for base, convert in _CONVERTERS if issubclass(kind, base)), None)


def key_text(key: object) -> str:
    """Write a dict's key as a string, the only kind of key in JSON.

    Raises:
        Unfit: No annotation could bring it back.
    """
    if isinstance(key, Enum):
        return _enum_key(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, datetime | time):
        return time_zones.bare(str(_datetime(key, 0) if isinstance(key, datetime) else _time(key, 0)))
    convert = None if key is None else converter(type(key))
    if convert is None:
        raise Unfit(f"is a key of type {name_of(type(key))}, which JSON cannot hold; use a list of pairs")
    plain = convert(key, 0)
    check_exact(plain)
    return plain if isinstance(plain, str) else to_json(plain).decode()


def check_member(member: Enum) -> None:
    """Refuse a member of an enum whose value is not a JSON scalar, from which the member could not be read."""
    value = member.value
    if type(value) is float:
        _float(value, 0)
    elif type(value) not in EXACT:
        raise Unfit(f"is {member}, with the value {value!r:.60}; give its enum values that are str or int")


def check_offset(value: datetime | time) -> None:
    """Refuse a UTC offset with seconds, which does not come back."""
    offset = _offset_of(value)
    if _has_seconds(offset):
        raise Unfit(f"has a UTC offset with seconds ({offset}); convert it to UTC")


def check_exact(value: object) -> None:
    """Refuse strings and numbers that no JSON parser reads back."""
    if isinstance(value, str) and not _is_unicode(value):
        raise Unfit("is text with lone surrogates, which is not Unicode; decode it properly, or pass bytes")
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise Unfit(f"is a number of more than {MAX_DIGITS} digits; pass it as hexadecimal text")


def _enum(member: Enum, _depth: int) -> JsonValue:
    check_member(member)
    return member.value


def _enum_key(member: Enum) -> str:
    if type(member.value) is str or isinstance(member, int):
        return str(member.value)
    raise Unfit("is a key whose value is not a string; use a StrEnum or IntEnum, or a list of pairs")


def _float(value: float, _depth: int) -> JsonValue:
    if not math.isfinite(value):
        raise Unfit(f"is {value}, which JSON cannot hold; pass None, or text")
    return float.__float__(value)


def _decimal(value: Decimal, _depth: int) -> JsonValue:
    if not value.is_finite():
        raise Unfit(f"is {value!r}, which does not come back; pass None, or text")
    return str(value)


def _datetime(value: datetime, _depth: int) -> JsonValue:
    if not _has_seconds(_offset_of(value)):
        return datetime.isoformat(value) + time_zones.suffix(value)
    marks = time_zones.suffix(value)
    try:
        text = datetime.isoformat(value.astimezone(UTC)) + marks  # the same instant
    except OverflowError:
        text = None
    if isinstance(value.tzinfo, ZoneInfo):
        return text if text is not None and time_zones.reads_as(value, text) else time_zones.clock_time(value)
    if text is None:
        raise Unfit(f"is {value}, which has no UTC time; choose a later or earlier year")
    return text


def _time(value: time, _depth: int) -> JsonValue:
    check_offset(value)
    return time.isoformat(value) + time_zones.suffix(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _offset_of(value: datetime | time) -> timedelta | None:
    try:
        return value.utcoffset()
    except Exception as error:  # a user's time zone, or a value such as pandas' NaT
        raise Unfit(f"is {value!r:.60}, which has no UTC offset: {error}; pass None, or text") from None


def _has_seconds(offset: timedelta | None) -> bool:
    return offset is not None and (offset.seconds % 60 != 0 or offset.microseconds != 0)


# Subclasses are written by the method of their base: what they override is for people, not for parsers.
_CONVERTERS: tuple[tuple[type, Convert], ...] = (
    (type(None), lambda value, _: value),
    (bool, lambda value, _: value),
    (str, lambda value, _: str.__str__(value)),
    (int, lambda value, _: int.__int__(value)),
    (float, _float),
    (datetime, _datetime),
    (date, lambda value, _: date.isoformat(value)),
    (time, _time),
    (timedelta, lambda value, _: to_jsonable_python(value)),
    (UUID, lambda value, _: UUID.__str__(value)),
    (Decimal, _decimal),
    (bytes, lambda value, _: base64.urlsafe_b64encode(value).decode()),
    (PurePath, lambda value, _: PurePath.__str__(value)),
)
