"""Checks whether message histories are complete, as model providers require."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff.agents import Conversation
from tests.agents.chats import texts_of


def check(history: Sequence[ModelMessage]) -> None:
    """Fail unless every provider takes a history: what strict ones ask for, without any repair."""
    open_calls: list[str] = []
    before: ModelMessage | None = None
    for message in history:
        if isinstance(message, ModelRequest):
            assert message.parts, "an empty request"
            returned = [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
            assert sorted(returned) == sorted(open_calls), (
                "each call has one return, right after its response"
            )
            assert not isinstance(before, ModelRequest), "two requests in a row"
            open_calls = []
        else:
            assert isinstance(before, ModelRequest), "a response to nothing"
            assert not open_calls
            open_calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        before = message
    assert not open_calls
    assert before is None or isinstance(before, ModelResponse), "a turn ends with a response"


async def is_accepted(history: Sequence[ModelMessage]) -> None:
    """Have Pydantic AI go on with a history; it must send it as it is."""
    sent: list[list[ModelMessage]] = []

    async def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(list(messages))
        return ModelResponse(parts=[TextPart("fine")])

    result = await Agent(FunctionModel(model)).run("go on", message_history=history)
    assert result.output == "fine"
    assert texts_of(sent[0]) == [*texts_of(history), "go on"]
    check([*sent[0], ModelResponse(parts=[TextPart("fine")])])


async def is_whole(chat: Conversation) -> Sequence[ModelMessage]:
    """Return a session's history, which strict providers take and Pydantic AI goes on with."""
    history = await chat.messages()
    assert history
    check(history)
    await is_accepted(history)
    return history
