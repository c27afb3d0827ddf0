"""No one is notified of a question that a rule answers: rules are checked first."""

from __future__ import annotations

import asyncio
from typing import Any

from signoff import Action, Alike
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.mail import MailSender, MailServer
from signoff.people.notifications.channels.slack import SlackSender
from signoff.people.notifications.channels.webhook import WebhookSender
from signoff.people.questions.answers import answer
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.policies import Policy
from signoff.records import AuditKind, PromiseState
from signoff.records.deliveries import DeliveryState
from signoff.records.paging import RuleFilter
from tests.notifications.asking import SECRET, ask, carry_out, deliveries, dispatching
from tests.notifications.receivers import mails, web
from tests.stores.scene import Scene, rule

MAIL = {"to": "bob", "text": "Hello"}
HOUR = 3600.0


def mail(port: int) -> Channel:
    sender = MailSender(MailServer("127.0.0.1", port, "none"), "signoff@example.org")
    return Channel(
        "mail",
        sender,
        recipients={"user:ana": "ana@example.org", "user:bob": "bob@example.org"},
        public_url="https://signoff.example",
        answer_links=True,
    )


async def ask_to_send(scene: Scene, id: str, arguments: Any = None, **more: Any) -> None:
    action = Action("send_mail", arguments or MAIL)
    await ask(scene, id, "Send it?", assignees=["user:ana", "user:bob"], action=action, **more)


async def approve_all_like_this(scene: Scene) -> None:
    await ask_to_send(scene, "first")
    alike = Alike(HOUR, everywhere=True)
    await answer(scene.store, "first", True, user_id="ana", alike=alike)


@rule
async def test_no_one_is_called_to_a_question_that_a_rule_answers(scene: Scene) -> None:
    await approve_all_like_this(scene)
    async with mails() as server, web() as slack:
        channels = mail(server.port), Channel("slack", SlackSender(webhook_url=slack.url))
        async with dispatching(scene, *channels) as dispatcher:
            await carry_out(scene, dispatcher)
            server.got.clear()
            await ask_to_send(scene, "next")
            await carry_out(scene, dispatcher)  # before anybody has served the question
            assert (server.got, slack.got) == ([], [])
            question = await scene.store.get_promise("next")
            assert (question.state, question.settled_by) == (PromiseState.RESOLVED, "ana")
            told = [each for each in await deliveries(scene.store) if each.question_id == "next"]
            assert {(each.channel, each.recipient) for each in told} == {
                ("mail", "user:ana"),
                ("mail", "user:bob"),
                ("slack", ""),
            }
            assert {each.state for each in told} == {DeliveryState.DROPPED}
            assert {each.error for each in told} == {"the question is already resolved"}


@rule
async def test_people_are_called_at_once_to_what_no_rule_answers(scene: Scene) -> None:
    await approve_all_like_this(scene)
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        await ask_to_send(scene, "other", {**MAIL, "to": "eve"})
        scene.clock.advance(HOUR)
        await ask_to_send(scene, "late")
        await carry_out(scene, dispatcher)
        told = sorted((message["to"], message["subject"]) for message in server.got)
        assert told == [
            *[("ana@example.org", "Question: Send it?")] * 2,
            *[("bob@example.org", "Question: Send it?")] * 2,
        ]
        for id in ("other", "late"):
            assert (await scene.store.get_promise(id)).state is PromiseState.PENDING
        told_of = [each for each in await deliveries(scene.store) if each.question_id != "first"]
        assert [(each.state, each.attempts) for each in told_of] == [(DeliveryState.DELIVERED, 1)] * 4


@rule
async def test_looking_for_a_rule_suppresses_no_reminder(scene: Scene) -> None:
    policy = Policy(assignees=("user:ana", "user:bob"), remind_every=60)
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        await ask_to_send(scene, "q", policy=policy)
        await carry_out(scene, dispatcher)
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await carry_out(scene, dispatcher)
        kinds = sorted(message["subject"].partition(":")[0] for message in server.got)
        assert kinds == ["Question", "Question", "Reminder", "Reminder"]


@rule
async def test_a_rules_answer_is_given_once_by_any_process(scene: Scene) -> None:
    await approve_all_like_this(scene)
    async with mails() as server:
        async with (
            dispatching(scene, mail(server.port)) as one,
            dispatching(scene, mail(server.port)) as two,
        ):
            for n in range(10):
                await ask_to_send(scene, f"q{n}")
            await asyncio.gather(carry_out(scene, one, two), serve_questions(scene.store))
            await carry_out(scene, one, two)
        assert server.got == []
        [made] = (await scene.store.list_rules(RuleFilter())).items
        assert made.uses == 10


@rule
async def test_a_webhook_gets_the_question_and_the_rules_answer(scene: Scene) -> None:
    await approve_all_like_this(scene)
    async with web() as server:
        channel = Channel("hook", WebhookSender(server.url, [SECRET]), events=frozenset(AuditKind))
        async with dispatching(scene, channel) as dispatcher:
            await carry_out(scene, dispatcher)
            server.got.clear()
            await ask_to_send(scene, "next")
            await carry_out(scene, dispatcher)
            await serve_questions(scene.store)
            await carry_out(scene, dispatcher)
        assert [got.json["type"] for got in server.got] == [
            "question.asked",
            "question.rule_used",
            "question.resolved",
        ]
