"""Working time: the hours in which people can be expected to answer."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, cast
from zoneinfo import ZoneInfo

from signoff.errors import InvalidValue, RegistrationError

Times = tuple[str, str]
"""Opening and closing time, such as ``("09:00", "17:00")``."""

HORIZON_SECONDS: Final = 10 * 366 * 86_400.0
"""How far ahead working time is searched."""

_DAY: Final = 86_400
_EPOCH: Final = date(1970, 1, 1).toordinal()
_WEEK: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True)
class BusinessHours:
    """Working hours. Time outside them does not count.

    A moment counts if the local wall clock is within opening hours. On days of clock changes the length of the working
    day may therefore differ.

    Attributes:
        timezone: IANA time zone, such as ``Europe/Berlin``.
        days: Days of the week, such as ``"mon-fri"``, ``"sun-thu"`` or ``["mon", "wed"]``.
        hours: Opening and closing time, with ``24:00`` as the end of the day; or several such pairs, such as before and
            after lunch.
        holidays: Dates that do not count; or a country (ISO 3166) such as ``"DE"`` or ``"DE-BY"``, whose public
            holidays come from the package ``holidays`` (``pip install "signoff[calendar]"``).

    Raises:
        InvalidValue: A part is invalid.
        RegistrationError: A country is given, but the package is not installed.

    Example::

        OFFICE = BusinessHours("Europe/Berlin", hours=("09:00", "17:30"), holidays="DE-BE")
        await ctx.wait_for_user("Pay?", hours=OFFICE, remind_every=4 * 3600, timeout_seconds=3 * 8.5 * 3600)
    """

    timezone: str
    days: str | Sequence[str] = "mon-fri"
    hours: Times | Sequence[Times] = ("09:00", "17:00")
    holidays: str | Collection[date] = ()

    def __post_init__(self) -> None:
        _ = self._zone, self._weekdays, self._spans, self._closed  # raise InvalidValue now

    @cached_property
    def _zone(self) -> tzinfo:
        return _read_zone(self.timezone)

    @cached_property
    def _weekdays(self) -> frozenset[int]:
        return _read_days(self.days)

    @cached_property
    def _spans(self) -> tuple[tuple[int, int], ...]:
        return _read_spans(self.hours)

    @cached_property
    def _closed(self) -> Container[date]:
        return _read_holidays(self.holidays)

    def after(self, start: float, seconds: float) -> float:
        """Return the time at which this much working time has passed.

        Args:
            start: Start, in unix seconds.
            seconds: Working time in seconds. 0 seconds have passed immediately.

        Returns:
            Unix seconds. If the time runs out exactly at closing time, that closing time, not the next opening.

        Raises:
            InvalidValue: There is less working time than that within ten years.
        """
        if seconds <= 0:
            return start
        left = seconds
        for begin, end in self._open_from(start):
            if left <= end - begin:
                return begin + left
            left -= end - begin
        raise InvalidValue(
            "hours", f"there are fewer than {seconds:g} seconds of working time within ten years"
        )

    def _open_from(self, start: float) -> Iterator[tuple[float, float]]:
        """Yield opening and closing times, in unix seconds."""
        at, until = start, start + HORIZON_SECONDS
        while at < until:
            end, offset = self._same_offset(at)
            for begin_local, end_local in self._open_between(at + offset, end + offset):
                yield begin_local - offset, end_local - offset
            at = end

    def _same_offset(self, at: float) -> tuple[float, int]:
        """Return how long the UTC offset stays the same, a day at most, and that offset."""
        first = math.floor(at)
        last, offset = first + _DAY, self._offset(first)
        if self._offset(last) == offset:
            return last, offset
        while last - first > 1:
            middle = (first + last) // 2
            if self._offset(middle) == offset:
                first = middle
            else:
                last = middle
        return last, offset

    def _offset(self, at: int) -> int:
        offset = datetime.fromtimestamp(at, self._zone).utcoffset()
        assert offset is not None
        return round(offset.total_seconds())

    def _open_between(self, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield opening and closing times within a period without clock changes."""
        for day in range(math.floor(begin / _DAY), math.ceil(end / _DAY)):
            today = date.fromordinal(_EPOCH + day)
            if today.weekday() not in self._weekdays or today in self._closed:
                continue
            for opens, closes in self._spans:
                first, last = max(begin, day * _DAY + opens), min(end, day * _DAY + closes)
                if first < last:
                    yield first, last


def _read_zone(timezone: str) -> tzinfo:
    try:
        return UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (
        KeyError,
        ValueError,
        OSError,
        TypeError,
    ):  # unknown; malformed; a directory of zones; not a string
        raise InvalidValue(
            "timezone", f"{timezone!r} is not a time zone such as Europe/Berlin or UTC"
        ) from None


def _read_days(days: str | Sequence[str]) -> frozenset[int]:
    found: set[int] = set()
    if not isinstance(cast("object", days), Iterable):
        raise InvalidValue("days", f"{days!r} is not written as mon, mon-fri or sat,sun")
    for part in days.split(",") if isinstance(days, str) else days:
        if not isinstance(cast("object", part), str):
            raise InvalidValue("days", f"{part!r} is not written as mon, mon-fri or sat,sun")
        first, _, last = part.strip().lower().partition("-")
        if first not in _WEEK or (last or first) not in _WEEK:
            raise InvalidValue("days", f"{part!r} is not written as mon, mon-fri or sat,sun")
        begin = _WEEK.index(first)
        length = (_WEEK.index(last or first) - begin) % len(_WEEK)
        found |= {(begin + n) % len(_WEEK) for n in range(length + 1)}
    if not found:
        raise InvalidValue("days", "name at least one day of the week")
    return frozenset(found)


def _read_spans(hours: Times | Sequence[Times]) -> tuple[tuple[int, int], ...]:
    given = cast("object", hours)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidValue("hours", f'{given!r} is not written as ("09:00", "17:00")')
    is_one = len(hours) == 2 and isinstance(hours[0], str)
    listed = cast("Sequence[Times]", [hours] if is_one else hours)
    spans: list[tuple[int, int]] = []
    for each in listed:
        if isinstance(each, str) or not isinstance(cast("object", each), Sequence) or len(each) != 2:
            raise InvalidValue("hours", f'{each!r} is not written as ("09:00", "17:00")')
        opens, closes = _read_time(each[0]), _read_time(each[1])
        if opens >= closes:
            raise InvalidValue(
                "hours",
                f"{each[0]} to {each[1]} does not end on the same day; split the night into two spans",
            )
        spans.append((opens, closes))
    spans.sort()
    if not spans:
        raise InvalidValue("hours", "name at least one pair of opening and closing time")
    if any(before[1] > after[0] for before, after in pairwise(spans)):
        raise InvalidValue("hours", "two of the times overlap")
    return tuple(spans)


def _read_time(text: object) -> int:
    """Return seconds since the start of the day."""
    match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", text) if isinstance(text, str) else None
    if match is not None:
        return int(match[1]) * 3600 + int(match[2]) * 60
    if text == "24:00":
        return _DAY
    raise InvalidValue("hours", f"{text!r} is not a time from 00:00 to 24:00")


def _read_holidays(holidays: str | Collection[date]) -> Container[date]:
    if isinstance(holidays, str):
        return _public_holidays(holidays)
    if not isinstance(cast("object", holidays), Collection):
        raise InvalidValue("holidays", f"{holidays!r} is neither dates nor a country such as DE or DE-BY")
    for each in holidays:
        if type(each) is not date:
            raise InvalidValue("holidays", f"{each!r} is neither a date nor a country such as DE or DE-BY")
    return frozenset(holidays)


@lru_cache
def _public_holidays(country: str) -> Container[date]:
    try:
        import holidays
    except ImportError:
        raise RegistrationError(
            f'holidays={country!r} needs the package holidays: pip install "signoff[calendar]"'
        ) from None
    code, _, part = country.partition("-")
    try:
        return holidays.country_holidays(code, subdiv=part or None)
    except NotImplementedError as error:
        raise InvalidValue("holidays", f"{country!r} is not supported: {error}") from None
