"""Which checkpoints of a thread are outdated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from signoff.records.checkpoints import CheckpointRef, CheckpointSummary

COUNTERS = "counters_since_delta_snapshot"
"""Metadata of a graph with a ``DeltaChannel``: its channels, whose value is built from earlier checkpoints."""

Channels = Callable[[str, str, str], Awaitable[set[str]]]
"""The channels that a checkpoint holds a value of, by thread, path and id."""


async def outdated(
    listed: Sequence[CheckpointSummary],
    metadata: Mapping[tuple[str, str], Mapping[str, Any]],
    channels_of: Channels,
) -> list[CheckpointRef]:
    """Return the checkpoints that are not needed for the latest of each subgraph.

    Args:
        listed: All checkpoints of a thread, the latest first.
        metadata: Their metadata, by path and id.
        channels_of: Tells the channels of a checkpoint.
    """
    known = {(each.path, each.id): each for each in listed}
    latest: dict[str, CheckpointSummary] = {}
    for each in listed:
        latest.setdefault(each.path, each)
    kept = {(each.path, each.id) for each in latest.values()}
    for path, each in latest.items():
        root = metadata[path, each.id].get("parents", {}).get("")
        # A call of a subgraph goes with the checkpoint that it was called from. A subgraph with state of its own stays.
        if ":" in path and ("", root) in known and ("", root) not in kept:
            kept.discard((path, each.id))
            continue
        missing = set(metadata[path, each.id].get(COUNTERS, ()))
        while missing and each.parent_id is not None and (path, each.parent_id) in known:
            each = known[path, each.parent_id]
            kept.add((path, each.id))
            missing -= await channels_of(each.thread_id, path, each.id)
    return [CheckpointRef(*key) for key in known if key not in kept]
