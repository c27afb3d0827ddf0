"""An agent for tests of conversations: its model follows plain instructions in the prompt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AbstractToolset

from signoff import AsyncClient, Signoff
from signoff.agents import Conversation, Durable
from signoff.runtime.clock import Clock
from signoff.stores.contract.store import Store
from signoff.stores.remote.store import RemoteStore
from tests.support import new_app, running


class ObedientModel:
    """Calls ``<tool>`` for each further word of ``<tool> <word> ...``, then tells what came of it."""

    def __init__(self, tools: Sequence[str], *, argument: str = "path") -> None:
        self.tools = tools
        self.argument = argument
        self.prefix = ""
        self.seen: list[list[str]] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(texts_of(messages))
        self.asked.set()
        await self.gate.wait()
        last = messages[-1].parts
        results = [part.model_response_str() for part in last if isinstance(part, ToolReturnPart)]
        prompts = [str(part.content) for part in last if isinstance(part, UserPromptPart)]
        if any("bomb" in each for each in results):
            raise ValueError("the model cannot read that")
        if results:
            return ModelResponse(parts=[TextPart("; ".join(["did: " + ", ".join(results), *prompts]))])
        word, *rest = (self.prefix + prompts[-1]).split() or [""]
        if word == "break":
            raise ValueError("the model is broken")
        if word in self.tools:
            turn = len(self.seen)
            calls = [each.rpartition(":") for each in rest]
            return ModelResponse(
                parts=[
                    ToolCallPart(tool or word, {self.argument: argument}, f"{word}-{turn}-{argument}")
                    for tool, _, argument in calls
                ]
            )
        return ModelResponse(parts=[TextPart("heard " + prompts[-1])])


class Chats:
    """A process with an agent: ``rm`` needs approval, ``cat`` does not.

    Args:
        place: A folder for a SQLite store, or a store.
        durable: What ``Durable`` takes.
        clock: The SQLite store's clock.
        while_reading: Called by ``cat``.
        toolsets: Further tools.
        registered: What ``app.register`` takes.
    """

    def __init__(
        self,
        place: Path | Store,
        *,
        durable: dict[str, Any] | None = None,
        clock: Clock | None = None,
        while_reading: Callable[[], None] = lambda: None,
        toolsets: Sequence[AbstractToolset[Any]] = (),
        **registered: Any,
    ) -> None:
        self.app = new_app(place, clock=clock) if isinstance(place, Path) else Signoff(place)
        self.while_reading = while_reading
        self.removed: list[str] = []
        self.read: list[str] = []
        self.deps: list[Any] = []
        self.slow = asyncio.Event()
        self.hangs = True
        self.model = ObedientModel(["rm", "cat"])
        self.agent = Agent(
            FunctionModel(self.model),
            name="support",
            deps_type=dict[str, Any],
            toolsets=toolsets,
            capabilities=[Durable(**(durable or {}))],
        )
        self.agent.tool(requires_approval=True)(self.rm)
        self.agent.tool_plain(self.cat)
        self.app.register(self.agent, **registered)

    async def rm(self, ctx: RunContext[dict[str, Any]], path: str) -> str:
        """Remove a file."""
        if path == "slow" and self.hangs:
            self.slow.set()
            await asyncio.Event().wait()
        self.deps.append(ctx.deps)
        self.removed.append(path)
        return f"removed {path}"

    async def cat(self, path: str) -> str:
        """Read a file."""
        if path == "missing":
            raise FileNotFoundError(path)
        if path == "slow" and self.hangs:
            self.slow.set()
            await asyncio.Event().wait()
        self.while_reading()
        self.read.append(path)
        return f"text of {path}"

    def conversation(self, session_id: str) -> Conversation:
        if isinstance(self.app.store, RemoteStore):
            return Conversation(self.client, "support", session_id=session_id)
        return self.app.conversation("support", session_id=session_id)

    @asynccontextmanager
    async def running(self, **options: Any) -> AsyncIterator[Chats]:
        """A worker, and a client: of the HTTP API if the store is remote, since worker keys open no resume tokens."""
        async with running(self.app, **options) as self.client:
            if not isinstance(self.app.store, RemoteStore):
                yield self
                return
            async with AsyncClient(self.app.store.location) as self.client:
                yield self


def texts_of(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what was said, by the user and the agent."""
    return [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, (UserPromptPart, TextPart))
    ]


def returns_of(messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
    """Return what tools have returned."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
