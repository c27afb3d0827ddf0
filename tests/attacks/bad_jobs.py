"""Schedules, questions and audit events for the tests of periodic jobs."""

from __future__ import annotations

from dataclasses import replace

from signoff.records import AuditKind, NewAuditEvent, NewSchedule
from tests.stores.scene import GROUP, WORKFLOW, Scene, question

NEW = NewSchedule("s", WORKFLOW, GROUP, '{"args": []}', "* * * * *", "UTC", next_at=1_000_001.0)


async def ask(scene: Scene, id: str = "q") -> None:
    new = replace(question("r", id=id, act_at=1_000_001.0, data='{"text": "Pay?"}'), run_id=None, n=None)
    await scene.store.create_promise(new)


async def record(scene: Scene, id: str) -> None:
    await scene.store.record([NewAuditEvent(id, AuditKind.COMMENTED, "q", None, "user:ana", '{"text":"hi"}')])
