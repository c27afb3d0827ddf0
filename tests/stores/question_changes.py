"""Questions, amendments and their audit trail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from signoff.records import (
    Amendment,
    AuditEvent,
    AuditKind,
    NewAuditEvent,
    Promise,
)
from signoff.records.paging import AuditFilter
from tests.stores.scene import WORKFLOW, Scene, question


def voted(id: str, question_id: str = "r.0", **more: Any) -> NewAuditEvent:
    return NewAuditEvent(id, AuditKind.VOTED, question_id, "r", "user:ana", '{"value":"true"}', **more)


def amendment(asked: Promise, **changes: Any) -> Amendment:
    """What leaves a question as it is but for ``changes``."""
    same = Amendment(asked.version, asked.progress, asked.assignees, asked.act_at)
    return replace(same, **changes)


async def ask(scene: Scene, run_id: str = "r", *, workflow: str = WORKFLOW, **more: Any) -> Promise:
    """Start a run that pauses on question ``{run_id}.0``."""
    run = await scene.run(run_id, workflow=workflow)
    assert await scene.pause(run, opens=[question(run_id, **more)])
    return await scene.store.get_promise(f"{run_id}.0")


async def trail(scene: Scene, **which: Any) -> list[AuditEvent]:
    return list((await scene.store.list_audit(AuditFilter(**which))).items)


async def kinds(scene: Scene, **which: Any) -> list[AuditKind]:
    return [event.kind for event in await trail(scene, **which)]
