"""Times of cron expressions in a time zone, in unix seconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from signoff.errors import InvalidValue

_HOUR = 3600.0


def check_cron(cron: str, timezone: str) -> None:
    """Raise InvalidValue unless it is a cron expression of five fields that has times, in a known time zone."""
    if len(cron.split()) != 5:
        raise InvalidValue("cron", f"{cron!r} has not five fields: minute, hour, day, month, weekday")
    try:
        next(_times(cron, timezone, 0.0))
    except (CronSimError, StopIteration) as error:
        raise InvalidValue("cron", f"{cron!r} is no cron expression: {error or 'it has no times'}") from None


def next_time(cron: str, timezone: str, after: float) -> float:
    """Return the first time after ``after``. Raises InvalidValue for what is no expression or zone."""
    check_cron(cron, timezone)
    return next(_times(cron, timezone, after))


def latest_times(cron: str, timezone: str, first: float, until: float, limit: int) -> list[float]:
    """Return the last ``limit`` times from ``first``, which is one, to ``until``, in order."""
    window = _HOUR
    while True:  # look back only as far as there are times enough: ``first`` may be years ago
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
    """Spell a time as ``2026-01-01T09:00+01:00``."""
    return datetime.fromtimestamp(time, _zone(timezone)).isoformat(timespec="minutes")


def _times(cron: str, timezone: str, after: float) -> Iterator[float]:
    for time in CronSim(cron, datetime.fromtimestamp(after, _zone(timezone))):
        yield time.timestamp()


def _zone(timezone: str) -> tzinfo:
    try:
        return UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):  # not found; no name of a zone; a folder of them
        raise InvalidValue("timezone", f"{timezone!r} is no time zone such as Europe/Berlin or UTC") from None
