"""What worker keys open of groups, schedules and questions."""

from __future__ import annotations

import pytest

from signoff.errors import AccessDenied
from signoff.records import (
    AuditKind,
    Group,
    NewAuditEvent,
    NewPromise,
    NewRun,
    NewSchedule,
    PromiseKind,
    Seal,
)
from signoff.server.access import Access, do_for
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
