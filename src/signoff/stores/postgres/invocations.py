"""Invocations in Postgres, and their calls: reads for people."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, LiteralString, cast

from signoff.records import PromiseState
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.paging import LAST_NUMBER, LOOKED_THROUGH, Page, page_number, searched_page
from signoff.stores.postgres.reads import PROMISES, Connection, checked
from signoff.stores.postgres.rows import to_promise
from signoff.stores.postgres.tasks import to_task
from signoff.stores.shared.invocation_rows import OWN_OF_TASK, TASK, node_reader
from signoff.stores.shared.listed_payloads import cut, within_page

_OF_TASK: Final = f"""
LATERAL (
    SELECT {OWN_OF_TASK} FROM signoff.tasks
    WHERE shard = promise.shard AND namespace = promise.namespace AND id = promise.id OFFSET 0
) AS task
"""

# One row at a time, which OFFSET enforces: for several the planner may scan all runs of the namespace. With ORDER BY it
# uses the index even if it expects that any branch matches.
_COLUMNS: Final = f"""
{PROMISES.columns}, {TASK},
EXISTS (
    SELECT 1 FROM signoff.runs WHERE runs.id = promise.id AND runs.namespace = promise.namespace OFFSET 0
) AS has_run,
EXISTS (
    SELECT 1 FROM signoff.promise_branches AS made
    WHERE made.branch = promise.id AND made.namespace = promise.namespace AND made.promise_id <> promise.id
    ORDER BY made.promise_id OFFSET 0
) AS has_calls
"""

_WAS_CALLED: Final = """
EXISTS (
    SELECT 1 FROM (
        SELECT own.branch FROM signoff.promise_branches AS own
        WHERE own.shard = promise.shard AND own.namespace = promise.namespace AND own.promise_id = promise.id
            AND own.branch <> promise.id
        ORDER BY own.branch OFFSET 0
    ) AS called
    CROSS JOIN LATERAL (
        SELECT 1 FROM signoff.promises AS maker
        WHERE maker.shard = signoff.shard_of(called.branch) AND maker.namespace = promise.namespace
            AND maker.id = called.branch OFFSET 0
    ) AS found
    OFFSET 0
)
"""

_LOOKED_BRANCH: Final = """
(SELECT * FROM signoff.promises
WHERE namespace = %(namespace)s AND state = '{state}' AND kind = 'promise' AND number < %(before)s
ORDER BY number DESC LIMIT %(looked)s)
"""

_FOUND: Final = f"""
SELECT {_COLUMNS}, number FROM looked AS promise CROSS JOIN {_OF_TASK}
WHERE (%(task)s::text IS NULL OR task_state = %(task)s) AND (%(nested)s OR NOT {_WAS_CALLED})
ORDER BY number DESC LIMIT %(limit)s
"""

# Scans the next promises and returns those with tasks. There is at least one row: it says where the scan ended.
_LIST: Final = f"""
WITH looked AS MATERIALIZED (
    SELECT * FROM ({{looked}}) AS merged ORDER BY number DESC LIMIT %(looked)s
),
found AS ({within_page(_FOUND, "number DESC")})
SELECT ends.last, ends.looked, found.* FROM (SELECT min(number) AS last, count(*) AS looked FROM looked) AS ends
LEFT JOIN found ON true ORDER BY found.number DESC
"""

_CALLS: Final = f"""
SELECT {_COLUMNS}
FROM (
    SELECT shard, promise_id FROM signoff.promise_branches
    WHERE branch = %(id)s AND namespace = %(namespace)s AND promise_id <> %(id)s AND promise_id > %(after)s
    ORDER BY promise_id LIMIT %(limit)s
) AS called
CROSS JOIN LATERAL (
    SELECT * FROM signoff.promises
    WHERE shard = called.shard AND namespace = %(namespace)s AND id = called.promise_id OFFSET 0
) AS promise
LEFT JOIN {_OF_TASK} ON true
"""

_LIST_CALLS: Final = within_page(_CALLS, "id")

_read: Final = node_reader(PROMISES, to_promise, to_task)


def list_invocations(
    db: Connection, namespace: str, which: InvocationFilter, after: str | None, limit: int
) -> Page[InvocationNode]:
    """Return a page of the promises with tasks, newest first."""
    values = {
        "namespace": namespace,
        "before": page_number(after, LAST_NUMBER),
        "looked": LOOKED_THROUGH,
        "task": None if which.task is None else which.task.value,
        "nested": which.nested,
        "limit": checked(limit) + 1,
    }
    statement = cast("LiteralString", list_statement(which.state))
    rows = db.execute(statement, values).fetchall()
    more = bool(rows) and rows[0][-2] is not None and min(limit, len(rows)) < rows[0][-2]
    return searched_page([row[:-2] for row in rows[:limit]], more, _read)


def list_calls(
    db: Connection, namespace: str, promise_id: str, after: str | None, limit: int
) -> Page[InvocationNode]:
    """Return a page of the promises that a promise has created, by id."""
    values = {"namespace": namespace, "id": promise_id, "after": after or "", "limit": checked(limit) + 1}
    rows, more = cut(db.execute(cast("LiteralString", _LIST_CALLS), values).fetchall(), limit)
    nodes = tuple(map(_read, rows))
    return Page(nodes, nodes[-1].promise.id if more and nodes else None)


@lru_cache
def list_statement(state: PromiseState | None) -> str:
    """Return the statement that lists the invocations whose promises have a state."""
    states = PromiseState if state is None else (state,)
    return _LIST.format(looked="UNION ALL".join(_LOOKED_BRANCH.format(state=each.value) for each in states))
