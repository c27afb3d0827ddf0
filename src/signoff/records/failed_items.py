"""Items of periodic jobs that failed, and of lists that cannot be read: records that say so."""

from __future__ import annotations

from signoff.records.record import record


@record
class Unreadable:
    """An item of a list that cannot be read, in its place: its row is damaged, or its key is missing.

    Attributes:
        namespace: Where it is.
        id: Its id.
        reason: Why it cannot be read.
    """

    namespace: str
    id: str
    reason: str


@record
class SetAsideItem:
    """An item of a periodic job that failed. The others go on; it is tried again.

    Attributes:
        job: What it is an item of, such as ``schedule`` or ``timer``.
        namespace: Where it is.
        id: Of the schedule, the question, the run ...
        failures: How often it has failed in a row.
        error: Why, the last time.
        first_at: When it failed for the first time, in unix seconds.
        next_at: When it is tried again, in unix seconds.
    """

    job: str
    namespace: str
    id: str
    failures: int
    error: str
    first_at: float
    next_at: float
