"""Pictures and files in conversations: sent by people, returned by tools, kept with the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai import Agent, BinaryContent, DocumentUrl
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from signoff import Signoff
from signoff.agents import Approve, Durable, Finished, Paused
from signoff.errors import PayloadTooLarge
from tests.support import in_asyncio, new_app, running

DRAWN = BinaryContent(bytes(range(256)), media_type="image/png")
SCANNED = BinaryContent(b"%PDF-\x00\xff", media_type="application/pdf")
LINKED = DocumentUrl("https://files.example/1.pdf")
SAID: list[UserContent] = ["what is that?", SCANNED, LINKED]


class Seen:
    """A model that draws, once a person lets it, and notes what it was shown."""

    def __init__(self) -> None:
        self.requests: list[list[ModelMessage]] = []

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(messages)
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("that is it")])
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("as I said")])
        return ModelResponse(parts=[ToolCallPart("draw", {}, "call-1")])


def process(folder: Path) -> tuple[Signoff, Seen]:
    app, model = new_app(folder), Seen()
    agent = Agent(FunctionModel(model), name="painter", capabilities=[Durable()])

    @agent.tool_plain(requires_approval=True)
    async def draw() -> BinaryContent:
        return DRAWN

    app.register(agent)
    return app, model


def shown(messages: list[ModelMessage]) -> list[object]:
    """What a model was shown, apart from words of its own."""
    contents: list[object] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            contents.extend([part.content] if isinstance(part.content, str) else part.content)
        elif isinstance(part, ToolReturnPart):
            contents.append(part.content)
    return [(each.data, each.media_type) if isinstance(each, BinaryContent) else each for each in contents]


@in_asyncio
async def test_pictures_are_unchanged_in_another_process_and_the_next_turn(tmp_path: Path) -> None:
    app, _ = process(tmp_path)
    async with running(app):
        turn = await app.conversation("painter", session_id="c").run(SAID)
        assert isinstance(turn, Paused)
    other, model = process(tmp_path)
    async with running(other):
        chat = other.conversation("painter", session_id="c")
        turn = await chat.respond(turn.pending[0].id, Approve())
        assert isinstance(turn, Finished)
        assert turn.output == "that is it"
        assert isinstance(await chat.run("again"), Finished)
    seen = ["what is that?", (SCANNED.data, "application/pdf"), LINKED, (DRAWN.data, "image/png")]
    assert shown(model.requests[0]) == seen
    assert shown(model.requests[-1]) == [*seen, "again"]


@in_asyncio
async def test_a_picture_that_is_too_large_is_refused_before_a_turn_begins(tmp_path: Path) -> None:
    app, model = process(tmp_path)
    async with running(app):
        chat = app.conversation("painter", session_id="c")
        with pytest.raises(PayloadTooLarge):
            await chat.run(["see", BinaryContent(b"\0" * 1_000_000, media_type="image/png")])
        assert await chat.messages() == []
        assert isinstance(await chat.run(SAID), Paused)
    assert len(model.requests) == 1
