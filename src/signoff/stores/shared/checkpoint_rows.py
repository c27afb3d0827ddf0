"""Checkpoints as rows of a database, the same in SQLite and Postgres."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from signoff.errors import InvalidValue
from signoff.records.checkpoints import (
    ChannelValue,
    Checkpoint,
    CheckpointFilter,
    CheckpointSummary,
    CheckpointWrite,
    Serialized,
)
from signoff.records.names import check_text
from signoff.records.paging import Page

WRITE_COLUMNS: Final = "task_id, place, task_path, channel, type, value"


def written_row(write: CheckpointWrite) -> tuple[Any, ...]:
    """Return the ``WRITE_COLUMNS`` of a write."""
    value = write.value
    return (write.task_id, write.index, write.task_path, write.channel, value.type, value.data)


def to_checkpoint(
    row: Sequence[Any], values: Iterable[Sequence[Any]], writes: Iterable[Sequence[Any]]
) -> Checkpoint:
    """Return the checkpoint of a row, and of the rows of its values and writes."""
    path, id, type, state, metadata_type, metadata, parent_id = row
    return Checkpoint(
        path,
        id,
        Serialized(type, bytes(state)),
        Serialized(metadata_type, bytes(metadata)),
        parent_id,
        tuple(
            ChannelValue(channel, version, Serialized(type, bytes(value)))
            for channel, version, type, value in values
        ),
        tuple(
            CheckpointWrite(task_id, place, channel, Serialized(type, bytes(value)), task_path)
            for task_id, place, task_path, channel, type, value in writes
        ),
    )


def to_summaries(rows: Sequence[Sequence[Any]], limit: int) -> Page[CheckpointSummary]:
    """Return a page of at most ``limit`` rows; one row more says that there are others."""
    found = tuple(
        CheckpointSummary(thread_id, path, id, Serialized(type, bytes(metadata)), parent_id)
        for thread_id, path, id, type, metadata, parent_id in rows[:limit]
    )
    return Page(found, place_of_checkpoint(found[-1]) if found and len(rows) > limit else None)


def is_sorted(which: CheckpointFilter) -> bool:
    """Whether a list is sorted after it is read: its index has no order by id.

    A planner would otherwise look through the namespace by id, for the few of one thread or one execution.
    """
    return which.path is None and (which.thread_id is not None or which.graph_run is not None)


def place_of_checkpoint(last: CheckpointSummary) -> str:
    """Return the cursor of the page after this checkpoint, for ``checkpoint_place``."""
    return json.dumps([last.id, last.thread_id, last.path])


def checkpoint_place(after: str | None) -> dict[str, str | None]:
    """Return the id, thread and path of the last checkpoint of the page before, from a cursor.

    Raises:
        InvalidValue: It is not a cursor.
    """
    names = ("after_id", "after_thread", "after_path")
    if after is None:
        return dict.fromkeys(names)
    try:
        place: Any = json.loads(after)
    except (ValueError, RecursionError):
        place = None
    match place:
        case [str(), str(), str()]:
            for text in place:
                check_text("after", text)
            return dict(zip(names, place, strict=True))
        case _:
            raise InvalidValue("after", "it is not a cursor of this list; pass a page's `next`")
