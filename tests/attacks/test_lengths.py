"""Names and ids that no index could hold are refused by every store; all accepted ones fit into the indexes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewRule,
    NewRun,
    NewSchedule,
    NewToken,
    Seal,
    TokenKind,
    WorkerInfo,
    WorkflowInfo,
)
from signoff.records.deliveries import NewDelivery
from signoff.records.names import (
    LONGEST_CHOSEN_BYTES,
    LONGEST_ID_BYTES,
    LONGEST_NAME_BYTES,
    LONGEST_NAMESPACE_BYTES,
    LONGEST_PERSON_BYTES,
    LONGEST_REQUEST_BYTES,
)
from signoff.stores.contract.leases import Write
from tests.stores.scene import GROUP, SUCCESS, WORKFLOW, YES, Scene, promise, question, rule

_random = random.Random(7)


def text(size: int, *, letters: str = "абвгдежзийклмнопрстуфхцчшщыьэюя") -> str:
    """Make a text of so many bytes that Postgres cannot compress much, in letters of two bytes."""
    return "".join(_random.choices(letters, k=size // 2)) + "x" * (size % 2)


SCHEDULE = NewSchedule("s", WORKFLOW, GROUP, "{}", "0 9 * * *", "UTC", next_at=1_000_060.0)
EVENT = NewAuditEvent("e", AuditKind.COMMENTED, "q")
WORKER = WorkerInfo("w", "host", 1, 1.0, GROUP)
DESCRIBED = WorkflowInfo(GROUP, WORKFLOW, "1", True)
DELIVERY = NewDelivery("d", "user:ana", "e", 1, AuditKind.ASKED, "q")
TOKEN = NewToken("t", TokenKind.API_KEY, "0" * 64, "ana")
RULE = NewRule("rule", "ana", "tool", "{}", 2_000_000.0, "q")
AMENDMENT = Amendment(0, None, (), None)

Attack = Callable[[Scene, str], Awaitable[object]]


async def _write(scene: Scene, **what: Any) -> None:
    run = await scene.run("owner")
    await scene.store.append(Write(run.id, run.epoch, **what))


async def _amend(scene: Scene, amendment: Amendment, token: str | None = None) -> None:
    await scene.store.create_promise(replace(question("r", id="q"), run_id=None, n=None))
    await scene.store.amend("q", amendment, token=token)


async def _settle(scene: Scene, request_id: str) -> None:
    await scene.store.create_promise(replace(question("r", id="q"), run_id=None, n=None))
    await scene.settle("q", replace(YES, request_id=request_id))


async def _signal(scene: Scene, request_id: str | None, token: str | None = None) -> None:
    await scene.start()
    await scene.store.signal("r", "go", "1", request_id=request_id, token=token)


def _child(**what: Any) -> NewRun:
    return replace(NewRun("c", WORKFLOW, GROUP, "{}", "owner", 0), **what)


ATTACKS: Mapping[str, Attack] = {
    "run id": lambda scene, long: scene.start(long),
    "workflow": lambda scene, long: scene.start(workflow=long),
    "group": lambda scene, long: scene.start(group=long),
    "session": lambda scene, long: scene.start(session_id=long),
    "parent": lambda scene, long: scene.start(parent_id=long, parent_n=0),
    "concurrency key": lambda scene, long: scene.start(concurrency_key=long, concurrency_limit=1),
    "token of a start": lambda scene, long: scene.store.create_run(_child(), token=long),
    "namespace": lambda scene, long: scene.within(long).start(),
    "child id": lambda scene, long: _write(scene, starts=[_child(id=long)]),
    "child workflow": lambda scene, long: _write(scene, starts=[_child(workflow=long)]),
    "child group": lambda scene, long: _write(scene, starts=[_child(group=long)]),
    "promise of a run": lambda scene, long: _write(scene, opens=[promise("owner", id=long)]),
    "assignee of a run": lambda scene, long: _write(scene, opens=[question("owner", assignees=(long,))]),
    "promise": lambda scene, long: scene.store.create_promise(
        replace(promise("r", id=long), run_id=None, n=None)
    ),
    "assignee": lambda scene, long: _amend(scene, replace(AMENDMENT, assignees=(long,))),
    "token of an amendment": lambda scene, long: _amend(scene, AMENDMENT, long),
    "request of an amendment": lambda scene, long: _amend(scene, replace(AMENDMENT, request_id=long)),
    "rule": lambda scene, long: _amend(
        scene, replace(AMENDMENT, settlement=YES, rule=replace(RULE, id=long))
    ),
    "rule of a session": lambda scene, long: _amend(
        scene, replace(AMENDMENT, settlement=YES, rule=replace(RULE, session_id=long))
    ),
    "request of an answer": _settle,
    "request of a signal": _signal,
    "token of a signal": lambda scene, long: _signal(scene, None, long),
    "event": lambda scene, long: scene.store.record([replace(EVENT, id=long)]),
    "question of an event": lambda scene, long: scene.store.record([replace(EVENT, question_id=long)]),
    "run of an event": lambda scene, long: scene.store.record([replace(EVENT, run_id=long)]),
    "API key": lambda scene, long: scene.store.create_token(replace(TOKEN, id=long)),
    "subject of a key": lambda scene, long: scene.store.create_token(replace(TOKEN, subject=long)),
    "question of a link": lambda scene, long: scene.store.create_token(replace(TOKEN, question_id=long)),
    "channel": lambda scene, long: scene.store.expand(long, None, 1, []),
    "delivery": lambda scene, long: scene.store.expand("mail", None, 1, [replace(DELIVERY, id=long)]),
    "recipient": lambda scene, long: scene.store.expand("mail", None, 1, [replace(DELIVERY, recipient=long)]),
    "question of a delivery": lambda scene, long: scene.store.expand(
        "mail", None, 1, [replace(DELIVERY, question_id=long)]
    ),
    "paused group": lambda scene, long: scene.store.pause_group(long),
    "resumed group": lambda scene, long: scene.store.resume_group(long),
    "limited group": lambda scene, long: scene.store.limit_group(long, max_running=1),
    "schedule": lambda scene, long: scene.store.put_schedule(replace(SCHEDULE, id=long)),
    "workflow of a schedule": lambda scene, long: scene.store.put_schedule(replace(SCHEDULE, workflow=long)),
    "group of a schedule": lambda scene, long: scene.store.put_schedule(replace(SCHEDULE, group=long)),
    "worker": lambda scene, long: scene.store.enlist(replace(WORKER, id=long)),
    "group of a worker": lambda scene, long: scene.store.enlist(replace(WORKER, group=long)),
    "worker that claims": lambda scene, long: scene.claim(worker=long),
    "token of a claim": lambda scene, long: scene.claim(token=long),
    "described workflow": lambda scene, long: scene.store.announce([replace(DESCRIBED, name=long)]),
    "described version": lambda scene, long: scene.store.announce([replace(DESCRIBED, version=long)]),
}


@pytest.mark.parametrize("size", [2_720, 5_000])
@rule
async def test_what_no_index_can_hold_is_refused_by_every_store(scene: Scene, size: int) -> None:
    accepted: dict[str, str] = {}
    for place, (name, attack) in enumerate(ATTACKS.items()):
        try:
            await attack(scene.within(f"n{place}"), text(size))
        except InvalidValue:
            continue
        except Exception as error:
            accepted[name] = repr(error)[:200]
        else:
            accepted[name] = "accepted"
    assert accepted == {}


@rule
async def test_what_is_as_long_as_it_may_be_fits_into_all_indexes(scene: Scene) -> None:
    """Each row has the longest of everything at once, as any caller of the store may write it."""
    here = scene.within(text(LONGEST_NAMESPACE_BYTES))
    store, name = here.store, text(LONGEST_NAME_BYTES)
    group, version, person = text(LONGEST_NAME_BYTES), text(LONGEST_NAME_BYTES), text(LONGEST_PERSON_BYTES)
    parent, child, joined, asked, session = (text(LONGEST_ID_BYTES) for _ in range(5))
    worker, request = text(LONGEST_NAME_BYTES), text(LONGEST_REQUEST_BYTES)

    await here.start(
        parent,
        workflow=name,
        group=group,
        session_id=session,
        concurrency_key=person,
        concurrency_limit=1,
        start_at=None,
    )
    await store.enlist(replace(WORKER, id=worker, group=group))
    token = text(LONGEST_NAME_BYTES)
    [claim] = await here.claim(worker=worker, workflows=[name], group=group, token=token)
    await store.create_promise(replace(promise(parent, id=joined), run_id=None, n=None))
    write = Write(
        parent,
        claim.run.epoch,
        opens=[
            promise(parent, 0, id=joined),
            question(parent, 1, id=asked, assignees=(person,), act_at=1_000_500.0, callback="1" * 64),
        ],
        starts=[_child(id=child, workflow=name, group=group, parent_id=parent)],
    )
    assert await store.pause(write, wakes=0, wake_at=1_000_100.0)
    await store.signal(parent, "go", "1", request_id=request)
    rule = replace(RULE, id=text(LONGEST_ID_BYTES), question_id=asked, run_id=parent)
    events = (replace(EVENT, id=text(LONGEST_ID_BYTES), question_id=asked, run_id=parent),)
    token = text(LONGEST_NAME_BYTES)
    await store.amend(
        asked,
        replace(AMENDMENT, assignees=(person,), events=events, request_id=text(LONGEST_REQUEST_BYTES)),
        token=token,
    )
    settlement = replace(YES, request_id=text(LONGEST_REQUEST_BYTES))
    await store.amend(
        asked, replace(AMENDMENT, version=1, settlement=settlement, rule=rule), token=text(LONGEST_NAME_BYTES)
    )
    events = await store.unsealed(100)
    if events:  # a server keeps them from remote stores
        seals = [Seal(seq, event.id, f"{seq:064}") for seq, event in enumerate(events)]
        await here.store.seal(seals)
    await store.create_token(
        replace(TOKEN, id=text(LONGEST_ID_BYTES), subject=person, question_id=asked, kind=TokenKind.LINK)
    )
    channel = text(LONGEST_NAMESPACE_BYTES)
    delivery = replace(
        DELIVERY,
        id=text(LONGEST_ID_BYTES),
        recipient=person,
        event_id=child,
        question_id=asked,
        run_id=parent,
    )
    await store.expand(channel, None, 1, [delivery])
    await store.limit_group(group, max_running=1)
    await store.announce([replace(DESCRIBED, name=name, group=group, version=version)])
    schedule = replace(SCHEDULE, id=text(LONGEST_CHOSEN_BYTES), workflow=name, group=group)
    await store.put_schedule(replace(schedule, concurrency_key=person, concurrency_limit=1))
    scene.clock.advance(100)
    run = _child(id=f"{schedule.id}:2026-01-01T09:00+01:00", workflow=name, group=group, parent_id=None)
    assert await store.fire_schedule(schedule.id, schedule.next_at, [run], 2_000_000.0)
    await store.limit_group(group)
    while claims := await here.claim(worker=worker, workflows=[name], group=group):
        for each in claims:
            await here.complete(each.run, SUCCESS)
    assert (await store.get_run(child)).state.is_final


@rule
async def test_one_write_that_is_too_long_harms_no_other_of_its_batch(scene: Scene) -> None:
    works = [scene.start(f"r{n}") for n in range(5)] + [scene.start(workflow=text(5_000))]
    results = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(each, Exception) for each in results] == [False] * 5 + [True]
