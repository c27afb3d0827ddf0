"""The questions about a tool call: whether to allow it, and the result of a call that runs elsewhere."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import Any

from pydantic_ai import ToolDefinition
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDenied

from signoff.agents.approvals.approval_policy import Decision, rules_of
from signoff.agents.approvals.tool_arguments import Arguments
from signoff.errors import QuestionCancelled, SignalTimeout
from signoff.people.questions.actions import Action
from signoff.people.questions.answers import Answer
from signoff.people.questions.mixed_alphabets import mixed_words
from signoff.people.schemas.foreign_schemas import checkable, checked_as
from signoff.workflow.context import Context


class CallQuestions:
    """The questions about one call.

    Args:
        context: The run's context.
        agent: The agent's name.
        call: The model's call.
        definition: The tool.
        about: The metadata of any question about the call.
    """

    def __init__(
        self,
        context: Context,
        agent: str,
        call: ToolCallPart,
        definition: ToolDefinition,
        about: Mapping[str, Any],
    ) -> None:
        self._context = context
        self._agent = agent
        self._call = call
        self._definition = definition
        self._about = about

    async def ask_to_allow(
        self, arguments: Arguments, decision: Decision, problem: str | None
    ) -> Answer | ToolDenied:
        """Ask whether the call may happen.

        Args:
            arguments: The call's arguments.
            decision: The people to ask, and the question's options.
            problem: The reason why the previous answer did not count.
        """
        form, unchecked = checked_as(self._definition.parameters_json_schema, arguments.shown)
        noted: dict[str, Any] = {
            "sent": arguments.converted,
            "not_shown": arguments.places,
            "not_checked": unchecked,
            "mixed_alphabets": mixed_words(arguments.shown),
        }
        asked = self._context.wait_for_user(
            decision.get("prompt") or f"{self._agent} wants to call {self._call.tool_name}",
            **rules_of(decision),
            proposal=arguments.shown,
            proposal_type=form,
            action=Action(self._call.tool_name, arguments.shown, about=decision.get("details") or None),
            help="\n\n".join(
                part for part in (problem or self._definition.description, _notes(noted)) if part
            )
            or None,
            metadata={
                **decision.get("details", {}),
                **{name: note for name, note in noted.items() if note},
                **self._about,
            },
        )
        return await answer_or_denial(asked, "No one allowed this call")

    async def ask_for_result(self, arguments: Arguments, decision: Decision) -> Answer | ToolDenied:
        """Ask for the result of a call that runs elsewhere."""
        schema = checkable(self._definition.return_schema or {})[0]
        form = {
            "type": "object",
            "properties": {"result": {name: value for name, value in schema.items() if name != "$defs"}},
            "required": ["result"],
            "additionalProperties": False,
            "$defs": schema.get("$defs", {}),
        }
        rules = rules_of(decision)
        if "timeout_answer" in rules:
            rules["timeout_answer"] = {"result": rules["timeout_answer"]}
        asked = self._context.wait_for_user(
            decision.get("prompt") or f"{self._agent} needs the result of {self._call.tool_name}",
            input_type="form",
            answer_type=form,
            **rules,
            help=self._definition.description,
            metadata={
                **decision.get("details", {}),
                **self._about,
                "tool": self._call.tool_name,
                "arguments": arguments.shown,
            },
        )
        return await answer_or_denial(asked, "No one provided the result of this call")


def _notes(noted: Mapping[str, Any]) -> str:
    """Describe the arguments that cannot be shown as they run, or cannot be checked."""
    notes: list[str] = []
    if noted["sent"]:
        notes.append(
            f"The model sent {json.dumps(noted['sent'])}; the tool gets the arguments as shown. An edit replaces the "
            "model's arguments."
        )
    if noted["not_shown"]:
        notes.append(f"Shown as the model sent it, not as the tool gets it: {', '.join(noted['not_shown'])}.")
    if noted["not_checked"]:
        notes.append(f"An edit is not checked before it is sent: {noted['not_checked']}.")
    if noted["mixed_alphabets"]:
        words = ", ".join(noted["mixed_alphabets"])
        notes.append(f"These words mix letters of several alphabets, which may look alike: {words}.")
    return " ".join(notes)


async def answer_or_denial(asked: Awaitable[Answer], what: str) -> Answer | ToolDenied:
    """Wait for an answer. If there is none, return a denial for the model to read.

    Args:
        asked: The question.
        what: The event that was missing, for the denial.
    """
    try:
        return await asked
    except SignalTimeout:
        return ToolDenied(f"{what} in time.")
    except QuestionCancelled as withdrawn:
        return ToolDenied(f"The question was withdrawn: {withdrawn}")
