"""Tools that changed, or went, since a model called them: what was known of them then, and how it shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, cast

from pydantic_ai import ToolDefinition
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import ToolsetTool

from signoff.agents.approvals.approval_policy import Policy, may_ask
from signoff.agents.approvals.argument_validation import Outcome
from signoff.agents.approvals.tool_arguments import Arguments
from signoff.agents.pausing.pause import noted
from signoff.agents.steps.dynamic_toolsets import dynamic_toolset
from signoff.agents.steps.in_workflow import is_inline, is_of_a_toolset_of_its_own, step_name_of
from signoff.agents.steps.tools import is_external, requires_approval

Change = Literal["gone", "other"]
"""A tool is not there any more, or takes other arguments."""

MARK: Final = "signoff_changed"


class ToolChanged(BaseException):
    """In workflow code: nothing was run, as the tool has changed since it was called."""

    def __init__(self, change: Change) -> None:
        super().__init__(change)
        self.change: Change = change


@dataclass(frozen=True, slots=True)
class Known:
    """What was known of a tool when the model called it.

    Attributes:
        signature: A hash of what it takes; None: there was no such tool, or it was the agent's output.
        is_gated: Whether somebody may have to agree to the call.
        is_external: Whether somebody else runs it, and answers with its result.
        is_inline: Whether its body is workflow code, and so leaves no step of its own.
        is_dynamic: Whether it is of a dynamic toolset, so that only steps know what it makes of arguments.
        is_checked: Whether a step checks its arguments.
        is_sequential: Whether it runs alone.
        step_name: What its steps are called, if not as it is.
        max_retries: How often the model may try again; None: as often as by default.
        refused: What was wrong with the arguments of calls, by their ids.
        repeated: What to validate instead of the arguments of calls, by their ids, so that what is made anew each time,
            such as an id, is as it was.
        shown: How what people are shown of calls differs from what the model sent, by their ids.
    """

    signature: str | None
    is_gated: bool = False
    is_external: bool = False
    is_inline: bool = False
    is_dynamic: bool = False
    is_checked: bool = False
    is_sequential: bool = False
    step_name: str | None = None
    max_retries: int | None = None
    refused: dict[str, str] = field(default_factory=dict[str, str])
    repeated: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])

    def facts(self) -> dict[str, Any]:
        """Return it as the journal keeps it."""
        always = ("signature", "is_gated", "is_external")
        return {name: value for name, value in asdict(self).items() if value or name in always}


def known_of(
    tools: ToolManager[Any],
    tool: ToolsetTool[Any] | None,
    calls: Sequence[ToolCallPart],
    policy: Policy | None,
) -> tuple[Known, list[Outcome]]:
    """Return what there is to know of a tool, and what its validators make of its calls.

    Args:
        tools: Those of this step of the agent.
        tool: The tool; None: there is none.
        calls: The calls of it.
        policy: What people must agree to.
    """
    if tool is None or tool.tool_def.kind == "output":
        return Known(None), []
    definition = tool.tool_def
    name = definition.name
    external, inline = is_external(definition), is_inline(tool, name)
    outcomes = [Outcome.of(tools, tool, call.args) for call in calls]
    refused: dict[str, str] = {}
    repeated: dict[str, dict[str, Any]] = {}
    shown: dict[str, list[dict[str, Any]]] = {}
    for call, outcome in zip(calls, outcomes, strict=True):
        if outcome.value is None:
            refused[call.tool_call_id] = str(outcome.error)
            continue
        arguments = Arguments.of(tool, name, call.args, outcome.value)
        if arguments.made:
            repeated[call.tool_call_id] = arguments.repeatable
        if differs := arguments.differs:
            shown[call.tool_call_id] = differs
    known = Known(
        signature=signature_of(definition, is_inline=inline),
        is_gated=external or requires_approval(definition) or may_ask(policy, name),
        is_external=external,
        is_inline=inline,
        is_dynamic=not inline and dynamic_toolset(tool) is not None,
        is_checked=tool.args_validator_func is not None and not inline,
        is_sequential=definition.sequential,
        step_name=None if step_name_of(tool) == name else step_name_of(tool),
        max_retries=None if tool.max_retries == tools.default_max_retries else tool.max_retries,
        refused=refused,
        repeated=repeated,
        shown=shown,
    )
    return known, outcomes


def signature_of(definition: ToolDefinition, *, is_inline: bool) -> str:
    """Return a hash of a tool's name and of what it takes.

    Descriptions are a part of it, as they say what a number means, but not where the body is workflow code: runs that
    have begun it could not go on for a word.
    """
    schema: Any = definition.parameters_json_schema
    text = json.dumps([definition.name, _without_words(schema) if is_inline else schema], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_WORDS: Final = ("description", "title", "examples")
_NAMED: Final = ("properties", "patternProperties", "$defs")
_DATA: Final = ("default", "const", "enum")


def _without_words(schema: Any, *, is_named: bool = False) -> Any:
    if isinstance(schema, list):
        return [_without_words(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema)
    return {
        name: part if name in _DATA and not is_named else _without_words(part, is_named=name in _NAMED)
        for name, part in parts.items()
        if is_named or name not in _WORDS
    }


def change_between(known: Known, tool: ToolsetTool[Any] | None) -> Change | None:
    """Say what became of a tool since a model called it; None: nothing.

    Args:
        known: What was known of it then.
        tool: What has its name now, if anything has.
    """
    if known.signature is None:
        return None
    if tool is None:
        return "gone"
    if tool.tool_def.kind == "output":
        return None
    # bodies of toolsets of one's own were once not recorded as workflow code
    is_told_apart = known.is_inline or not is_of_a_toolset_of_its_own(tool)
    if is_told_apart and is_inline(tool, tool.tool_def.name) != known.is_inline:
        return "other"
    return None if signature_of(tool.tool_def, is_inline=known.is_inline) == known.signature else "other"


async def changed(change: Change) -> dict[str, str]:
    """Return what a step records in whose place nothing was run."""
    return {"kind": MARK, "change": change}


def check_changed(payload: object) -> None:
    """Raise ToolChanged if a step has recorded that its tool had changed."""
    recorded = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if recorded.get("kind") == MARK:
        raise noted(ToolChanged(recorded["change"]))
