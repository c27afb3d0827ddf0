"""Times of cron expressions in a time zone, in Unix seconds."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from signoff.errors import InvalidValue

LONGEST_CRON = 1_000
"""The longest cron expression, in characters. Listing all minutes, hours and days takes about 400."""

LONGEST_ZONE = 100
"""The longest name of a time zone, in characters."""

_HOUR = 3600.0
_MOST_HOURS = 27  # the largest backward clock change so far was a day


def check_cron(cron: str, timezone: str) -> None:
    """Check a cron expression and its time zone.

    Raises:
        InvalidValue: It is not an expression of five fields that has times, or the time zone is unknown.
    """
    for field, text, longest in (("cron", cron, LONGEST_CRON), ("timezone", timezone, LONGEST_ZONE)):
        if len(text) > longest:
            raise InvalidValue(field, f"it has {len(text):,} characters, more than {longest:,}")
    _check_times(cron, timezone)


@functools.lru_cache(maxsize=1024)
def _check_times(cron: str, timezone: str) -> None:
    if len(cron.split()) != 5:
        raise InvalidValue("cron", f"{cron!r} does not have five fields: minute, hour, day, month, weekday")
    try:
        next(_times(cron, timezone, 0.0))
    except (CronSimError, StopIteration) as error:
        raise InvalidValue(
            "cron", f"{cron!r} is not a valid cron expression: {error or 'it has no times'}"
        ) from None


def next_time(cron: str, timezone: str, after: float) -> float:
    """Return the first time after ``after``.

    Raises:
        InvalidValue: The expression or the time zone is not valid.
    """
    check_cron(cron, timezone)
    return next(_times(cron, timezone, after))


def latest_times(cron: str, timezone: str, first: float, until: float, limit: int) -> list[float]:
    """Return the last ``limit`` times from ``first`` (itself a time) to ``until``, in order."""
    window = _HOUR
    while True:  # look back only as far as needed: `first` may be years ago
        since = max(first, until - window)
        found = [since] if since == first else []
        for time in _times(cron, timezone, since):
            if time > until:
                break
            found.append(time)
        if since == first or len(found) >= limit:
            return found[-limit:]
        window *= 8


def local_text(time: float, timezone: str) -> str:
    """Format a time as ``2026-01-01T09:00+01:00``."""
    return datetime.fromtimestamp(time, _zone(timezone)).isoformat(timespec="minutes")


def _times(cron: str, timezone: str, after: float) -> Iterator[float]:
    """Yield the times after ``after``, in order.

    Cronsim yields local times. This maps them to moments by the rules of Debian's cron. A fixed time of day fires once:
    right after the gap if the clock skips it, and at its first occurrence if it occurs twice. Other expressions fire
    whenever the clock shows a matching time.
    """
    zone = _zone(timezone)
    is_fixed = not any(field.startswith("*") for field in cron.split()[:2])
    begin = _wall(after, zone) if is_fixed else _wall(after, zone) - _turned_back(after, zone)
    last, twice = after, list[float]()
    for wall in CronSim(cron, begin):
        moments = _moments(wall, zone)
        if len(moments) > 1 and not is_fixed:  # its second moment may come after the next local time
            twice += moments
            continue
        if not moments and is_fixed:
            moments = [_end_of_gap(wall, zone)]
        for moment in sorted({*twice, *moments[:1]}):
            if moment > last:
                yield moment
                last = moment
        twice.clear()


def _wall(time: float, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(time, zone).replace(tzinfo=None)


def _turned_back(after: float, zone: tzinfo) -> timedelta:
    """Return by how much the clock goes back soon after a moment: earlier local times then repeat."""
    now = _offset(after, zone)
    later = min(_offset(after + hour * _HOUR, zone) for hour in range(_MOST_HOURS))
    return max(now - later, timedelta())


def _offset(time: float, zone: tzinfo) -> timedelta:
    return datetime.fromtimestamp(time, zone).utcoffset() or timedelta()


def _moments(wall: datetime, zone: tzinfo) -> list[float]:
    """Return the moments at which the clock shows a local time: none, one or two."""
    found = sorted({wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)})
    return [moment for moment in found if _wall(moment, zone) == wall]


def _end_of_gap(wall: datetime, zone: tzinfo) -> float:
    """Return the moment at which the clock skips a local time."""
    before, after = sorted(wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    offset = _offset(after, zone)
    while after - before > 1:
        middle = float((before + after) // 2)
        if _offset(middle, zone) == offset:
            after = middle
        else:
            before = middle
    return after


def _zone(timezone: str) -> tzinfo:
    try:
        return UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):  # not found, an invalid name, or a folder of zones
        raise InvalidValue(
            "timezone", f"{timezone!r} is not a time zone such as Europe/Berlin or UTC"
        ) from None
