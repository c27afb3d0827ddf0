"""Reads of a Postgres store, each in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, LiteralString, cast

import psycopg

from signoff.errors import InvalidValue, NotFound
from signoff.records import Entry, Message, Promise, PromiseKind, PromiseState, Run, RunState, WorkerInfo
from signoff.records.paging import (
    LAST_NUMBER,
    LOOKED_THROUGH,
    Page,
    PromiseFilter,
    RunFilter,
    page_number,
    searched_page,
)
from signoff.stores.postgres.rows import to_promise, to_run
from signoff.stores.shared.listed_payloads import (
    Listing,
    cut,
    seen_of,
    size_in_postgres,
    size_of_list,
    within_page,
)
from signoff.stores.shared.readable_rows import readable
from signoff.stores.shared.rows import (
    ENTRY_COLUMNS,
    MESSAGE_COLUMNS,
    PROMISE_COLUMNS,
    RUN_COLUMNS,
    WORKER_COLUMNS,
    to_entry,
    to_message,
    to_worker,
)

Connection = psycopg.Connection[tuple[Any, ...]]

# One id at a time, which OFFSET enforces: for several ids the planner may scan all runs of the namespace.
GET_RUNS = f"""
SELECT run.* FROM unnest(%s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT {RUN_COLUMNS} FROM signoff.runs WHERE id = asked.id AND namespace = %s OFFSET 0
) AS run
"""

GET_PROMISE = f"""
SELECT {PROMISE_COLUMNS} FROM signoff.promises
WHERE shard = signoff.shard_of(%(id)s) AND namespace = %(namespace)s AND id = %(id)s
"""

ENDED = """
SELECT run.id FROM unnest(%s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT id, state FROM signoff.runs WHERE id = asked.id AND namespace = %s OFFSET 0
) AS run
WHERE run.state IN ('succeeded', 'failed', 'cancelled')
"""

READ_JOURNAL = f"""
SELECT {ENTRY_COLUMNS} FROM signoff.journal
WHERE run_id = %s AND namespace = %s AND seq > %s
ORDER BY seq LIMIT %s
"""

ENTRIES = Listing(Entry, ENTRY_COLUMNS, size_in_postgres)
PAGE_OF_JOURNAL = within_page(READ_JOURNAL.replace(ENTRY_COLUMNS, ENTRIES.columns), "seq")

# One statement, so that messages and counters come from one snapshot.
MESSAGES = Listing(Message, MESSAGE_COLUMNS, size_in_postgres)
SELECT_MESSAGES = f"""
SELECT message.*, run.wakes
FROM unnest(%s::text[]) AS asked (id)
CROSS JOIN LATERAL (
    SELECT id, namespace, wakes FROM signoff.runs WHERE id = asked.id AND namespace = %s OFFSET 0
) AS run
CROSS JOIN LATERAL (
    SELECT {MESSAGES.columns} FROM signoff.messages WHERE run_id = run.id AND namespace = run.namespace OFFSET 0
) AS message
"""
READ_MESSAGES = within_page(SELECT_MESSAGES, "run_id, id")

LIST_WORKERS = f"""
SELECT {WORKER_COLUMNS}, (SELECT count(*) FROM signoff.runs WHERE worker_id = workers.id)
FROM signoff.workers AS workers ORDER BY id
"""

RUNS = Listing(Run, RUN_COLUMNS, size_in_postgres)
PROMISES = Listing(Promise, PROMISE_COLUMNS, size_of_list(size_in_postgres))

# One branch for each requested state: Postgres merges the branches, each in the order of its index.
LIST_RUNS = f"""
(SELECT {RUNS.columns}, number FROM signoff.runs
WHERE namespace = %(namespace)s AND {{of_state}} = '{{state}}' AND number < %(before)s {{filters}}
ORDER BY number DESC LIMIT %(limit)s)
"""

LIST_PROMISES = f"""
(SELECT {PROMISES.columns}, number FROM signoff.promises
WHERE namespace = %(namespace)s AND state = '{{state}}' AND kind = '{{kind}}' AND number > %(after)s {{filters}}
ORDER BY number LIMIT %(limit)s)
"""

# The index by state has the same columns in the same order. Until the tables are analyzed, the planner gives both
# indexes the same cost, and scans the whole index by state if the index by run is some levels deeper, or was when the
# connection cached its depth. The last condition follows from a lookup in the index by run, so it adds cost only to
# other plans: as much as eight levels. It contains one of Postgres's most expensive functions, which is never called,
# because the first half of the condition is always true.
OF_RUN = f"""
AND run_id = %(run_id)s
AND (run_id IS NOT NULL OR {" || ".join(4 * ["to_tsvector('simple', id)"])} IS NULL)
"""

INBOX = within_page(
    f"SELECT {PROMISES.columns}, number FROM signoff.answerable(%(namespace)s, %(names)s, %(after)s, %(limit)s)",
    "number",
)

FOUND = f"""
SELECT {PROMISES.columns}, number FROM looked
CROSS JOIN LATERAL (
    SELECT workflow, group_name FROM signoff.runs
    WHERE id = looked.run_id AND namespace = %(namespace)s OFFSET 0
) AS run
WHERE (%(workflow)s::text IS NULL OR run.workflow = %(workflow)s)
    AND (%(group)s::text IS NULL OR run.group_name = %(group)s)
ORDER BY number LIMIT %(limit)s
"""

# Scans the next pending questions and returns those of the requested runs. There is at least one row: it says where the
# scan ended.
OF_RUNS = f"""
WITH looked AS MATERIALIZED ({{looked}}),
found AS ({within_page(FOUND, "number")})
SELECT ends.last, ends.looked, found.* FROM (SELECT max(number) AS last, count(*) AS looked FROM looked) AS ends
LEFT JOIN found ON true ORDER BY found.number
"""

LOOKED_OF_NAMES = "SELECT * FROM signoff.answerable(%(namespace)s, %(names)s, %(after)s, %(looked)s)"

LOOKED = """
SELECT * FROM signoff.promises
WHERE namespace = %(namespace)s AND state = 'pending' AND kind = 'question' AND number > %(after)s {filters}
ORDER BY number LIMIT %(looked)s
"""


def get_runs(db: Connection, namespace: str, run_ids: Sequence[str]) -> dict[str, Run]:
    """Return the runs that exist, by id."""
    rows = db.execute(GET_RUNS, (list(run_ids), namespace)).fetchall()
    runs = [to_run(row) for row in rows]
    return {run.id: run for run in runs}


def get_promise(db: Connection, namespace: str, promise_id: str) -> Promise:
    """Return a promise. Raises NotFound."""
    row = _all(db, GET_PROMISE, {"id": promise_id, "namespace": namespace})
    if not row:
        raise NotFound("promise", promise_id)
    return to_promise(row[0])


def ended(db: Connection, namespace: str, run_ids: Sequence[str]) -> set[str]:
    """Return the ids of the runs that have ended."""
    return {row[0] for row in _all(db, ENDED, (list(run_ids), namespace))}


def read_journal(db: Connection, namespace: str, run_id: str, after: int, limit: int | None) -> list[Entry]:
    """Return the entries after seq ``after``, in order; with a limit, only as many as fit on a page."""
    values = (run_id, namespace, after, limit)
    if limit is None:
        return [to_entry(row) for row in _all(db, READ_JOURNAL, values)]
    return [ENTRIES.read(row, to_entry) for row in _all(db, PAGE_OF_JOURNAL, values)]


def read_messages(db: Connection, namespace: str, run_ids: Sequence[str]) -> list[tuple[Message, int]]:
    """Return the messages of the runs, oldest first per run, each with its run's ``wakes`` counter."""
    rows, more = cut(_all(db, READ_MESSAGES, (list(run_ids), namespace)), LAST_NUMBER)
    found = list(
        readable(
            rows,
            lambda row: (MESSAGES.read(row, to_message), row[-1]),
            lambda row: f"message {row[0]} of run {row[1]!r}",
        )
    )
    return seen_of(found) if more else found


def list_workers(db: Connection) -> list[WorkerInfo]:
    """Return the registered workers."""
    return [to_worker(row) for row in _all(db, LIST_WORKERS, ())]


def list_runs(db: Connection, namespace: str, which: RunFilter, after: str | None, limit: int) -> Page[Run]:
    """Return a page of runs, newest first."""
    states = frozenset(RunState) if which.states is None else which.states
    if not states:
        return Page()
    values: dict[str, Any] = {
        "namespace": namespace,
        "before": page_number(after, LAST_NUMBER),
        "limit": checked(limit) + 1,
        "workflow": which.workflow,
        "group": which.group,
        "parent_id": which.parent_id,
        "session_id": which.session_id,
    }
    statement = list_runs_statement(
        states,
        workflow=which.workflow is not None,
        group=which.group is not None,
        parent=which.parent_id is not None,
        session=which.session_id is not None,
        suspended=which.suspended,
    )
    rows, more = cut(_all(db, statement, values), limit)
    return RUNS.page(rows, more, to_run)


def list_promises(
    db: Connection, namespace: str, which: PromiseFilter, after: str | None, limit: int
) -> Page[Promise]:
    """Return a page of promises, oldest first."""
    values: dict[str, Any] = {
        "namespace": namespace,
        "run_id": which.run_id,
        "workflow": which.workflow,
        "group": which.group,
        "names": ["", *sorted(which.answerable_by or ())],
        "after": page_number(after, 0),
        "limit": checked(limit) + 1,
        "looked": LOOKED_THROUGH,
    }
    if which.is_of_runs:
        statement = of_runs_statement(
            of_names=which.answerable_by is not None, of_run=which.run_id is not None
        )
        rows = _all(db, statement, values)
        more = bool(rows) and rows[0][-2] is not None and min(limit, len(rows)) < rows[0][-2]
        return searched_page(
            [row[:-2] for row in rows[:limit]], more, lambda row: PROMISES.read(row, to_promise)
        )
    if which.answerable_by is not None:
        statement = INBOX
    else:
        states = tuple(PromiseState) if which.state is None else (which.state,)
        kinds = tuple(PromiseKind) if which.kind is None else (which.kind,)
        statement = list_promises_statement(states, kinds, of_run=which.run_id is not None)
    rows, more = cut(_all(db, statement, values), limit)
    return PROMISES.page(rows, more, to_promise)


@lru_cache
def list_runs_statement(
    states: frozenset[RunState],
    *,
    workflow: bool,
    group: bool,
    parent: bool,
    session: bool,
    suspended: bool | None = None,
) -> str:
    """Return the statement that lists runs with these filters."""
    filters = ""
    if group:
        filters += "AND group_name = %(group)s "
    if workflow:
        filters += "AND workflow = %(workflow)s "
    if parent:
        filters += "AND parent_id = %(parent_id)s "
    if session:
        filters += "AND session_id || '' = %(session_id)s AND session_id IS NOT NULL "
    if suspended is not None:
        filters += f"AND suspended_at IS {'NOT ' if suspended else ''}NULL "
    # must match the expression of the index
    of_state = "state || ''" if session else "state" if group or workflow or parent else "'' || state"
    branches = [LIST_RUNS.format(of_state=of_state, state=state, filters=filters) for state in sorted(states)]
    merged = f"SELECT * FROM ({'UNION ALL'.join(branches)}) AS merged ORDER BY number DESC LIMIT %(limit)s"
    return within_page(merged, "number DESC")


@lru_cache
def list_promises_statement(
    states: tuple[PromiseState, ...], kinds: tuple[PromiseKind, ...], *, of_run: bool
) -> str:
    """Return the statement that lists promises with these states and kinds."""
    filters = OF_RUN if of_run else ""
    branches = [
        LIST_PROMISES.format(state=state, kind=kind, filters=filters) for state in states for kind in kinds
    ]
    merged = f"SELECT * FROM ({'UNION ALL'.join(branches)}) AS merged ORDER BY number LIMIT %(limit)s"
    return within_page(merged, "number")


@lru_cache
def of_runs_statement(*, of_names: bool, of_run: bool) -> str:
    """Return the statement that scans pending questions: those assigned to names, those of a run, or all."""
    looked = LOOKED_OF_NAMES if of_names else LOOKED.format(filters=OF_RUN if of_run else "")
    return OF_RUNS.format(looked=looked)


def checked(limit: int) -> int:
    """Return ``limit`` if it is valid. Raises InvalidValue."""
    if limit < 0:
        raise InvalidValue("limit", f"{limit} is not a valid number of items")
    return limit


def _all(db: Connection, statement: str, values: Any) -> list[tuple[Any, ...]]:
    return db.execute(cast(LiteralString, statement), values).fetchall()
