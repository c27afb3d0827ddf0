"""The question for operators about a call that has not begun, and whose tool has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import ToolDenied
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR

from signoff.agents.approvals.argument_validation import Outcome
from signoff.agents.approvals.tool_changes import Change, Known, known_of
from signoff.agents.approvals.tool_stubs import tools_now
from signoff.errors import QuestionCancelled
from signoff.people.schemas.foreign_schemas import checkable
from signoff.people.schemas.shown_values import show
from signoff.people.schemas.validation import problems
from signoff.workflow.context import Context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

NOTHING: Final = "run nothing"
"""The option that runs nothing. No tool has such a name."""

AS_BEFORE: Final = "as before"
"""The option that waits for the old code. No tool has such a name."""

HELP: Final = "The code has changed since the model called it. Nothing runs until this is decided."

NOT_RUN: Final = "{} has changed since it was called, and was not run."


@dataclass(frozen=True, slots=True)
class Choice:
    """The tool that an operator has chosen to run.

    Attributes:
        tool: Its name.
        known: Its facts when it was offered.
        by: The operator.
    """

    tool: str
    known: Known
    by: str | None


async def ask_operators(
    durable: Durable[Any],
    context: Context,
    tools: ToolManager[Any],
    call: ToolCallPart,
    args: dict[str, Any],
    change: Change,
    approved_by: str | None,
) -> Choice | ToolDenied | None:
    """Ask what to run for a call whose tool has changed.

    Args:
        durable: The agent's capability.
        context: The run's context.
        tools: The tools of this step of the agent.
        call: The model's call.
        args: The arguments to run it with.
        change: How its tool has changed.
        approved_by: The person who has allowed the call with these arguments, if one has.

    Returns:
        The chosen tool; ``ToolDenied``: nothing is to run; None: the called tool, once its code is deployed again.
    """
    name = call.tool_name
    kept: dict[str, dict[str, Any]] = await context.step(
        f"{durable.name}.{name}:offered",
        lambda: {each: known.facts() for each, known in _fitting(durable, tools, name, args).items()},
    )
    became = "no longer exists" if change == "gone" else "takes other arguments now"
    try:
        answer = await context.wait_for_user(
            f"{durable.name} called {name}, which {became}. What should run?",
            input_type="select",
            options=_options(name, list(kept), tools_now(tools), args),
            assignees=durable.operators,
            help=HELP,
            metadata={
                "agent": durable.name,
                "tool": name,
                "arguments": show(args).value,
                "tool_call_id": call.tool_call_id,
                **({} if approved_by is None else {"approved_by": approved_by}),
            },
        )
    except QuestionCancelled:
        return ToolDenied(NOT_RUN.format(name))
    if answer.value == NOTHING:
        return ToolDenied(NOT_RUN.format(name))
    if answer.value == AS_BEFORE:
        return None
    return Choice(answer.value, Known(**kept[answer.value]), answer.user_id)


def _fitting(
    durable: Durable[Any], tools: ToolManager[Any], name: str, args: dict[str, Any]
) -> dict[str, Known]:
    """Return the tools that accept these arguments, the called one first."""
    now = tools_now(tools)
    fitting = [each for each, tool in now.items() if _accepts(tools, tool, args)]
    fitting.sort(key=lambda each: (each != name, each))
    return {each: known_of(tools, now[each], (), durable.approvals)[0] for each in fitting}


def _accepts(tools: ToolManager[Any], tool: ToolsetTool[Any], args: dict[str, Any]) -> bool:
    if tool.tool_def.kind == "output" or Outcome.of(tools, tool, args).error is not None:
        return False
    is_unchecked = tool.args_validator is TOOL_SCHEMA_VALIDATOR  # tools that run elsewhere only have a schema
    return not is_unchecked or not problems(checkable(tool.tool_def.parameters_json_schema)[0], args)


def _options(
    name: str, offered: list[str], tools: Mapping[str, ToolsetTool[Any]], args: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        *({"value": each, "label": _label(each, tools.get(each), args)} for each in offered),
        {"value": AS_BEFORE, "label": f"Run {name} as it was: deploy its code again, then choose this"},
        {"value": NOTHING, "label": "Run nothing, and report that to the model"},
    ]


def _label(name: str, tool: ToolsetTool[Any] | None, args: dict[str, Any]) -> str:
    """Describe what would run, with the defaults of parameters that the arguments leave out."""
    properties: dict[str, Any] = (
        {} if tool is None else tool.tool_def.parameters_json_schema.get("properties", {})
    )
    more = [
        f"{each}={json.dumps(schema['default'])}"
        for each, schema in properties.items()
        if each not in args and isinstance(schema, dict) and "default" in schema
    ]
    return f"Run {name} with these arguments" + (f", and {', '.join(more)}" if more else "")
