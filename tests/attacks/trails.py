"""Audit trails that are anchored and then forged."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from signoff.people.audit.anchors.anchoring import Anchoring
from signoff.people.audit.anchors.config import Anchors
from signoff.people.audit.sealing import seal_events
from signoff.records import AuditKind, NewAuditEvent
from signoff.stores.address import is_postgres
from signoff.stores.contract.store import Store
from signoff.stores.sqlite.schema import path_of
from tests.cli.diagnoses import sql


async def add(store: Store, count: int, name: str = "e") -> None:
    """Record and seal events ``e0``, ``e1`` ..."""
    await store.record(
        [
            NewAuditEvent(f"{name}{n}", AuditKind.VOTED, "q", "r", "user:ana", f'{{"n":{n}}}')
            for n in range(count)
        ]
    )
    await seal_events(store)


async def anchor(store: Store, anchors: Anchors) -> Anchoring:
    anchoring = Anchoring(store, anchors.anchors, origin=anchors.origin)
    await anchoring.bring_all()
    return anchoring


def forge(address: str, *statements: str) -> None:
    """Change the trail's tables behind the triggers that guard them."""
    if is_postgres(address):
        guards = [f"ALTER TABLE signoff.{table} {{}} TRIGGER ALL" for table in ("audit", "seals")]
        for statement in (
            *(guard.format("DISABLE") for guard in guards),
            *statements,
            *(guard.format("ENABLE") for guard in guards),
        ):
            sql(address, statement)
        return
    with closing(sqlite3.connect(path_of(address))) as db:
        for (name,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name IN ('audit', 'seals')"
        ).fetchall():
            db.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            db.execute(statement.replace("signoff.", ""))
        db.commit()


def cut_from(seq: int) -> tuple[str, ...]:
    return (
        f"DELETE FROM signoff.audit WHERE id IN (SELECT event_id FROM signoff.seals WHERE seq >= {seq})",
        f"DELETE FROM signoff.seals WHERE seq >= {seq}",
    )
