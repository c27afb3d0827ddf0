"""The workflow registry in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter, page_place, place_of
from signoff.stores.shared.listed_payloads import Listing, read_page, size_in_sqlite
from signoff.stores.shared.rows import ANNOUNCED, WORKFLOW_COLUMNS, to_workflow
from signoff.stores.sqlite.transaction import Transaction

ANNOUNCE = f"INSERT OR REPLACE INTO workflows ({WORKFLOW_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

LISTING = Listing(WorkflowInfo, WORKFLOW_COLUMNS, size_in_sqlite)

LIST = f"""
SELECT {LISTING.columns} FROM workflows
WHERE namespace = :namespace AND (name, group_name, version) > (:name_before, :group_before, :version_before)
    AND (:name IS NULL OR name = :name) AND (:group IS NULL OR group_name = :group)
ORDER BY name, group_name, version LIMIT :limit
"""

DELETE = """
DELETE FROM workflows WHERE rowid IN (
    SELECT rowid FROM workflows WHERE namespace = ? AND seen_at < ?
    ORDER BY seen_at, name, group_name, version LIMIT ?
)
"""


def announce(tx: Transaction, namespace: str, workflows: Sequence[WorkflowInfo]) -> None:
    """Register workflows, or replace their entries."""
    rows = [(*(getattr(each, field) for field in ANNOUNCED), namespace, tx.now) for each in workflows]
    tx.db.executemany(ANNOUNCE, rows)


def list_workflows(
    db: sqlite3.Connection, namespace: str, which: WorkflowFilter, after: str | None, limit: int
) -> Page[WorkflowInfo]:
    """Return a page of workflows, sorted by name, group and version."""
    before = dict(zip(("name_before", "group_before", "version_before"), page_place(after), strict=True))
    values = {**before, **asdict(which), "namespace": namespace, "limit": limit + 1}
    rows, more = read_page(db.execute(LIST, values), limit, LISTING.bytes_of)
    found = tuple(LISTING.read(row, to_workflow) for row in rows)
    last = found[-1] if more and found else None
    return Page(found, None if last is None else place_of(last.name, last.group, last.version))


def delete(tx: Transaction, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` workflows last announced before ``before``. Returns how many."""
    return tx.db.execute(DELETE, (namespace, before, limit)).rowcount
