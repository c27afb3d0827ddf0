"""Schedules of promises in the reference model."""

from __future__ import annotations

from dataclasses import replace

from signoff.errors import NotFound
from signoff.records import Due
from signoff.records.promise_schedules import NewPromiseSchedule, PromiseSchedule
from signoff.testing.model.state import State


class PromiseSchedules:
    """The schedules, and their next times."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._schedules = state.tables.promise_schedules

    def put(self, namespace: str, new: NewPromiseSchedule) -> PromiseSchedule:
        if (namespace, new.id) not in self._schedules:
            made = PromiseSchedule(namespace, new.id, new.cron, new.data, new.next_at, self._state.now)
            self._schedules[namespace, new.id] = made
        return self._schedules[namespace, new.id]

    def get(self, namespace: str, schedule_id: str) -> PromiseSchedule:
        if (namespace, schedule_id) not in self._schedules:
            raise NotFound("schedule", schedule_id)
        return self._schedules[namespace, schedule_id]

    def list_schedules(self, namespace: str) -> list[PromiseSchedule]:
        found = [each for each in self._schedules.values() if each.namespace == namespace]
        return sorted(found, key=lambda each: each.id)

    def delete(self, namespace: str, schedule_id: str) -> None:
        self.get(namespace, schedule_id)
        del self._schedules[namespace, schedule_id]

    def due(self, limit: int) -> tuple[list[Due], float | None]:
        waiting = sorted(self._schedules.values(), key=lambda each: each.next_at)
        due = [
            Due(each.namespace, each.id, each.next_at) for each in waiting if each.next_at <= self._state.now
        ]
        return due[:limit], min((each.next_at for each in waiting), default=None)

    def advance(
        self, namespace: str, schedule_id: str, expected: float, next_at: float, last_at: float
    ) -> bool:
        found = self._schedules.get((namespace, schedule_id))
        if found is None or found.next_at != expected:
            return False
        self._schedules[namespace, schedule_id] = replace(found, next_at=next_at, last_at=last_at)
        return True
