"""What the journal knows of a called tool, and how a tool of newer code differs from it."""

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
from signoff.agents.steps.in_workflow import is_inline, step_name_of
from signoff.agents.steps.tools import is_external, requires_approval
from signoff.errors import ToolCodeMissing

Change = Literal["gone", "other"]
"""The tool no longer exists, or it takes other arguments."""

MARK: Final = "signoff_changed"


class ToolChanged(BaseException):
    """Raised in workflow code: the tool has changed since the model called it, and nothing ran."""

    def __init__(self, change: Change) -> None:
        super().__init__(change)
        self.change: Change = change


@dataclass(frozen=True, slots=True)
class Known:
    """The facts about a tool when the model called it.

    Attributes:
        signature: A hash of its name and parameters; None: there was no such tool, or it was an output tool.
        is_gated: Whether a call may need approval.
        is_external: Whether it runs elsewhere, and a person or system returns its result.
        is_inline: Whether its body is workflow code, which has no step of its own.
        is_dynamic: Whether it belongs to a dynamic toolset: only steps can validate its arguments.
        is_checked: Whether a step checks its arguments.
        is_sequential: Whether it runs alone.
        step_name: The name of its steps, if it differs from the tool's.
        max_retries: How often the model may retry; None: the default.
        refused: Validation errors, by call id.
        repeated: Arguments to validate instead of the model's, by call id. They keep values that a validator makes
            anew each time, such as ids.
        shown: How the arguments that people see differ from those the model sent, by call id.
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
        """Return it in the journal's form."""
        always = ("signature", "is_gated", "is_external")
        return {name: value for name, value in asdict(self).items() if value or name in always}


def known_of(
    tools: ToolManager[Any],
    tool: ToolsetTool[Any] | None,
    calls: Sequence[ToolCallPart],
    policy: Policy | None,
) -> tuple[Known, list[Outcome]]:
    """Return the facts about a tool, and the results of validating its calls.

    Args:
        tools: The tools of this step of the agent.
        tool: The tool; None: there is none.
        calls: Its calls.
        policy: The agent's approval policy.
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
    """Return a hash of a tool's name and parameters.

    Descriptions are included, since they say what a number means. They are not for workflow code: a body that has begun
    must not stop because of a word.
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
    """Compare a tool with the facts known when it was called; None: it has not changed.

    Args:
        known: The facts.
        tool: The tool of that name in this code, if there is one.
    """
    if known.signature is None:
        return None
    if tool is None:
        return "gone"
    if tool.tool_def.kind == "output":
        return None
    inline = is_inline(tool, tool.tool_def.name)
    is_same = inline == known.is_inline and signature_of(tool.tool_def, is_inline=inline) == known.signature
    return None if is_same else "other"


def code_missing(agent: str, tool: str, call_id: str, change: Change) -> ToolCodeMissing:
    """Return the error of a call whose body has begun: only its own code can continue it."""
    became = "no longer exists" if change == "gone" else "takes other arguments"
    return ToolCodeMissing(agent, tool, call_id, became)


async def changed(change: Change) -> dict[str, str]:
    """Return the outcome of a step that ran nothing, because its tool has changed."""
    return {"kind": MARK, "change": change}


def check_changed(payload: object) -> None:
    """Raise ToolChanged if a step has recorded that its tool had changed."""
    recorded = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    if recorded.get("kind") == MARK:
        raise noted(ToolChanged(recorded["change"]))
