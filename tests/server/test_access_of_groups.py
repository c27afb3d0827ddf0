"""What worker keys open of groups, schedules and questions."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, cast

import pytest

from signoff import Action
from signoff.errors import AccessDenied, NotFound
from signoff.people.questions.answers import answer
from signoff.people.questions.question import Question
from signoff.records import (
    Amendment,
    AuditKind,
    Group,
    NewAuditEvent,
    NewPromise,
    NewRule,
    NewRun,
    NewSchedule,
    PromiseKind,
    PromiseState,
    Seal,
    Settlement,
    WorkerInfo,
)
from signoff.server.store_api.access import Access, do_for
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Store
from signoff.testing import MemoryStore, VirtualClock
from tests.support import in_asyncio

OF_GPU = Access("key", "default", frozenset({"gpu"}))


@in_asyncio
async def test_a_key_for_some_groups_lists_them_and_pauses_or_limits_none() -> None:
    store = MemoryStore()
    for group in ("gpu", "night"):
        await store.create_run(NewRun(group, "refund", group, "{}"))
    assert await do_for(OF_GPU, store, "list_groups", {}) == [Group("gpu", ready=1)]
    for operation in ("pause_group", "resume_group", "limit_group"):
        with pytest.raises(AccessDenied):
            await do_for(OF_GPU, store, operation, {"name": "gpu"})


@in_asyncio
async def test_the_server_fires_all_schedules_and_shows_keys_none_of_others() -> None:
    store = MemoryStore(clock=VirtualClock(60.0))
    secret = NewSchedule("s", "refund", "gpu", "{}", "* * * * *", "UTC", next_at=60.0)
    await store.within("acme").put_schedule(secret)
    assert await do_for(OF_GPU, store, "due_schedules", {"limit": 9}) == ([], None)
    due, _ = await store.due_schedules(9)
    assert [schedule.id for schedule in due] == ["s"]


@pytest.mark.parametrize("key", [OF_GPU, Access("key", "default")], ids=["groups", "namespace"])
@in_asyncio
async def test_policy_timers_and_sealing_are_done_by_the_server_alone(key: Access) -> None:
    store = MemoryStore(clock=VirtualClock(60.0))
    for each in (store, store.within("acme")):
        await each.create_promise(NewPromise("q", PromiseKind.QUESTION, act_at=60.0))
    await store.record([NewAuditEvent("e", AuditKind.VIEWED, "q")])
    assert await do_for(key, store, "due_questions", {"limit": 9}) == ([], None)
    assert await do_for(key, store, "unsealed", {"limit": 9}) == []
    with pytest.raises(AccessDenied):
        await do_for(key, store, "seal", {"seals": [Seal(0, "e", "forged")]})
    assert await store.read_chain() == []
    assert await do_for(key, store, "due", {}) is None
    due, _ = await store.due_questions(9)
    assert len(due) == 2
    assert len(await store.unsealed(9)) == 3


@in_asyncio
async def test_a_key_for_some_groups_uses_no_rules_and_its_people_answer_instead() -> None:
    store = MemoryStore(clock=VirtualClock(60.0))
    await store.create_run(NewRun("r", "refund", "gpu", "{}"))
    [claim] = await store.claim("w", "gpu", ["refund"], 1)
    data = Question.make("Send?", action=Action("mail", {})).to_json()
    new = NewPromise("r.0", PromiseKind.QUESTION, "r", 0, data=data, act_at=60.0)
    await store.append(Write("r", claim.run.epoch, opens=[new]))
    rule = NewRule("x", "ana", "mail", "{}", 99.0, "r.0")
    settlement = Settlement(PromiseState.RESOLVED, "1")
    for change in ({"rule": rule}, {"by_rule": "x"}):
        amendment = Amendment(0, None, (), None, settlement, **change)  # type: ignore[arg-type]
        with pytest.raises(AccessDenied, match="rules are for all"):
            await do_for(OF_GPU, store, "amend", {"question_id": "r.0", "amendment": amendment})

    class Far:
        """The store as it is seen with that key."""

        namespace, clock = store.namespace, store.clock

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **more: do_for(OF_GPU, store, name, _named(store, name, args, more))

    answered = await answer(cast("Store", Far()), "r.0", True, user_id="ana")
    assert answered.state is PromiseState.RESOLVED


def _named(store: MemoryStore, name: str, args: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    return dict(inspect.signature(getattr(store, name)).bind(*args, **more).arguments)


# What runs of other groups wait for


async def with_runs() -> tuple[MemoryStore, int]:
    """A store with a run of each of two groups; the epoch of the one that is held, of the group that is open."""
    store = MemoryStore()
    await store.create_run(NewRun("theirs", "refund", "pay", "{}", started_by="user:bob"))
    await store.create_run(NewRun("mine", "refund", "gpu", "{}", started_by="user:eve"))
    [claim] = await store.claim("w", "gpu", ["refund"], 1)
    return store, claim.run.epoch


def child(id: str = "mine.1", **more: Any) -> NewRun:
    told: dict[str, Any] = {"parent_id": "mine", "parent_n": 1, "started_by": "user:eve", **more}
    return NewRun(id, "score", "pay", "{}", **told)


@pytest.mark.parametrize(
    "new",
    [
        child(parent_id="theirs"),
        child(parent_id=None),
        child(parent_n=None),
        child(started_by="user:boss"),
        child(started_by=None),
        child(session_id="c-1"),
        child("theirs.1"),
        child("unborn.1"),
        child("mine.2.1"),
        child("theirs"),
    ],
    ids=str,
)
@in_asyncio
async def test_a_run_starts_own_children_and_joins_none_its_key_cannot_see(new: NewRun) -> None:
    store, epoch = await with_runs()
    with pytest.raises(AccessDenied):
        await do_for(OF_GPU, store, "append", {"write": Write("mine", epoch, starts=[new])})
    with pytest.raises(NotFound):
        await store.get_run("theirs.1")


@in_asyncio
async def test_a_key_for_a_namespace_starts_no_children_of_foreign_runs() -> None:
    store, epoch = await with_runs()
    for new in (child(parent_id="theirs"), child(started_by="user:boss")):
        with pytest.raises(AccessDenied):
            await do_for(
                Access("key", "default"), store, "append", {"write": Write("mine", epoch, starts=[new])}
            )


@pytest.mark.parametrize(
    "new", [child(), child("chosen"), child("detached", parent_id=None, parent_n=None)], ids=str
)
@in_asyncio
async def test_a_run_starts_children_in_any_group(new: NewRun) -> None:
    store, epoch = await with_runs()
    await do_for(OF_GPU, store, "append", {"write": Write("mine", epoch, starts=[new])})
    assert (await store.get_run(new.id)).group == "pay"


@in_asyncio
async def test_no_worker_key_starts_a_run_that_another_waits_for() -> None:
    store, _ = await with_runs()
    new = NewRun("evil", "score", "gpu", "{}", parent_id="theirs", parent_n=1)
    for key in (OF_GPU, Access("key", "default")):
        with pytest.raises(AccessDenied, match="starts its children itself"):
            await do_for(key, store, "create_run", {"new": new})


@pytest.mark.parametrize("id", ["theirs.1", "unborn.7", "theirs.1.2"])
@in_asyncio
async def test_ids_of_calls_of_other_groups_runs_are_kept_for_these(id: str) -> None:
    store, epoch = await with_runs()
    for name, arguments in (
        ("create_run", {"new": NewRun(id, "score", "gpu", "{}")}),
        ("create_promise", {"new": NewPromise(id)}),
        ("append", {"write": Write("mine", epoch, opens=[NewPromise(id, run_id="mine", n=1)])}),
    ):
        with pytest.raises(AccessDenied, match="reserved for a call of run"):
            await do_for(OF_GPU, store, name, arguments)
    for name, arguments in (
        ("create_run", {"new": NewRun("mine.1", "score", "gpu", "{}")}),
        ("create_promise", {"new": NewPromise("mine.2")}),
        ("create_promise", {"new": NewPromise("v1.x")}),
        ("append", {"write": Write("mine", epoch, opens=[NewPromise("mine.3", run_id="mine", n=3)])}),
    ):
        await do_for(OF_GPU, store, name, arguments)


@in_asyncio
async def test_a_promise_of_another_groups_run_is_not_joined() -> None:
    store, epoch = await with_runs()
    [claim] = await store.claim("v", "pay", ["refund"], 1)
    await store.append(Write("theirs", claim.run.epoch, opens=[NewPromise("iban", run_id="theirs", n=1)]))
    write = Write("mine", epoch, opens=[NewPromise("iban", run_id="mine", n=1)])
    with pytest.raises(AccessDenied, match="theirs"):
        await do_for(OF_GPU, store, "append", {"write": write})


@in_asyncio
async def test_a_worker_of_others_on_the_register_is_not_replaced() -> None:
    store = MemoryStore()
    theirs = WorkerInfo("w", "host", 7, 60.0, "pay")
    await store.enlist(theirs)
    for key in (OF_GPU, Access("key", "acme")):
        bound = store.within(key.namespace or "default")
        worker = replace(theirs, namespace=bound.namespace, group="gpu")
        with pytest.raises(AccessDenied, match="has registered"):
            await do_for(key, bound, "enlist", {"worker": worker})
    assert [(each.namespace, each.group) for each in await store.list_workers()] == [("default", "pay")]
