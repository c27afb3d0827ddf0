"""The list of workflows in the reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from signoff.records import WorkflowInfo
from signoff.records.paging import WorkflowFilter
from signoff.testing.model.state import State


class Workflows:
    """The workflows that workers have announced."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._workflows = state.tables.workflows

    def announce(self, namespace: str, workflows: Sequence[WorkflowInfo]) -> None:
        for each in workflows:
            key = (namespace, each.name, each.group, each.version)
            self._workflows[key] = replace(each, namespace=namespace, seen_at=self._state.now)

    def list_workflows(self, namespace: str, which: WorkflowFilter) -> list[WorkflowInfo]:
        return [
            each
            for key, each in sorted(self._workflows.items())
            if key[0] == namespace and which.name in (None, each.name) and which.group in (None, each.group)
        ]

    def delete(self, namespace: str, before: float, limit: int) -> int:
        old = [
            key
            for key, each in self._workflows.items()
            if key[0] == namespace and each.seen_at is not None and each.seen_at < before
        ]
        old.sort(key=lambda key: (self._workflows[key].seen_at or 0.0, key))
        for key in old[:limit]:
            del self._workflows[key]
        return min(len(old), limit)
