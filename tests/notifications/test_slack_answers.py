"""An answer by a button in Slack is an audited answer like any other; unsigned ones do not count."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from signoff import Context, Signoff
from signoff.errors import AccessDenied
from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.people.notifications.channels.slack_requests import check_signature
from signoff.people.questions.policies import Policy
from signoff.records import AuditKind, Origin, OriginWay, PromiseState
from signoff.server import Server, TrustedProxy
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import VirtualClock
from tests.notifications.receivers import web
from tests.notifications.slack_stage import SECRET, USERS, Stage, asked, stage
from tests.stores.scene import Scene, until
from tests.support import in_asyncio, running


def test_the_signature_is_that_of_slacks_own_example() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
        b"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&"
        b"response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&"
        b"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
    check_signature(Answering(SECRET), body, "1531420618", signature, 1531420620.0)
    for wrong in ((body + b" ", signature), (body, signature[:-1] + "4"), (body, "é"), (body, None)):
        with pytest.raises(AccessDenied):
            check_signature(Answering(SECRET), wrong[0], "1531420618", wrong[1], 1531420620.0)


@pytest.mark.parametrize(("action", "approved"), [("signoff_approve", True), ("signoff_reject", False)])
@in_asyncio
async def test_a_click_is_the_answer_of_its_user(action: str, approved: bool) -> None:
    async with stage() as on:
        value = await asked(on, assignees=["group:finance"])
        assert (await on.click(value, action)).status_code == 200
        question = await on.scene.store.get_promise("q")
        assert (question.settled_by, question.state) == ("ana", PromiseState.RESOLVED)
        assert json.loads(question.value or "")["approved"] is approved
        [event] = await on.trail(AuditKind.RESOLVED)
        assert (event.by, event.origin) == ("ana", Origin(OriginWay.SLACK, "T1:U1", address="127.0.0.1"))
        assert json.loads(event.details or "")["request_id"] == "slack:T1:U1:1.5"
        told = await on.told()
        assert told["replace_original"] is True
        assert f"{'Approved' if approved else 'Rejected'} by ana: Pay 70?" in told["text"]
        assert [block["type"] for block in told["blocks"]] == ["section"]


@in_asyncio
async def test_a_repeated_click_changes_nothing_and_a_later_one_sees_the_winner() -> None:
    async with stage() as on:
        value = await asked(on)
        for _ in range(2):
            assert (await on.click(value)).status_code == 200
        assert (await on.told())["replace_original"] is True
        await on.click(value, "signoff_reject", user="U2", ts="2.5")
        await until(lambda: len([got for got in on.slack.got if got.path == "/response"]) == 3)
        told = await on.told()
        assert told["text"] == "The question is answered: Pay 70? ana was first. Nothing was changed."
        assert told["replace_original"] is True
        assert [block["type"] for block in told["blocks"]] == ["section"]  # no buttons any more
        [refused] = await on.trail(AuditKind.REFUSED)
        assert refused.by == "bob"


@in_asyncio
async def test_an_unknown_or_unassigned_user_is_refused_and_recorded() -> None:
    async with stage() as on:
        value = await asked(on, assignees=["group:finance"])
        for user, by, said in (
            ("U9", "slack:U9", "this Slack user is not configured"),
            ("U2", "bob", "assigned to others"),
        ):
            on.slack.got.clear()
            assert (await on.click(value, user=user)).status_code == 200
            told = await on.told()
            assert (told["response_type"], told["replace_original"]) == ("ephemeral", False)
            assert said in told["text"]
            refused = (await on.trail(AuditKind.REFUSED))[-1]
            assert refused.by == by
            assert json.loads(refused.details or "")["request_id"] == f"slack:T1:{user}:1.5"
        assert await on.state() is PromiseState.PENDING


@in_asyncio
async def test_a_click_of_another_team_is_refused_where_the_team_is_named() -> None:
    async with stage(team="T1") as on:
        value = await asked(on)
        for team in ({"team_id": "T2"}, {"team_id": "t1"}, {}):
            on.slack.got.clear()
            assert (await on.click(value, team=team)).status_code == 200
            assert "this Slack user is not configured" in (await on.told())["text"]
            assert (await on.trail(AuditKind.REFUSED))[-1].by == "slack:U1"
        assert await on.state() is PromiseState.PENDING
        await on.click(value)
        assert (await on.scene.store.get_promise("q")).settled_by == "ana"


@in_asyncio
async def test_a_click_on_what_was_not_seen_is_refused() -> None:
    async with stage() as on:
        value = json.loads(await asked(on))
        await on.click(json.dumps({**value, "digest": "0" * 64}))
        assert "Not accepted" in (await on.told())["text"]
        await on.click(json.dumps({**value, "id": "other"}), ts="3")
        assert await on.state() is PromiseState.PENDING
        assert len(await on.trail(AuditKind.REFUSED)) == 1


@in_asyncio
async def test_a_vote_leaves_the_buttons_for_others() -> None:
    async with stage() as on:
        policy = Policy.make("Pay?", input_type="approval", quorum=2)
        value = await asked(on, policy=policy)
        await on.click(value)
        told = await on.told()
        assert (told["replace_original"], told["text"]) == (
            False,
            "Approved by ana: more approvals are needed.",
        )
        await on.click(value, user="U2")
        assert await on.state() is PromiseState.RESOLVED


@in_asyncio
async def test_what_slack_has_not_signed_just_now_is_refused() -> None:
    async with stage() as on:
        value = await asked(on)
        now = on.scene.clock.now()
        old = [await on.click(value, at=at) for at in (now - 301, now + 301)]
        body = urlencode({"payload": "{}"}).encode()
        forged = [
            await on.post(body, headers={"x-slack-signature": "v0=" + "0" * 64}),
            await on.post(body, headers={"x-slack-signature": ""}),
            *[
                await on.post(body, headers={"x-slack-request-timestamp": odd})
                for odd in ("soon", "", "nan", "9" * 400, "-" + "9" * 400, "9" * 5_000)
            ],
            await on.post(body, headers={"x-slack-signature": "v1=" + "0" * 64}),
        ]
        assert [response.status_code for response in (*old, *forged)] == [403] * 11
        assert (await on.http.post("/v1/slack/chat/actions", content=body)).status_code == 415
        assert await on.state() is PromiseState.PENDING
        assert await on.trail(AuditKind.REFUSED) == []


@in_asyncio
async def test_what_is_signed_and_makes_no_sense_is_refused_or_passed_over() -> None:
    async with stage() as on:
        value = await asked(on)
        statuses = [
            (await on.post(b"")).status_code,
            (await on.post(b"payload=nothing")).status_code,
            (await on.post(b"payload=%ff")).status_code,
            (await on.click("[]")).status_code,
            (await on.click('{"id": "a\\u0000", "digest": ""}')).status_code,
            (await on.click(value, "signoff_open")).status_code,
            (await on.click(value, type="view_submission")).status_code,
            (await on.post(b"payload=" + b"x" * 300_000)).status_code,
        ]
        assert statuses == [422, 422, 422, 422, 422, 200, 200, 413]
        for channel in ("nobody", "silent"):
            assert (await on.http.post(f"/v1/slack/{channel}/actions")).status_code == 404
        assert await on.state() is PromiseState.PENDING


@in_asyncio
async def test_nothing_but_slack_is_connected_to_for_a_click() -> None:
    async with stage() as on, web() as elsewhere:
        value = await asked(on)
        for k, url in enumerate(
            (
                f"{elsewhere.url}/x",
                "http://hooks.slack.com/x",
                "https://hooks.slack.com:444/x",
                "https://hooks.slack.com@127.0.0.1/x",
                "file:///etc/passwd",
                "",
            )
        ):
            assert (await on.click(value, response_url=url, ts=f"9.{k}")).status_code == 200
        assert elsewhere.got == []
        assert await on.state() is PromiseState.RESOLVED


@in_asyncio
async def test_slack_needs_no_user_of_the_proxy() -> None:
    async with stage(proxy=TrustedProxy("X-User")) as on:
        value = await asked(on)
        assert (await on.http.get("/v1/deliveries")).status_code == 401
        assert (await on.click(value)).status_code == 200
        assert await on.state() is PromiseState.RESOLVED


@in_asyncio
async def test_a_run_that_waits_goes_on_by_a_click(tmp_path: Path) -> None:
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))

    @app.workflow
    async def pay(ctx: Context) -> str:
        answer = await ctx.wait_for_user("Pay?", assignees=["user:ana"])
        return f"{answer.approved} by {answer.user_id}"

    clock = VirtualClock(time.time())
    async with web() as slack, running(app) as client:
        sender = SlackSender(webhook_url=f"{slack.url}/post", answering=Answering(SECRET, USERS))
        async with (
            Server(app, port=0, channels=[Channel("chat", sender)]) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
        ):
            while await app.store.read_cursor("chat") is None:
                await asyncio.sleep(0.01)
            run = await client.start("pay", id="r")
            on = Stage(Scene(app.store, clock, clock), http, slack)
            assert (await on.click(await on.value())).status_code == 200
            assert await run.result() == "True by ana"
