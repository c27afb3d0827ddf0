"""What worker keys open of groups, schedules and questions."""

from __future__ import annotations

import inspect
from typing import Any, cast

import pytest

from signoff import Action
from signoff.errors import AccessDenied
from signoff.people.answers import answer
from signoff.people.questions import Question
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
)
from signoff.server.access import Access, do_for
from signoff.stores.base import Store, Write
from signoff.testing import MemoryStore, VirtualClock
from tests.support import in_asyncio

OF_GPU = Access("key", "default", frozenset({"gpu"}))


@in_asyncio
async def test_a_key_for_some_groups_sees_these_and_neither_pauses_nor_limits_any() -> None:
    store = MemoryStore()
    for group in ("gpu", "night"):
        await store.create_run(NewRun(group, "refund", group, "{}"))
    assert await do_for(OF_GPU, store, "list_groups", {}) == [Group("gpu", ready=1)]
    for operation in ("pause_group", "resume_group", "limit_group"):
        with pytest.raises(AccessDenied):
            await do_for(OF_GPU, store, operation, {"name": "gpu"})


@in_asyncio
async def test_schedules_of_the_whole_database_are_fired_by_the_server_and_not_shown_to_keys() -> None:
    store = MemoryStore(clock=VirtualClock(60.0))
    secret = NewSchedule("s", "refund", "gpu", "{}", "* * * * *", "UTC", next_at=60.0)
    await store.within("acme").put_schedule(secret)
    assert await do_for(OF_GPU, store, "due_schedules", {"limit": 9}) == ([], None)
    due, _ = await do_for(Access("local"), store, "due_schedules", {"limit": 9})
    assert [schedule.id for schedule in due] == ["s"]


@pytest.mark.parametrize("key", [OF_GPU, Access("key", "default")], ids=["groups", "namespace"])
@in_asyncio
async def test_what_policies_have_to_do_and_the_sealing_of_the_trail_are_the_servers(key: Access) -> None:
    store = MemoryStore(clock=VirtualClock(60.0))
    for each in (store, store.within("acme")):
        await each.create_promise(NewPromise("q", PromiseKind.QUESTION, act_at=60.0))
    await store.record([NewAuditEvent("e", AuditKind.VIEWED, "q")])
    assert await do_for(key, store, "due_questions", {"limit": 9}) == ([], None)
    assert await do_for(key, store, "unsealed", {"limit": 9}) == []
    with pytest.raises(AccessDenied):
        await do_for(key, store, "seal", {"seals": [Seal(0, "e", "forged")]})
    assert await store.read_chain() == []
    due, _ = await do_for(Access("local"), store, "due_questions", {"limit": 9})
    assert len(due) == 2
    assert len(await do_for(Access("local"), store, "unsealed", {"limit": 9})) == 3
    assert await do_for(Access("local"), store, "seal", {"seals": [Seal(0, "e", "h")]})


@in_asyncio
async def test_a_key_for_some_groups_makes_and_uses_no_rules_and_its_people_answer_without_them() -> None:
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
