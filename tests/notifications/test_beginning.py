"""A new channel that begins with the questions that are open then."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from signoff.errors import InvalidValue
from signoff.people.audit.sealing import seal_events
from signoff.people.notifications import outbox
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.webhook import WebhookSender
from signoff.people.notifications.outbox import Dispatcher
from signoff.people.questions.question import Question
from signoff.people.questions.question_operations import delegate
from signoff.records import AuditKind
from signoff.records.deliveries import NewDelivery
from signoff.records.responders import Responder
from tests.notifications.asking import SECRET, approve, ask, carry_out, deliveries, dispatching
from tests.notifications.doors import hook, mail
from tests.notifications.receivers import Web, mails, web
from tests.stores.scene import Scene, question, rule


def told(server: Web) -> list[tuple[str, str]]:
    return [(got.json["type"], got.json["data"]["question_id"]) for got in server.got]


async def caught_up(scene: Scene, *dispatchers: Dispatcher) -> None:
    """Have dispatchers take turns until they have seen everything."""
    last = await scene.store.last_seal()
    while last is not None and (await scene.store.read_cursor("hook") or -1) < last.seq:
        await asyncio.gather(*(dispatcher.serve(scene.store) for dispatcher in dispatchers))
    await carry_out(scene, *dispatchers)


@rule
async def test_a_channel_that_begins_with_open_questions_announces_each_once(
    scene: Scene,
) -> None:
    for number in range(5):
        await ask(scene, f"q{number}")
    await approve(scene, "q1")
    await seal_events(scene.store)
    async with web() as server:
        channel = hook(server, begin="open", concurrency=1)
        async with dispatching(scene, channel, begins=False) as dispatcher:
            await carry_out(scene, dispatcher)
            assert told(server) == [("question.asked", f"q{number}") for number in (0, 2, 3, 4)]
            await approve(scene, "q0")
            await carry_out(scene, dispatcher)
            assert told(server)[4:] == [("question.resolved", "q0")]
        async with dispatching(scene, channel, begins=False) as again:
            await carry_out(scene, again)
        assert len(server.got) == 5, "it is no new channel any more"


@rule
async def test_current_assignees_are_notified_and_former_ones_are_not(scene: Scene) -> None:
    await ask(scene, assignees=["user:ana"])
    await delegate(scene.store, "q", Responder("ana"), ["user:bob@example.org"])
    await seal_events(scene.store)
    async with mails() as server:
        channel = mail(server.port, begin="open")
        async with dispatching(scene, channel, begins=False) as dispatcher:
            await carry_out(scene, dispatcher)
    assert server.to == ["bob@example.org"]
    [delivery] = await deliveries(scene.store)
    assert delivery.kind is AuditKind.ASKED


@rule
async def test_three_dispatchers_that_begin_at_once_announce_each_question_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AT_ONCE", 3)
    monkeypatch.setattr(outbox, "PAGES_AT_ONCE", 2)
    for number in range(20):
        await ask(scene, f"q{number}")
    for number in range(0, 20, 2):
        await approve(scene, f"q{number}")
    await seal_events(scene.store)
    async with web() as server:
        channels = [hook(server, begin="open") for _ in range(3)]
        async with (
            dispatching(scene, channels[0], begins=False) as one,
            dispatching(scene, channels[1], begins=False) as two,
            dispatching(scene, channels[2], begins=False) as three,
        ):
            await caught_up(scene, one, two, three)
        expected = {("question.asked", f"q{number}"): 1 for number in range(1, 20, 2)}
        assert Counter(told(server)) == expected


@rule
async def test_events_with_many_recipients_are_written_in_parts_and_sent_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MADE_AT_ONCE", 2)
    for number in range(7):
        await ask(scene, f"q{number}")
    await seal_events(scene.store)
    expand, sizes = scene.store.expand, list[int]()

    async def counted(channel: str, expected: int | None, seq: int, made: Sequence[NewDelivery]) -> bool:
        sizes.append(len(made))
        return await expand(channel, expected, seq, made)

    monkeypatch.setattr(scene.store, "expand", counted)
    async with web() as server, dispatching(scene, hook(server, begin="open"), begins=False) as dispatcher:
        await caught_up(scene, dispatcher)
        assert Counter(told(server)) == {("question.asked", f"q{number}"): 1 for number in range(7)}
    assert max(sizes) == 2


@pytest.mark.parametrize("dies_at", [1, 2, 3], ids=["before it begins", "half begun", "at its first events"])
@rule
async def test_if_a_process_dies_while_a_channel_begins_others_take_over(
    scene: Scene, dies_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(scene, "q0")
    await ask(scene, "q1")
    await approve(scene, "q1")
    await seal_events(scene.store)
    expand, calls = scene.store.expand, 0

    async def dies(channel: str, expected: int | None, seq: int, made: Sequence[NewDelivery]) -> bool:
        nonlocal calls
        calls += 1
        if calls == dies_at:
            raise RuntimeError("killed")
        return await expand(channel, expected, seq, made)

    async with web() as server:
        with monkeypatch.context() as patch:
            patch.setattr(scene.store, "expand", dies)
            async with dispatching(scene, hook(server, begin="open"), begins=False) as first:
                await first.serve(scene.store)
                assert first.is_sending is False
        await ask(scene, "q2")
        await seal_events(scene.store)
        async with dispatching(scene, hook(server, begin="open"), begins=False) as second:
            await caught_up(scene, second)
    assert sorted(told(server)) == [("question.asked", "q0"), ("question.asked", "q2")]


@rule
async def test_while_a_channel_catches_up_the_others_have_their_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AT_ONCE", 2)
    monkeypatch.setattr(outbox, "PAGES_AT_ONCE", 1)
    for number in range(9):
        await ask(scene, f"q{number}")
    await seal_events(scene.store)
    async with web() as slow, web() as quick:
        channels = [hook(slow, begin="open"), hook(quick, "quick")]
        async with dispatching(scene, *channels) as dispatcher:  # its first turn: two of nine
            await ask(scene, "new")
            await seal_events(scene.store)
            assert await dispatcher.serve(scene.store) == scene.clock.now(), "it wants another turn at once"
            await carry_out(scene, dispatcher)
            assert told(quick) == [("question.asked", "new")]
            assert len(slow.got) < 9
            for _ in range(5):
                await carry_out(scene, dispatcher)
        assert len(slow.got) == len({got.id for got in slow.got}) == 10


@rule
async def test_a_half_begun_channel_sends_no_other_old_event_whatever_its_file(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "AT_ONCE", 2)
    monkeypatch.setattr(outbox, "PAGES_AT_ONCE", 1)
    for number in range(4):
        await ask(scene, f"q{number}")
    await approve(scene, "q3")
    await seal_events(scene.store)
    async with web() as server:
        async with dispatching(scene, hook(server, begin="open")) as dispatcher:
            await carry_out(scene, dispatcher)
        async with dispatching(scene, hook(server)) as dispatcher:
            for _ in range(4):
                await carry_out(scene, dispatcher)
        assert Counter(told(server)) == {("question.asked", f"q{number}"): 1 for number in range(3)}


@rule
async def test_an_event_of_an_earlier_question_with_the_id_is_not_sent(scene: Scene) -> None:
    data = Question.make("Pay 70?").to_json()
    run = await scene.run()
    await scene.pause(run, opens=[question("r", data=data)])
    await approve(scene, "r.0")
    [claim] = await scene.claim()
    await scene.complete(claim.run)
    scene.clock.advance(60)
    assert await scene.store.delete_ended(scene.clock.now(), 10) == 1
    await scene.pause(await scene.run(), opens=[question("r", data=data)])
    await seal_events(scene.store)
    async with (
        web() as server,
        dispatching(scene, hook(server, begin="open"), begins=False) as dispatcher,
    ):
        await carry_out(scene, dispatcher)
        assert len(server.got) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"begin": "open", "events": frozenset({AuditKind.RESOLVED})}, {"name": "a:b"}],
    ids=["tells nobody what is asked", "a colon"],
)
def test_a_channel_that_could_not_begin_so_is_refused(wrong: dict[str, Any]) -> None:
    channel = Channel("hook", WebhookSender("https://example.org", [SECRET]))
    with pytest.raises(InvalidValue):
        replace(channel, **wrong)
