"""The journal's information about a run's calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from signoff.engine.run.call_inputs import KEY as INPUTS
from signoff.records import CallKind, Entry, EntryKind
from signoff.stores.contract.retries import ANEW

# Python takes three times as long to read a member of an enum as a global name.
_COMPLETED: Final = EntryKind.COMPLETED
_ATTEMPT_FAILED: Final = EntryKind.ATTEMPT_FAILED
_RETRIED: Final = EntryKind.RETRIED
_STEP: Final = CallKind.STEP


def inputs_in(entry: Entry) -> dict[str, Any]:
    """Return the inputs of a call from its first entry."""
    return entry.fact(INPUTS) or {}


@dataclass(slots=True)
class ReplayIndex:
    """What the journal says about calls made before this process took over the run."""

    calls: dict[int, Entry] = field(default_factory=dict[int, Entry])  # the first entry of each call
    completed: set[int] = field(default_factory=set[int])  # during replay
    opened: dict[int, float] = field(default_factory=dict[int, float])  # open calls, with their opening times
    begun: set[int] = field(default_factory=set[int])  # effect="once" steps whose start is journaled
    attempts: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])
    # The number of questions asked about a step.
    asked: dict[int, int] = field(default_factory=dict[int, int])
    patches: set[str] = field(default_factory=set[str])
    questions: dict[int, Entry] = field(default_factory=dict[int, Entry])  # their openings, settled or not
    ends: dict[int, list[tuple[float, Entry]]] = field(default_factory=dict[int, list[tuple[float, Entry]]])
    """The ends of attempts, each with the previous entry's time: the attempt's start, unless its entry has one."""
    anew: dict[int, Entry] = field(default_factory=dict[int, Entry])
    """The calls that an operator's retry opened anew, with the entry of the retry."""

    def expect(self, entries: Iterable[Entry]) -> None:
        """Index a journal for replay: the code must issue each of its calls again."""
        entries = list(entries)
        self.calls = {}
        before: Entry | None = None
        for entry in entries:
            n = entry.n
            if n is not None and entry.call is not None:
                if n not in self.calls:
                    self.calls[n] = entry
                kind = entry.kind
                if kind is _COMPLETED or kind is _ATTEMPT_FAILED:
                    if kind is _COMPLETED:
                        self.completed.add(n)
                    if entry.call is _STEP and before is not None:
                        if n in self.ends:
                            self.note_end(before.at, entry)
                        else:
                            self.ends[n] = [(before.at, entry)]
            before = entry
            if entry.kind is _RETRIED:
                self.anew.update(dict.fromkeys(entry.fact(ANEW) or (), entry))
        self.learn(entries)

    def note_end(self, before: float, entry: Entry) -> None:
        """Add the end of an attempt.

        Args:
            before: The time of the previous entry.
            entry: The entry about the end.
        """
        assert entry.n is not None
        self.ends.setdefault(entry.n, []).append((before, entry))

    def learn(self, entries: Iterable[Entry]) -> None:
        """Add the entries' information about calls that are still open."""
        for entry in entries:
            if entry.kind is _COMPLETED:
                continue
            n = entry.n
            if entry.kind is EntryKind.PATCHED:
                self.patches.add(entry.name or "")
            if n is None or entry.call is None:
                continue
            if entry.kind in (EntryKind.OPENED, EntryKind.PROGRESSED):
                self.opened[n] = entry.at
                if entry.call is CallKind.STEP:
                    self.asked[n] = self.asked.get(n, 0) + 1
                elif entry.call is CallKind.QUESTION:
                    self.questions[n] = entry
            elif entry.kind is EntryKind.STEP_STARTED:
                self.begun.add(n)
            elif entry.kind is EntryKind.ATTEMPT_FAILED:
                self.attempts[n] = (entry.fact("attempt"), entry.fact("next_at"))
                self.begun.discard(n)
                self.opened.pop(n, None)
