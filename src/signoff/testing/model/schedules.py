"""Schedules in the reference model: each of their times fires once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signoff.errors import NotFound
from signoff.records import Due, NewRun, NewSchedule, Schedule
from signoff.stores.contract.validation import check_run
from signoff.testing.model.state import State


class Schedules:
    """The schedules, and their next times."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tables = state.tables

    def put(self, namespace: str, new: NewSchedule) -> Schedule:
        old = self._tables.schedules.get((namespace, new.id))
        fields = {field: getattr(new, field) for field in NewSchedule.__dataclass_fields__}
        if old is None:
            put = Schedule(namespace, created_at=self._state.now, **fields)
        else:
            if (old.cron, old.timezone) == (new.cron, new.timezone):
                fields["next_at"] = old.next_at
            put = replace(old, **fields)
        self._tables.schedules[namespace, new.id] = put
        self._state.commit.due = True
        return put

    def get(self, namespace: str, schedule_id: str) -> Schedule:
        if (namespace, schedule_id) not in self._tables.schedules:
            raise NotFound("schedule", schedule_id)
        return self._tables.schedules[namespace, schedule_id]

    def list_schedules(self, namespace: str) -> list[Schedule]:
        found = [each for each in self._tables.schedules.values() if each.namespace == namespace]
        return sorted(found, key=lambda each: each.id)

    def pause(self, namespace: str, schedule_id: str) -> Schedule:
        paused = replace(self.get(namespace, schedule_id), is_paused=True)
        self._tables.schedules[namespace, schedule_id] = paused
        return paused

    def resume(self, namespace: str, schedule_id: str, next_at: float) -> Schedule:
        found = self.get(namespace, schedule_id)
        if found.is_paused:
            found = replace(found, is_paused=False, next_at=next_at)
        self._tables.schedules[namespace, schedule_id] = found
        self._state.commit.due = True
        return found

    def delete(self, namespace: str, schedule_id: str) -> None:
        self.get(namespace, schedule_id)
        del self._tables.schedules[namespace, schedule_id]

    def due(self, limit: int) -> tuple[list[Due], float | None]:
        waiting = [each for each in self._tables.schedules.values() if not each.is_paused]
        waiting.sort(key=lambda each: each.next_at)
        due = [
            Due(each.namespace, each.id, each.next_at) for each in waiting if each.next_at <= self._state.now
        ]
        return due[:limit], min((each.next_at for each in waiting), default=None)

    def fire(
        self, namespace: str, schedule_id: str, expected: float, runs: Sequence[NewRun], next_at: float
    ) -> bool:
        found = self._tables.schedules.get((namespace, schedule_id))
        if found is None or found.is_paused or found.next_at != expected:
            return False
        for new in runs:
            check_run(new)
        self._state.commit.due = True
        found = replace(found, next_at=next_at)
        if runs:
            found = replace(found, last_at=self._state.now, last_run_id=runs[-1].id)
        for new in runs:
            if (namespace, new.id) not in self._tables.runs:
                self._state.add_run(namespace, new)
        self._tables.schedules[namespace, schedule_id] = found
        return True
