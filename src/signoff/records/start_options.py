"""Checks of the options with which a run is started."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import cast

from signoff.errors import InvalidValue
from signoff.records.names import LONGEST_CHOSEN_BYTES, check_size, check_text

HIGHEST_PRIORITY = 2**31 - 1
LOWEST_PRIORITY = -(2**31)

LONGEST_DELAY = 1e15
"""In seconds: 30 million years. A longer delay is a mistake, such as nanoseconds."""


def check_id(id: str) -> str:
    """Return an id that the caller chose. Raises InvalidValue."""
    return _check("id", id)


def check_session(session_id: str | None) -> str | None:
    """Return the id of a session. Raises InvalidValue."""
    return None if session_id is None else _check("session_id", session_id)


def check_priority(priority: int) -> int:
    """Return a priority. Raises InvalidValue."""
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_whole or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise InvalidValue(
            "priority", f"expected an integer from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}, not {priority!r}"
        )
    return priority


def check_seconds(path: str, seconds: object) -> float | None:
    """Return a finite number of seconds, or None. Raises InvalidValue."""
    return None if seconds is None else seconds_of(path, seconds)


def seconds_of(path: str, seconds: object) -> float:
    """Return a finite number of seconds. Raises InvalidValue."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        remedy = "; pass its total_seconds()" if isinstance(seconds, timedelta) else ""
        raise InvalidValue(path, f"{seconds!r} is not a number of seconds{remedy}")
    return seconds


def check_flag(path: str, flag: object) -> bool:
    """Return a bool. Raises InvalidValue for any other type: the string ``false`` would count as true."""
    if not isinstance(flag, bool):
        raise InvalidValue(path, f"{flag!r} is neither True nor False")
    return flag


def check_delay(path: str, seconds: object) -> float | None:
    """Return a delay in seconds, or None. Raises InvalidValue."""
    given = check_seconds(path, seconds)
    if given is not None and given > LONGEST_DELAY:
        raise InvalidValue(path, f"{seconds!r} seconds are more than 30 million years")
    return given


def check_timeout(path: str, seconds: object) -> float | None:
    """Return a timeout in seconds, or None. Raises InvalidValue, also if it is negative."""
    given = check_delay(path, seconds)
    if given is not None and given < 0:
        raise InvalidValue(path, f"expected 0 or more seconds, not {seconds!r}")
    return given


def positive_seconds(path: str, seconds: object) -> float:
    """Return a number of seconds above 0. Raises InvalidValue."""
    given = seconds_of(path, seconds)
    if given <= 0:
        raise InvalidValue(path, f"expected more than 0 seconds, not {seconds!r}")
    return given


def unix_time(moment: datetime | None) -> float | None:
    """Return a datetime in unix seconds. Raises InvalidValue if it has no time zone."""
    if moment is None:
        return None
    if not isinstance(cast("object", moment), datetime):
        raise InvalidValue("start_at", f"{moment!r} is not a datetime; pass one, such as datetime.now(UTC)")
    if moment.tzinfo is None:
        raise InvalidValue(
            "start_at", f"{moment.isoformat()} has no time zone; pass one, such as datetime.now(UTC)"
        )
    return moment.timestamp()


def _check(field: str, id: str) -> str:
    check_text(field, id)
    if not 0 < len(id) <= 256 or not id.isprintable() or id != id.strip():
        raise InvalidValue(field, f"{id!r} is not 1 to 256 printable characters without spaces at the ends")
    check_size(field, id, LONGEST_CHOSEN_BYTES)
    return id
