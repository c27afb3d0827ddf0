"""Cheap health checks of a Postgres server and Signoff's tables, with no more privileges than the store itself."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
from psycopg.sql import SQL, Identifier

from signoff.stores.postgres.schema import migrations
from signoff.stores.shared.inspection import COUNTED_AT_MOST, NAMESPACES_AT_MOST, Indexes, Late

Connection = psycopg.Connection[tuple[Any, ...]]

# The planner avoids the indexes of a table that was never analyzed. The settings are local to a transaction, because
# behind a pooler they would stay on a connection that others use.
BOUNDS = "SET LOCAL statement_timeout = '5s'; SET LOCAL enable_seqscan = off"

SETTINGS = """
SELECT name, setting FROM pg_settings WHERE name IN (
    'fsync', 'synchronous_commit', 'full_page_writes', 'autovacuum', 'default_transaction_read_only',
    'max_connections', 'superuser_reserved_connections', 'reserved_connections', 'server_version', 'server_version_num'
)
"""

IS_STANDBY = "SELECT pg_is_in_recovery()"

# For sessions of other roles, only the database is visible.
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL"

NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision"

# A transaction that writes a record with no effect to the write-ahead log, so that its commit waits for the disk.
COMMIT = "SELECT pg_logical_emit_message(true, 'signoff doctor', '')"

TABLES = """
SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = 'signoff' ORDER BY relname
"""

INDEXES = """
SELECT class.relname, indisvalid AND indisready
FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid
JOIN pg_namespace AS schema ON schema.oid = class.relnamespace
WHERE schema.nspname = 'signoff'
"""

NEXT_NAMESPACE = """
SELECT namespace FROM signoff.runs WHERE '' || state = 'ready' AND namespace > %s ORDER BY namespace LIMIT 1
"""

LATE = """
SELECT count(*), extract(epoch FROM clock_timestamp())::double precision - min(at) FROM (
    SELECT {column} AS at FROM signoff.{table}
    WHERE {condition} AND {column} < extract(epoch FROM clock_timestamp())::double precision - %s
    ORDER BY {column} LIMIT %s
) AS late
"""

# Keyed by the index that finds due items.
LATE_KINDS: Sequence[tuple[str, dict[str, str]]] = (
    (
        "deadlines of questions and promises",
        {"table": "promises", "column": "due_at", "condition": "state = 'pending' AND due_at IS NOT NULL"},
    ),
    (
        "reminders and escalations of questions",
        {
            "table": "promises",
            "column": "act_at",
            "condition": "kind = 'question' AND settled_at IS NULL AND act_at IS NOT NULL",
        },
    ),
    (
        "timers and delayed starts",
        {"table": "runs", "column": "wake_at", "condition": "wake_at IS NOT NULL"},
    ),
    (
        "deadlines of runs",
        {
            "table": "runs",
            "column": "deadline_at",
            "condition": "deadline_at IS NOT NULL AND NOT deadline_passed AND ended_at IS NULL",
        },
    ),
    (
        "leases that ran out",
        {"table": "runs", "column": "lease_until", "condition": "worker_id IS NOT NULL"},
    ),
    ("schedules", {"table": "schedules", "column": "next_at", "condition": "NOT is_paused"}),
)


@dataclass(frozen=True, slots=True)
class Table:
    """The server's estimate of a table's live rows and dead rows."""

    name: str
    live: int
    dead: int


def query(db: Connection, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of one statement, which the server cancels after five seconds."""
    with db.transaction():
        db.execute(BOUNDS)
        return db.execute(cast(LiteralString, statement), values or None).fetchall()


def settings(db: Connection) -> dict[str, str]:
    """Return the server settings that matter to Signoff."""
    return dict(query(db, SETTINGS))  # pyright: ignore[reportArgumentType]


def is_standby(db: Connection) -> bool:
    """Whether the server is a standby."""
    return bool(query(db, IS_STANDBY)[0][0])


def connections(db: Connection) -> int:
    """Return how many connections the server has open."""
    return int(query(db, CONNECTIONS)[0][0])


def clock_difference(db: Connection) -> tuple[float, float]:
    """Return how many seconds the server's clock is ahead of this machine's, and the error of that measurement."""
    sent_at = time.time()
    now = float(query(db, NOW)[0][0])
    received_at = time.time()
    return now - (sent_at + received_at) / 2, (received_at - sent_at) / 2


def commit_seconds(db: Connection, times: int) -> list[float]:
    """Return the durations of ``times`` commits that each waited for the disk. They change no data."""
    taken: list[float] = []
    for _ in range(times):
        began_at = time.perf_counter()
        db.execute(COMMIT)
        taken.append(time.perf_counter() - began_at)
    return taken


def hears_notifications(db: Connection, listen_conninfo: str, seconds: float) -> bool:
    """Whether another connection that listens receives notifications from this one."""
    channel = f"signoff_doctor_{uuid.uuid4().hex}"
    with psycopg.connect(listen_conninfo, autocommit=True) as ear:
        ear.execute(SQL("LISTEN {}").format(Identifier(channel)))
        db.execute("SELECT pg_notify(%s, '')", (channel,))
        heard = any(notify.channel == channel for notify in ear.notifies(timeout=seconds, stop_after=1))
        ear.execute(SQL("UNLISTEN {}").format(Identifier(channel)))
    return heard


def tables(db: Connection) -> list[Table]:
    """Return Signoff's tables."""
    return [Table(*row) for row in query(db, TABLES)]


def indexes(db: Connection) -> Indexes:
    """Return the missing and invalid indexes."""
    usable = dict(query(db, INDEXES))  # pyright: ignore[reportArgumentType]
    expected: set[str] = set()
    for kind, name in re.findall(
        r"^(CREATE|DROP) (?:UNIQUE )?INDEX (?:signoff\.)?(\w+)", "\n".join(migrations()), re.MULTILINE
    ):
        if kind == "CREATE":
            expected.add(name)
        else:
            expected.discard(name)
    missing = expected - usable.keys()
    return Indexes(tuple(sorted(missing)), tuple(sorted(name for name in usable if not usable[name])))


def late(db: Connection, than_seconds: float) -> list[Late]:
    """Return the items overdue by more than ``than_seconds``."""
    found: list[Late] = []
    for what, parts in LATE_KINDS:
        [(count, seconds)] = query(db, LATE.format(**parts), (than_seconds, COUNTED_AT_MOST))
        if count:
            found.append(Late(what, count, seconds))
    return found


def namespaces_with_ready_runs(db: Connection) -> list[str]:
    """Return up to ``NAMESPACES_AT_MOST`` namespaces with ready runs, sorted by name."""
    found: list[str] = []
    while len(found) < NAMESPACES_AT_MOST and (rows := query(db, NEXT_NAMESPACE, ((found or [""])[-1],))):
        found.append(rows[0][0])
    return found
