"""A process whose agent's model outputs some words, waits until a file ``go`` exists, and outputs the rest."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingCalls, DeltaThinkingPart, FunctionModel

from signoff import Signoff
from signoff.agents import Durable
from tests.support import new_app


def speaking_app(folder: Path) -> Signoff:
    """An app with an agent whose model hesitates."""

    async def speak(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaThinkingCalls]:
        yield {0: DeltaThinkingPart(content="Let me see. ")}
        yield "Once "
        yield "upon "
        while not (folder / "go").exists():
            await asyncio.sleep(0.01)
        yield "a time"

    app = new_app(folder)
    model = FunctionModel(stream_function=speak)
    app.register(Agent(model, name="teller", capabilities=[Durable(stream=True)]))
    return app


async def main(folder: Path) -> None:
    async with speaking_app(folder).worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
