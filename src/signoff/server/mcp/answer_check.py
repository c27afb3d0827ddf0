"""Checks that a question may be answered through MCP. A refusal is recorded in the audit trail."""

from __future__ import annotations

from pydantic_core import from_json

from signoff.errors import AccessDenied
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answers import get_question
from signoff.server.mcp.settings import McpSettings
from signoff.stores.contract.store import Store


async def check_mcp_answer(
    store: Store, question_id: str, user_id: str | None, settings: McpSettings | None
) -> None:
    """Check an answer that comes through MCP.

    Args:
        store: The question's store.
        question_id: The question.
        user_id: The user who answers.
        settings: The settings of the MCP server.

    Raises:
        NotFound: There is no such question.
        AccessDenied: The settings forbid the answer.
    """
    question = await get_question(store, question_id)
    data = from_json(question.data or "{}")
    reason = "the MCP server is off" if settings is None else settings.refusal(data, user_id)
    if reason is not None:
        async with RefusalRecorder(store, question, user_id):
            raise AccessDenied(f"an answer to {question_id!r} through MCP", reason)
