"""The store's rules for notifications."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from signoff.errors import InvalidValue, NotFound
from signoff.records import AuditKind
from signoff.records.deliveries import Delivery, DeliveryState, NewDelivery, Report
from signoff.records.paging import DeliveryFilter
from signoff.stores.contract.store import Change
from tests.stores.scene import Scene, rule, until

NEW = NewDelivery("d1", "user:ana", "e1", 7, AuditKind.ASKED, "r.0", "r")
NOW = 1_000_000.0
DONE = Report(DeliveryState.DELIVERED)
ANY = DeliveryFilter()


async def made(scene: Scene, *deliveries: NewDelivery, channel: str = "mail") -> None:
    """Have a channel make deliveries of its next event."""
    cursor = await scene.store.read_cursor(channel)
    assert await scene.store.expand(channel, cursor, 0 if cursor is None else cursor + 1, deliveries)


async def claimed(scene: Scene, *, channel: str = "mail", limit: int = 100) -> list[Delivery]:
    return list((await scene.store.claim_deliveries(channel, limit, 60.0))[0])


async def finished(scene: Scene, delivery: Delivery, report: Report = DONE) -> None:
    await scene.store.finish_delivery(delivery.id, delivery.attempts, report)


async def listed(scene: Scene, which: DeliveryFilter = ANY) -> list[str]:
    return [each.id for each in (await scene.store.list_deliveries(which)).items]


async def found(scene: Scene, id: str = "d1") -> Delivery:
    [delivery] = [each for each in (await scene.store.list_deliveries(ANY)).items if each.id == id]
    return delivery


@rule
async def test_a_channel_that_never_began_begins_where_it_is_configured(scene: Scene) -> None:
    assert await scene.store.read_cursor("mail") is None
    assert not await scene.store.expand("mail", 3, 4, [NEW])
    assert await scene.store.expand("mail", None, -1, [])
    assert await scene.store.read_cursor("mail") == -1
    assert await scene.store.read_cursor("chat") is None
    assert await listed(scene) == []


@rule
async def test_a_delivery_is_as_it_was_made(scene: Scene) -> None:
    await made(scene, NEW)
    expected = Delivery(
        "default", "d1", "mail", "user:ana", "e1", 7, AuditKind.ASKED, "r.0", DeliveryState.PENDING, NOW, "r", NOW
    )  # fmt: skip
    assert await found(scene) == expected
    assert await claimed(scene) == [replace(expected, attempts=1, due_at=NOW + 60)]


@rule
async def test_of_many_that_move_a_channel_on_one_makes_the_deliveries(scene: Scene) -> None:
    await made(scene)
    made_by = [scene.store.expand("mail", 0, 1, [replace(NEW, id=f"d{k}")]) for k in range(5)]
    assert sorted(await asyncio.gather(*made_by)) == [False] * 4 + [True]
    assert len(await listed(scene)) == 1
    begun = [scene.store.expand("chat", None, k, []) for k in range(5)]
    assert sorted(await asyncio.gather(*begun)) == [False] * 4 + [True]


@rule
async def test_a_delivery_whose_id_is_taken_is_left_as_it_is(scene: Scene) -> None:
    await made(scene, NEW)
    await made(scene, replace(NEW, recipient="user:bob"))
    assert (await found(scene)).recipient == "user:ana"


@rule
async def test_a_claimed_delivery_is_exclusive_until_its_lease_expires(scene: Scene) -> None:
    await made(scene, NEW)
    [first] = await claimed(scene)
    assert await claimed(scene) == []
    scene.clock.advance(59)
    assert await scene.store.claim_deliveries("mail", 10, 60.0) == ([], NOW + 60)
    scene.clock.advance(1)
    [second] = await claimed(scene)
    assert (second.id, first.attempts, second.attempts) == ("d1", 1, 2)
    await finished(scene, first, Report(DeliveryState.DEAD, error="late"))
    assert (await found(scene)).state is DeliveryState.PENDING, "the first one's lease had run out"
    await finished(scene, second)
    assert (await found(scene)).state is DeliveryState.DELIVERED


@rule
async def test_of_many_that_claim_each_gets_others(scene: Scene) -> None:
    await made(scene, *(replace(NEW, id=f"d{k}", question_id=f"q{k}") for k in range(20)))
    taken = await asyncio.gather(*(claimed(scene, limit=4) for _ in range(8)))
    ids = [each.id for some in taken for each in some]
    assert len(ids) == len(set(ids))
    ids += [each.id for each in await claimed(scene)]
    assert sorted(ids) == sorted(f"d{k}" for k in range(20))


@rule
async def test_a_recipient_gets_a_questions_messages_in_order(scene: Scene) -> None:
    await made(scene, NEW)
    await made(scene, replace(NEW, id="d2", kind=AuditKind.REMINDED))
    await made(scene, replace(NEW, id="d3", kind=AuditKind.RESOLVED))
    [first] = await claimed(scene)
    await finished(scene, first, Report(DeliveryState.PENDING, due_at=NOW + 3600, error="down"))
    assert await scene.store.claim_deliveries("mail", 10, 60.0) == ([], NOW + 3600)
    scene.clock.advance(3600)
    for id in ("d1", "d2", "d3"):
        [delivery] = await claimed(scene)
        assert delivery.id == id
        await finished(scene, delivery)
    assert await scene.store.claim_deliveries("mail", 10, 60.0) == ([], None)


@rule
async def test_others_are_not_held_up_by_one_that_waits(scene: Scene) -> None:
    await made(scene, NEW)
    [first] = await claimed(scene)
    await finished(scene, first, Report(DeliveryState.PENDING, due_at=NOW + 3600, error="down"))
    await made(
        scene,
        replace(NEW, id="d2"),
        replace(NEW, id="d3", recipient="user:bob"),
        replace(NEW, id="d4", question_id="r.1"),
    )
    await made(scene, replace(NEW, id="d5"), channel="chat")
    assert [each.id for each in await claimed(scene)] == ["d3", "d4"]
    assert [each.id for each in await claimed(scene, channel="chat")] == ["d5"]
    assert await claimed(scene.within("acme")) == []


@rule
async def test_one_that_is_given_up_lets_the_next_one_go(scene: Scene) -> None:
    await made(scene, NEW, replace(NEW, id="d2"))
    for id, state in (("d1", DeliveryState.DEAD), ("d2", DeliveryState.DROPPED)):
        [delivery] = await claimed(scene)
        await finished(scene, delivery, Report(state, error="gone"))
        ended = await found(scene, id)
        assert (ended.state, ended.error, ended.due_at, ended.ended_at) == (state, "gone", None, NOW)


@rule
async def test_a_report_is_taken_once(scene: Scene) -> None:
    await made(scene, NEW)
    [delivery] = await claimed(scene)
    again = Report(DeliveryState.PENDING, due_at=NOW + 5, error="down")
    for _ in range(2):
        await finished(scene, delivery, again)
    await finished(scene, delivery)
    await finished(scene, delivery, Report(DeliveryState.DEAD))
    await finished(scene, delivery, again)
    assert (await found(scene)).state is DeliveryState.DELIVERED
    await scene.store.finish_delivery("nobody", 1, DONE)


@rule
async def test_what_has_ended_is_sent_again_at_the_end_of_its_lane(scene: Scene) -> None:
    heard: list[Change] = []
    await made(scene, NEW, replace(NEW, id="d2"), replace(NEW, id="d3"))
    [first] = await claimed(scene)
    await finished(scene, first, Report(DeliveryState.DEAD, error="gone"))
    scene.clock.advance(5)
    stop = await scene.listen(heard)
    again = await scene.store.redeliver("d1")
    await until(lambda: any(change.due for change in heard))
    stop()
    assert (again.state, again.created_at, again.due_at, again.error, again.attempts) == (
        DeliveryState.PENDING, NOW + 5, None, None, 1
    )  # fmt: skip
    assert await scene.store.redeliver("d1") == again, "it is pending, and stays as it is"
    sent: list[str] = []
    while some := await claimed(scene):
        [delivery] = some
        sent.append(delivery.id)
        await finished(scene, delivery)
    assert sent == ["d2", "d3", "d1"]
    assert (await scene.store.redeliver("d2")).due_at == NOW + 5
    with pytest.raises(NotFound):
        await scene.store.redeliver("d4")
    with pytest.raises(NotFound):
        await scene.within("acme").store.redeliver("d1")


@rule
async def test_deliveries_are_listed_newest_first_in_pages_and_by_what_they_are(scene: Scene) -> None:
    await made(scene, NEW, replace(NEW, id="d2", question_id="q"), replace(NEW, id="d3", recipient="b"))
    await made(scene, replace(NEW, id="d4"), channel="chat")
    await made(scene.within("acme"), replace(NEW, id="d5"))
    await finished(scene, (await claimed(scene, limit=1))[0])
    page = await scene.store.list_deliveries(ANY, limit=3)
    assert [each.id for each in page.items] == ["d4", "d3", "d2"]
    rest = await scene.store.list_deliveries(ANY, after=page.next, limit=3)
    assert ([each.id for each in rest.items], rest.next) == (["d1"], None)
    pending = DeliveryState.PENDING
    assert await listed(scene, DeliveryFilter(state=pending)) == ["d4", "d3", "d2"]
    assert await listed(scene, DeliveryFilter(channel="mail")) == ["d3", "d2", "d1"]
    assert await listed(scene, DeliveryFilter(pending, "mail")) == ["d3", "d2"]
    assert await listed(scene, DeliveryFilter(question_id="q")) == ["d2"]
    assert await listed(scene, DeliveryFilter(pending, "chat", "r.0")) == ["d4"]
    assert await listed(scene.within("acme")) == ["d5"]


@rule
async def test_what_ended_long_ago_is_deleted_and_nothing_else(scene: Scene) -> None:
    await made(scene, *(replace(NEW, id=f"d{k}", question_id=f"q{k}") for k in range(4)))
    for delivery in (await claimed(scene))[:2]:
        await finished(scene, delivery)
    scene.clock.advance(100)
    for delivery in await claimed(scene, limit=1):
        await finished(scene, delivery)
    assert await scene.within("acme").store.delete_deliveries(NOW + 1, 10) == 0
    assert await scene.store.delete_deliveries(NOW, 10) == 0
    assert [await scene.store.delete_deliveries(NOW + 1, 1) for _ in range(3)] == [1, 1, 0]
    assert sorted(await listed(scene)) == ["d2", "d3"]


@rule
async def test_what_no_store_can_keep_is_refused(scene: Scene) -> None:
    for wrong in (replace(NEW, recipient="a\0b"), replace(NEW, id="\ud800")):
        with pytest.raises(InvalidValue):
            await scene.store.expand("mail", None, 0, [wrong])
    await made(scene, NEW)
    with pytest.raises(InvalidValue):
        await scene.store.finish_delivery("d1", 1, Report(DeliveryState.PENDING))
    with pytest.raises(InvalidValue):
        await scene.store.finish_delivery("d1", 1, Report(DeliveryState.DEAD, error="\0"))
    with pytest.raises(InvalidValue):
        await scene.store.list_deliveries(DeliveryFilter(channel="\0"))
