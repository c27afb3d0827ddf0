"""Checkpoints in the reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from signoff.errors import NotFound
from signoff.records.checkpoints import (
    ChannelValue,
    Checkpoint,
    CheckpointFilter,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)
from signoff.stores.contract.checkpoints import BYTES_OF_WRITE, check_room
from signoff.testing.model.state import State


class Checkpoints:
    """The saved states of graphs, by namespace, thread, path and id."""

    def __init__(self, state: State) -> None:
        self._checkpoints = state.tables.checkpoints
        self._values = state.tables.channel_values
        self._writes = state.tables.checkpoint_writes

    def put(self, namespace: str, thread_id: str, new: NewCheckpoint) -> None:
        values = dict(self._values.get((namespace, thread_id, new.path), {}))
        for each in new.values:
            values.setdefault((each.channel, each.version), each.value)
        named = [values[pair] for pair in new.versions.items() if pair in values]
        check_room("channels", _size(named))
        self._values[namespace, thread_id, new.path] = values
        self._checkpoints[namespace, thread_id, new.path, new.id] = replace(new, values=())

    def put_writes(
        self, namespace: str, thread_id: str, checkpoint: CheckpointRef, writes: Sequence[CheckpointWrite]
    ) -> None:
        key = (namespace, thread_id, checkpoint.path, checkpoint.id)
        kept = dict(self._writes.get(key, {}))
        for each in writes:
            if each.index < 0 or (each.task_id, each.index) not in kept:
                kept[each.task_id, each.index] = each
        check_room("writes", sum(map(_size_of_write, kept.values())))
        self._writes[key] = kept

    def get(self, namespace: str, thread_id: str, path: str, id: str | None) -> Checkpoint:
        ids = [key[3] for key in self._checkpoints if key[:3] == (namespace, thread_id, path)]
        if not ids or id not in (None, *ids):
            raise NotFound("checkpoint", f"{thread_id}/{path}/{id or ''}")
        id = max(ids) if id is None else id
        key = (namespace, thread_id, path, id)
        found = self._checkpoints[key]
        values = self._values[namespace, thread_id, path]
        named = (
            ChannelValue(*pair, values[pair]) for pair in sorted(found.versions.items()) if pair in values
        )
        writes = sorted(
            self._writes.get(key, {}).values(), key=lambda each: (each.task_path, each.task_id, each.index)
        )
        return Checkpoint(path, id, found.state, found.metadata, found.parent_id, tuple(named), tuple(writes))

    def list_checkpoints(self, namespace: str, which: CheckpointFilter) -> list[CheckpointSummary]:
        found = [
            CheckpointSummary(thread_id, path, id, each.metadata, each.parent_id)
            for (owner, thread_id, path, id), each in self._checkpoints.items()
            if owner == namespace
            and which.thread_id in (None, thread_id)
            and which.path in (None, path)
            and which.id in (None, id)
            and (which.before is None or id < which.before)
            and which.graph_run in (None, each.graph_run)
        ]
        return sorted(found, key=lambda each: (each.id, each.thread_id, each.path), reverse=True)

    def delete(self, namespace: str, thread_id: str, which: Sequence[CheckpointRef]) -> int:
        existed = 0
        for ref in which:
            place = (namespace, thread_id, ref.path)
            existed += self._checkpoints.pop((*place, ref.id), None) is not None
            self._writes.pop((*place, ref.id), None)
            for key, each in self._checkpoints.items():
                if key[:3] == place and each.parent_id == ref.id:
                    self._checkpoints[key] = replace(each, parent_id=None)
        for path in {ref.path for ref in which}:
            place = (namespace, thread_id, path)
            kept = [each for key, each in self._checkpoints.items() if key[:3] == place]
            used = {pair for each in kept for pair in each.versions.items()}
            values = self._values.get(place, {})
            self._values[place] = {pair: value for pair, value in values.items() if pair in used}
        return existed

    def delete_thread(self, namespace: str, thread_id: str) -> None:
        def delete(table: dict[Any, Any]) -> None:
            for key in [key for key in table if key[:2] == (namespace, thread_id)]:
                del table[key]

        delete(self._checkpoints)
        delete(self._values)
        delete(self._writes)


def _size(values: Sequence[Serialized]) -> int:
    return sum(len(each.data) for each in values)


def _size_of_write(write: CheckpointWrite) -> int:
    texts = (write.task_id, write.task_path, write.channel, write.value.type)
    return BYTES_OF_WRITE + len(write.value.data) + sum(len(text.encode()) for text in texts)
