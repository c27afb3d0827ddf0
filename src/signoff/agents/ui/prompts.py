"""The user's messages of a chat as prompts of turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from pydantic_ai.messages import (
    BinaryContent,
    FileUrl,
    ModelMessage,
    ModelRequest,
    TextContent,
    UserContent,
    UserPromptPart,
)

from signoff.agents.conversations.history import Prompt
from signoff.agents.ui.chats import LONGEST_ID
from signoff.client.async_client import AsyncClient
from signoff.errors import InvalidValue, NotFound

MOST_NEW: Final = 20
"""New messages in a request."""

_SCHEMES: Final = ("http", "https")


def prompt_of(sent: Sequence[ModelMessage]) -> Prompt:
    """Return the prompt in a message from a client.

    Raises:
        InvalidValue: It has none, or has a file that a client may not name: others than public ones are read with the
            rights of the server or of its provider.
    """
    for message in sent:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, UserPromptPart) and part.content:
                content = part.content
                return content if isinstance(content, str) else [_checked(each) for each in content]
    raise InvalidValue("messages", "the message is empty")


def _checked(item: UserContent) -> UserContent:
    if isinstance(item, (str, BinaryContent)):
        return item
    if isinstance(item, TextContent):
        return item.content
    if isinstance(item, FileUrl) and urlsplit(item.url).scheme in _SCHEMES and not item.force_download:
        return item
    raise InvalidValue("messages", "a message has texts, files as data, and files at http and https URLs")


def check_new_message(id: str, after_it: int) -> None:
    """Check a user's message at the end of a chat.

    Args:
        id: Its id.
        after_it: How many new ones come after it.

    Raises:
        InvalidValue: The id is empty or too long, or there are too many new messages.
    """
    if not 0 < len(id) <= LONGEST_ID:
        raise InvalidValue("messages", f"a message's id has 1 to {LONGEST_ID} characters")
    if after_it >= MOST_NEW:
        raise InvalidValue("messages", f"at most {MOST_NEW} messages of the user can be new at once")


async def is_turn(client: AsyncClient, session_id: str, message_id: str) -> bool:
    """Whether a message is the prompt of a turn in the history: its id is then that of the turn's run."""
    try:
        return (await client.backend.get_run(message_id)).session_id == session_id
    except (NotFound, InvalidValue):
        return False
