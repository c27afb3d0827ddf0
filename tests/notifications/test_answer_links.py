"""Answer links in mails: their recipients, at most one per delivery, and that a run continues with one."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient, Context
from signoff.errors import InvalidValue, LinkEnded
from signoff.people.links.answer_links import answer_by_link, find_link
from signoff.people.notifications.channels.apprise import AppriseSender
from signoff.people.notifications.channels.channel import Channel, Sender
from signoff.people.notifications.channels.mail import MailSender, MailServer
from signoff.people.notifications.channels.slack import SlackSender
from signoff.people.notifications.channels.webhook import WebhookSender
from signoff.people.notifications.delivered_links import BY
from signoff.people.questions.answers import answer
from signoff.people.questions.deadlines import serve_questions
from signoff.people.questions.policies import Policy, Quorum
from signoff.people.questions.question_operations import delegate
from signoff.records import AuditKind, PromiseState, Token, TokenKind
from signoff.records.deliveries import DeliveryState
from signoff.records.paging import AuditFilter, TokenFilter
from signoff.records.responders import Responder
from signoff.server import Server
from tests.notifications.asking import SECRET, approve, ask, carry_out, deliveries, dispatching
from tests.notifications.receivers import mails, web
from tests.stores.scene import Scene, rule, until
from tests.support import in_asyncio, new_app

PUBLIC = "https://signoff.example"
PEOPLE = {"user:ana": "ana@example.org", "user:bob": "bob@example.org"}


def mail(port: int, **options: Any) -> Channel:
    sender = MailSender(MailServer("127.0.0.1", port, "none"), "signoff@example.org")
    return Channel(
        "mail", sender, **{"recipients": PEOPLE, "public_url": PUBLIC, "answer_links": True, **options}
    )


def text_of(message: EmailMessage, kind: str = "plain") -> str:
    part = message.get_body((kind,))
    assert part is not None
    return part.get_content()


def secret_in(message: EmailMessage) -> str | None:
    """The secret of the link in a mail, which both of its parts have or neither."""
    found = [
        set(re.findall(rf"{PUBLIC}/l/([A-Za-z0-9_-]+)", text_of(message, kind))) for kind in ("plain", "html")
    ]
    assert found[0] == found[1]
    assert len(found[0]) <= 1
    return next(iter(found[0]), None)


async def links(scene: Scene, id: str = "q") -> list[Token]:
    return list((await scene.store.list_tokens(TokenFilter(TokenKind.LINK, question_id=id))).items)


async def open_links(scene: Scene, id: str = "q") -> list[Token]:
    return [token for token in await links(scene, id) if token.is_open(scene.clock.now())]


async def trail(scene: Scene, kind: AuditKind) -> list[dict[str, Any]]:
    events = (await scene.store.list_audit(AuditFilter("q"))).items
    return [json.loads(event.details or "{}") for event in events if event.kind is kind]


@in_asyncio
async def test_a_mails_link_shows_the_question_and_answers_as_its_recipient(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def pay(ctx: Context) -> list[Any]:
        answer = await ctx.wait_for_user("Pay 70?", assignees=["user:ana"])
        return [answer.approved, answer.user_id, answer.note]

    async with (
        mails() as post,
        AsyncClient(app) as client,
        Server(app, port=0, channels=[mail(post.port)], public_url=PUBLIC) as server,
        app.worker(),
        httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
    ):
        async with asyncio.timeout(60):
            while await app.store.read_cursor("mail") is None:
                await asyncio.sleep(0.01)
        run = await client.start(pay, id="r")
        await until(lambda: bool(post.got), seconds=60)
        [message] = post.got
        assert "Answer: " in text_of(message)
        assert ">Answer</a>" in text_of(message, "html")
        assert "as ana" in text_of(message)
        path = f"/l/{secret_in(message)}"
        before = await app.store.get_promise("r.1")
        for method in ("GET", "HEAD", "GET"):
            assert (await http.request(method, path)).status_code == 200
        page = (await http.get(path)).text
        assert "Pay 70?" in page
        assert await app.store.get_promise("r.1") == before
        digest = re.findall(r'name="digest" value="([^"]+)"', page)[0]
        done = await http.post(path, data={"digest": digest, "decision": "0", "note": "fine"})
        assert (done.status_code, "recorded" in done.text) == (200, True)
        assert await run.result() == [True, "ana", "fine"]
        settled = await app.store.get_promise("r.1")
        [token] = (await app.store.list_tokens(TokenFilter(TokenKind.LINK))).items
        assert (settled.settled_by, settled.request_id) == ("ana", f"link:{token.id}")
        assert (token.subject, token.created_by) == ("ana", BY)
        history = (await client.inbox.history(question_id="r.1")).items
        assert [(event.kind.value, event.by) for event in history] == [
            ("asked", None),
            ("linked", BY),
            ("resolved", "ana"),
        ]
        assert json.loads(history[2].details or "")["request_id"] == f"link:{token.id}"
        again = await http.post(path, data={"digest": digest, "decision": "1"})
        assert again.status_code == 410
    await app.store.close()


@rule
async def test_a_repeated_delivery_has_a_new_link_and_the_former_one_ends(scene: Scene) -> None:
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        server.replies += ["451 later", "451 later"]
        await ask(scene, assignees=["user:ana"])
        for sent in (1, 2, 3):
            await carry_out(scene, dispatcher)
            assert len(server.got) == sent
            assert len(await open_links(scene)) == 1
            scene.clock.advance(60)
        secrets = [secret_in(message) for message in server.got]
        assert len(set(secrets)) == 3
        for secret in secrets[:2]:
            with pytest.raises(LinkEnded, match="was revoked"):
                await find_link(scene.store, str(secret))
        [delivery] = await deliveries(scene.store)
        assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 3)
        assert {message["message-id"] for message in server.got} == {f"<{delivery.id}@example.org>"}
        link = await find_link(scene.store, str(secrets[2]))
        question = await scene.store.get_promise("q")
        digest = json.loads(question.data or "")["digest"]
        settled = await answer_by_link(scene.store, link, True, digest=digest)
        assert (settled.state, settled.settled_by) == (PromiseState.RESOLVED, "ana")
        assert (len(await trail(scene, AuditKind.LINKED)), len(await trail(scene, AuditKind.UNLINKED))) == (
            3,
            2,
        )


@rule
async def test_an_attempt_that_made_no_link_leaves_no_former_one_open(scene: Scene) -> None:
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        server.replies.append("451 later")
        await ask(scene, assignees=["user:ana"])
        await carry_out(scene, dispatcher)
        for _ in range(2):  # a process leases it, and dies
            scene.clock.advance(60)
            assert len((await scene.store.claim_deliveries("mail", 1, 30.0))[0]) == 1
        scene.clock.advance(60)
        await carry_out(scene, dispatcher)
        assert [message["to"] for message in server.got] == ["ana@example.org"] * 2
        [left] = await open_links(scene)
        assert (await find_link(scene.store, str(secret_in(server.got[1])))).token.id == left.id


@rule
async def test_a_redelivered_message_has_one_link_too(scene: Scene) -> None:
    async with mails() as server, dispatching(scene, mail(server.port)) as dispatcher:
        await ask(scene, assignees=["user:ana"])
        await carry_out(scene, dispatcher)
        [delivery] = await deliveries(scene.store)
        await scene.store.redeliver(delivery.id)
        await carry_out(scene, dispatcher)
        assert len(server.got) == 2
        assert len(await open_links(scene)) == 1


@rule
async def test_each_person_has_a_link_of_their_own_and_no_group_or_place_has_one(scene: Scene) -> None:
    async with mails() as server:
        recipients = {**PEOPLE, "group:finance": "finance@example.org", "role:boss": "boss@example.org"}
        channel = mail(server.port, recipients=recipients, to=("desk@example.org",))
        async with dispatching(scene, channel) as dispatcher:
            assignees = [*recipients, "user:eve@example.com"]
            await ask(scene, assignees=assignees)
            await carry_out(scene, dispatcher)
        has = {message["to"]: secret_in(message) for message in server.got}
        plain = {to for to, secret in has.items() if secret is None}
        assert plain == {"finance@example.org", "boss@example.org", "desk@example.org"}
        assert all(f"{PUBLIC}/inbox/q" in text_of(each) for each in server.got if each["to"] in plain)
        who: dict[str, Responder] = {}
        for to, secret in has.items():
            if secret is not None:
                who[to] = (await find_link(scene.store, secret)).responder
        assert who == {
            "ana@example.org": Responder("ana"),
            "bob@example.org": Responder("bob"),
            "eve@example.com": Responder("eve@example.com"),
        }


@pytest.mark.parametrize(
    "shared",
    [
        {"recipients": {"user:ana": "team@example.org", "group:finance": "Team@example.org"}},
        {"recipients": {"user:ana": "team@example.org", "user:bob": "team@example.org"}},
        {"recipients": {"user:ana": "team@example.org"}, "to": ("TEAM@example.org",)},
        {"answer_links": False},
    ],
    ids=["a group's", "two people's", "everybody's", "nobody has said so"],
)
@rule
async def test_no_link_goes_to_an_address_that_others_read(scene: Scene, shared: dict[str, Any]) -> None:
    async with mails() as server, dispatching(scene, mail(server.port, **shared)) as dispatcher:
        await ask(scene, assignees=["user:ana"])
        await carry_out(scene, dispatcher)
        assert server.got
        assert [secret_in(message) for message in server.got] == [None] * len(server.got)
        assert await links(scene) == []


@rule
async def test_who_may_not_answer_gets_no_link(scene: Scene) -> None:
    assignees = ("user:ana", "user:bob")
    policy = Policy(assignees=assignees, excluded=("user:ana",))
    several = Policy(assignees=assignees, quorum=Quorum(2, 2), remind_every=60)
    async with mails() as server, dispatching(scene, mail(server.port, concurrency=1)) as dispatcher:
        await ask(scene, assignees=assignees, policy=policy)
        await carry_out(scene, dispatcher)
        assert [token.subject for token in await links(scene)] == ["bob"]
        await ask(scene, "voted", assignees=assignees, policy=several)
        await approve(scene, "voted")
        await carry_out(scene, dispatcher)
        assert [token.subject for token in await links(scene, "voted")] == ["bob"]
        server.got.clear()
        scene.clock.advance(60)
        await serve_questions(scene.store)
        await carry_out(scene, dispatcher)
        reminded = {message["to"]: secret_in(message) is not None for message in server.got}
        assert reminded == {"bob@example.org": True}, "ana has voted"
        assert "Reminder" in server.got[0]["subject"]


@rule
async def test_only_what_calls_for_an_answer_has_a_link(scene: Scene) -> None:
    async with mails() as server:
        async with dispatching(scene, mail(server.port, events=frozenset(AuditKind))) as dispatcher:
            await ask(scene, assignees=["user:ana"])
            await carry_out(scene, dispatcher)
            await carry_out(scene, dispatcher)  # that it was linked is an event, too
            await delegate(scene.store, "q", Responder("ana"), ["user:bob"])
            await carry_out(scene, dispatcher)
            await answer(scene.store, "q", True, user_id="bob")
            await carry_out(scene, dispatcher)
            await carry_out(scene, dispatcher)
        told = [
            (message["subject"].partition(":")[0], secret_in(message) is not None) for message in server.got
        ]
        assert [kind for kind, has in told if has] == ["Question", "Delegated to you"]
        assert ("Answered", False) in told


@rule
async def test_a_link_is_good_for_as_long_as_its_channel_says(scene: Scene) -> None:
    async with mails() as server:
        async with dispatching(scene, mail(server.port, answer_link_seconds=600.0)) as dispatcher:
            await ask(scene, assignees=["user:ana"])
            await carry_out(scene, dispatcher)
        [message] = server.got
        scene.clock.advance(599)
        assert (await find_link(scene.store, str(secret_in(message)))).token.subject == "ana"
        scene.clock.advance(1)
        with pytest.raises(LinkEnded, match="has expired"):
            await find_link(scene.store, str(secret_in(message)))


@rule
async def test_the_secret_is_in_the_mail_and_nowhere_else(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with mails() as server, web() as hook:
        channels = (
            mail(server.port),
            Channel(
                "hook", WebhookSender(hook.url, [SECRET]), events=frozenset(AuditKind), public_url=PUBLIC
            ),
        )
        async with dispatching(scene, *channels) as dispatcher:
            server.replies.append("451 later")
            await ask(scene, assignees=["user:ana"])
            await carry_out(scene, dispatcher)
            scene.clock.advance(60)
            await carry_out(scene, dispatcher)
        events = (await scene.store.list_audit(AuditFilter("q"))).items
        told = [got.body.decode() for got in hook.got]
        assert {got.json["type"] for got in hook.got} >= {"question.asked", "question.linked"}
        assert len(server.got) == 2
        kept = [*map(repr, events), *map(repr, await deliveries(scene.store)), *map(repr, await links(scene))]
        logged = [record.getMessage() for record in caplog.records if record.name.startswith("signoff")]
        for message in server.got:
            secret = secret_in(message)
            assert secret is not None
            assert not [text for text in (*told, *kept, *logged) if secret in text]
        assert not [text for text in told if "/l/" in text]


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")
def test_no_other_kind_of_channel_has_answer_links() -> None:
    senders: list[Sender] = [
        WebhookSender("https://example.org", [SECRET]),
        SlackSender(token="t"),
        AppriseSender("json://localhost"),
    ]
    for sender in senders:
        with pytest.raises(InvalidValue, match="answer_links"):
            Channel("x", sender, public_url=PUBLIC, answer_links=True)
    mailer = MailSender(MailServer("127.0.0.1"), "signoff@example.org")
    with pytest.raises(InvalidValue, match="public_url"):
        Channel("x", mailer, answer_links=True)
    for seconds in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidValue, match="answer_link_seconds"):
            Channel("x", mailer, answer_link_seconds=seconds)
