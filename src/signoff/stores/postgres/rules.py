"""Standing approvals in Postgres: getting, listing and revoking them. Amendments create and use them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, LiteralString, cast

from pydantic_core import to_json

from signoff.errors import NotFound
from signoff.records import NewAuditEvent, Rule
from signoff.records.paging import Page, RuleFilter, page_number
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.postgres.rows import from_event
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page

NOW = "coalesce(%s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

COLUMNS = """namespace, id, created_at, by, tool, arguments, question_id, expires_at, run_id, groups, roles,
    max_uses, uses, revoked_at, revoked_by, session_id"""

GET = f"SELECT {COLUMNS} FROM signoff.rules WHERE namespace = %s AND id = %s"

LISTING = Listing(Rule, COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, number FROM signoff.listed_rules(%s, %s, %s, %s, %s, {NOW}, %s, %s)", "number"
)

REVOKE = f"SELECT {COLUMNS} FROM signoff.revoke_rule(%s, %s, %s, {NOW}) WHERE id IS NOT NULL"


def get_rule(db: Connection, namespace: str, rule_id: str) -> Rule:
    """Return a rule. Raises NotFound."""
    return _found(rule_id, db.execute(GET, (namespace, rule_id)).fetchone())


def list_rules(
    db: Connection, namespace: str, which: RuleFilter, after: str | None, limit: int, now: float | None
) -> Page[Rule]:
    """Return a page of rules in creation order."""
    begin = page_number(after, 0)
    values = (
        namespace,
        which.by,
        which.tool,
        which.session_id,
        which.in_force,
        now,
        begin,
        checked(limit) + 1,
    )
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    return Page(tuple(LISTING.read(row, _rule) for row in rows), str(rows[-1][-1]) if more and rows else None)


def revoke_rule(
    db: Connection, namespace: str, rule_id: str, event: NewAuditEvent, now: float | None
) -> Rule:
    """Revoke a rule, and record that in the audit trail. Raises NotFound."""
    values = (namespace, rule_id, to_json(from_event(event)).decode(), now)
    return _found(rule_id, db.execute(REVOKE, values).fetchone())


def _found(rule_id: str, row: Sequence[Any] | None) -> Rule:
    if row is None:
        raise NotFound("rule", rule_id)
    return _rule(row)


def _rule(row: Sequence[Any]) -> Rule:
    fields = list(row)
    fields[7] = None if row[7] == math.inf else row[7]
    fields[9], fields[10] = tuple(row[9]), tuple(row[10])
    return Rule(*fields)
