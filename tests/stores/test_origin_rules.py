"""The store's rules for origins: each action is stored with its origin, in every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from signoff.codec.ciphers import MARK, Ciphers, EncryptionKey
from signoff.errors import AlreadySettled, InvalidValue
from signoff.people.audit.hash_chain import GENESIS, hash_of, verify
from signoff.people.audit.sealing import seal_events
from signoff.records import (
    AuditEvent,
    AuditKind,
    NewAuditEvent,
    NewPromise,
    NewRule,
    Origin,
    OriginWay,
    PromiseKind,
)
from signoff.records.origins import TIMER
from signoff.records.paging import AuditFilter
from signoff.stores.wrappers.encrypted import encrypted
from signoff.stores.wrappers.origin_stamping import origin_stamped
from signoff.stores.wrappers.store_wrapper import unwrapped
from signoff.testing import MemoryStore
from tests.stores.question_changes import amendment, ask, trail, voted
from tests.stores.scene import YES, Scene, question, rule
from tests.support import in_asyncio

LINK = Origin(OriginWay.LINK, "l1", address="10.0.0.7")
KEY = Origin(OriginWay.KEY, "k1", "service:shop", "2001:db8::7")
BY_LINK = replace(YES, request_id="link:l1", origin=LINK)


async def origins(scene: Scene, kind: AuditKind) -> list[Origin | None]:
    return [event.origin for event in await trail(scene) if event.kind is kind]


# What is done through a store that states an origin of its own has that one, whatever is said


@rule
async def test_an_answer_is_kept_with_where_it_came_from(scene: Scene) -> None:
    asked = await ask(scene)
    assert asked.origin is None
    settled, _ = await scene.settle("r.0", BY_LINK)
    assert settled.origin == (scene.origin or LINK)
    assert await scene.store.get_promise("r.0") == settled
    assert await origins(scene, AuditKind.ASKED) == [None]
    assert await origins(scene, AuditKind.RESOLVED) == [settled.origin]


@rule
async def test_a_repeated_answer_from_elsewhere_keeps_the_first_origin(scene: Scene) -> None:
    await ask(scene)
    settled, _ = await scene.settle("r.0", BY_LINK)
    assert await scene.settle("r.0", replace(BY_LINK, origin=KEY)) == (settled, False)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0", replace(YES, origin=KEY))
    assert (await scene.store.get_promise("r.0")).origin == settled.origin


@rule
async def test_a_promise_keeps_from_where_it_was_settled(scene: Scene) -> None:
    await scene.store.create_promise(NewPromise("paid"))
    settled, _ = await scene.settle("paid", replace(YES, origin=KEY), kind=PromiseKind.PROMISE)
    assert settled.origin == (scene.origin or KEY)


@rule
async def test_an_amendments_records_and_settlement_keep_its_origin(scene: Scene) -> None:
    asked = await ask(scene)
    made = amendment(asked, act_at=None, settlement=BY_LINK, events=(voted("e1", origin=KEY), voted("e2")))
    settled, _ = await scene.store.amend("r.0", made)
    assert settled.origin == (scene.origin or LINK)
    assert await origins(scene, AuditKind.VOTED) == [scene.origin or KEY, scene.origin]
    assert await origins(scene, AuditKind.RESOLVED) == [scene.origin or LINK]


@rule
async def test_an_event_is_kept_with_where_it_came_from(scene: Scene) -> None:
    await scene.store.record([voted("e1", origin=KEY), voted("e2", origin=LINK), voted("e3")])
    assert await origins(scene, AuditKind.VOTED) == [scene.origin or KEY, scene.origin or LINK, scene.origin]


@rule
async def test_who_revokes_a_rule_is_kept_with_where_they_did(scene: Scene) -> None:
    asked = await ask(scene)
    made = NewRule("x", "ana", "mail", "{}", scene.clock.now() + 60, "r.0", "r")
    await scene.store.amend("r.0", amendment(asked, act_at=None, settlement=YES, rule=made))
    event = NewAuditEvent("e1", AuditKind.RULE_REVOKED, "r.0", "r", "user:ana", origin=KEY)
    await scene.store.revoke_rule("x", event)
    assert await origins(scene, AuditKind.RULE_REVOKED) == [scene.origin or KEY]


@rule
async def test_an_unanswered_question_is_closed_by_the_timer(scene: Scene) -> None:
    for run_id in ("late", "r"):
        await ask(scene, run_id, due_at=scene.clock.now() + 5)
    scene.clock.advance(5)
    with pytest.raises(AlreadySettled):
        await scene.settle("r.0", BY_LINK)
    await scene.store.due()
    assert await origins(scene, AuditKind.TIMED_OUT) == [TIMER, TIMER]
    assert (await scene.store.get_promise("late.0")).origin == TIMER


@rule
async def test_what_the_end_of_a_run_closes_comes_from_nowhere(scene: Scene) -> None:
    run = await scene.run()
    await scene.append(run, opens=[question("r")])
    await scene.complete(run)
    assert await origins(scene, AuditKind.CANCELLED) == [None]


@rule
async def test_an_origin_that_cannot_be_kept_is_refused(scene: Scene) -> None:
    if scene.origin is not None:
        return  # it states its own
    with pytest.raises(InvalidValue, match="origin.address"):
        await scene.store.record([voted("e1", origin=replace(LINK, address="a\0"))])
    assert await trail(scene) == []


# Stating it


@rule
async def test_a_store_that_states_an_origin_states_it_of_all_that_says_none(scene: Scene) -> None:
    asked = await ask(scene)
    store = origin_stamped(scene.store, KEY)
    await store.record([voted("e1"), voted("e2", origin=LINK)])
    await store.amend("r.0", amendment(asked, settlement=YES, act_at=None, events=(voted("e3"),)))
    assert await origins(scene, AuditKind.VOTED) == [scene.origin or each for each in (KEY, LINK, KEY)]
    assert await origins(scene, AuditKind.RESOLVED) == [scene.origin or KEY]
    outer = origin_stamped(origin_stamped(scene.within("other").store, KEY).within("other"), LINK)
    await outer.record([voted("e1")])
    [event] = await trail(scene.within("other"))
    assert event.origin == (scene.origin or LINK)
    assert unwrapped(outer) is unwrapped(unwrapped(outer))


@in_asyncio
async def test_a_lease_through_a_view_of_a_store_is_as_long_as_the_view_says() -> None:
    ciphers = Ciphers([EncryptionKey("k", b"k" * 32)])
    for view in (origin_stamped(MemoryStore(), KEY), encrypted(MemoryStore(), ciphers)):
        view.lease_seconds = 90.0
        assert unwrapped(view).lease_seconds == 90.0


@in_asyncio
async def test_addresses_are_encrypted_at_rest_and_the_chain_needs_no_key() -> None:
    inner = MemoryStore()
    store = encrypted(inner, Ciphers([EncryptionKey("k", b"k" * 32)]), refuses_plaintext=True)
    scene = Scene(store, inner.clock, inner.clock)  # pyright: ignore[reportArgumentType]
    await ask(scene)
    await store.record([voted("e1", origin=KEY)])
    await scene.settle("r.0", BY_LINK)
    await seal_events(store)
    kept = [event.origin for event in (await inner.list_audit(AuditFilter())).items if event.origin]
    kept.append((await inner.get_promise("r.0")).origin or TIMER)
    assert [origin.way for origin in kept] == ["key", "link", "link"]
    assert all((origin.address or "").startswith(MARK) for origin in kept)
    read = [event.origin for event in (await store.list_audit(AuditFilter())).items if event.origin]
    assert [*read, (await store.get_promise("r.0")).origin] == [KEY, LINK, LINK]
    assert (await verify(inner)).problems == (await verify(store)).problems == ()


def test_an_event_without_an_origin_has_the_hash_of_its_other_fields() -> None:
    event = AuditEvent("default", "e1", 1.5, AuditKind.VOTED, "r.0", "r", "user:ana", '{"approved": true}')
    before = "0a0ab395d5fd002c5cf659b1e23b92e89e6a0578f0fde23f85acee18b1369c0d"
    assert hash_of(GENESIS, event) == before
    assert hash_of(GENESIS, replace(event, origin=LINK)) != before
