"""A stand-in for Slack's API and its modals: opens them, fills them in, and submits them."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View
from starlette.responses import JSONResponse, Response

from signoff.people.notifications.channels.channel import Channel
from signoff.people.notifications.channels.slack import Answering, SlackSender
from signoff.server import Server
from signoff.stores.contract.store import Store
from signoff.testing import MemoryStore, VirtualClock
from tests.notifications.asking import ask
from tests.notifications.receivers import Web, web
from tests.notifications.slack_limits import broken_limits
from tests.notifications.slack_stage import SECRET, USERS, Stage
from tests.stores.scene import Scene, until


@dataclass
class Workspace(Stage):
    """A server whose channel has a bot token, and the Slack that takes its calls.

    Attributes:
        script: What Slack says next, by method.
    """

    script: dict[str, list[Any]]

    def calls(self, method: str) -> list[Any]:
        return [got.json for got in self.slack.got if got.path == f"/{method}"]

    async def asked(self, id: str = "q", **form: Any) -> list[dict[str, Any]]:
        """Ask, and return the buttons of the message."""
        before = len(self.calls("chat.postMessage"))
        await ask(self.scene, id, **form)
        self.scene.clock.advance(0)
        await until(lambda: len(self.calls("chat.postMessage")) > before, seconds=10)
        return self.buttons()

    def buttons(self) -> list[dict[str, Any]]:
        """The buttons of the last message."""
        blocks = self.calls("chat.postMessage")[-1]["blocks"]
        return [each for block in blocks if block["type"] == "actions" for each in block["elements"]]

    async def opened(self, **more: Any) -> dict[str, Any]:
        """Click the button that opens the form, and return the modal."""
        before = len(self.calls("views.open"))
        value = next(each["value"] for each in self.buttons() if each["action_id"] == "signoff_answer")
        assert (await self.click(value, "signoff_answer", trigger_id="t.1", **more)).status_code == 200
        await until(lambda: len(self.calls("views.open")) > before, seconds=10)
        call = self.calls("views.open")[-1]
        assert call["trigger_id"] == "t.1"
        view = call["view"]
        assert broken_limits(view) == []
        View(**view).validate_json()  # by Slack's own models
        for block in view["blocks"]:
            parsed = Block.parse(block)
            assert parsed is not None
            parsed.validate_json()
        return view

    async def submit(
        self, view: dict[str, Any], values: dict[str, Any], *, user: str = "U1", id: str = "V1", **more: Any
    ) -> Any:
        """Submit a modal with these values, the others as they are shown. Returns Slack's instruction."""
        state = {
            block["block_id"]: {
                "value": {
                    "type": block["element"]["type"],
                    **entered(block["element"], values.get(block["block_id"])),
                }
            }
            for block in view["blocks"]
            if block["type"] == "input"
        }
        assert values.keys() <= state.keys()
        payload = {
            "type": "view_submission",
            "user": {"id": user, "team_id": "T1"},
            "view": {**view, "id": id, "hash": "156.7", "state": {"values": state}},
            **more,
        }
        response = await self.post(urlencode({"payload": json.dumps(payload)}).encode())
        assert response.status_code == 200, response.text
        return response.json() if response.content else None


def entered(element: dict[str, Any], value: Any) -> dict[str, Any]:
    """The state of an input: of the option with a text, of a text, or of what it shows at first."""
    groups = element.get("option_groups", [{"options": element.get("options", [])}])
    options = {option["text"]["text"]: option for group in groups for option in group["options"]}
    match element["type"]:
        case "static_select" | "radio_buttons":
            return {"selected_option": element.get("initial_option") if value is None else options[value]}
        case "multi_static_select" | "checkboxes":
            chosen = (
                element.get("initial_options", []) if value is None else [options[each] for each in value]
            )
            return {"selected_options": chosen}
        case "datepicker":
            return {"selected_date": element.get("initial_date") if value is None else value}
        case _:
            text = element.get("initial_value") if value is None else value
            return {"value": text or None}  # Slack sends null for an empty text


@asynccontextmanager
async def slack_api(script: dict[str, list[Any]] | None = None) -> AsyncIterator[Web]:
    """Slack's API: each method says the next of its script, a status or JSON, and then that all is well."""
    numbers = itertools.count(1)
    async with web() as server:

        async def reply() -> Response:
            got = server.got[-1]
            method = got.path.removeprefix("/")
            if method == "response":
                return Response("ok")
            assert got.headers["authorization"] == "Bearer xoxb-1"
            if script is not None and script.get(method):
                said = script[method].pop(0)
                return Response(status_code=said) if isinstance(said, int) else JSONResponse(said)
            if method == "chat.postMessage":
                ts = f"1700.{next(numbers):06}"
                return JSONResponse({"ok": True, "channel": f"D{got.json['channel']}", "ts": ts})
            return JSONResponse({"ok": True})

        server.otherwise = reply
        yield server


@asynccontextmanager
async def workspace(store: Store | None = None, **options: Any) -> AsyncIterator[Workspace]:
    clock = VirtualClock(time.time())
    scene = Scene(store or MemoryStore(clock=clock), clock, VirtualClock())
    script: dict[str, list[Any]] = {}
    async with slack_api(script) as slack:
        sender = SlackSender(token="xoxb-1", api_url=slack.url, answering=Answering(SECRET, USERS))
        channel = Channel("chat", sender, to=("C1",), public_url="https://s.example.org")
        async with (
            Server(scene.store, port=0, channels=[channel], **options) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, verify=False, timeout=60) as http,
        ):
            on = Workspace(scene, http, slack, script)
            while await scene.store.read_cursor("chat") is None:
                await asyncio.sleep(0.01)
            yield on
