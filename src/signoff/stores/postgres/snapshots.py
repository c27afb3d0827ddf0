"""Snapshots in Postgres: reads and writes a run with everything needed to continue it elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, LiteralString

from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import Entry, NewAuditEvent, Promise, Run, RunState
from signoff.stores.contract.snapshots import (
    Joined,
    Saved,
    SavedRequest,
    SavedRun,
    loaded_run,
    message_row,
    taken_promise,
    taken_run,
    taken_session,
)
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.rows import digest, from_event, to_promise, to_run
from signoff.stores.shared.rows import (
    ENTRY_COLUMNS,
    MESSAGE_COLUMNS,
    PROMISE_COLUMNS,
    RUN_COLUMNS,
    of_promise,
    to_entry,
    to_message,
)
from signoff.stores.shared.touched_runs import TouchedRuns

AT_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"

GET = (
    f"SELECT {RUN_COLUMNS}, cancel_asked, deadline_passed FROM signoff.runs WHERE id = %s AND namespace = %s"
)

CHILDREN = """
SELECT id FROM signoff.runs
WHERE parent_id = %s AND namespace = %s AND parent_n IS NOT NULL AND (ended_at IS NULL OR retryable)
ORDER BY number
"""

JOURNAL = f"SELECT {ENTRY_COLUMNS} FROM signoff.journal WHERE run_id = %s AND namespace = %s ORDER BY seq"

PROMISES = (
    f"SELECT {PROMISE_COLUMNS} FROM signoff.promises WHERE run_id = %s AND namespace = %s ORDER BY number"
)

MESSAGES = f"SELECT {MESSAGE_COLUMNS} FROM signoff.messages WHERE run_id = %s AND namespace = %s ORDER BY id"

REQUESTS = """
SELECT run_id, request_id, name, value FROM signoff.requests WHERE run_id = %s AND namespace = %s ORDER BY request_id
"""

JOINED = "SELECT target, target_id, n FROM signoff.waiters WHERE run_id = %s AND namespace = %s ORDER BY n"

SHARED_PROMISE = f"""
SELECT {PROMISE_COLUMNS} FROM signoff.promises
WHERE shard = signoff.shard_of(%s) AND namespace = %s AND id = %s AND run_id IS NULL
"""

NOW = "SELECT coalesce(%s, extract(epoch FROM clock_timestamp()))::double precision"

WAS_LOADED = "SELECT FROM signoff.audit WHERE shard = signoff.shard_of(%s) AND namespace = %s AND id = %s"

# The global lock order: turns before slots, each sorted.
LOCK_TURNS = "SELECT signoff.lock_slots(signoff.turns_of(%s, %s))"
LOCK_SLOTS = "SELECT signoff.lock_slots(slots) FROM (SELECT unnest(%s::text[]) AS slots ORDER BY 1) AS listed"
SLOTS = "SELECT signoff.slots_of(%s, %s, %s, %s)"

IS_BUSY = "SELECT signoff.active_run(%s, %s) IS NOT NULL"

POSITION = """
SELECT greatest(%s, coalesce((SELECT last_position FROM signoff.sessions WHERE id = %s AND namespace = %s), 0) + 1)
"""

ADD_RUN = f"""
INSERT INTO signoff.runs ({RUN_COLUMNS}, ready_at, cancel_asked, deadline_passed, slots, arguments_digest)
VALUES ({"%s, " * 36}%s)
ON CONFLICT (id, namespace) DO NOTHING
RETURNING number
"""

NOTE_IN_SESSION = """
INSERT INTO signoff.sessions (id, namespace, created_at, last_at, last_position, last_number)
VALUES (%(id)s, %(namespace)s, %(now)s, %(now)s, %(position)s, %(number)s)
ON CONFLICT (id, namespace) DO UPDATE
SET last_at = %(now)s, last_position = %(position)s, last_number = %(number)s
"""

LINE_UP = "SELECT signoff.line_up(runs) FROM signoff.runs AS runs WHERE id = %s AND namespace = %s"

ADD_ENTRIES = f"COPY signoff.journal (run_id, namespace, {ENTRY_COLUMNS}) FROM STDIN"

ADD_PROMISE = f"""
INSERT INTO signoff.promises (shard, {PROMISE_COLUMNS})
VALUES (signoff.shard_of(%s), {"%s, " * 18}%s)
ON CONFLICT (shard, namespace, id) DO NOTHING
RETURNING id
"""

ADD_MESSAGE = f"INSERT INTO signoff.messages (namespace, {MESSAGE_COLUMNS}) VALUES ({'%s, ' * 11}%s)"

ADD_REQUEST = """
INSERT INTO signoff.requests (run_id, namespace, request_id, name, value, session_id) VALUES (%s, %s, %s, %s, %s, %s)
"""

ADD_WAITER = """
INSERT INTO signoff.waiters (shard, namespace, target, target_id, run_id, n)
VALUES (CASE WHEN %(target)s = 'run' THEN %(id)s ELSE signoff.shard_of(%(id)s) END,
    %(namespace)s, %(target)s, %(id)s, %(run_id)s, %(n)s)
"""

RECORD = "SELECT signoff.record(%s, %s::jsonb, %s)"


def save_run(db: Connection, namespace: str, run_id: str) -> Saved:
    """Return a consistent snapshot of a run and its unfinished descendants. Raises NotFound."""
    with db.transaction():
        db.execute(AT_ONE_MOMENT)
        runs: list[SavedRun] = []
        left = deque([run_id])
        while left:
            runs.append(_read(db, namespace, left.popleft()))
            left.extend(id for (id,) in db.execute(CHILDREN, (runs[-1].id, namespace)).fetchall())
        shared: dict[str, Promise] = {}
        for joined in (joined for saved in runs for joined in saved.awaited() if joined.target == "promise"):
            row = db.execute(SHARED_PROMISE, (joined.id, namespace, joined.id)).fetchone()
            if row is not None:
                shared[joined.id] = to_promise(row)
        return Saved(tuple(runs), tuple(shared.values()))


def load_run(
    db: Connection, namespace: str, saved: Saved, event: NewAuditEvent, now: float | None
) -> tuple[Run, TouchedRuns]:
    """Create the runs of a snapshot."""
    touched = TouchedRuns()
    with db.transaction():
        at: float = _row(db, NOW, now)[0]
        place = (event.question_id, namespace, event.id)
        if db.execute(WAS_LOADED, place).fetchone() is None:
            _Loading(db, namespace, at, touched).load(saved)
            db.execute(RECORD, (namespace, to_json([from_event(event)]).decode(), at))
        return _read(db, namespace, saved.id).run, touched


class _Loading:
    """Writes the runs of a snapshot into a namespace, in one transaction."""

    def __init__(self, db: Connection, namespace: str, now: float, touched: TouchedRuns) -> None:
        self._db = db
        self._namespace = namespace
        self._now = now
        self._touched = touched

    def load(self, saved: Saved) -> None:
        firsts = saved.sessions()
        slots = {each.id: self._slots(each.run) for each in saved.runs}
        self._lock(list(firsts), sorted({found for found in slots.values() if found is not None}))
        for session_id, first in firsts.items():
            if _row(self._db, IS_BUSY, self._namespace, session_id)[0]:
                raise taken_session(first, session_id)
        for each in saved.by_position():
            run = loaded_run(each, firsts.get(each.run.session_id or ""), self._now)
            self._add_run(run, each, slots[run.id])
            self._add_entries(run.id, each.entries)
            self._add_promises(saved.id, each.promises)
            self._add_rest(each)
            is_ready = run.state is RunState.READY
            self._touched.touch(self._namespace, run.id, ready=is_ready, due=True)
        self._add_promises(saved.id, saved.promises)

    def _lock(self, session_ids: Sequence[str], slots: Sequence[str]) -> None:
        for session_id in session_ids:
            self._db.execute(LOCK_TURNS, (self._namespace, session_id))
        if slots:
            self._db.execute(LOCK_SLOTS, (slots,))

    def _slots(self, run: Run) -> str | None:
        if run.concurrency_key is None:
            return None
        return _row(self._db, SLOTS, self._namespace, run.group, run.workflow, run.concurrency_key)[0]

    def _add_run(self, run: Run, saved: SavedRun, slots: str | None) -> None:
        position = run.position
        if run.session_id is not None:
            [position] = _row(self._db, POSITION, position or 0, run.session_id, self._namespace)
        changed = {"namespace": self._namespace, "state": run.state.value, "position": position}
        values = [
            changed.get(field, getattr(run, field))
            for field in Run.__dataclass_fields__
            if field != "left_out"
        ]
        more = (self._now, saved.cancel_asked, saved.deadline_passed, slots, digest(run.arguments))
        row = self._db.execute(ADD_RUN, (*values, *more)).fetchone()
        if row is None:
            raise taken_run(run.id)
        if run.session_id is not None:
            noted = {"id": run.session_id, "namespace": self._namespace, "now": self._now}
            self._db.execute(NOTE_IN_SESSION, {**noted, "position": position, "number": row[0]})
        if slots is not None:
            self._db.execute(LINE_UP, (run.id, self._namespace))

    def _add_entries(self, run_id: str, entries: Sequence[Entry]) -> None:
        with self._db.cursor() as cursor, cursor.copy(ADD_ENTRIES) as copy:
            for entry in entries:
                copy.write_row(
                    (
                        run_id,
                        self._namespace,
                        entry.seq,
                        entry.at,
                        entry.kind.value,
                        entry.n,
                        None if entry.call is None else entry.call.value,
                        entry.name,
                        entry.value,
                        entry.error,
                        entry.details,
                    )
                )

    def _add_promises(self, run_id: str, promises: Sequence[Promise]) -> None:
        for promise in promises:
            values = of_promise(self._namespace, promise, list(promise.assignees))
            if self._db.execute(ADD_PROMISE, (promise.id, *values)).fetchone() is None:
                raise taken_promise(run_id, promise.id)

    def _add_rest(self, saved: SavedRun) -> None:
        for message in saved.messages:
            self._db.execute(ADD_MESSAGE, (self._namespace, *message_row(message)))
        for made in saved.requests:
            values = (saved.id, self._namespace, made.request_id, made.name, made.value)
            self._db.execute(ADD_REQUEST, (*values, saved.run.session_id))
        for joined in saved.awaited():
            waiter = {"run_id": saved.id, "namespace": self._namespace, "n": joined.n}
            self._db.execute(ADD_WAITER, {**waiter, "target": joined.target, "id": joined.id})


def _read(db: Connection, namespace: str, run_id: str) -> SavedRun:
    whose = (run_id, namespace)
    row = db.execute(GET, whose).fetchone()
    if row is None:
        raise NotFound("run", run_id)
    *run, cancel_asked, deadline_passed = row
    return SavedRun(
        to_run(run),
        tuple(map(to_entry, db.execute(JOURNAL, whose).fetchall())),
        tuple(map(to_promise, db.execute(PROMISES, whose).fetchall())),
        tuple(map(to_message, db.execute(MESSAGES, whose).fetchall())),
        tuple(SavedRequest(*found) for found in db.execute(REQUESTS, whose).fetchall()),
        tuple(Joined(*found) for found in db.execute(JOINED, whose).fetchall()),
        cancel_asked=cancel_asked,
        deadline_passed=deadline_passed,
    )


def _row(db: Connection, statement: LiteralString, *values: Any) -> tuple[Any, ...]:
    row = db.execute(statement, values).fetchone()
    assert row is not None
    return row
