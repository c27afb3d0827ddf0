"""Checkpoints in Postgres, on reader connections."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import LiteralString, cast

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
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.checkpoint_rows import (
    WRITE_COLUMNS,
    checkpoint_place,
    is_sorted,
    to_checkpoint,
    to_summaries,
    written_row,
)

# A statement sees no rows that its own parts insert, so the size of the new values is added.
PUT = """
WITH new AS (
    SELECT * FROM unnest(%(channels)s::text[], %(channel_versions)s::text[], %(types)s::text[], %(values)s::bytea[])
        AS new (channel, version, type, value)
), kept AS (
    INSERT INTO signoff.channel_values (thread_id, namespace, path, channel, version, type, value)
    SELECT %(thread_id)s, %(namespace)s, %(path)s, channel, version, type, value FROM new
    ORDER BY channel, version
    ON CONFLICT DO NOTHING
    RETURNING octet_length(value) AS size
), put AS (
    INSERT INTO signoff.checkpoints (
        thread_id, namespace, path, id, parent_id, graph_run, versions, type, state, metadata_type, metadata
    ) VALUES (
        %(thread_id)s, %(namespace)s, %(path)s, %(id)s, %(parent_id)s, %(graph_run)s, %(versions)s::jsonb,
        %(type)s, %(state)s, %(metadata_type)s, %(metadata)s
    )
    ON CONFLICT (thread_id, namespace, path, id) DO UPDATE SET parent_id = excluded.parent_id,
        graph_run = excluded.graph_run, versions = excluded.versions, type = excluded.type,
        state = excluded.state, metadata_type = excluded.metadata_type, metadata = excluded.metadata
)
SELECT coalesce((SELECT sum(size) FROM kept), 0) + coalesce((
    SELECT sum(octet_length(held.value)) FROM jsonb_each_text(%(versions)s::jsonb) AS named
    JOIN signoff.channel_values AS held ON held.thread_id = %(thread_id)s AND held.namespace = %(namespace)s
        AND held.path = %(path)s AND held.channel = named.key AND held.version = named.value
), 0)
"""

_SIZE_OF_WRITE = "%(besides)s + octet_length(value) + octet_length(task_id || task_path || channel || type)"

PUT_WRITES = f"""
WITH put AS (
    INSERT INTO signoff.checkpoint_writes (thread_id, namespace, path, checkpoint_id, {WRITE_COLUMNS})
    SELECT %(thread_id)s, %(namespace)s, %(path)s, %(id)s, {WRITE_COLUMNS}
    FROM unnest(
        %(task_ids)s::text[], %(places)s::integer[], %(task_paths)s::text[], %(channels)s::text[],
        %(types)s::text[], %(values)s::bytea[]
    ) AS new ({WRITE_COLUMNS})
    ORDER BY task_id, place
    ON CONFLICT (thread_id, namespace, path, checkpoint_id, task_id, place) DO UPDATE
    SET task_path = excluded.task_path, channel = excluded.channel, type = excluded.type, value = excluded.value
    WHERE excluded.place < 0
    RETURNING task_id, place, {_SIZE_OF_WRITE} AS size
)
SELECT coalesce((SELECT sum(size) FROM put), 0) + coalesce((
    SELECT sum({_SIZE_OF_WRITE}) FROM signoff.checkpoint_writes
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        AND checkpoint_id = %(id)s AND (task_id, place) NOT IN (SELECT task_id, place FROM put)
), 0)
"""

# One statement, so that all is from one moment.
_GET = """
WITH found AS (
    SELECT path, id, type, state, metadata_type, metadata, parent_id, versions FROM signoff.checkpoints
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        {which}
)
SELECT path, id, type, state, metadata_type, metadata, parent_id,
    ARRAY (
        SELECT ROW (held.channel, held.version, held.type, held.value)
        FROM jsonb_each_text(found.versions) AS named
        JOIN signoff.channel_values AS held ON held.thread_id = %(thread_id)s AND held.namespace = %(namespace)s
            AND held.path = %(path)s AND held.channel = named.key AND held.version = named.value
        ORDER BY held.channel
    ),
    ARRAY (
        SELECT ROW ({columns}) FROM signoff.checkpoint_writes
        WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
            AND checkpoint_id = found.id
        ORDER BY task_path, task_id, place
    )
FROM found
"""

GET: LiteralString = _GET.format(which="AND id = %(id)s", columns=WRITE_COLUMNS)
GET_LATEST: LiteralString = _GET.format(which="ORDER BY id DESC LIMIT 1", columns=WRITE_COLUMNS)

LIST = """
SELECT thread_id, path, id, metadata_type, metadata, parent_id FROM signoff.checkpoints
WHERE {conditions}
ORDER BY {id} DESC, thread_id DESC, path DESC LIMIT %(limit)s
"""

CONDITIONS = {
    "namespace": "namespace = %(namespace)s",
    "thread_id": "thread_id = %(thread_id)s",
    "path": "path = %(path)s",
    "id": "id = %(id)s",
    "before": "id < %(before)s",
    "graph_run": "graph_run = %(graph_run)s",
    "after_id": "(id, thread_id, path) < (%(after_id)s, %(after_thread)s, %(after_path)s)",
}

DELETE = (
    """
    DELETE FROM signoff.checkpoint_writes
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        AND checkpoint_id = ANY(%(ids)s)
    """,
    """
    UPDATE signoff.checkpoints SET parent_id = NULL
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        AND parent_id = ANY(%(ids)s)
    """,
    """
    DELETE FROM signoff.channel_values
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        AND (channel, version) NOT IN (
            SELECT named.key, named.value
            FROM signoff.checkpoints CROSS JOIN jsonb_each_text(checkpoints.versions) AS named
            WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
        )
    """,
)

# Two deletions of one thread do not deadlock.
LOCK = """
SELECT count(*) FROM (
    SELECT FROM signoff.checkpoints
    WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s
    ORDER BY id FOR UPDATE
) AS locked
"""

DELETE_CHECKPOINTS = """
DELETE FROM signoff.checkpoints
WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s AND path = %(path)s AND id = ANY(%(ids)s)
"""

DELETE_THREAD = """
WITH checkpoints AS (
    DELETE FROM signoff.checkpoints WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s
), held AS (
    DELETE FROM signoff.channel_values WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s
)
DELETE FROM signoff.checkpoint_writes WHERE thread_id = %(thread_id)s AND namespace = %(namespace)s
"""


def put(db: Connection, namespace: str, thread_id: str, new: NewCheckpoint) -> None:
    """Save a checkpoint, and the values that are new. Raises PayloadTooLarge."""
    values = {
        "thread_id": thread_id,
        "namespace": namespace,
        "path": new.path,
        "id": new.id,
        "parent_id": new.parent_id,
        "graph_run": new.graph_run,
        "versions": json.dumps(dict(new.versions)),
        "type": new.state.type,
        "state": new.state.data,
        "metadata_type": new.metadata.type,
        "metadata": new.metadata.data,
        "channels": [each.channel for each in new.values],
        "channel_versions": [each.version for each in new.values],
        "types": [each.value.type for each in new.values],
        "values": [each.value.data for each in new.values],
    }
    with db.transaction():
        row = db.execute(PUT, values).fetchone()
        check_room("channels", 0 if row is None else row[0])


def put_writes(
    db: Connection,
    namespace: str,
    thread_id: str,
    checkpoint: CheckpointRef,
    writes: Sequence[CheckpointWrite],
) -> None:
    """Save the writes of tasks. Raises PayloadTooLarge."""
    if not writes:
        return
    names = ("task_ids", "places", "task_paths", "channels", "types", "values")
    # A statement may not change one row twice: of the writes to one place, one counts.
    counted: dict[tuple[str, int], CheckpointWrite] = {}
    for each in writes:
        if each.index < 0 or (each.task_id, each.index) not in counted:
            counted[each.task_id, each.index] = each
    columns = zip(*map(written_row, counted.values()), strict=True)
    values = {
        "thread_id": thread_id,
        "namespace": namespace,
        "path": checkpoint.path,
        "id": checkpoint.id,
        "besides": BYTES_OF_WRITE,
        **dict(zip(names, map(list, columns), strict=True)),
    }
    with db.transaction():
        row = db.execute(PUT_WRITES, values).fetchone()
        check_room("writes", 0 if row is None else row[0])


def get(db: Connection, namespace: str, thread_id: str, path: str, id: str | None) -> Checkpoint:
    """Return a checkpoint with its values and writes. Raises NotFound."""
    values = {"thread_id": thread_id, "namespace": namespace, "path": path, "id": id}
    row = db.execute(GET_LATEST if id is None else GET, values, binary=True).fetchone()
    if row is None:
        raise NotFound("checkpoint", f"{thread_id}/{path}/{id or ''}")
    return to_checkpoint(row[:-2], *row[-2:])


def list_checkpoints(
    db: Connection, namespace: str, which: CheckpointFilter, after: str | None, limit: int
) -> Page[CheckpointSummary]:
    """Return a page of checkpoints, the largest ids first."""
    limit = min(checked(limit), MOST_LISTED)
    values = {"namespace": namespace, **asdict(which), **checkpoint_place(after), "limit": limit + 1}
    asked = [condition for name, condition in CONDITIONS.items() if values[name] is not None]
    statement = cast(
        "LiteralString",
        LIST.format(conditions=" AND ".join(asked), id="id || ''" if is_sorted(which) else "id"),
    )
    return to_summaries(db.execute(statement, values).fetchall(), limit)


def delete(db: Connection, namespace: str, thread_id: str, which: Sequence[CheckpointRef]) -> int:
    """Delete checkpoints, and what nothing else needs. Returns how many existed."""
    existed = 0
    with db.transaction():
        for path in sorted({ref.path for ref in which}):
            ids = [ref.id for ref in which if ref.path == path]
            place = {"thread_id": thread_id, "namespace": namespace, "path": path, "ids": ids}
            db.execute(LOCK, place)
            existed += db.execute(DELETE_CHECKPOINTS, place).rowcount
            for statement in DELETE:
                db.execute(statement, place)
    return existed


def delete_thread(db: Connection, namespace: str, thread_id: str) -> None:
    """Delete a thread's checkpoints, values and writes."""
    db.execute(DELETE_THREAD, {"thread_id": thread_id, "namespace": namespace})
