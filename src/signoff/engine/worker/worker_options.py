"""Checks the options of a worker: a wrong one would let it hold no run, or end the thread that keeps its leases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from signoff.errors import InvalidValue
from signoff.records.names import check_named
from signoff.records.start_options import check_timeout, positive_seconds

_COUNTS: Final = {"concurrency": 1, "threads": 1, "hot_runs": 0, "max_takeovers": 1}
"""Options that are integers, with the least one allowed."""

_SECONDS: Final = ("beat_seconds", "busy_seconds", "stalled_seconds", "look_seconds")


def check_options(options: Mapping[str, object]) -> None:
    """Check options of a worker.

    Args:
        options: Arguments of ``Worker``, and ``grace_seconds``. Others are not looked at.

    Raises:
        InvalidValue: One is of another type, not finite or too small.
    """
    if "group" in options:
        check_named("group", options["group"])
    for name in _COUNTS.keys() & options.keys():
        _check_count(name, options[name], _COUNTS[name])
    for name in _SECONDS:
        if name in options:
            positive_seconds(name, options[name])
    if "grace_seconds" in options and check_timeout("grace_seconds", options["grace_seconds"]) is None:
        raise InvalidValue("grace_seconds", "None is not a number of seconds")


def _check_count(name: str, count: object, least: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise InvalidValue(name, f"expected an integer of at least {least}, not {count!r}")
