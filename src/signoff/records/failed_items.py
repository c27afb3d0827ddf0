"""Failed items: those of lists that cannot be read, and those of periodic jobs that were set aside."""

from __future__ import annotations

from signoff.records.record import record


@record
class Unreadable:
    """Takes the place of a list item that cannot be read: its row is damaged, or its encryption key is missing.

    Attributes:
        namespace: The item's namespace.
        id: The item's id.
        reason: Why it cannot be read.
    """

    namespace: str
    id: str
    reason: str


@record
class SetAsideItem:
    """A failed item of a periodic job. It is retried; the job continues with its other items.

    Attributes:
        job: The job, such as ``schedule`` or ``timer``.
        namespace: The item's namespace.
        id: The id of the schedule, question, run ...
        failures: The number of consecutive failures.
        error: The last error.
        first_at: When it first failed, in unix seconds.
        next_at: When it is retried, in unix seconds.
    """

    job: str
    namespace: str
    id: str
    failures: int
    error: str
    first_at: float
    next_at: float
