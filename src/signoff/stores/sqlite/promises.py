"""Promises in SQLite: creating, joining, settling and listing them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from signoff.codec import encode_error
from signoff.errors import AlreadySettled, IdConflict, InvalidValue, NotFound
from signoff.records import MessageKind, NewPromise, Promise, PromiseKind, PromiseState, Settlement
from signoff.records.origins import TIMER, text_of
from signoff.records.paging import LOOKED_THROUGH, Page, PromiseFilter, page_number, searched_page
from signoff.stores.contract.tokens import callback_token
from signoff.stores.contract.validation import check_promise
from signoff.stores.shared.equality import may_join, refusal_of, settled_before
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import PROMISE_COLUMNS
from signoff.stores.sqlite import messages, task_states, tokens
from signoff.stores.sqlite.rows import assignees_text, to_promise
from signoff.stores.sqlite.schema import row_unchanged
from signoff.stores.sqlite.transaction import Refused, Transaction

INSERT = f"""
INSERT INTO promises (
    namespace, id, kind, state, created_at, run_id, n, due_at, data, create_token, assignees, act_at
)
VALUES (?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, id) DO NOTHING
RETURNING {PROMISE_COLUMNS}
"""

GET = f"SELECT {PROMISE_COLUMNS} FROM promises WHERE namespace = ? AND id = ?"

TOKENS = "SELECT create_token, settle_token FROM promises WHERE namespace = ? AND id = ?"

# Most promises are awaited by no run and no task that has joined them: one more column is cheaper than two reads.
SETTLE = f"""
UPDATE promises
SET state = :state, value = :value, settled_at = :now, settled_by = :by, note = :note, request_id = :request_id,
    settle_token = :token, origin = :origin
WHERE namespace = :namespace AND id = :id AND kind = :kind AND state = 'pending' AND (due_at IS NULL OR due_at > :now)
    AND version = coalesce(:version, version)
RETURNING {PROMISE_COLUMNS},
    EXISTS (SELECT 1 FROM waiters WHERE namespace = :namespace AND target = 'promise' AND target_id = :id)
    OR ({task_states.IS_OF_TASKS})
"""

TIME_OUT = f"""
UPDATE promises
SET state = 'timed_out', settled_at = ?, origin = '{text_of(TIMER)}'
WHERE namespace = ? AND id = ? AND state = 'pending'
RETURNING {PROMISE_COLUMNS}
"""

TIME_OUT_LATE = TIME_OUT.replace("RETURNING", "    AND due_at <= ?\nRETURNING")

TIME_OUT_DUE = f"""
UPDATE promises
SET state = 'timed_out', settled_at = :now, origin = '{text_of(TIMER)}'
WHERE number IN (
    SELECT number FROM promises INDEXED BY promises_due
    WHERE state = 'pending' AND due_at IS NOT NULL AND due_at <= :now
    ORDER BY due_at LIMIT :limit
)
RETURNING {PROMISE_COLUMNS}
"""

CLOSE = f"""
UPDATE promises
SET state = 'cancelled', settled_at = ?
WHERE namespace = ? AND id = ? AND run_id = ? AND state = 'pending'
RETURNING {PROMISE_COLUMNS}
"""

CLOSE_ALL = f"""
UPDATE promises INDEXED BY promises_by_run
SET state = 'cancelled', settled_at = ?
WHERE namespace = ? AND run_id = ? AND state = 'pending'
RETURNING {PROMISE_COLUMNS}
"""

OF_CALL = f"""
SELECT {PROMISE_COLUMNS} FROM promises
WHERE number = (
    SELECT max(number) FROM promises INDEXED BY promises_by_run
    WHERE namespace = ? AND run_id = ? AND n = ? AND state <> 'pending'
)
"""

LISTING = Listing(Promise, PROMISE_COLUMNS, size_in_sqlite)

# One branch per requested state and kind: SQLite merges them, each in the order of its index.
LIST_BRANCH = f"""
SELECT {LISTING.columns}, number FROM promises INDEXED BY promises_by_state
WHERE namespace = :namespace AND state = '{{state}}' AND kind = '{{kind}}' AND number > :after
"""

LIST_BRANCH_OF_RUN = f"""
SELECT {LISTING.columns}, number FROM promises INDEXED BY promises_by_run
WHERE namespace = :namespace AND run_id = :run_id AND state = '{{state}}' AND kind = '{{kind}}' AND number > :after
"""

LIST_ORDER = "ORDER BY number LIMIT :limit"

# One branch per name, each in the order of the inbox, so that no more rows are read than shown.
INBOX_BRANCH = """
SELECT number FROM (
    SELECT number FROM inbox
    WHERE namespace = :namespace AND assignee = :name{place} AND number > :after
    ORDER BY number LIMIT :limit
)
"""

INBOX = f"""
SELECT {LISTING.columns}, number FROM promises
WHERE number IN (SELECT DISTINCT number FROM ({{branches}}) ORDER BY number LIMIT :limit)
ORDER BY number
"""

# Scans the next pending questions and returns those of the requested runs. There is at least one row: it says where the
# scan ended.
OF_RUNS = f"""
WITH looked (number) AS MATERIALIZED ({{looked}}),
ends (last, looked) AS (SELECT max(number), count(*) FROM looked),
found AS (
    SELECT {LISTING.columns}, number FROM promises
    WHERE number IN (SELECT number FROM looked) AND EXISTS (
        SELECT 1 FROM runs INDEXED BY runs_by_id
        WHERE runs.namespace = promises.namespace AND runs.id = promises.run_id
            AND (:workflow IS NULL OR runs.workflow = :workflow) AND (:group IS NULL OR runs.group_name = :group)
    )
    ORDER BY number LIMIT :limit
)
SELECT ends.last, ends.looked, found.* FROM ends LEFT JOIN found ON true ORDER BY found.number
"""

LOOKED_BRANCHES = "SELECT DISTINCT number FROM ({branches}) ORDER BY number LIMIT :looked"

LOOKED = f"""
SELECT number FROM promises INDEXED BY promises_by_state
WHERE namespace = :namespace AND state = 'pending' AND kind = 'question' AND number > :after
{LIST_ORDER.replace(":limit", ":looked")}
"""

LOOKED_OF_RUN = f"""
SELECT number FROM promises INDEXED BY promises_by_run
WHERE namespace = :namespace AND run_id = :run_id AND state = 'pending' AND kind = 'question' AND number > :after
{LIST_ORDER.replace(":limit", ":looked")}
"""


def notify_again(tx: Transaction, namespace: str, run_id: str, n: int) -> None:
    """Notify a call of a run again of its promise's outcome, if there is one."""
    for row in tx.db.execute(OF_CALL, (namespace, run_id, n)).fetchall():
        _notify(tx, to_promise(row), run_id, n)


def create_promise(
    tx: Transaction, namespace: str, new: NewPromise, token: str | None
) -> tuple[Promise, bool]:
    """Create a standalone promise, or return the one with the same id."""
    created = insert(tx, namespace, new, token=token)
    if created is not None:
        return created, True
    promise = get_promise(tx.db, namespace, new.id)
    if promise.kind is not new.kind:
        raise IdConflict(new.id, f"it is a {promise.kind.value}, not a {new.kind.value}")
    if promise.run_id is not None:
        raise IdConflict(new.id, f"it belongs to run {promise.run_id!r}")
    create_token, _ = _tokens(tx, namespace, new.id)
    return promise, token is not None and token == create_token


def open_promise(tx: Transaction, namespace: str, run_id: str, new: NewPromise) -> None:
    """Create a promise of a run, or let the run join the standalone one with the same id."""
    if new.n is None:
        raise InvalidValue("opens", f"promise {new.id!r} needs the number of the call that waits for it")
    if insert(tx, namespace, new, run_id=run_id, n=new.n) is not None:
        return
    promise = get_promise(tx.db, namespace, new.id)
    if promise.run_id == run_id and promise.n == new.n:
        return
    if not may_join(new, promise.kind):
        _refuse(tx, namespace, run_id, new)
        return
    joined = messages.join(tx, namespace, "promise", promise.id, run_id, new.n)
    if joined and promise.state is not PromiseState.PENDING:
        _notify(tx, promise, run_id, new.n)


def close_promise(tx: Transaction, namespace: str, run_id: str, promise_id: str) -> None:
    """Cancel a promise that its run no longer waits for, or let the run leave one that it had joined."""
    row = tx.db.execute(CLOSE, (tx.now, namespace, promise_id, run_id)).fetchone()
    if row is None:
        messages.unjoin(tx, namespace, "promise", promise_id, run_id)
    else:
        _notify_waiters(tx, to_promise(row))


def close_all(tx: Transaction, namespace: str, run_id: str) -> None:
    """Cancel the pending promises of a run that has ended."""
    for row in tx.db.execute(CLOSE_ALL, (tx.now, namespace, run_id)).fetchall():
        _notify_waiters(tx, to_promise(row))


def settle(
    tx: Transaction,
    namespace: str,
    promise_id: str,
    kind: PromiseKind,
    settlement: Settlement,
    token: str | None,
) -> tuple[Promise, bool] | Refused:
    """Settle a pending promise and wake the runs that wait for it."""
    if settlement.state is PromiseState.PENDING:
        raise InvalidValue("settlement.state", "a promise cannot be settled as pending")
    values = {
        "state": settlement.state.value,
        "value": settlement.value,
        "now": tx.now,
        "by": settlement.by,
        "note": settlement.note,
        "request_id": settlement.request_id,
        "token": token,
        "origin": text_of(settlement.origin),
        "namespace": namespace,
        "id": promise_id,
        "kind": kind.value,
        "version": settlement.version,
    }
    row = tx.db.execute(SETTLE, values).fetchone()
    if row is None:
        return _not_settled(tx, namespace, promise_id, kind, settlement, token)
    promise = to_promise(row)
    messages.note_answer(tx, namespace, promise.run_id, promise_id, settlement.request_id)
    notify_all(tx, promise, has_waiters=bool(row[-1]))
    return promise, True


def time_out(tx: Transaction, namespace: str, promise_id: str) -> Promise:
    """Time out a pending promise whose deadline has passed."""
    row = tx.db.execute(TIME_OUT, (tx.now, namespace, promise_id)).fetchone()
    if row is None:
        raise row_unchanged()
    late = to_promise(row)
    notify_all(tx, late)
    return late


def time_out_late(tx: Transaction, namespace: str, promise_id: str) -> Promise | None:
    """Time out a promise if it is pending past its deadline. Returns it then."""
    row = tx.db.execute(TIME_OUT_LATE, (tx.now, namespace, promise_id, tx.now)).fetchone()
    if row is None:
        return None
    late = to_promise(row)
    notify_all(tx, late)
    return late


def time_out_due(tx: Transaction, limit: int) -> int:
    """Time out due promises, in all namespaces. Returns their number."""
    rows = tx.db.execute(TIME_OUT_DUE, {"now": tx.now, "limit": limit}).fetchall()
    for promise in _promises(rows):
        notify_all(tx, promise)
    return len(rows)


def get_promise(db: sqlite3.Connection, namespace: str, promise_id: str) -> Promise:
    """Return a promise. Raises NotFound."""
    row = db.execute(GET, (namespace, promise_id)).fetchone()
    if row is None:
        raise NotFound("promise", promise_id)
    return to_promise(row)


def list_promises(
    db: sqlite3.Connection, namespace: str, which: PromiseFilter, after: str | None, limit: int
) -> Page[Promise]:
    """Return a page of promises, oldest first."""
    names = None if which.answerable_by is None else ("", *sorted(which.answerable_by))
    values: dict[str, Any] = {
        "namespace": namespace,
        "run_id": which.run_id,
        "workflow": which.workflow,
        "group": which.group,
        "after": page_number(after, 0),
        "limit": limit + 1,
        "looked": LOOKED_THROUGH,
        **{f"name{place}": name for place, name in enumerate(names or ())},
    }
    if which.is_of_runs:
        statement = of_runs_statement(None if names is None else len(names), of_run=which.run_id is not None)
        rows, more = read_page(db.execute(statement, values), limit, _bytes_found)
        return searched_page(rows, more, lambda row: LISTING.read(row, to_promise))
    if names is not None:
        statement = inbox_statement(len(names))
    else:
        states = tuple(PromiseState) if which.state is None else (which.state,)
        kinds = tuple(PromiseKind) if which.kind is None else (which.kind,)
        statement = list_statement(states, kinds, of_run=which.run_id is not None)
    rows, more = read_page(db.execute(statement, values), limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_promise)


def _bytes_found(row: Sequence[Any]) -> int:
    """Return the payload size of a row of ``OF_RUNS``, in bytes."""
    return 0 if row[-1] is None else LISTING.bytes_of(row[2:])


@lru_cache
def list_statement(states: tuple[PromiseState, ...], kinds: tuple[PromiseKind, ...], *, of_run: bool) -> str:
    """Return the statement that lists promises with these states and kinds."""
    branch = LIST_BRANCH_OF_RUN if of_run else LIST_BRANCH
    branches = [branch.format(state=state.value, kind=kind.value) for state in states for kind in kinds]
    return "UNION ALL".join(branches) + LIST_ORDER


@lru_cache
def inbox_statement(names: int) -> str:
    """Return the statement that lists the pending questions assigned to any of ``names`` names."""
    branches = [INBOX_BRANCH.format(place=place) for place in range(names)]
    return INBOX.format(branches="UNION ALL".join(branches))


@lru_cache
def of_runs_statement(names: int | None, *, of_run: bool) -> str:
    """Return the statement that scans pending questions: those assigned to names, those of a run, or all."""
    looked = LOOKED_OF_RUN if of_run else LOOKED
    if names is not None:
        branches = [INBOX_BRANCH.format(place=place).replace(":limit", ":looked") for place in range(names)]
        looked = LOOKED_BRANCHES.format(branches="UNION ALL".join(branches))
    return OF_RUNS.format(looked=looked)


def _promises(rows: Iterable[tuple[Any, ...]]) -> list[Promise]:
    return [to_promise(row) for row in rows]


def insert(
    tx: Transaction,
    namespace: str,
    new: NewPromise,
    *,
    run_id: str | None = None,
    n: int | None = None,
    token: str | None = None,
) -> Promise | None:
    """Create a promise. Returns None if there is one with its id."""
    check_promise(new)
    values = (
        namespace,
        new.id,
        new.kind.value,
        tx.now,
        run_id,
        n,
        new.due_at,
        new.data,
        token,
        assignees_text(new.assignees),
        new.act_at,
    )
    row = tx.db.execute(INSERT, values).fetchone()
    if row is None:
        return None
    callback = callback_token(new)
    if callback is not None:
        tokens.keep(tx, namespace, callback)
    tx.runs.setdefault(namespace, set())
    if new.due_at is not None or new.act_at is not None:
        tx.due = True
    return to_promise(row)


def _refuse(tx: Transaction, namespace: str, run_id: str, new: NewPromise) -> None:
    """Leave an IdConflict as the outcome of the call that tried to create the promise."""
    if new.n is None or messages.is_left(tx, namespace, run_id, new.n, new.id):
        return
    error = encode_error(refusal_of(new))
    state = PromiseState.REJECTED.value
    messages.leave(tx, namespace, run_id, MessageKind.SETTLED, n=new.n, name=new.id, state=state, error=error)


def _tokens(tx: Transaction, namespace: str, promise_id: str) -> tuple[str | None, str | None]:
    """Return the tokens of the calls that created and settled a promise."""
    return tx.db.execute(TOKENS, (namespace, promise_id)).fetchone()


def _not_settled(
    tx: Transaction,
    namespace: str,
    promise_id: str,
    kind: PromiseKind,
    settlement: Settlement,
    token: str | None,
) -> tuple[Promise, bool] | Refused:
    promise = get_promise(tx.db, namespace, promise_id)
    if promise.kind is not kind:
        raise NotFound(kind.value, promise_id)
    if promise.state is PromiseState.PENDING:
        if promise.due_at is None or promise.due_at > tx.now:
            return promise, False  # its version differs
        late = time_out(tx, namespace, promise_id)
        return Refused(AlreadySettled(promise_id, late.state.value, None, late.settled_at))
    _, settle_token = _tokens(tx, namespace, promise_id)
    if token is not None and token == settle_token:
        return promise, True
    return settled_before(promise, settlement, is_repeated=promise.request_id == settlement.request_id)


def notify_all(tx: Transaction, promise: Promise, *, has_waiters: bool = True) -> None:
    """Notify a promise's run, and the runs and tasks that joined it, of the outcome.

    Args:
        tx: The transaction that has settled it.
        promise: The promise.
        has_waiters: Whether runs or tasks may have joined it.
    """
    tx.runs.setdefault(promise.namespace, set())
    if promise.run_id is None:
        tx.settled.add(promise.namespace)
    elif promise.n is not None:
        _notify(tx, promise, promise.run_id, promise.n)
    if has_waiters:
        _notify_waiters(tx, promise)


def _notify_waiters(tx: Transaction, promise: Promise) -> None:
    for run_id, n in messages.waiters(tx, promise.namespace, "promise", promise.id):
        _notify(tx, promise, run_id, n, leave=messages.leave_or_defer)
    task_states.settled(tx, promise)


def _notify(
    tx: Transaction, promise: Promise, run_id: str, n: int, *, leave: Callable[..., None] = messages.leave
) -> None:
    leave(
        tx,
        promise.namespace,
        run_id,
        MessageKind.SETTLED,
        n=n,
        name=promise.id,
        state=promise.state.value,
        value=promise.value,
        by=promise.settled_by,
        note=promise.note,
    )
