"""Unix times as dates, also those that no calendar of Python holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def utc(at: float) -> datetime:
    """Return a time as a datetime. What is before the year 1 or after 9999 is the first or the last moment there is."""
    try:
        return datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return _FIRST if at < 0 else _LAST


def is_far(at: float) -> bool:
    """Whether a time is too far away for a date."""
    return utc(at) in (_FIRST, _LAST)


def spell(at: float, form: str, *, local: bool = False) -> str:
    """Spell a time for people.

    Args:
        at: Unix seconds.
        form: As ``strftime`` takes it.
        local: Whether in local time; else in UTC.

    Returns:
        The date, or words for one that is too far away.
    """
    if is_far(at):
        return "before the year 1" if at < 0 else "after the year 9999"
    moment = utc(at)
    try:
        return (moment.astimezone() if local else moment).strftime(form)
    except (OverflowError, ValueError, OSError):  # the local time is in the year before or after
        return moment.strftime(form)
