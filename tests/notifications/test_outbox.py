"""Whatever fails, events are sent: at least once, under one id, in order, and without delaying others."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from starlette.responses import Response

from examples.website_summary.processes import free_port
from signoff.observability import events
from signoff.people.notifications.channels.channel import CALLS, Channel, Retry
from signoff.people.notifications.channels.slack import SlackSender
from signoff.people.questions.callback_terms import Terms
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.policies import Escalation, Policy
from signoff.people.questions.question_operations import claim, delegate, release
from signoff.records import AuditKind, NewAuditEvent, NewPromise, PromiseKind, PromiseState
from signoff.records.deliveries import DeliveryState
from signoff.records.paging import AuditFilter
from signoff.records.responders import Responder
from tests.notifications.asking import approve, ask, carry_out, deliveries, dispatching
from tests.notifications.doors import EVERYTHING, hook, mail
from tests.notifications.receivers import Web, mails, web
from tests.stores.scene import Scene, rule


def kinds(server: Web) -> list[str]:
    return [got.json["type"] for got in server.got]


@rule
async def test_what_happens_is_delivered_once_and_in_order(scene: Scene) -> None:
    async with web() as server, dispatching(scene, hook(server)) as dispatcher:
        await ask(scene)
        await approve(scene)
        await carry_out(scene, dispatcher)
        await carry_out(scene, dispatcher)
        assert kinds(server) == ["question.asked", "question.resolved"]
        assert [each.state for each in await deliveries(scene.store)] == [DeliveryState.DELIVERED] * 2


@rule
async def test_a_channel_that_is_new_tells_nothing_of_before(scene: Scene) -> None:
    await ask(scene, "old")
    async with web() as server, dispatching(scene, hook(server), begins=False) as dispatcher:
        await carry_out(scene)
        await dispatcher.serve(scene.store)
        await ask(scene, "new")
        await carry_out(scene, dispatcher)
        assert [got.json["data"]["question_id"] for got in server.got] == ["new"]


@rule
async def test_a_mail_server_that_is_down_for_an_hour_gets_all_mails_then(scene: Scene) -> None:
    port = free_port()
    async with web() as server, dispatching(scene, mail(port), hook(server)) as dispatcher:
        await ask(scene, "q1", assignees=["user:ana", "user:bob@example.org"])
        await ask(scene, "q2", assignees=["user:ana"])
        for _ in range(12):
            await carry_out(scene, dispatcher)
            scene.clock.advance(300)
        waiting = await deliveries(scene.store, channel="mail")
        assert {each.state for each in waiting} == {DeliveryState.PENDING}
        assert all(each.attempts > 3 and each.error for each in waiting)
        assert kinds(server) == ["question.asked"] * 2, "another channel waits for nothing"
        async with mails(port) as server_again:
            scene.clock.advance(3600)
            await carry_out(scene, dispatcher)
            sent = {(message["to"], message["message-id"]) for message in server_again.got}
        assert {to for to, _ in sent} == {"ana@example.org", "bob@example.org"}
        assert {id for _, id in sent} == {f"<{each.id}@example.org>" for each in waiting}
        assert len(server_again.got) == 3


@rule
async def test_slack_that_says_429_is_left_alone_for_as_long_as_it_says(scene: Scene) -> None:
    slow = Response(status_code=429, headers={"retry-after": "120"})
    async with web(slow, 500) as server:
        channel = Channel("slack", SlackSender(webhook_url=server.url), concurrency=1)
        async with dispatching(scene, channel) as dispatcher:
            for k in range(3):
                await ask(scene, f"q{k}", text=f"Number {k}?")
            await carry_out(scene, dispatcher)
            scene.clock.advance(119)
            await carry_out(scene, dispatcher)
            assert len(server.got) == 1
            scene.clock.advance(60)
            await carry_out(scene, dispatcher)
            scene.clock.advance(60)
            await carry_out(scene, dispatcher)
        blocks = Counter(got.json["blocks"][0]["block_id"] for got in server.got)
        assert blocks.total() == 5, "three, and two that failed"
        assert {f"signoff:{each.id}" for each in await deliveries(scene.store)} == set(blocks)


@rule
async def test_a_webhook_that_times_out_after_accepting_gets_the_same_delivery(scene: Scene) -> None:
    never = asyncio.Event()

    async def hangs() -> Response:
        await never.wait()
        return Response()

    async with web(hangs) as server:
        async with dispatching(scene, hook(server, timeout_seconds=1.5)) as hasty:
            await ask(scene)
            await carry_out(scene, hasty)
            assert "1.5 s" in str((await deliveries(scene.store))[0].error)
        scene.clock.advance(10)
        async with dispatching(scene, hook(server, timeout_seconds=60.0)) as patient:
            await carry_out(scene, patient)
        never.set()
        first, second = server.got
        assert first.id == second.id == first.json["data"]["delivery_id"]
        assert first.json == second.json
        [delivery] = await deliveries(scene.store)
        assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 2)


@rule
async def test_messages_of_a_question_stay_in_order_after_a_failure(scene: Scene) -> None:
    async with web(500) as server, dispatching(scene, hook(server, concurrency=1)) as dispatcher:
        await ask(scene, "q1")
        await carry_out(scene, dispatcher)
        await approve(scene, "q1")
        await ask(scene, "q2")
        await carry_out(scene, dispatcher)
        told = [(got.json["data"]["question_id"], got.json["type"]) for got in server.got]
        assert told == [("q1", "question.asked"), ("q2", "question.asked")]
        scene.clock.advance(60)
        await carry_out(scene, dispatcher)
        told = [(got.json["data"]["question_id"], got.json["type"]) for got in server.got[2:]]
        assert told == [("q1", "question.asked"), ("q1", "question.resolved")]


@rule
async def test_a_question_is_asked_and_answered_while_its_channel_is_down(scene: Scene) -> None:
    async with web(otherwise=500) as server, dispatching(scene, hook(server)) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        assert (await approve(scene)).state is PromiseState.RESOLVED
        assert (await deliveries(scene.store))[0].state is DeliveryState.PENDING


@rule
async def test_three_dispatchers_at_once_deliver_each_event_once(scene: Scene) -> None:
    async with (
        web() as server,
        dispatching(scene, hook(server)) as one,
        dispatching(scene, hook(server)) as two,
        dispatching(scene, hook(server)) as three,
    ):
        for k in range(20):
            await ask(scene, f"q{k}")
        for k in range(0, 20, 2):
            await approve(scene, f"q{k}")
        await carry_out(scene, one, two, three)
        ids = Counter(got.id for got in server.got)
        assert len(ids) == 30
        assert set(ids.values()) == {1}


@rule
async def test_what_was_sent_and_not_recorded_is_sent_again_under_the_same_id(scene: Scene) -> None:
    async with web() as server:
        async with dispatching(scene, hook(server)) as killed:
            await ask(scene)

            async def dies() -> Response:
                for line in killed._lines:  # the process ends before the reply is read
                    for task in line.sending:
                        task.cancel()
                return Response()

            server.script.append(dies)
            await carry_out(scene, killed)
        async with dispatching(scene, hook(server)) as other:
            await carry_out(scene, other)
            assert len(server.got) == 1, "its lease has not run out"
            scene.clock.advance(120)
            await carry_out(scene, other)
        first, second = server.got
        assert first.id == second.id
        assert (await deliveries(scene.store))[0].state is DeliveryState.DELIVERED


@rule
async def test_a_delivery_is_given_up_after_its_time_and_can_be_sent_again(
    scene: Scene,
) -> None:
    async with web(otherwise=500) as server:
        retry = Retry(first_seconds=60, give_up_seconds=600)
        async with dispatching(scene, hook(server, retry=retry)) as dispatcher:
            await ask(scene)
            for _ in range(20):
                await carry_out(scene, dispatcher)
                scene.clock.advance(60)
            [dead] = await deliveries(scene.store)
            assert (dead.state, dead.error) == (DeliveryState.DEAD, "HTTP 500")
            attempts = len(server.got)
            assert attempts == dead.attempts > 3
            scene.clock.advance(3600)
            await carry_out(scene, dispatcher)
            assert len(server.got) == attempts
            server.otherwise = 200
            await scene.store.redeliver(dead.id)
            await carry_out(scene, dispatcher)
            assert server.got[-1].id == dead.id
            assert (await deliveries(scene.store))[0].state is DeliveryState.DELIVERED


@rule
async def test_a_delivery_is_given_up_after_its_attempts_or_at_once_if_hopeless(
    scene: Scene,
) -> None:
    async with web(500, 500, 410) as server:
        channel = hook(server, retry=Retry(max_attempts=2))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, "q1")
            await carry_out(scene, dispatcher)
            scene.clock.advance(60)
            await carry_out(scene, dispatcher)
            await ask(scene, "q2")
            await carry_out(scene, dispatcher)
            first, second = await deliveries(scene.store)
            assert (first.state, first.attempts) == (DeliveryState.DEAD, 2)
            assert (second.state, second.attempts) == (DeliveryState.DEAD, 1)


@rule
async def test_people_are_not_called_to_what_is_answered_or_others_meanwhile(scene: Scene) -> None:
    async with mails() as server:
        to = {"user:ana": "ana@example.org", "user:bob": "bob@example.org"}
        async with dispatching(scene, mail(server.port, recipients=to)) as dispatcher:
            await ask(scene, "q1", assignees=["user:ana"])
            await approve(scene, "q1")
            await ask(scene, "q2", assignees=["user:ana"])
            await delegate(scene.store, "q2", Responder("ana"), ["user:bob"])
            await carry_out(scene, dispatcher)
            assert [(message["to"], message["subject"]) for message in server.got] == [
                ("bob@example.org", "Delegated to you: Pay 70?")
            ]
            dropped = await deliveries(scene.store, DeliveryState.DROPPED)
            assert sorted(str(each.error) for each in dropped) == [
                "it is assigned to others now",
                "the question is already resolved",
            ]


@rule
async def test_the_requester_is_never_called_to_what_they_may_not_answer(scene: Scene) -> None:
    """Four eyes: not at any address of theirs, in any letter case. A mailbox that others share gets its mail."""
    to = {
        "user:req": "req@example.org",
        "group:desk": "REQ@example.org",
        "user:ana": "ana@example.org",
        "user:Req": "team@example.org",
        "user:bob": "team@example.org",
    }
    policy = Policy.make(
        "Pay?",
        input_type="approval",
        assignees=["user:req", "user:ana"],
        excluded=["user:req"],
        remind_every=60,
        escalations=[Escalation(90, ["user:Req", "group:desk", "user:bob"])],
    )
    async with mails() as server:
        channel = mail(server.port, recipients=to, concurrency=1, events=EVERYTHING)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, assignees=["user:req", "user:ana"], policy=policy)
            for _ in range(3):
                await serve_questions(scene.store)
                await carry_out(scene, dispatcher)
                scene.clock.advance(45)
            await approve(scene)
            await carry_out(scene, dispatcher)
        calls = [(message["to"], message["subject"]) for message in server.got]
        assert [each for each in calls if each[0].lower() == "req@example.org"] == [
            ("REQ@example.org", "Answered: Pay 70?")  # news for the desk, which call for no action
        ]
        assert [each for each in calls if each[0].startswith("ana")] == [
            ("ana@example.org", "Question: Pay 70?"),
            ("ana@example.org", "Reminder: Pay 70?"),
            ("ana@example.org", "Answered: Pay 70?"),
        ]
        assert ("team@example.org", "Escalated: Pay 70?") in calls
        trail = (await scene.store.list_audit(AuditFilter(question_id="q"))).items
        reminded = [str(each.details).lower() for each in trail if each.kind is AuditKind.REMINDED]
        assert reminded
        assert not any("user:req" in each for each in reminded)


@rule
async def test_who_has_voted_is_not_reminded(scene: Scene) -> None:
    to = {f"user:{name}": f"{name}@example.org" for name in ("ana", "bob")}
    policy = Policy.make("Pay?", input_type="approval", quorum=2, remind_every=60)
    async with mails() as server, dispatching(scene, mail(server.port, recipients=to)) as dispatcher:
        await ask(scene, assignees=["user:ana", "user:bob"], policy=policy)
        await carry_out(scene, dispatcher)
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await approve(scene)  # after the reminder was recorded, before it is sent
        await carry_out(scene, dispatcher)
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await carry_out(scene, dispatcher)
        reminded = [each["to"] for each in server.got if str(each["subject"]).startswith("Reminder")]
        assert reminded == ["bob@example.org"] * 2
        [dropped] = await deliveries(scene.store, DeliveryState.DROPPED)
        assert dropped.error == "they have voted"


@rule
async def test_only_the_claimant_is_reminded_of_a_claimed_question(scene: Scene) -> None:
    to = {
        "user:ana": "ana@example.org",
        "user:bob": "bob@example.org",
        "group:finance": "finance@example.org",
    }
    policy = Policy.make("Pay?", input_type="approval", remind_every=60)
    async with mails() as server, dispatching(scene, mail(server.port, recipients=to)) as dispatcher:
        await ask(scene, assignees=["user:bob", "group:finance"], policy=policy)
        await carry_out(scene, dispatcher)
        assert {each["to"] for each in server.got} == {"bob@example.org", "finance@example.org"}
        server.got.clear()
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await claim(scene.store, "q", Responder("ana", frozenset({"finance"})))  # before that is sent
        await carry_out(scene, dispatcher)
        assert server.got == []
        assert {each.error for each in await deliveries(scene.store, DeliveryState.DROPPED)} == {
            "user:ana has claimed it"
        }
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await carry_out(scene, dispatcher)
        assert [each["to"] for each in server.got] == ["ana@example.org"]
        await release(scene.store, "q", Responder("ana"))
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await carry_out(scene, dispatcher)
        assert {each["to"] for each in server.got[1:]} == {"bob@example.org", "finance@example.org"}


@rule
async def test_reminders_and_escalations_are_sent_to_the_people_they_call(scene: Scene) -> None:
    to = {"user:ana": "ana@example.org", "group:heads": "heads@example.org"}
    policy = Policy.make(
        "Pay?", input_type="approval", remind_every=60, escalations=[Escalation(90, ["group:heads"])]
    )
    async with (
        mails() as server,
        dispatching(scene, mail(server.port, recipients=to, concurrency=1)) as dispatcher,
    ):
        await ask(scene, assignees=["user:ana"], policy=policy)
        for _ in range(3):
            await serve_questions(scene.store)
            await carry_out(scene, dispatcher)
            scene.clock.advance(45)
        assert [(message["to"], message["subject"]) for message in server.got] == [
            ("ana@example.org", "Question: Pay 70?"),
            ("heads@example.org", "Escalated: Pay 70?"),
            ("ana@example.org", "Reminder: Pay 70?"),
            ("heads@example.org", "Reminder: Pay 70?"),
        ]


@rule
async def test_a_channel_tells_only_of_its_events_and_its_assignees(scene: Scene) -> None:
    finance = frozenset({"group:finance"})
    async with web() as server:
        channel = hook(server, events=CALLS, assignees=finance)
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene, "q1", assignees=["user:ana"])
            await ask(scene, "q2", assignees=["user:ana", "group:finance"])
            await ask(scene, "q3")
            await approve(scene, "q2")
            await carry_out(scene, dispatcher)
            told = [(got.json["type"], got.json["data"]["question_id"]) for got in server.got]
            assert told == [("question.asked", "q2")]


@rule
async def test_an_event_that_says_nonsense_holds_up_no_channel(scene: Scene) -> None:
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        for n, to in enumerate(("5", '["\\u0000"]', '["ana", 7, {}]', '"user:ana"', "null")):
            details = f'{{"to": {to}}}'
            await scene.store.record([NewAuditEvent(f"e{n}", AuditKind.REMINDED, "q", details=details)])
        await ask(scene, assignees=["user:ana"])
        await carry_out(scene, dispatcher)
        assert [message["to"] for message in server.got] == ["ana@example.org"]


@rule
async def test_a_question_that_says_nonsense_holds_up_no_channel(scene: Scene) -> None:
    async with (
        web() as server,
        mails() as post,
        dispatching(scene, hook(server), mail(post.port)) as dispatcher,
    ):
        for n, data in enumerate((None, "{}", "[]", '{"input_type": []}', '{"policy": 3, "action": {}}')):
            new = NewPromise(f"q{n}", PromiseKind.QUESTION, data=data, assignees=("user:ana",))
            await scene.store.create_promise(new)
        await ask(scene, "sound", assignees=["user:ana"])
        await carry_out(scene, dispatcher)
        assert "sound" in {got.json["data"]["question_id"] for got in server.got}
        assert "Question: Pay 70?" in {message["subject"] for message in post.got}


@rule
async def test_a_channel_that_is_stuck_holds_up_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web() as server, dispatching(scene, hook(server, "a"), hook(server, "b")) as dispatcher:
        await ask(scene)
        expand, calls = scene.store.expand, []

        async def breaks(channel: str, *args: object) -> bool:
            calls.append(channel)
            if channel == "a" and calls.count("a") == 1:
                raise RuntimeError("no")
            return await expand(channel, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(scene.store, "expand", breaks)
        await carry_out(scene, dispatcher)
        assert [each.channel for each in await deliveries(scene.store)] == ["b"]
        scene.clock.advance(1.1)  # its back-off
        await carry_out(scene, dispatcher)
        assert [each.channel for each in await deliveries(scene.store)] == ["b", "a"]


@rule
async def test_each_attempt_is_announced_with_what_came_of_it(scene: Scene) -> None:
    heard: list[tuple[str, str, str]] = []

    def note(event: events.Event) -> None:
        if isinstance(event, events.DeliveryAttempted):
            heard.append((event.channel, event.question_id, event.outcome))

    stop = events.subscribe(note)
    try:
        async with web(500, 200, 410) as server, dispatching(scene, hook(server)) as dispatcher:
            await ask(scene, "q1")
            await carry_out(scene, dispatcher)
            scene.clock.advance(60)
            await carry_out(scene, dispatcher)
            await ask(scene, "q2")
            await carry_out(scene, dispatcher)
    finally:
        stop()
    assert heard == [("hook", "q1", "retried"), ("hook", "q1", "delivered"), ("hook", "q2", "dead")]


@rule
async def test_nothing_of_another_namespace_is_sent(scene: Scene) -> None:
    async with web() as server, dispatching(scene, hook(server)) as dispatcher:
        await ask(scene.within("acme"), "secret")
        await carry_out(scene, dispatcher)
        assert server.got == []
        assert await deliveries(scene.store) == []


@rule
async def test_deliveries_are_forgotten_a_month_after_they_ended(scene: Scene) -> None:
    async with web() as server, dispatching(scene, hook(server)) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        scene.clock.advance(29 * 24 * 3600)
        await carry_out(scene, dispatcher)
        assert len(await deliveries(scene.store)) == 1
        scene.clock.advance(2 * 24 * 3600)
        await carry_out(scene, dispatcher)
        assert await deliveries(scene.store) == []


@rule
async def test_no_one_is_notified_of_a_callback(scene: Scene) -> None:
    async with web() as server, dispatching(scene, hook(server)) as dispatcher:
        await ask(scene, "paid", "Payment", input_type="external", callback=Terms())
        await ask(scene)
        await carry_out(scene, dispatcher)
        await scene.settle("paid")
        await carry_out(scene, dispatcher)
        assert kinds(server) == ["question.asked"]
        assert [each.question_id for each in await deliveries(scene.store)] == ["q"]
