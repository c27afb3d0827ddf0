"""A stand-in for Slack: its users, clicks and messages."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.records import AuditEvent, AuditKind, PromiseState
from signoff.records.paging import AuditFilter
from signoff.records.responders import Responder
from signoff.server import Server
from signoff.testing import MemoryStore, VirtualClock
from tests.notifications.asking import ask
from tests.notifications.receivers import Web, web
from tests.stores.scene import Scene, until

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"


USERS = {"U1": Responder("ana", frozenset({"finance"})), "U2": Responder("bob")}


@dataclass
class Stage:
    """A server with a channel of Slack's, and the Slack that its messages go to."""

    scene: Scene
    http: httpx.AsyncClient
    slack: Web

    async def value(self) -> str:
        """What the buttons of the last message say."""
        await until(lambda: bool(self.slack.got))
        return self.slack.got[-1].json["blocks"][-1]["elements"][0]["value"]

    async def click(
        self,
        value: str,
        action: str = "signoff_approve",
        *,
        user: str = "U1",
        team: dict[str, str] | None = None,
        at: float | None = None,
        ts: str = "1.5",
        **more: Any,
    ) -> httpx.Response:
        payload = {
            "type": "block_actions",
            "user": {"id": user, **({"team_id": "T1"} if team is None else team)},
            "actions": [{"action_id": action, "value": value, "action_ts": ts}],
            "response_url": f"{self.slack.url}/response",
            **more,
        }
        return await self.post(urlencode({"payload": json.dumps(payload)}).encode(), at=at)

    async def post(
        self, body: bytes, *, at: float | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        timestamp = str(int(self.scene.clock.now() if at is None else at))
        digest = hmac.new(SECRET.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256)
        signed = {
            "content-type": "application/x-www-form-urlencoded",
            "x-slack-request-timestamp": timestamp,
            "x-slack-signature": f"v0={digest.hexdigest()}",
        }
        return await self.http.post(
            "/v1/slack/chat/actions", content=body, headers={**signed, **(headers or {})}
        )

    async def told(self) -> dict[str, Any]:
        """The reply to the click."""
        await until(lambda: any(got.path == "/response" for got in self.slack.got))
        return [got.json for got in self.slack.got if got.path == "/response"][-1]

    async def trail(self, kind: AuditKind) -> list[AuditEvent]:
        page = await self.scene.store.list_audit(AuditFilter("q"))
        return [event for event in page.items if event.kind is kind]

    async def state(self) -> PromiseState:
        return (await self.scene.store.get_promise("q")).state


@asynccontextmanager
async def stage(team: str | None = None, **options: Any) -> AsyncIterator[Stage]:
    clock = VirtualClock(time.time())
    scene = Scene(MemoryStore(clock=clock), clock, VirtualClock())
    async with web() as slack:
        sender = SlackSender(webhook_url=f"{slack.url}/post", answering=Answering(SECRET, USERS, team))
        channel = Channel("chat", sender)
        plain = Channel("silent", SlackSender(webhook_url=f"{slack.url}/silent"))
        async with Server(scene.store, port=0, channels=[channel, plain], **options) as server:
            await until(lambda: len(scene.store.model.tables.cursors) == 2)  # type: ignore[attr-defined]
            async with httpx.AsyncClient(
                base_url=server.url, trust_env=False, verify=False, timeout=60
            ) as http:
                yield Stage(scene, http, slack)


async def asked(on: Stage, **more: Any) -> str:
    """Ask, and return what the buttons say."""
    await ask(on.scene, **more)
    on.scene.clock.advance(0)
    await until(lambda: any(got.path == "/post" for got in on.slack.got))
    [message] = [got for got in on.slack.got if got.path == "/post"]
    return message.json["blocks"][-1]["elements"][0]["value"]
