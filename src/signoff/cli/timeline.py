"""The rows of a run's timeline as the server sends them: one item per call, with its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from signoff.records import Origin
from signoff.records.timeline import TimelineChange


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt of a step that is retried."""

    number: int
    at: float
    next_at: float
    error: str | None  # JSON of an error; None if a person decided to retry an unknown outcome


@dataclass(slots=True)
class Item:
    """A row: one call of a run, or one event of the run itself. Its fields are those of ``TimelineChange``.

    Attributes:
        value: JSON of its outcome; for an open promise or question, the data it shows.
        attempts: A step's failed attempts before its outcome.
    """

    at: float
    kind: str
    name: str
    n: int | None = None
    state: str = "noted"
    id: str | None = None
    due_at: float | None = None
    ended_at: float | None = None
    value: str | None = None
    error: str | None = None
    by: str | None = None
    note: str | None = None
    origin: Origin | None = None
    attempts: list[FailedAttempt] = field(default_factory=list[FailedAttempt])
    doubt: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the run still waits for it, according to the journal."""
        return self.state in ("open", "retrying")

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.ended_at is None else max(0.0, self.ended_at - self.at)


class Items:
    """The items of a timeline, in the order of their beginnings."""

    def __init__(self) -> None:
        self._rows: dict[int, Item] = {}
        self._opened: dict[int, str | None] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._rows.values())

    def take(self, change: TimelineChange) -> tuple[Item, bool]:
        """Change an item, or add it. Returns it, and whether that is news: not if its state was known."""
        item = self._rows.get(change.row)
        is_news = item is None or item.state != change.state or change.attempt is not None
        if item is None:
            item = self._rows[change.row] = Item(
                change.at or 0.0,
                change.kind or "",
                change.name or "",
                change.n,
                id=change.id,
                due_at=change.due_at,
            )
            self._opened[change.row] = change.opened
        item.state, item.ended_at, item.doubt = change.state, change.ended_at, change.doubt
        item.by, item.note, item.origin = change.by, change.note, change.origin
        item.value = change.value
        if change.value is None and change.ended_at is None:
            item.value = self._opened[change.row]
        item.error = change.error
        if change.attempt is not None:
            item.error = None
            at = change.attempt_at or 0.0
            item.attempts.append(FailedAttempt(change.attempt, at, change.next_at or at, change.error))
        return item, is_news
