"""Unix times as dates, including times outside of Python's calendar."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)


def utc(at: float) -> datetime:
    """Return a time as a datetime. Times before the year 1 or after 9999 become the first or last datetime."""
    try:
        return datetime.fromtimestamp(at, UTC)
    except (OverflowError, ValueError, OSError):
        return _FIRST if at < 0 else _LAST


def is_far(at: float) -> bool:
    """Whether a time is outside of Python's calendar."""
    return utc(at) in (_FIRST, _LAST)


def spell(at: float, form: str, *, local: bool = False) -> str:
    """Format a time for people.

    Args:
        at: Unix seconds.
        form: The format, as for ``strftime``.
        local: Use local time instead of UTC.

    Returns:
        The date, or a description of a time outside of Python's calendar.
    """
    if is_far(at):
        return "before the year 1" if at < 0 else "after the year 9999"
    moment = utc(at)
    try:
        return (moment.astimezone() if local else moment).strftime(form)
    except (OverflowError, ValueError, OSError):  # only the local time is outside of the calendar
        return moment.strftime(form)
