"""A message in Slack shows its question's outcome once it is closed, wherever that happened, and has no buttons."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.people.questions.question_operations import cancel
from signoff.records import AuditKind
from signoff.records.deliveries import DeliveryState
from tests.notifications.asking import approve, ask, carry_out, deliveries, dispatching
from tests.notifications.receivers import Web, web
from tests.notifications.slack_forms import slack_api
from tests.notifications.slack_limits import broken_limits
from tests.stores.scene import Scene, rule


def slack(server: Web, **more: Any) -> Channel:
    sender = SlackSender(token="xoxb-1", api_url=server.url, answering=Answering("s"))
    given: dict[str, Any] = {"to": ("C1",), "public_url": "https://s.example.org", **more}
    return Channel("chat", sender, **given)


def calls(server: Web, method: str) -> list[Any]:
    return [got.json for got in server.got if got.path == f"/{method}"]


def texts(message: dict[str, Any]) -> list[str]:
    assert broken_limits(message) == []
    assert {block["type"] for block in message["blocks"]} == {"section"}
    return [block["text"]["text"] for block in message["blocks"]]


async def withdraw(scene: Scene) -> None:
    await cancel(scene.store, "q", reason="a mistake", by="bob")


async def miss(scene: Scene) -> None:
    scene.clock.advance(101)
    await scene.store.due()


ENDS: list[tuple[Callable[[Scene], Coroutine[Any, Any, Any]], str, str]] = [
    (lambda scene: approve(scene, note="fine"), "Answered: Pay 70?", "Answered: approved by ana: fine"),
    (withdraw, "Withdrawn: Pay 70?", "Answered: cancelled by bob: a mistake"),
    (miss, "Timed out: Pay 70?", "Answered: timed out"),
]


@pytest.mark.parametrize(("end", "title", "outcome"), ENDS, ids=["inbox", "withdrawn", "deadline"])
@rule
async def test_a_message_shows_how_its_question_was_closed(
    scene: Scene, end: Callable[[Scene], Coroutine[Any, Any, Any]], title: str, outcome: str
) -> None:
    async with slack_api() as server, dispatching(scene, slack(server)) as dispatcher:
        await ask(scene, due_at=scene.clock.now() + 100)
        await carry_out(scene, dispatcher)
        await end(scene)
        await carry_out(scene, dispatcher)
        [posted], [updated] = calls(server, "chat.postMessage"), calls(server, "chat.update")
        assert posted["channel"] == "C1"
        assert (updated["channel"], updated["ts"], updated["text"]) == ("DC1", "1700.000001", title)
        said = texts(updated)
        assert outcome in said
        assert said[-1].startswith("Closed: ")


@rule
async def test_every_message_is_updated_once_by_whichever_server(scene: Scene) -> None:
    async with slack_api() as server:
        channel = slack(server, to=(), recipients={"user:ana": "U1", "user:bob": "U2"})
        async with dispatching(scene, channel) as one, dispatching(scene, channel) as other:
            await ask(scene, assignees=["user:ana", "user:bob"])
            await carry_out(scene, one, other)
            await approve(scene)
            await carry_out(scene, one, other)
            await carry_out(scene, other, one)
        updated = calls(server, "chat.update")
        assert sorted(each["channel"] for each in updated) == ["DU1", "DU2"]
        assert len(calls(server, "chat.postMessage")) == 2


@rule
async def test_an_update_is_tried_again_until_slack_takes_it(scene: Scene) -> None:
    slow: dict[str, list[Any]] = {"chat.update": [503, {"ok": False, "error": "ratelimited"}]}
    async with slack_api(slow) as server, dispatching(scene, slack(server)) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        await approve(scene)
        for _ in range(3):
            await carry_out(scene, dispatcher)
            scene.clock.advance(60)
        assert len(calls(server, "chat.update")) == 3
        assert {each.state for each in await deliveries(scene.store)} == {DeliveryState.DELIVERED}


@pytest.mark.parametrize("error", ["edit_window_closed", "message_not_found", "cant_update_message"])
@rule
async def test_a_message_that_cannot_be_updated_is_left(scene: Scene, error: str) -> None:
    refused = {"chat.update": [{"ok": False, "error": error}]}
    async with slack_api(refused) as server, dispatching(scene, slack(server)) as dispatcher:
        await ask(scene)
        await carry_out(scene, dispatcher)
        await approve(scene)
        await carry_out(scene, dispatcher)
        [dropped] = await deliveries(scene.store, DeliveryState.DROPPED)
        assert (dropped.kind, dropped.error) == (AuditKind.RESOLVED, f"Slack returned: {error}")


@rule
async def test_a_question_answered_before_its_message_has_none_to_update(scene: Scene) -> None:
    async with slack_api() as server, dispatching(scene, slack(server)) as dispatcher:
        await ask(scene)
        await approve(scene)
        await carry_out(scene, dispatcher)
        assert server.got == []


@rule
async def test_a_channel_of_outcomes_posts_them_and_updates_its_messages(scene: Scene) -> None:
    async with slack_api() as server:
        channel = slack(server, events=frozenset({AuditKind.ASKED, AuditKind.RESOLVED}))
        async with dispatching(scene, channel) as dispatcher:
            await ask(scene)
            await carry_out(scene, dispatcher)
            await approve(scene)
            await carry_out(scene, dispatcher)
        assert len(calls(server, "chat.postMessage")) == 2
        assert [each["ts"] for each in calls(server, "chat.update")] == ["1700.000001"]


@rule
async def test_an_incoming_webhook_has_no_messages_to_update(scene: Scene) -> None:
    async with web() as server:
        sender = SlackSender(webhook_url=f"{server.url}/post", answering=Answering("s"))
        async with dispatching(scene, Channel("chat", sender)) as dispatcher:
            await ask(scene)
            await carry_out(scene, dispatcher)
            await approve(scene)
            await carry_out(scene, dispatcher)
            assert [got.path for got in server.got] == ["/post"]
            assert len(await deliveries(scene.store)) == 1
