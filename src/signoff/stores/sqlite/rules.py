"""Standing approvals in SQLite: creating and using them with amendments, listing and revoking them."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import asdict
from typing import Any

from signoff.records import Amendment, NewAuditEvent, Rule
from signoff.records.paging import Page, RuleFilter, page_number
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import RULE_COLUMNS, found, to_rule
from signoff.stores.sqlite import audit
from signoff.stores.sqlite.transaction import Transaction

IN_FORCE = "revoked_at IS NULL AND expires_at > :now AND (max_uses IS NULL OR uses < max_uses)"

MAKE = f"""
INSERT INTO rules ({RULE_COLUMNS})
VALUES (
    :namespace, :id, :now, :by, :tool, :arguments, :question_id, :expires_at, :run_id, :groups, :roles, :max_uses, 0,
    NULL, NULL, :session_id
)
"""

USE = "UPDATE rules SET uses = uses + 1 WHERE namespace = ? AND id = ?"

GET = f"SELECT {RULE_COLUMNS} FROM rules WHERE namespace = ? AND id = ?"

LISTING = Listing(Rule, RULE_COLUMNS, size_in_sqlite)

LIST = f"""
SELECT {LISTING.columns}, number FROM rules INDEXED BY {{index}}
WHERE namespace = :namespace AND (:tool IS NULL OR tool = :tool) AND number > :after AND {{filter}}
ORDER BY number LIMIT :limit
"""

OF_SESSION = "(:session_id IS NULL OR coalesce(session_id, '') = :session_id)"

LIST_ALL = LIST.format(index="rules_by_namespace", filter=OF_SESSION)
LIST_OF_MAKER = LIST.format(index="rules_by_maker", filter=f"by = :by AND {OF_SESSION}")
LIST_IN_FORCE = LIST.format(index="rules_in_force", filter=f"{IN_FORCE} AND (:by IS NULL OR by = :by)")
LIST_IN_FORCE_OF_SESSION = LIST.format(
    index="rules_of_session",
    filter=f"coalesce(session_id, '') = :session_id AND {IN_FORCE} AND (:by IS NULL OR by = :by)",
)

REVOKE = f"""
UPDATE rules SET revoked_at = ?, revoked_by = ? WHERE namespace = ? AND id = ? AND revoked_at IS NULL
RETURNING {RULE_COLUMNS}
"""


def allow(tx: Transaction, namespace: str, amendment: Amendment) -> bool:
    """Whether an amendment may create and use its rules."""
    new = amendment.rule
    if new is not None and tx.db.execute(GET, (namespace, new.id)).fetchone() is not None:
        return False
    if amendment.by_rule is None:
        return True
    used = tx.db.execute(GET, (namespace, amendment.by_rule)).fetchone()
    return used is not None and to_rule(used).is_in_force(tx.now)


def note(tx: Transaction, namespace: str, amendment: Amendment) -> None:
    """Create and use the rules of an applied amendment."""
    if amendment.rule is not None:
        new = amendment.rule
        values = {**asdict(new), "groups": json.dumps(new.groups), "roles": json.dumps(new.roles)}
        expires_at = math.inf if new.expires_at is None else new.expires_at
        tx.db.execute(MAKE, {**values, "expires_at": expires_at, "namespace": namespace, "now": tx.now})
    if amendment.by_rule is not None:
        tx.db.execute(USE, (namespace, amendment.by_rule))


def get_rule(db: sqlite3.Connection, namespace: str, rule_id: str) -> Rule:
    """Return a rule. Raises NotFound."""
    return found("rule", rule_id, db.execute(GET, (namespace, rule_id)).fetchone(), to_rule)


def list_rules(
    db: sqlite3.Connection, namespace: str, which: RuleFilter, after: str | None, limit: int, now: float
) -> Page[Rule]:
    """Return a page of rules in creation order."""
    which.check()
    if which.in_force:
        statement = LIST_IN_FORCE if which.session_id is None else LIST_IN_FORCE_OF_SESSION
    else:
        statement = LIST_ALL if which.by is None else LIST_OF_MAKER
    values: dict[str, Any] = {
        "namespace": namespace,
        "by": which.by,
        "tool": which.tool,
        "session_id": which.session_id,
        "now": now,
        "after": page_number(after, 0),
        "limit": limit + 1,
    }
    rows, more = read_page(db.execute(statement, values), limit, LISTING.bytes_of)
    return LISTING.page(rows, more, to_rule)


def revoke_rule(tx: Transaction, namespace: str, rule_id: str, event: NewAuditEvent) -> Rule:
    """Revoke a rule, and record that in the audit trail. Raises NotFound."""
    row = tx.db.execute(REVOKE, (tx.now, event.by, namespace, rule_id)).fetchone()
    if row is None:
        return get_rule(tx.db, namespace, rule_id)
    audit.record(tx, namespace, [event])
    return to_rule(row)
