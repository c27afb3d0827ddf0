"""Standing approvals in Postgres: getting, listing and revoking them. Amendments create and use them."""

from __future__ import annotations

from typing import LiteralString, cast

from pydantic_core import to_json

from signoff.records import NewAuditEvent, Rule
from signoff.records.paging import Page, RuleFilter, page_number
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.postgres.rows import from_event
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.rows import RULE_COLUMNS, found, to_rule

NOW = "coalesce(%s::double precision, extract(epoch FROM clock_timestamp())::double precision)"

GET = f"SELECT {RULE_COLUMNS} FROM signoff.rules WHERE namespace = %s AND id = %s"

LISTING = Listing(Rule, RULE_COLUMNS, size_in_postgres)

LIST = within_page(
    f"SELECT {LISTING.columns}, number FROM signoff.listed_rules(%s, %s, %s, %s, %s, {NOW}, %s, %s)", "number"
)

REVOKE = f"SELECT {RULE_COLUMNS} FROM signoff.revoke_rule(%s, %s, %s, {NOW}) WHERE id IS NOT NULL"


def get_rule(db: Connection, namespace: str, rule_id: str) -> Rule:
    """Return a rule. Raises NotFound."""
    return found("rule", rule_id, db.execute(GET, (namespace, rule_id)).fetchone(), to_rule)


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
    return LISTING.page(rows, more, to_rule)


def revoke_rule(
    db: Connection, namespace: str, rule_id: str, event: NewAuditEvent, now: float | None
) -> Rule:
    """Revoke a rule, and record that in the audit trail. Raises NotFound."""
    values = (namespace, rule_id, to_json(from_event(event)).decode(), now)
    return found("rule", rule_id, db.execute(REVOKE, values).fetchone(), to_rule)
