"""The user's messages of a chat as prompts of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart, sanitize_messages

from signoff.agents.conversations.history import Prompt
from signoff.agents.ui.chats import LONGEST_ID
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, NotFound


def prompt_of(sent: Sequence[ModelMessage]) -> Prompt:
    """Return the prompt in a message from a client, without what a client may not say.

    Raises:
        InvalidValue: It has none.
    """
    for message in sanitize_messages([replace(each, metadata=None) for each in sent]):
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart) and part.content:
                return part.content
    raise InvalidValue("messages", "the message is empty")


def check_message_id(id: str) -> None:
    """Raise InvalidValue for an id of a message that is empty or too long."""
    if not 0 < len(id) <= LONGEST_ID:
        raise InvalidValue("messages", f"a message's id has 1 to {LONGEST_ID} characters")


async def is_turn(client: AsyncClient, session_id: str, message_id: str) -> bool:
    """Whether a message is the prompt of a turn in the history: its id is then that of the turn's run."""
    try:
        return (await client.backend.get_run(message_id)).session_id == session_id
    except (NotFound, InvalidValue):
        return False
