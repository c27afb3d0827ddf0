"""Publishes a model's output live."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import TypeVar

from pydantic_ai import RunContext
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.messages import (
    AgentStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
)

from signoff.engine.steps.attempt import current_step

D = TypeVar("D")


def speaking(handler: EventStreamHandler[D] | None) -> EventStreamHandler[D]:
    """Return a handler that publishes a model request's events live, and passes them on to another handler."""

    async def handle(ctx: RunContext[D], events: AsyncIterable[AgentStreamEvent]) -> None:
        spoken = _spoken(events)
        if handler is not None:
            await handler(ctx, spoken)
        async for _ in spoken:
            pass

    return handle


async def _spoken(events: AsyncIterable[AgentStreamEvent]) -> AsyncIterator[AgentStreamEvent]:
    here = current_step()
    async for event in events:
        match event:
            case (
                PartStartEvent(part=TextPart(content=text))
                | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
            ):
                here.live(text)
            case PartStartEvent(part=ThinkingPart(content=text)):
                here.live(text, kind="thinking")
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))):
                here.live(text, kind="thinking")
            case _:
                pass
        yield event
