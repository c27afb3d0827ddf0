"""Settings of the MCP server: which questions may be answered through it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from signoff.errors import InvalidValue
from signoff.people.questions.call_questions import is_about_call

INPUT_TYPES: Final = ("approval", "text", "select", "multiselect", "form")


@dataclass(frozen=True)
class McpSettings:
    """What callers may do through the MCP server, besides their rights.

    Attributes:
        answers: The input types of the questions that may be answered through MCP; None: all. Empty: no question.
        answers_calls: Whether questions about a call of an agent, and questions that were asked through MCP, may be
            answered through MCP. Even then, a caller cannot answer its own questions.

    Example:
        Server(store, mcp_settings=McpSettings(answers=["text", "select"]))
    """

    answers: Collection[str] | None = None
    answers_calls: bool = False

    def __post_init__(self) -> None:
        """Raise InvalidValue for an unknown input type."""
        for each in self.answers or ():
            if each not in INPUT_TYPES:
                raise InvalidValue("answers", f"{each!r} is not one of {', '.join(INPUT_TYPES)}")

    def refusal(self, question: dict[str, Any], caller: str | None) -> str | None:
        """Return the reason why a question must not be answered through MCP, or None.

        Args:
            question: The data of the question.
            caller: The user or the service; None: not authenticated.
        """
        kind = question.get("input_type")
        if self.answers is not None and kind not in self.answers:
            return f"this server does not take answers of type {kind!r} through MCP; answer it in the inbox"
        asked = asked_through_mcp(question)
        if asked is None and not is_about_call(question):
            return None
        if asked is not None and asked == asker_of(caller):
            return "a caller cannot answer its own question through MCP; a person answers it in the inbox"
        if not self.answers_calls:
            return "it is about an agent's call or was asked through MCP; a person answers it in the inbox"
        return None


ASKED_THROUGH: Final = "asked_through"
ASKED_BY: Final = "asked_by"
"""Keys in the metadata of questions that were asked through MCP."""


def asker_of(caller: str | None) -> str:
    """Return the name under which a caller asks."""
    return caller or "not authenticated"


def asked_through_mcp(question: dict[str, Any]) -> str | None:
    """Return the asker of a question that was asked through MCP; None for other questions."""
    metadata: dict[str, Any] = question.get("metadata") or {}
    if metadata.get(ASKED_THROUGH) != "mcp":
        return None
    return str(metadata.get(ASKED_BY))
