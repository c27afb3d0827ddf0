"""Processes of a chat: a worker whose model hesitates in the middle of its words, or a web service."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from signoff import Signoff
from signoff.agents import Durable
from signoff.server.process.uvicorn_server import Serving, bind
from tests.agents.ui.chat_clients import web_app
from tests.support import new_app

AGENT = "teller"


def chat_app(folder: Path) -> Signoff:
    """An app whose agent says something, asks to remove a file, and tells the outcome; it waits for a file ``go``."""

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        said = [part for each in messages if isinstance(each, ModelResponse) for part in each.parts]
        yield "Once "
        yield "upon " if any(isinstance(part, TextPart) for part in said) or not returned else ""
        while not (folder / "go").exists():
            await asyncio.sleep(0.01)
        yield "a time"
        if returned:
            yield f": {returned[0].content}"
        else:
            yield {1: DeltaToolCall("rm", '{"path": "a"}', tool_call_id="call-1")}

    app = new_app(folder)
    agent = Agent(FunctionModel(stream_function=speak), name=AGENT, capabilities=[Durable(stream=True)])

    @agent.tool_plain(requires_approval=True)
    async def rm(path: str) -> str:
        with (folder / "removed").open("a") as file:
            file.write(f"{path}\n")
        return f"removed {path}"

    app.register(agent)
    return app


async def main(folder: Path, port: int | None) -> None:
    app = chat_app(folder)
    if port is None:
        async with app.worker():
            await asyncio.Event().wait()
    else:
        serving = Serving(web_app(app, AGENT), bind("127.0.0.1", port))
        await serving.task


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else None))
