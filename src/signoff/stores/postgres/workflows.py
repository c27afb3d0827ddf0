"""The workflow registry in Postgres, on reader connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import LiteralString, cast

from signoff.records import WorkflowInfo
from signoff.records.paging import Page, WorkflowFilter, page_place, place_of
from signoff.stores.postgres.reads import Connection, checked
from signoff.stores.shared.listed_payloads import Listing, cut, size_in_postgres, within_page
from signoff.stores.shared.rows import ANNOUNCED, WORKFLOW_COLUMNS, to_workflow

# In a fixed order, so that workers that start at the same time do not deadlock.
ANNOUNCE = f"""
INSERT INTO signoff.workflows ({WORKFLOW_COLUMNS})
SELECT group_name, name, version, is_current, description, parameters, %s,
    coalesce(%s::double precision, extract(epoch FROM clock_timestamp()))
FROM unnest(%s::text[], %s::text[], %s::text[], %s::boolean[], %s::text[], %s::text[])
    AS new (group_name, name, version, is_current, description, parameters)
ORDER BY name, group_name, version
ON CONFLICT (name, namespace, group_name, version) DO UPDATE
SET is_current = excluded.is_current, description = excluded.description, parameters = excluded.parameters,
    seen_at = excluded.seen_at
"""

LISTING = Listing(WorkflowInfo, WORKFLOW_COLUMNS, size_in_postgres)

LISTED = f"""
SELECT {LISTING.columns} FROM signoff.workflows
WHERE namespace = %(namespace)s
    AND (name, group_name, version) > (%(name_before)s, %(group_before)s, %(version_before)s)
    AND (%(name)s::text IS NULL OR name = %(name)s) AND (%(group)s::text IS NULL OR group_name = %(group)s)
ORDER BY name, group_name, version LIMIT %(limit)s
"""

LIST = within_page(LISTED, "name, group_name, version")

DELETE = """
DELETE FROM signoff.workflows WHERE (name, namespace, group_name, version) IN (
    SELECT name, namespace, group_name, version FROM signoff.workflows
    WHERE namespace = %s AND seen_at < %s
    ORDER BY seen_at, name, group_name, version LIMIT %s
    FOR UPDATE SKIP LOCKED
)
"""


def announce(db: Connection, namespace: str, workflows: Sequence[WorkflowInfo], now: float | None) -> None:
    """Register workflows, or replace their entries."""
    values = ([getattr(each, field) for each in workflows] for field in ANNOUNCED)
    db.execute(ANNOUNCE, (namespace, now, *values))


def list_workflows(
    db: Connection, namespace: str, which: WorkflowFilter, after: str | None, limit: int
) -> Page[WorkflowInfo]:
    """Return a page of workflows, sorted by name, group and version."""
    before = dict(zip(("name_before", "group_before", "version_before"), page_place(after), strict=True))
    values = {**before, **asdict(which), "namespace": namespace, "limit": checked(limit) + 1}
    rows, more = cut(db.execute(cast("LiteralString", LIST), values).fetchall(), limit)
    found = tuple(LISTING.read(row, to_workflow) for row in rows)
    last = found[-1] if more and found else None
    return Page(found, None if last is None else place_of(last.name, last.group, last.version))


def delete(db: Connection, namespace: str, before: float, limit: int) -> int:
    """Delete up to ``limit`` workflows last announced before ``before``. Returns how many."""
    return db.execute(DELETE, (namespace, before, limit)).rowcount
