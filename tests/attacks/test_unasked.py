"""People with rights cannot answer another's question: not by a role, a missing requester, or a second login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RunState
from signoff.server import OpenIdConnect, Role, Server
from signoff.testing import VirtualClock
from tests.server.conftest import app_in, asked, kind, serving, start
from tests.server.provider import CLIENT, PUBLIC, SECRET, Browser, LocalProvider
from tests.server.proxied import PROXY, refusals, through
from tests.support import OnThread, in_asyncio, new_app, running, until

ATTEMPTS: list[tuple[str, dict[str, Any]]] = [
    ("answer", {"value": True}),
    ("claim", {}),
    ("release", {}),
    ("delegate", {"to": ["user:eve"]}),
]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.OPERATOR, Role.ADMIN])
def test_no_role_answers_what_is_assigned_to_others(tmp_path: Path, role: Role) -> None:
    with (
        OnThread(lambda: serving(app_in(tmp_path), proxy=PROXY)) as server,
        through(server, "boss", roles="operator") as boss,
        through(server, "ana") as ana,
        through(server, "eve", groups="sales", roles=role.value) as eve,
    ):
        start(boss, "sign", "r", ["user:ana", "group:finance", "role:approver"])
        question = asked(boss, "r")
        assert ana.post(f"/v1/questions/{question}/claim", json={}).status_code == 200
        for verb, body in ATTEMPTS:
            refused = eve.post(f"/v1/questions/{question}/{verb}", json=body)
            assert (refused.status_code, kind(refused)) == (403, "NotAllowed"), verb
        given = {"answers": [{"question_id": question, "value": True}]}
        [one] = eve.post("/v1/questions/answers", json=given).json()["items"]
        assert one["problem"]["type"] == "urn:signoff:NotAllowed"
        assert set(refusals(boss, question)) == {("eve", "NotAllowed")}
        left = boss.get(f"/v1/questions/{question}").json()
        assert (left["state"], left["assignees"]) == (
            "pending",
            ["user:ana", "group:finance", "role:approver"],
        )


@in_asyncio
async def test_a_schedules_run_has_no_requester_so_four_eyes_fail_it(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    app = new_app(tmp_path, clock=clock)

    @app.workflow
    async def deploy(ctx: Context) -> bool | None:
        return (await ctx.wait_for_user("Deploy?", exclude_requester=True)).approved

    async with running(app) as client:
        await client.schedules.put("nightly", "deploy", cron="0 9 * * *")
        clock.advance(86_400)

        async def failed() -> str | None:
            runs = (await client.list()).items
            return runs[0].error if runs and runs[0].state is RunState.FAILED else None

        assert "exclude_requester" in await until(app, failed)
        assert (await client.questions()).items == ()


@asynccontextmanager
async def with_both(folder: Path) -> AsyncIterator[tuple[Server, LocalProvider]]:
    """A server behind a proxy that signs people in, and with a provider that does, too."""
    clock = VirtualClock()
    app = app_in(folder, clock=clock)
    async with LocalProvider(clock).serving() as provider:
        openid = OpenIdConnect(provider.url, CLIENT, PUBLIC, SECRET)
        async with serving(app, openid=openid, proxy=PROXY) as server:
            yield server, provider


def test_proxy_headers_do_not_change_a_signed_in_user(tmp_path: Path) -> None:
    with OnThread(lambda: with_both(tmp_path)) as (server, _), Browser(server) as browser:
        forged = {"x-forwarded-user": "boss", "x-forwarded-roles": "admin", "x-forwarded-groups": "board"}
        assert browser.send("GET", "/v1/me", **forged).json()["way"] == "proxy"
        assert browser.sign_in().status_code == 303
        me = browser.send("GET", "/v1/me", **forged).json()
        assert (me["user_id"], me["way"]) == ("ana@example.com", "login")
        assert (me["groups"], me["roles"]) == ([], ["responder"])
        assert kind(browser.send("GET", "/v1/runs", **forged)) == "AccessDenied"


def test_another_spelling_of_a_name_is_the_same_person_for_four_eyes_only(tmp_path: Path) -> None:
    with (
        OnThread(lambda: serving(app_in(tmp_path), proxy=PROXY)) as server,
        through(server, "boss", roles="operator") as boss,
        through(server, "BOSS", roles="operator") as shouted,
        through(server, "Ana") as ana,
    ):
        start(boss, "sign", "r", [], True)
        question = asked(boss, "r")
        for http in (boss, shouted):
            refused = http.post(f"/v1/questions/{question}/answer", json={"value": True})
            assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
        start(boss, "sign", "s", ["user:ana"])
        other = asked(boss, "s")
        refused = ana.post(f"/v1/questions/{other}/answer", json={"value": True})
        assert (refused.status_code, kind(refused)) == (403, "NotAllowed")
        assert ana.post(f"/v1/questions/{question}/answer", json={"value": True}).status_code == 200
