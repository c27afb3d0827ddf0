"""Invocations in SQLite, and their calls: reads for people."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from signoff.records import PromiseState
from signoff.records.invocations import InvocationFilter, InvocationNode
from signoff.records.paging import LAST_NUMBER, LOOKED_THROUGH, Page, page_number, searched_page
from signoff.stores.shared.invocation_rows import OWN_OF_TASK, TASK, node_reader
from signoff.stores.shared.listed_payloads import read_page
from signoff.stores.sqlite import task_states
from signoff.stores.sqlite.promises import LISTING
from signoff.stores.sqlite.rows import to_promise

_OF_TASKS: Final = f"(SELECT {OWN_OF_TASK} FROM tasks)"

_WITH_PROMISE: Final = "task_namespace = promises.namespace AND task_id = promises.id"

_COLUMNS: Final = f"""
{LISTING.columns}, {TASK},
EXISTS (SELECT 1 FROM runs WHERE runs.namespace = promises.namespace AND runs.id = promises.id),
EXISTS (
    SELECT 1 FROM promise_branches AS made
    WHERE made.namespace = promises.namespace AND made.branch = promises.id AND made.promise_id <> promises.id
)
"""

_WAS_CALLED: Final = """
EXISTS (
    SELECT 1 FROM promise_branches AS own INDEXED BY promise_branches_by_promise
    CROSS JOIN promises AS maker ON maker.namespace = own.namespace AND maker.id = own.branch
    WHERE own.namespace = promises.namespace AND own.promise_id = promises.id AND own.branch <> promises.id
)
"""

_LOOKED_BRANCH: Final = """
SELECT number FROM promises INDEXED BY promises_by_state
WHERE namespace = :namespace AND state = '{state}' AND kind = 'promise' AND number < :before
"""

# Scans the next promises and returns those with tasks. There is at least one row: it says where the scan ended.
_LIST: Final = f"""
WITH looked (number) AS MATERIALIZED ({{looked}} ORDER BY number DESC LIMIT :looked),
ends (last, looked) AS (SELECT min(number), count(*) FROM looked),
found AS (
    SELECT {_COLUMNS}, number FROM promises CROSS JOIN {_OF_TASKS} ON {_WITH_PROMISE}
    WHERE number IN (SELECT number FROM looked)
        AND (:task IS NULL OR task_state = :task) AND (:nested OR NOT {_WAS_CALLED})
    ORDER BY number DESC LIMIT :limit
)
SELECT ends.last, ends.looked, found.* FROM ends LEFT JOIN found ON true ORDER BY found.number DESC
"""

_LIST_CALLS: Final = f"""
SELECT {_COLUMNS}
FROM (
    SELECT promise_id AS called_id FROM promise_branches
    WHERE namespace = :namespace AND branch = :id AND promise_id <> :id AND promise_id > :after
    ORDER BY promise_id LIMIT :limit
)
CROSS JOIN promises ON namespace = :namespace AND id = called_id
LEFT JOIN {_OF_TASKS} ON {_WITH_PROMISE}
ORDER BY called_id
"""

_read: Final = node_reader(LISTING, to_promise, task_states.to_task)


def list_invocations(
    db: sqlite3.Connection, namespace: str, which: InvocationFilter, after: str | None, limit: int
) -> Page[InvocationNode]:
    """Return a page of the promises with tasks, newest first."""
    values = {
        "namespace": namespace,
        "before": page_number(after, LAST_NUMBER),
        "looked": LOOKED_THROUGH,
        "task": None if which.task is None else which.task.value,
        "nested": which.nested,
        "limit": limit + 1,
    }
    rows, more = read_page(db.execute(list_statement(which.state), values), limit, _bytes_found)
    return searched_page(rows, more, _read)


def list_calls(
    db: sqlite3.Connection, namespace: str, promise_id: str, after: str | None, limit: int
) -> Page[InvocationNode]:
    """Return a page of the promises that a promise has created, by id."""
    values = {"namespace": namespace, "id": promise_id, "after": after or "", "limit": limit + 1}
    rows, more = read_page(db.execute(_LIST_CALLS, values), limit, LISTING.bytes_of)
    nodes = tuple(map(_read, rows))
    return Page(nodes, nodes[-1].promise.id if more and nodes else None)


@lru_cache
def list_statement(state: PromiseState | None) -> str:
    """Return the statement that lists the invocations whose promises have a state."""
    states = PromiseState if state is None else (state,)
    return _LIST.format(looked="UNION ALL".join(_LOOKED_BRANCH.format(state=each.value) for each in states))


def _bytes_found(row: Sequence[Any]) -> int:
    """Return the payload size of a row of ``_LIST``, in bytes."""
    return 0 if row[-1] is None else LISTING.bytes_of(row[2:])
