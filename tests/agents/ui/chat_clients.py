"""The npm clients of AG-UI and of the Vercel AI SDK, in one process of Node, and a web service for them."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request

from signoff.agents.ui import Caller, Chats, ag_ui_route, vercel_ai_routes
from signoff.server.process.uvicorn_server import Serving, bind, url_of
from tests.node_programs import ROOT, node_command
from tests.support import PATIENCE_SECONDS

PACKAGES = ROOT / "examples/chat_ui"


def by_header(request: Request) -> Caller | None:
    """Authenticate by a header: ``ana``, or ``ana finance`` with a group."""
    user, *groups = request.headers.get("x-user", "").split() or [""]
    return Caller(user, groups=groups) if user else None


def web_app(source: Any, agent: str, **options: Any) -> Starlette:
    """The routes of both protocols."""
    chats = Chats(source=source, agent=agent, **{"caller": by_header, **options})
    return Starlette(routes=[ag_ui_route("/agent", chats), *vercel_ai_routes("/chat", chats)])


@asynccontextmanager
async def serving_web(source: Any, agent: str, **options: Any) -> AsyncIterator[str]:
    """Serve the routes of both protocols on this loop."""
    listener = bind("127.0.0.1", 0)
    serving = Serving(web_app(source, agent, **options), listener)
    await serving.listening.wait()
    try:
        yield url_of("127.0.0.1", listener.getsockname()[1])
    finally:
        await serving.stop()
        listener.close()


class Node:
    """A process of Node with chat clients."""

    def __init__(self) -> None:
        command = node_command(PACKAGES, Path(__file__).with_suffix(".mjs"))
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._numbers = itertools.count()
        self._calls: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def call(self, client: str, does: str, **options: Any) -> Future[Any]:
        """Have a client do something."""
        number = next(self._numbers)
        reply = self._calls[number] = Future[Any]()
        assert self._process.stdin is not None
        self._process.stdin.write(
            json.dumps({"call": number, "client": client, "does": does, **options}) + "\n"
        )
        self._process.stdin.flush()
        return reply

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            call = self._calls.pop(reply["call"])
            if call.set_running_or_notify_cancel():
                call.set_result(reply["reply"])


@contextmanager
def node() -> Iterator[Node]:
    running = Node()
    try:
        yield running
    finally:
        running.close()


class Client:
    """A chat client: a tab of a browser."""

    _names = itertools.count()

    def __init__(self, node: Node, **options: Any) -> None:
        self._node = node
        self._name = f"client-{next(self._names)}"
        self._node.call(self._name, "open", **options).result(PATIENCE_SECONDS)

    async def do(self, does: str, **options: Any) -> dict[str, Any]:
        """Have it do something, and return its state afterwards."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await asyncio.wrap_future(self._node.call(self._name, does, **options))


def said(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Return who has said what, in an AG-UI client."""
    return [(each["role"], each["content"]) for each in state["messages"] if each.get("content")]


def kinds(state: dict[str, Any]) -> list[str]:
    """Return the types of the events that an AG-UI client got."""
    return [each["type"] for each in state["events"]]


def approve(interrupt: dict[str, Any], **payload: Any) -> dict[str, Any]:
    """An entry of ``resume``."""
    return {"interruptId": interrupt["id"], "payload": {"approved": True, **payload}}


def deny(interrupt: dict[str, Any], reason: str) -> dict[str, Any]:
    """An entry of ``resume``."""
    return {"interruptId": interrupt["id"], "payload": {"approved": False, "reason": reason}}


def parts(state: dict[str, Any], kind: str = "") -> list[dict[str, Any]]:
    """Return the parts of the last message in a client of the Vercel AI SDK."""
    return [each for each in state["messages"][-1]["parts"] if each["type"].startswith(kind)]
