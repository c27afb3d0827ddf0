"""Calls that need approval, as questions; and their answers in the state of the SDK."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, cast

from agents import FunctionTool, RunState, ToolApprovalItem

from signoff import (
    Action,
    BusinessHours,
    Escalation,
    QuestionCancelled,
    Quorum,
    SignalTimeout,
    current_context,
)
from signoff.errors import NotSerializable
from signoff.integrations.openai_agents.run_options import Options
from signoff.people.schemas.validation import listed, problems


class ApprovalTerms(TypedDict, total=False):
    """How a call's question is asked: the arguments of ``Context.wait_for_user`` with these names."""

    assignees: Sequence[str]
    quorum: Quorum | int
    exclude_requester: bool
    requester: str | None
    timeout_seconds: float | None
    remind_every: float | None
    escalations: Sequence[Escalation]
    hours: BusinessHours | None
    help: str | None


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a call.

    Attributes:
        is_approved: Whether the call runs.
        message: What the model reads instead of the tool's output.
        edited: The arguments that the call runs with instead of the model's, as JSON.
    """

    is_approved: bool
    message: str = ""
    edited: str | None = None


async def decide(item: ToolApprovalItem, terms: ApprovalTerms) -> Decision:
    """Ask a person whether a call may run.

    A call whose arguments are not a JSON object that matches the tool's schema is denied without a question: nobody
    can see what it would do. A question that times out or is withdrawn denies the call.
    """
    tool = item.qualified_name or "tool"
    arguments = arguments_of(item)
    if arguments is None:
        return Decision(False, f"Not run: the arguments of {tool} are not a JSON object.")
    schema = schema_of(item)
    editing: dict[str, Any] = {}
    if wrong := problems_of(item, arguments):
        return Decision(False, f"Not run: the arguments of {tool} are not valid: {wrong}")
    if schema is not None:
        editing = {"proposal": arguments, "proposal_type": schema}
    try:
        answer = await current_context().wait_for_user(
            f"{item.agent.name} wants to call {tool}",
            metadata={"agent": item.agent.name, "call_id": item.call_id},
            action=Action(tool, arguments),
            **editing,
            **terms,
        )
    except NotSerializable as error:
        return Decision(False, f"Not run: the arguments of {tool} are not valid: {error}")
    except SignalTimeout:
        return Decision(False, f"Not run: nobody approved {tool} in time.")
    except QuestionCancelled:
        return Decision(False, f"Not run: the question about {tool} was withdrawn.")
    if not answer.approved:
        return Decision(False, answer.note or f"{tool} was not approved.")
    if schema is not None and answer.edits:
        return Decision(True, edited=json.dumps(answer.proposal))
    return Decision(True)


def arguments_of(item: ToolApprovalItem) -> dict[str, Any] | None:
    """Return the arguments of a call; None if they are not a JSON object."""
    try:
        found = json.loads(item.arguments or "", object_pairs_hook=_unique, parse_constant=_refuse)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is repeated")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def schema_of(item: ToolApprovalItem) -> dict[str, Any] | None:
    """Return the schema of a function tool's arguments; None for tools that the provider runs."""
    for tool in getattr(item.agent, "tools", ()):
        if isinstance(tool, FunctionTool) and tool.qualified_name == item.qualified_name:
            return tool.params_json_schema
    return None


def problems_of(item: ToolApprovalItem, arguments: dict[str, Any]) -> str:
    """Return why the tool's schema refuses arguments; empty if it takes them, or is the provider's."""
    schema = schema_of(item)
    return "" if schema is None else listed(problems(schema, arguments), "arguments")


def record(state: RunState[Any], item: ToolApprovalItem, decision: Decision, options: Options) -> None:
    """Put a decision into the state that the agent continues from."""
    if not decision.is_approved:
        state.reject(item, rejection_message=decision.message)
        return
    if decision.edited is not None and item.call_id is not None:
        options.edited[item.call_id] = (item.tool_name or "", item.arguments or "", decision.edited)
    state.approve(item)
