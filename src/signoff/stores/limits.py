"""Whether limits and new runs can be kept, the same for every store."""

from __future__ import annotations

import math

from signoff.errors import InvalidValue
from signoff.records import NewRun, Rate
from signoff.traceparent import is_traceparent


def check_limits(max_running: int | None, starts_per: Rate | None) -> None:
    """Raise InvalidValue for limits of a group that are not above 0."""
    if max_running is not None and max_running < 1:
        raise InvalidValue("max_running", f"{max_running} lets nothing run; pause the group instead")
    if starts_per is None:
        return
    if starts_per.count < 1:
        raise InvalidValue(
            "starts_per.count", f"{starts_per.count} lets nothing start; pause the group instead"
        )
    if not 0 < starts_per.seconds < math.inf:
        raise InvalidValue("starts_per.seconds", f"{starts_per.seconds} is no number of seconds above 0")


def check_run(new: NewRun) -> None:
    """Raise InvalidValue for a concurrency key without a limit or the other way round, or a false ``traceparent``."""
    if (new.concurrency_key is None) != (new.concurrency_limit is None):
        raise InvalidValue("concurrency_limit", "a concurrency key and a limit go together")
    if new.traceparent is not None and not is_traceparent(new.traceparent):
        raise InvalidValue("traceparent", f"{new.traceparent[:60]!r} is no trace context as W3C writes it")
