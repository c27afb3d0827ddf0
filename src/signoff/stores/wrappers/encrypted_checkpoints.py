"""What is encrypted of checkpoints: states, metadata and values. Ids, channels and versions are not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from signoff.records.checkpoints import (
    Checkpoint,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
    Serialized,
)

Change = Callable[[Serialized, str], Serialized]
"""Encrypts or decrypts a value. The text is the place to which it is bound."""


def sealed_checkpoint(thread_id: str, new: NewCheckpoint, seal: Change) -> NewCheckpoint:
    """Return a checkpoint with its values encrypted."""
    return replace(
        new,
        state=seal(new.state, _place(thread_id, new.path, "state", new.id)),
        metadata=seal(new.metadata, _place(thread_id, new.path, "metadata", new.id)),
        values=tuple(
            replace(each, value=seal(each.value, _place(thread_id, new.path, each.channel, each.version)))
            for each in new.values
        ),
    )


def sealed_writes(
    thread_id: str, checkpoint: CheckpointRef, writes: Sequence[CheckpointWrite], seal: Change
) -> tuple[CheckpointWrite, ...]:
    """Return writes with their values encrypted."""
    place = (thread_id, checkpoint.path, "write", checkpoint.id)
    return tuple(
        replace(each, value=seal(each.value, _place(*place, each.task_id, str(each.index))))
        for each in writes
    )


def opened_checkpoint(thread_id: str, found: Checkpoint, unseal: Change) -> Checkpoint:
    """Return a checkpoint with its values decrypted."""
    return replace(
        found,
        state=unseal(found.state, _place(thread_id, found.path, "state", found.id)),
        metadata=unseal(found.metadata, _place(thread_id, found.path, "metadata", found.id)),
        values=tuple(
            replace(each, value=unseal(each.value, _place(thread_id, found.path, each.channel, each.version)))
            for each in found.values
        ),
        writes=sealed_writes(thread_id, CheckpointRef(found.path, found.id), found.writes, unseal),
    )


def opened_summary(found: CheckpointSummary, unseal: Change) -> CheckpointSummary:
    """Return a checkpoint of a list with its metadata decrypted."""
    place = _place(found.thread_id, found.path, "metadata", found.id)
    return replace(found, metadata=unseal(found.metadata, place))


def _place(*parts: str) -> str:
    return json.dumps(parts)
