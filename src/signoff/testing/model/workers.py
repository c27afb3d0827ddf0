"""Workers in the reference model: their claims, heartbeats and leases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from signoff.records import (
    Run,
    RunState,
    WorkerInfo,
)
from signoff.stores.contract.leases import Claim
from signoff.stores.shared.suspect_runs import SUSPECT_TAKEOVERS, level_of, room_of
from signoff.testing.model.groups import Groups
from signoff.testing.model.state import State


class Workers:
    """The workers, and the leases that they hold."""

    def __init__(self, state: State, groups: Groups) -> None:
        self._state = state
        self._tables = state.tables
        self._groups = groups

    def claim(
        self,
        namespace: str,
        worker_id: str,
        group: str,
        workflows: Sequence[str],
        limit: int,
        token: str | None = None,
    ) -> list[Claim]:
        by_ready = sorted(
            self._tables.runs.values(),
            key=lambda run: (-run.priority, self._tables.facts[run.namespace, run.id].ready_at),
        )
        claimed = [
            run
            for run in by_ready
            if (run.namespace, run.worker_id, run.state) == (namespace, worker_id, RunState.RUNNING)
            and token is not None
            and self._tables.facts[namespace, run.id].claim_token == token
        ]
        if not claimed:
            ready = [
                run
                for run in by_ready
                if (run.namespace, run.group, run.state) == (namespace, group, RunState.READY)
                and run.workflow in workflows
            ]
            suspects, room = self._suspects(worker_id, ready)
            claimed = self._groups.lease(namespace, group, suspects, min(limit, room), worker_id, token)
            if not claimed:
                others = [run for run in ready if run.takeovers < SUSPECT_TAKEOVERS]
                claimed = self._groups.lease(namespace, group, others, limit, worker_id, token)
        return [Claim(run, tuple(self._tables.messages[namespace, run.id])) for run in claimed]

    def _suspects(self, worker_id: str, ready: Sequence[Run]) -> tuple[list[Run], int]:
        """Return the suspects to claim, all of one level, and how many of them the worker has room for."""
        held = [
            run.takeovers
            for run in self._tables.runs.values()
            if run.worker_id == worker_id and self._state.takeovers(run) >= SUSPECT_TAKEOVERS
        ]
        found = [run for run in ready if run.takeovers >= SUSPECT_TAKEOVERS]
        level = level_of(max(held or [run.takeovers for run in found], default=0))
        return [run for run in found if level_of(run.takeovers) == level], room_of(level) - len(held)

    def enlist(self, worker: WorkerInfo) -> None:
        self._state.commit.due |= not self._tables.workers
        self._tables.workers[worker.id] = replace(worker, seen_at=self._state.lease_clock.now(), held=0)

    def list_workers(self) -> list[WorkerInfo]:
        runs = self._tables.runs.values()
        return [
            replace(worker, held=sum(run.worker_id == worker.id for run in runs))
            for _, worker in sorted(self._tables.workers.items())
        ]

    def heartbeat(self, namespace: str, worker_id: str, held: Mapping[str, int]) -> set[str]:
        lost: set[str] = set()
        for run_id, epoch in held.items():
            run = self._tables.runs.get((namespace, run_id))
            if run is not None and (run.worker_id, run.epoch) == (worker_id, epoch):
                lease_until = self._state.lease_clock.now() + self._state.lease_seconds
                self._tables.runs[namespace, run_id] = replace(run, lease_until=lease_until)
            else:
                lost.add(run_id)
        return lost

    def release(self, worker_id: str, dead: bool = False) -> int:
        self._tables.workers.pop(worker_id, None)
        held = [run for run in self._tables.runs.values() if run.worker_id == worker_id]
        for run in held:
            self._state.let_go(run, taken_over=dead)
        return len(held)
