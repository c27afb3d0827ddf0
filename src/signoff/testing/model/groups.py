"""Groups in the reference model: pauses, limits, and which of their runs may be claimed."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.records import Group, Rate, Run, RunState
from signoff.stores.contract.validation import check_names
from signoff.testing.model.state import State
from signoff.testing.model.tables import Limits


class Groups:
    """The paused and limited groups, and which of their runs may start."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def pause(self, namespace: str, name: str) -> None:
        check_names(group=name)
        self._tables.groups.setdefault((namespace, name), Limits()).is_paused = True
        self._state.commit.ready.add(namespace)

    def resume(self, namespace: str, name: str) -> None:
        check_names(group=name)
        self._tables.groups.setdefault((namespace, name), Limits()).is_paused = False
        self._state.commit.ready.add(namespace)

    def limit(
        self, namespace: str, name: str, max_running: int | None = None, starts_per: Rate | None = None
    ) -> None:
        check_names(group=name)
        self._state.commit.ready.add(namespace)
        old = self._tables.groups.get((namespace, name), Limits())
        self._tables.groups[namespace, name] = Limits(old.is_paused, max_running, starts_per)

    def list_groups(self, namespace: str) -> list[Group]:
        names = {name for known, name in self._tables.groups if known == namespace}
        names |= {run.group for run in self._tables.runs.values() if run.namespace == namespace}
        return [self._group(namespace, name) for name in sorted(names)]

    def lease(
        self, namespace: str, group: str, ready: Sequence[Run], limit: int, worker_id: str, token: str | None
    ) -> list[Run]:
        """Lease ready runs of a group in order, within its limits and theirs."""
        limits = self._tables.groups.get((namespace, group), Limits())
        leased: list[Run] = []
        for run in ready:
            if len(leased) == limit or limits.is_paused or self._is_full(namespace, group, limits):
                break
            if self._key_is_full(run):
                continue
            if run.epoch == 0 and not limits.may_start(self._state.now):
                self._state.commit.due |= limits.hold_back()
                continue
            if run.epoch == 0:
                limits.note_start(self._state.now)
            leased.append(self._state.lease(run, worker_id, token))
        return leased

    def may_lease(self, run: Run) -> bool:
        """Whether the limits of a ready run and of its group let a worker take it now."""
        limits = self._tables.groups.get((run.namespace, run.group), Limits())
        if limits.is_paused or self._is_full(run.namespace, run.group, limits) or self._key_is_full(run):
            return False
        return run.epoch > 0 or limits.may_start(self._state.now)

    def _is_full(self, namespace: str, group: str, limits: Limits) -> bool:
        running = self._in_state(namespace, group, RunState.RUNNING)
        return limits.max_running is not None and running >= limits.max_running

    def _key_is_full(self, run: Run) -> bool:
        def of(other: Run) -> tuple[str, ...]:
            return (other.namespace, other.group, other.workflow, other.concurrency_key or "")

        if run.concurrency_key is None or run.concurrency_limit is None:
            return False
        running = [
            other
            for other in self._tables.runs.values()
            if other.state is RunState.RUNNING and other.concurrency_key is not None and of(other) == of(run)
        ]
        return len(running) >= run.concurrency_limit

    def _group(self, namespace: str, name: str) -> Group:
        limits = self._tables.groups.get((namespace, name), Limits())
        ready, running, paused = (
            self._in_state(namespace, name, state)
            for state in (RunState.READY, RunState.RUNNING, RunState.PAUSED)
        )
        suspended = self._suspended(namespace, name)
        return Group(
            name, limits.is_paused, limits.max_running, limits.starts_per, ready, running, paused, *suspended
        )

    def _suspended(self, namespace: str, group: str) -> tuple[int, int]:
        """Return the number of suspended runs, and how many of them were lost repeatedly."""
        found = [
            run
            for run in self._tables.runs.values()
            if (run.namespace, run.group, run.state) == (namespace, group, RunState.PAUSED)
            and run.is_suspended
        ]
        return len(found), sum(run.suspended_by is None and run.takeovers > 0 for run in found)

    def _in_state(self, namespace: str, group: str, state: RunState) -> int:
        runs = self._tables.runs.values()
        return sum((run.namespace, run.group, run.state) == (namespace, group, state) for run in runs)
