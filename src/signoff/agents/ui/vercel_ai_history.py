"""The history of a conversation as messages of the Vercel AI SDK: one of the assistant for each turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic_ai.messages import ModelMessage
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from pydantic_ai.ui.vercel_ai.request_types import (
    StepStartUIPart,
    ToolApprovalRequested,
    ToolApprovalRequestedPart,
    ToolInputAvailablePart,
    UIMessage,
    UIMessagePart,
)

from signoff.agents.conversations.turn_watcher import open_questions_of
from signoff.agents.ui.decisions import Shown
from signoff.agents.ui.session_stream import SessionStream
from signoff.agents.ui.turn_reader import TurnReader
from signoff.client.async_client import AsyncClient

SDK: Final = 6
"""The version of the message stream. That of version 7 of the SDK is the same."""

ANSWER: Final = "-answer"
"""The end of the id of the assistant's message of a turn, after the id of its run."""


def answer_id(run_id: str) -> str:
    """Return the id of the assistant's message of a turn."""
    return run_id + ANSWER


def place_in(reader: TurnReader) -> dict[str, Any]:
    """Return the metadata of a turn's message: the last entry of the turn's journal that it shows."""
    return {"signoff": {"turn": reader.run_id, "seq": reader.seq}}


async def history_of(client: AsyncClient, agent: str, session_id: str) -> Sequence[UIMessage]:
    """Return the messages of a session, with those of the current turn as far as it has come."""
    session = SessionStream(client, agent, session_id)
    run = await session.current()
    if run is None:
        return []
    if run.state.is_final:
        return _dumped(await session.messages(run), {}, None)
    reader = TurnReader(run.id)
    reader.skip(await client.backend.read_journal(run.id))
    _, questions = await open_questions_of(client.backend, run)
    shown = (Shown.of(each, run.id) for each in questions)
    asked = {each.tool_call_id: each.id for each in shown if each.is_approval and each.tool_call_id}
    return _dumped(await session.messages(run, reader), asked, reader)


def _dumped(
    messages: Sequence[ModelMessage], asked: Mapping[str, str], current: TurnReader | None
) -> list[UIMessage]:
    turns: dict[str, list[ModelMessage]] = {}
    for message in messages:
        turns.setdefault(message.run_id or "", []).append(message)
    found: list[UIMessage] = []
    for run_id, added in turns.items():
        said: list[UIMessagePart] = []
        prompts = 0
        for message in VercelAIAdapter.dump_messages(added, sdk_version=SDK):
            if message.role == "assistant":
                said += [StepStartUIPart(), *(_as_asked(part, asked) for part in message.parts)]
            elif message.role == "user":
                prompts += 1
                id = run_id if prompts == 1 else f"{run_id}-{prompts}"
                found.append(UIMessage(id=id, role="user", parts=message.parts))
        if said:
            answer = UIMessage(id=answer_id(run_id), role="assistant", parts=said)
            if current is not None and current.run_id == run_id:
                answer.metadata = place_in(current)
            found.append(answer)
    return found


def _as_asked(part: UIMessagePart, asked: Mapping[str, str]) -> UIMessagePart:
    """Return a part of a call without a result with its question, if it has one: other calls are running."""
    if not isinstance(part, ToolApprovalRequestedPart):
        return part
    if part.tool_call_id in asked:
        return part.model_copy(update={"approval": ToolApprovalRequested(id=asked[part.tool_call_id])})
    return ToolInputAvailablePart(
        type=part.type,
        tool_call_id=part.tool_call_id,
        input=part.input,
        call_provider_metadata=part.call_provider_metadata,
    )
