"""Questions in Postgres: amending pending questions, and finding those whose policies are due."""

from __future__ import annotations

from signoff.errors import NotFound
from signoff.records import Amendment, Due, Promise, PromiseState
from signoff.stores.contract.validation import check_amendment
from signoff.stores.postgres.reads import Connection
from signoff.stores.postgres.rows import from_amendment, promise_of_values
from signoff.stores.postgres.write_requests import (
    JsonRequest,
    Reply,
    Request,
    new_token,
    note_woken,
    refuse_conflict,
)
from signoff.stores.shared.touched_runs import TouchedRuns

NOW = "coalesce(%s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

# A pending question is never settled. The condition keeps the planner from using an index by state.
DUE = f"""
SELECT namespace, id, act_at FROM signoff.promises
WHERE kind = 'question' AND settled_at IS NULL AND act_at IS NOT NULL AND act_at <= (SELECT {NOW})
ORDER BY act_at LIMIT %s
"""

NEXT_DUE = """
SELECT act_at FROM signoff.promises
WHERE kind = 'question' AND settled_at IS NULL AND act_at IS NOT NULL
ORDER BY act_at LIMIT 1
"""


def amend(
    namespace: str, question_id: str, amendment: Amendment, token: str | None
) -> Request[tuple[Promise, bool]]:
    """Amend a pending question, settle it if the amendment says so, and record audit events."""
    check_amendment(amendment)

    def read(reply: Reply, touched: TouchedRuns) -> tuple[Promise, bool]:
        if not reply:
            raise NotFound("question", question_id)
        refuse_conflict(reply, question_id)
        question = promise_of_values(reply["promise"])
        if reply["amended"] or "woken" in reply:
            touched.runs.setdefault(namespace, set())
            note_woken(reply, namespace, touched)
            if question.run_id is not None:
                touched.touch(namespace, question.run_id)
            elif question.state is not PromiseState.PENDING:
                touched.settled.add(namespace)
        is_timed = amendment.act_at is not None or amendment.due_at is not None
        touched.due = touched.due or (reply["amended"] and is_timed)
        return question, reply["amended"]

    body = {
        "op": "amend",
        "promise_id": question_id,
        "amendment": from_amendment(amendment),
        "token": token or new_token(),
    }
    return JsonRequest(namespace, body, read)


def due(db: Connection, now: float | None, limit: int) -> tuple[list[Due], float | None]:
    """Return the questions of all namespaces whose policies are due, and when the next policy is due."""
    row = db.execute(NEXT_DUE).fetchone()
    if row is None:
        return [], None
    return [Due(*found) for found in db.execute(DUE, (now, limit)).fetchall()], row[0]
