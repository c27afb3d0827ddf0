"""The runs touched by a commit, by namespace."""

from __future__ import annotations

from signoff.stores.contract.store import Change


class TouchedRuns:
    """Collects the changes made by the operations of one commit.

    Attributes:
        runs: Ids of the touched runs, by namespace.
        woken: Ids of runs that got a message.
        ended: Ids of runs that ended.
        ready: Namespaces in which a run may have become claimable.
        due: Whether there may be an earlier deadline.
        settled: Namespaces in which a promise that belongs to no run was settled.
    """

    __slots__ = ("due", "ended", "ready", "runs", "settled", "woken")

    def __init__(self) -> None:
        self.runs: dict[str, set[str]] = {}
        self.woken: dict[str, set[str]] = {}
        self.ended: dict[str, set[str]] = {}
        self.ready: set[str] = set()
        self.due = False
        self.settled: set[str] = set()

    def touch(self, namespace: str, run_id: str, *, ready: bool = False, due: bool = False) -> None:
        """Note that a run has changed."""
        self.runs.setdefault(namespace, set()).add(run_id)
        if ready:
            self.ready.add(namespace)
        if due:
            self.due = True

    def touch_woken(self, namespace: str, run_id: str, *, ready: bool = False) -> None:
        """Note that a run has got a message."""
        self.touch(namespace, run_id, ready=ready)
        self.woken.setdefault(namespace, set()).add(run_id)

    def touch_ended(self, namespace: str, run_id: str) -> None:
        """Note that a run has ended."""
        self.touch(namespace, run_id)
        self.ended.setdefault(namespace, set()).add(run_id)

    def add(self, other: TouchedRuns) -> None:
        """Add what another commit touched."""
        for mine, theirs in ((self.runs, other.runs), (self.woken, other.woken), (self.ended, other.ended)):
            for namespace, run_ids in theirs.items():
                mine.setdefault(namespace, set()).update(run_ids)
        self.ready |= other.ready
        self.settled |= other.settled
        self.due = self.due or other.due

    def __bool__(self) -> bool:
        return bool(self.runs or self.ready) or self.due

    def change(self, namespace: str) -> Change:
        """Return the changes in a namespace."""
        runs = frozenset(self.runs.get(namespace, ()))
        if not (self.woken or self.ended):  # most commits are a worker's own appends
            return Change(
                runs, ready=namespace in self.ready, due=self.due, settled=namespace in self.settled
            )
        return Change(
            runs=runs,
            woken=frozenset(self.woken.get(namespace, ())),
            ended=frozenset(self.ended.get(namespace, ())),
            ready=namespace in self.ready,
            due=self.due,
            settled=namespace in self.settled,
        )
