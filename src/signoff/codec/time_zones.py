"""Time zones and folds, which ISO 8601 lacks, as suffixes of RFC 9557: ``...+02:00[Europe/Berlin]``.

Pydantic does not read these suffixes. So they are removed before reading, and then applied to the values.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import datetime, time, timedelta, timezone, tzinfo
from typing import Any, cast
from zoneinfo import ZoneInfo

from pydantic import BaseModel, RootModel

from signoff.codec.unstorable_values import Unfit, name_of

Marks = dict["str | int", "Marks | str"]
"""Strings with a suffix, by their position in JSON data: a nested dict by key and index."""

_FOLD = "[_fold=1]"
_HAS_SUFFIX = re.compile(r'\d(?:Z|[+-]\d\d:\d\d)?(?:\[[A-Za-z_][\w+/=-]*\])+"')
_SUFFIXED = re.compile(
    r"((?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:\d\d)?)((?:\[[A-Za-z_][\w+/=-]*\])+)"
)


def suffix(value: datetime | time) -> str:
    """Return the suffix of a datetime or time: its zone, and its fold if the offset does not determine it.

    Raises:
        Unfit: Its zone has no name in the zone database.
    """
    zone = value.tzinfo
    if zone is None:
        return _FOLD if value.fold else ""
    if type(zone) is timezone:
        return ""
    if isinstance(zone, ZoneInfo) and zone.key is not None:  # pyright: ignore[reportUnnecessaryComparison]
        same = value.replace(fold=0).utcoffset() == value.replace(fold=1).utcoffset()
        return f"[{zone.key}]" + (_FOLD if value.fold and same else "")
    if _is_fixed(zone):
        return ""
    raise Unfit(
        f"has a time zone of type {name_of(type(zone))} that does not come back; use zoneinfo.ZoneInfo('Area/City')"
    )


def clock_time(value: datetime) -> str:
    """Write a datetime as local time with its zone, without the offset: ISO 8601 has no offsets with seconds."""
    return (
        f"{datetime.isoformat(value.replace(tzinfo=None))}[{cast('ZoneInfo', value.tzinfo).key}]"
        f"{_FOLD if value.fold else ''}"
    )


def reads_as(value: datetime, text: str) -> bool:
    """Whether a text reads back with the local time and the fold of ``value``."""
    again = read(datetime, text)
    return (again.replace(tzinfo=None), again.fold) == (value.replace(tzinfo=None), value.fold)


def with_suffix(value: datetime | time, written: Any) -> Any:
    """Append the suffix to the output of another serializer, if that is ISO 8601."""
    return (
        written + suffix(value)
        if isinstance(written, str) and _SUFFIXED.fullmatch(written + "[x]")
        else written
    )


def same_zone(one: datetime | time, other: datetime | time) -> bool:
    """Whether two equal datetimes or times have the same zone, or the same offset if they have no zone name."""
    if (
        one.fold != other.fold
        and one.replace(fold=other.fold).utcoffset() == other.utcoffset() != one.utcoffset()
    ):
        return False
    if isinstance(one.tzinfo, ZoneInfo) or isinstance(other.tzinfo, ZoneInfo):
        return getattr(one.tzinfo, "key", None) == getattr(other.tzinfo, "key", 0)
    return one.utcoffset() == other.utcoffset()


def read(kind: type[datetime] | type[time], text: str) -> datetime | time:
    """Read a datetime or time with its zone, without pydantic."""
    match = _SUFFIXED.fullmatch(text)
    if match is None:
        return kind.fromisoformat(text)
    return _with_suffix(kind.fromisoformat(match[1]), match[2])


def bare(text: str) -> str:
    """Return the text of a datetime or time without its suffix."""
    match = _SUFFIXED.fullmatch(text)
    return text if match is None else match[1]


def may_have_marks(text: str) -> bool:
    """Whether JSON text may contain a datetime or time with a suffix. False is certain."""
    return ']"' in text and _HAS_SUFFIX.search(text) is not None


def take_off(plain: Any) -> tuple[Any, Marks | str | None]:
    """Remove the suffixes in JSON data, in place.

    Returns:
        The data, and the original strings; None if there was no suffix.
    """
    if isinstance(plain, str):
        match = _SUFFIXED.fullmatch(plain)
        return (plain, None) if match is None else (match[1], plain)
    if not isinstance(plain, dict | list):
        return plain, None
    marks: Marks = {}
    container = cast("dict[str | int, Any]", plain)
    for key, item in _items(container):
        container[key], marked = take_off(item)
        if marked is not None:
            marks[key] = marked
    return container, marks or None


def put_back(value: Any, marks: Marks | str) -> Any:
    """Apply suffixes to a value that was read without them. Values that they do not fit stay unchanged."""
    if isinstance(value, RootModel):
        held = cast("dict[str, Any]", value.__dict__)
        held["root"] = put_back(held["root"], marks)
        return cast(Any, value)
    if isinstance(marks, str):
        return _marked(value, marks)
    if isinstance(value, tuple):
        items = list(_marked_items(cast("tuple[Any, ...]", value), marks))
        make: Any = getattr(cast(Any, value), "_make", tuple)
        return make(items)
    if isinstance(value, BaseModel):
        _put_into(cast("dict[str, Any]", value.__dict__), marks)
        _put_into(value.__pydantic_extra__ or {}, marks)
    elif is_dataclass(value):
        for key, mark in marks.items():
            if hasattr(value, str(key)):
                object.__setattr__(value, str(key), put_back(getattr(value, str(key)), mark))
    elif isinstance(value, list | deque):
        listed = cast("list[Any]", value)
        for index, item in enumerate(_marked_items(listed, marks)):
            listed[index] = item
    elif isinstance(value, dict):
        _put_into(cast("dict[Any, Any]", value), marks)
    return cast(Any, value)


def _put_into(held: dict[Any, Any], marks: Marks) -> None:
    names = {str(key): key for key in held}
    for key, mark in marks.items():
        if key in names:
            held[names[key]] = put_back(held[names[key]], mark)


def _items(container: Any) -> list[tuple[str | int, Any]]:
    if isinstance(container, dict):
        return list(cast("dict[str | int, Any]", container).items())
    return list(enumerate(cast("list[Any]", container)))


def _marked_items(items: Any, marks: Marks) -> Iterator[Any]:
    names = getattr(items, "_fields", ())
    for index, item in enumerate(items):
        mark = marks.get(index) or (marks.get(names[index]) if names else None)
        yield item if mark is None else put_back(item, mark)


def _marked(value: Any, text: str) -> Any:
    match = _SUFFIXED.fullmatch(text)
    assert match is not None
    if isinstance(value, datetime | time):
        return _with_suffix(value, match[2])
    return text if value == match[1] else value


def _with_suffix(value: datetime | time, marks: str) -> datetime | time:
    for mark in marks[1:-1].split("]["):
        value = value.replace(fold=1) if mark == _FOLD[1:-1] else _in_zone(value, ZoneInfo(mark))
    return value


def _in_zone(value: datetime | time, zone: ZoneInfo) -> datetime | time:
    if isinstance(value, time) or value.tzinfo is None:
        return value.replace(tzinfo=zone)
    for fold in (0, 1):
        there = value.replace(tzinfo=zone, fold=fold)
        if there.utcoffset() == value.utcoffset():
            return there
    return value.astimezone(zone)


def _is_fixed(zone: tzinfo) -> bool:
    try:
        return isinstance(zone.utcoffset(None), timedelta)
    except Exception:  # a user's zone may need a datetime
        return False
