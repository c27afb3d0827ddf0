"""Checkpoints in SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

from signoff.errors import NotFound
from signoff.records.checkpoints import (
    Checkpoint,
    CheckpointFilter,
    CheckpointRef,
    CheckpointSummary,
    CheckpointWrite,
    NewCheckpoint,
)
from signoff.records.paging import Page
from signoff.stores.contract.checkpoints import BYTES_OF_WRITE, MOST_LISTED, check_room
from signoff.stores.shared.checkpoint_rows import (
    WRITE_COLUMNS,
    checkpoint_place,
    is_sorted,
    to_checkpoint,
    to_summaries,
    written_row,
)
from signoff.stores.sqlite.transaction import Transaction

PUT = """
INSERT INTO checkpoints (
    namespace, thread_id, path, id, parent_id, graph_run, versions, type, state, metadata_type, metadata
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET parent_id = excluded.parent_id, graph_run = excluded.graph_run,
    versions = excluded.versions, type = excluded.type, state = excluded.state,
    metadata_type = excluded.metadata_type, metadata = excluded.metadata
"""

PUT_VALUE = """
INSERT INTO channel_values (namespace, thread_id, path, channel, version, type, value)
VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""

# The length of a blob is known without reading it.
SIZE_OF_VALUES = """
SELECT coalesce(sum(length(held.value)), 0) FROM json_each(?) AS named
CROSS JOIN channel_values AS held ON held.namespace = ? AND held.thread_id = ? AND held.path = ?
    AND held.channel = named.key AND held.version = named.value
"""

PUT_WRITE = f"""
INSERT INTO checkpoint_writes (namespace, thread_id, path, checkpoint_id, {WRITE_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type,
    value = excluded.value
WHERE excluded.place < 0
"""

SIZE_OF_WRITES = f"""
SELECT coalesce(sum(
    {BYTES_OF_WRITE} + length(value) + length(CAST(task_id || task_path || channel || type AS BLOB))
), 0) FROM checkpoint_writes
WHERE namespace = ? AND thread_id = ? AND path = ? AND checkpoint_id = ?
"""

GET = """
SELECT path, id, type, state, metadata_type, metadata, parent_id, versions FROM checkpoints
WHERE namespace = :namespace AND thread_id = :thread_id AND path = :path AND id = :id
"""

GET_LATEST = """
SELECT path, id, type, state, metadata_type, metadata, parent_id, versions FROM checkpoints
WHERE namespace = :namespace AND thread_id = :thread_id AND path = :path ORDER BY id DESC LIMIT 1
"""

VALUES = """
SELECT held.channel, held.version, held.type, held.value FROM json_each(?) AS named
CROSS JOIN channel_values AS held ON held.namespace = ? AND held.thread_id = ? AND held.path = ?
    AND held.channel = named.key AND held.version = named.value
ORDER BY held.channel
"""

WRITES = f"""
SELECT {WRITE_COLUMNS} FROM checkpoint_writes
WHERE namespace = ? AND thread_id = ? AND path = ? AND checkpoint_id = ?
ORDER BY task_path, task_id, place
"""

LIST = """
SELECT thread_id, path, id, metadata_type, metadata, parent_id FROM checkpoints
WHERE {conditions}
ORDER BY {id} DESC, thread_id DESC, path DESC LIMIT :limit
"""

CONDITIONS = {
    "namespace": "namespace = :namespace",
    "thread_id": "thread_id = :thread_id",
    "path": "path = :path",
    "id": "id = :id",
    "before": "id < :before",
    "graph_run": "graph_run = :graph_run",
    "after_id": "(id, thread_id, path) < (:after_id, :after_thread, :after_path)",
}

DELETE = "DELETE FROM checkpoints WHERE namespace = ? AND thread_id = ? AND path = ? AND id = ?"

DELETE_WRITES = """
DELETE FROM checkpoint_writes WHERE namespace = ? AND thread_id = ? AND path = ? AND checkpoint_id = ?
"""

ORPHAN = """
UPDATE checkpoints SET parent_id = NULL
WHERE namespace = ? AND thread_id = ? AND path = ? AND parent_id IN (SELECT value FROM json_each(?))
"""

DELETE_UNUSED = """
DELETE FROM channel_values WHERE namespace = :namespace AND thread_id = :thread_id AND path = :path
    AND (channel, version) NOT IN (
        SELECT named.key, named.value FROM checkpoints CROSS JOIN json_each(checkpoints.versions) AS named
        WHERE checkpoints.namespace = :namespace AND checkpoints.thread_id = :thread_id
            AND checkpoints.path = :path
    )
"""

DELETE_THREAD = tuple(
    f"DELETE FROM {table} WHERE namespace = ? AND thread_id = ?"
    for table in ("checkpoints", "channel_values", "checkpoint_writes")
)


def put(tx: Transaction, namespace: str, thread_id: str, new: NewCheckpoint) -> None:
    """Save a checkpoint, and the values that are new. Raises PayloadTooLarge."""
    place = (namespace, thread_id, new.path)
    values = [(*place, each.channel, each.version, each.value.type, each.value.data) for each in new.values]
    tx.db.executemany(PUT_VALUE, values)
    versions = json.dumps(dict(new.versions))
    check_room("channels", tx.db.execute(SIZE_OF_VALUES, (versions, *place)).fetchone()[0])
    state, metadata = new.state, new.metadata
    row = (new.id, new.parent_id, new.graph_run, versions)
    tx.db.execute(PUT, (*place, *row, state.type, state.data, metadata.type, metadata.data))


def put_writes(
    tx: Transaction,
    namespace: str,
    thread_id: str,
    checkpoint: CheckpointRef,
    writes: Sequence[CheckpointWrite],
) -> None:
    """Save the writes of tasks. Raises PayloadTooLarge."""
    place = (namespace, thread_id, checkpoint.path, checkpoint.id)
    tx.db.executemany(PUT_WRITE, [(*place, *written_row(each)) for each in writes])
    check_room("writes", tx.db.execute(SIZE_OF_WRITES, place).fetchone()[0])


def get(db: sqlite3.Connection, namespace: str, thread_id: str, path: str, id: str | None) -> Checkpoint:
    """Return a checkpoint with its values and writes, from one moment. Raises NotFound."""
    values = {"namespace": namespace, "thread_id": thread_id, "path": path, "id": id}
    db.execute("SAVEPOINT reading")
    try:
        row = db.execute(GET_LATEST if id is None else GET, values).fetchone()
        if row is None:
            raise NotFound("checkpoint", f"{thread_id}/{path}/{id or ''}")
        place = (namespace, thread_id, path)
        held = db.execute(VALUES, (row[-1], *place)).fetchall()
        return to_checkpoint(row[:-1], held, db.execute(WRITES, (*place, row[1])).fetchall())
    finally:
        db.execute("RELEASE reading")


def list_checkpoints(
    db: sqlite3.Connection, namespace: str, which: CheckpointFilter, after: str | None, limit: int
) -> Page[CheckpointSummary]:
    """Return a page of checkpoints, the largest ids first."""
    limit = min(limit, MOST_LISTED)
    values = {"namespace": namespace, **asdict(which), **checkpoint_place(after), "limit": limit + 1}
    # Conditions of absent filters would keep SQLite from using an index.
    asked = [condition for name, condition in CONDITIONS.items() if values[name] is not None]
    statement = LIST.format(conditions=" AND ".join(asked), id="+id" if is_sorted(which) else "id")
    return to_summaries(db.execute(statement, values).fetchall(), limit)


def delete(tx: Transaction, namespace: str, thread_id: str, which: Sequence[CheckpointRef]) -> int:
    """Delete checkpoints, and what nothing else needs. Returns how many existed."""
    existed = 0
    for path in sorted({ref.path for ref in which}):
        place = (namespace, thread_id, path)
        ids = [ref.id for ref in which if ref.path == path]
        existed += tx.db.executemany(DELETE, [(*place, id) for id in ids]).rowcount
        tx.db.executemany(DELETE_WRITES, [(*place, id) for id in ids])
        tx.db.execute(ORPHAN, (*place, json.dumps(ids)))
        tx.db.execute(DELETE_UNUSED, {"namespace": namespace, "thread_id": thread_id, "path": path})
    return existed


def delete_thread(tx: Transaction, namespace: str, thread_id: str) -> None:
    """Delete a thread's checkpoints, values and writes."""
    for statement in DELETE_THREAD:
        tx.db.execute(statement, (namespace, thread_id))
