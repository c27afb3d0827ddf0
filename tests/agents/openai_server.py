"""A real HTTP server with OpenAI's chat completions API and a script."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Said = str | list[tuple[str, dict[str, Any]]]
"""Words, or tool calls."""


@dataclass(frozen=True)
class Cut:
    """The beginning of a reply.

    Attributes:
        said: The reply.
        pieces: How much is sent: events of a stream, else bytes.
        dropped: Whether the connection is lost then, instead of being closed in good order.
        finished: What it says of why it ends.
    """

    said: Said
    pieces: int
    dropped: bool = False
    finished: str | None = None


@dataclass(frozen=True)
class Held:
    """Streamed words, the last one when the test releases it, or after ``SECONDS_HELD``.

    Attributes:
        said: The words.
        go: What lets it go.
    """

    said: str
    go: threading.Event


SECONDS_HELD = 60.0

Reply = Said | int | Response | Cut | Held | None
"""Something said, a status that refuses, a whole response, a part of a reply, or None: nothing is ever said."""


class Provider:
    """Replies one after the other.

    Attributes:
        client: A client of it, which tries nothing again by itself.
        requests: The bodies that came.
    """

    client: AsyncOpenAI

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = replies
        self.requests: list[dict[str, Any]] = []

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make it an example's model."""
        return {
            "SIGNOFF_DEMO_MODEL": "openai-chat:scripted",
            "OPENAI_BASE_URL": str(self.client.base_url),
            "OPENAI_API_KEY": "sk-test",
            "NO_PROXY": "127.0.0.1",
        }

    async def complete(self, request: Request) -> Response:
        """Answer ``POST /v1/chat/completions``."""
        body = await request.json()
        reply = self._replies[len(self.requests)]
        self.requests.append(body)
        if reply is None:
            while not await request.is_disconnected():
                await asyncio.sleep(0.01)
            return Response()
        if isinstance(reply, Response):
            return reply
        if isinstance(reply, int):
            return JSONResponse({"error": {"message": "no", "type": "test"}}, reply)
        if isinstance(reply, Held):
            if not body.get("stream"):
                return _whole(reply.said, None)
            return StreamingResponse(_held(reply), media_type="text/event-stream")
        cut = reply if isinstance(reply, Cut) else None
        made = _streamed if body.get("stream") else _whole
        return made(cut.said if cut else reply, cut)


def _streamed(said: Said, cut: Cut | None) -> Response:
    message, finished = _message(said)
    events = list(_events(message, (cut and cut.finished) or finished))
    return StreamingResponse(_sent(events, cut), media_type="text/event-stream")


def _whole(said: Said, cut: Cut | None) -> Response:
    message, finished = _message(said)
    choice = {"index": 0, "message": message, "finish_reason": (cut and cut.finished) or finished}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    text = json.dumps({**_frame("chat.completion"), "choices": [choice], "usage": usage})
    return StreamingResponse(_sent(text, cut), media_type="application/json")


async def _sent(pieces: Sequence[str], cut: Cut | None) -> AsyncIterator[str]:
    for piece in pieces[: cut.pieces if cut else None]:
        yield piece
    if cut is not None and cut.dropped:
        raise ConnectionAbortedError  # the server closes the connection in the middle of the body


async def _held(reply: Held) -> AsyncIterator[str]:
    *first, last, finish, done = _events(*_message(reply.said))
    for event in first:
        yield event
    give_up_at = time.monotonic() + SECONDS_HELD
    while not reply.go.is_set() and time.monotonic() < give_up_at:
        await asyncio.sleep(0.01)
    for event in (last, finish, done):
        yield event


def _message(said: Said) -> tuple[dict[str, Any], str]:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}, "stop"
    called = [_tool_call(index, *each) for index, each in enumerate(said)]
    return {"role": "assistant", "content": None, "tool_calls": called}, "tool_calls"


def _tool_call(index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": index, "id": f"call_{name}_{index}", "type": "function", "function": function}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "scripted"}


def _events(message: dict[str, Any], finished: str) -> Iterator[str]:
    words = (message.get("content") or "").split(" ")
    deltas = (
        [{"content": word if n == 0 else f" {word}"} for n, word in enumerate(words)] if words != [""] else []
    )
    if "tool_calls" in message:
        deltas.append({"tool_calls": message["tool_calls"]})
    for delta in ({"role": "assistant"}, *deltas):
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield f"data: {json.dumps({**_frame('chat.completion.chunk'), 'choices': [choice]})}\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": finished}
    yield f"data: {json.dumps({**_frame('chat.completion.chunk'), 'choices': [last]})}\n\n"
    yield "data: [DONE]\n\n"


@asynccontextmanager
async def provider(*replies: Reply) -> AsyncIterator[Provider]:
    """Serve replies on a free port of the loopback interface."""
    made = Provider(replies)
    async with served(
        Starlette(routes=[Route("/v1/chat/completions", made.complete, methods=["POST"])])
    ) as url:
        made.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-test", max_retries=0)
        try:
            yield made
        finally:
            await made.client.close()


@asynccontextmanager
async def served(app: Starlette) -> AsyncIterator[str]:
    """Serve an app on a free port of the loopback interface; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
