"""The permission callback of the Claude Agent SDK that asks people."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from claude_agent_sdk import (
    CanUseTool,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)
from typing_extensions import Unpack

from signoff import Action, AsyncClient
from signoff.client.questions import CallTerms, Decide
from signoff.integrations.claude_agent.clarifying import ASKS, clarify

log = logging.getLogger("signoff.integrations.claude_agent")

_SHELL: Final = {
    "type": "object",
    "properties": {"command": {"type": "string", "minLength": 1}},
    "required": ["command"],
}
EDITABLE: Final[Mapping[str, dict[str, Any]]] = {"Bash": _SHELL}
"""The schemas of the tools whose input an approver may edit, by name."""


def ask_people(
    client: AsyncClient,
    id: str,
    *,
    decide: Decide | None = None,
    editable: Mapping[str, dict[str, Any]] = EDITABLE,
    **terms: Unpack[CallTerms],
) -> CanUseTool:
    """Return a ``can_use_tool`` callback that has people decide about each tool call.

    Each call is a question with its exact input; an approval allows exactly this input, or the approver's edit of it.
    Questions that Claude asks itself (``AskUserQuestion``) are forms. A denial, a time-out, a withdrawn question, an
    input that cannot be shown and an error deny the call, with the reason for Claude to read.

    Args:
        client: A client of the store or the server.
        id: A chosen id of the session: the id of a call's question is ``{id}/{tool use id}``.
        decide: A policy that decides before a person is asked, as in ``AsyncClient.approve_call``.
        editable: JSON Schemas of tool inputs by the tool's name. The input of other tools cannot be edited.
        terms: How the questions are asked: the arguments of ``AsyncClient.approve_call``.

    Example::

        options = ClaudeAgentOptions(
            can_use_tool=ask_people(client, "session-7", assignees=["group:ops"], timeout_seconds=3600)
        )
    """

    async def can_use_tool(
        tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        try:
            if not context.tool_use_id:
                return PermissionResultDeny(message="Not run: the call has no id.")
            question_id = f"{id}/{context.tool_use_id}"
            if tool == ASKS:
                return await clarify(client, question_id, given, terms)
            return await _decided(question_id, tool, given, context)
        except Exception as error:
            log.exception("nobody could be asked about a call of %s", tool)
            return PermissionResultDeny(message=f"Not run: nobody could be asked ({type(error).__name__}).")

    async def _decided(
        question_id: str, tool: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResult:
        about: CallTerms = {
            "help": "\n".join(filter(None, (context.description, context.decision_reason))) or None
        }
        decision = await client.approve_call(
            question_id,
            Action(tool, given),
            text=context.title or f"Claude wants to use {tool}",
            decide=decide,
            arguments_schema=editable.get(tool),
            **{**about, **terms},
        )
        if not decision.approved:
            return PermissionResultDeny(
                message=decision.note or f"Not run: {tool} was not approved ({decision.reason})."
            )
        return PermissionResultAllow(updated_input=decision.arguments)

    return can_use_tool
