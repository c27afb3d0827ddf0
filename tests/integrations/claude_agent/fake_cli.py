"""Plays the CLI of the Claude Agent SDK: it wants to use tools, and notes what it may do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from claude_agent_sdk import Transport

RESULT = {
    "type": "result",
    "subtype": "success",
    "duration_ms": 1,
    "duration_api_ms": 1,
    "is_error": False,
    "num_turns": 1,
    "session_id": "s",
    "result": "done",
}


class FakeCli(Transport):
    """Asks for permission for each wanted call, all at once, and then ends the turn.

    Args:
        wanted: The calls, as (tool, input, tool use id).

    Attributes:
        replies: The SDK's answers, by tool use id.
    """

    def __init__(self, *wanted: tuple[str, dict[str, Any], str], **facts: Any) -> None:
        self._wanted = wanted
        self._facts = facts
        self._out = asyncio.Queue[dict[str, Any] | None]()
        self.replies: dict[str, dict[str, Any]] = {}

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            reply = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            await self._out.put({"type": "control_response", "response": reply})
        elif message["type"] == "user":
            for tool, given, use in self._wanted:
                request = {"subtype": "can_use_tool", "tool_name": tool, "input": given, "tool_use_id": use}
                await self._out.put(
                    {"type": "control_request", "request_id": use, "request": {**request, **self._facts}}
                )
        elif message["type"] == "control_response":
            response = message["response"]
            self.replies[response["request_id"]] = response
            if len(self.replies) == len(self._wanted):
                await self._out.put(RESULT)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    async def close(self) -> None:
        await self._out.put(None)

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass
