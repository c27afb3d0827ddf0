"""Asks a question in a scene, and lists its audit events."""

from __future__ import annotations

from typing import Any

from signoff.people.questions.policies import Policy
from signoff.people.questions.question import Question
from signoff.records import (
    AuditKind,
    NewPromise,
    Promise,
    PromiseKind,
)
from signoff.records.paging import AuditFilter
from signoff.stores.contract.leases import Write
from tests.stores.scene import Scene


async def ask(scene: Scene, run_id: str = "r", **said: Any) -> Promise:
    """Start a run that pauses on a question with a policy."""
    policy = Policy.make("Deploy?", input_type="approval", **said)
    run = await scene.run(run_id)
    now = scene.clock.now()
    new = NewPromise(
        f"{run_id}.0",
        PromiseKind.QUESTION,
        run_id,
        0,
        data=Question.make("Deploy?").to_json(policy),
        assignees=policy.assignees,
        act_at=None if policy.first_act is None else now + policy.first_act,
    )
    assert await scene.store.pause(Write(run_id, run.epoch, opens=[new]), wakes=0, wake_at=None)
    return await scene.store.get_promise(new.id)


async def kinds(scene: Scene) -> list[AuditKind]:
    return [event.kind for event in (await scene.store.list_audit(AuditFilter(), limit=1000)).items]
