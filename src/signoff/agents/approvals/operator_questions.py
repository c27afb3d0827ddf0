"""Operators: they say what is run in the place of a tool that changed while people thought."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.toolsets.external import TOOL_SCHEMA_VALIDATOR

from signoff.agents.approvals.argument_validation import Outcome
from signoff.agents.approvals.stand_ins import tools_now
from signoff.agents.approvals.tool_changes import Change, Known, known_of
from signoff.errors import QuestionCancelled
from signoff.people.schemas.foreign_schemas import checkable
from signoff.people.schemas.shown_values import show
from signoff.people.schemas.validation import problems
from signoff.workflow.context import Context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

NOTHING: Final = "run nothing"
"""The option that runs nothing: no tool has such a name."""

AS_BEFORE: Final = "as before"
"""The option that runs the tool that was called, when its code is there again: no tool has such a name."""

GO_ON: Final = "go on with "
"""How options begin that go on with another tool where the one that was called has stopped."""

RESULT: Final = "the result"
"""The option that gives the model what has come: no tool has such a name."""

OFFERED: Final = "signoff.offered_tools"
"""The patch of runs that note what the tools take that an operator is offered."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What an operator has chosen.

    Attributes:
        tool: The tool to run; ``RESULT``: none, the model gets what has come.
        known: What was known of it when it was offered; None: nobody has written it down.
        by: Who has chosen it.
        goes_on: Whether it goes on where the tool that was called has stopped.
    """

    tool: str
    known: Known | None
    by: str | None
    goes_on: bool = False

    def facts(self) -> dict[str, Any]:
        """Return it as the journal keeps it."""
        known = None if self.known is None else self.known.facts()
        return {"tool": self.tool, "known": known, "by": self.by, "goes_on": self.goes_on}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Choice:
        """Return what the journal has kept."""
        known = facts["known"]
        return cls(facts["tool"], None if known is None else Known(**known), facts["by"], facts["goes_on"])


@dataclass(frozen=True, slots=True)
class Begun:
    """A call whose body is workflow code.

    Attributes:
        tool: What the model has called.
        done: What the body has done, in words; empty: nothing that was recorded.
    """

    tool: str
    done: Sequence[str]


_HELP: Final = "The code has changed since the model called it. Nothing is run until this is decided."


class Operators:
    """Those whom a run asks about tools that have changed.

    Args:
        durable: The agent's.
        context: The run's.
        tools: Those of this step of the agent.
    """

    def __init__(self, durable: Durable[Any], context: Context, tools: ToolManager[Any]) -> None:
        self._durable = durable
        self._context = context
        self._tools = tools

    async def choose(
        self,
        call: ToolCallPart,
        args: dict[str, Any],
        change: Change,
        shown: Mapping[str, Any],
        *,
        begun: Begun | None = None,
    ) -> Choice | None:
        """Ask what to run in the place of a tool that has changed; None: nothing.

        Args:
            call: The model's call.
            args: With which arguments.
            change: What became of its tool.
            shown: What people have said of it before; a ``result`` may be given to the model.
            begun: What its body has done, if that is workflow code.
        """
        offered = await self._offered(call.tool_name, args)
        help = _HELP if begun is None or not begun.done else f"{_HELP} It has begun: {'; '.join(begun.done)}."
        try:
            answer = await self._context.wait_for_user(
                _question(self._durable.name, call.tool_name, change, has_result="result" in shown),
                input_type="select",
                options=self._options(call.tool_name, offered, args, shown, begun),
                assignees=self._durable.operators,
                help=help,
                metadata={
                    "agent": self._durable.name,
                    "tool": call.tool_name,
                    "arguments": show(args).value,
                    "tool_call_id": call.tool_call_id,
                    **shown,
                },
            )
        except QuestionCancelled:
            return None
        if answer.value == NOTHING:
            return None
        if answer.value == RESULT:
            return Choice(RESULT, None, answer.user_id)
        if answer.value == AS_BEFORE:
            tool = call.tool_name if begun is None else begun.tool
            return Choice(tool, None, answer.user_id, goes_on=True)
        if begun is not None and answer.value.startswith(GO_ON):
            tool = answer.value.removeprefix(GO_ON)
            return Choice(tool, offered[tool], answer.user_id, goes_on=True)
        return Choice(answer.value, offered.get(answer.value), answer.user_id)

    async def _offered(self, name: str, args: dict[str, Any]) -> dict[str, Known | None]:
        """Return the tools that take these arguments, the one of that name first."""
        if not self._context.patched(OFFERED):
            return dict.fromkeys(self._fitting(name, args))
        kept: dict[str, dict[str, Any]] = await self._context.step(
            f"{self._durable.name}.{name}:offered",
            lambda: {each: known.facts() for each, known in self._fitting(name, args).items()},
        )
        return {each: Known(**facts) for each, facts in kept.items()}

    def _fitting(self, name: str, args: dict[str, Any]) -> dict[str, Known]:
        tools = tools_now(self._tools)
        fitting = [each for each, tool in tools.items() if _takes(self._tools, tool, args)]
        fitting.sort(key=lambda each: (each != name, each))
        return {each: known_of(self._tools, tools[each], (), self._durable.approvals)[0] for each in fitting}

    def _options(
        self,
        name: str,
        offered: Mapping[str, Known | None],
        args: dict[str, Any],
        shown: Mapping[str, Any],
        begun: Begun | None,
    ) -> list[dict[str, Any]]:
        called = name if begun is None else begun.tool
        has_begun = begun is not None and bool(begun.done)
        options: list[dict[str, Any]] = []
        if "result" in shown:
            options.append({"value": RESULT, "label": "Give the model the result that has come"})
        if has_begun:
            stopped = f"where {called} has stopped, if its steps are the same"
            inline = [each for each, known in offered.items() if known is not None and known.is_inline]
            options += [
                {"value": f"{GO_ON}{each}", "label": f"Go on with {each} {stopped}"} for each in inline
            ]
        tools = tools_now(self._tools)
        anew = " from the beginning" if has_begun else ""
        options += [
            {"value": each, "label": _label(f"{each}{anew}", tools.get(each), args)} for each in offered
        ]
        if "result" not in shown:
            does = "Go on with" if has_begun else "Run"
            label = f"{does} {called} as it was, when this code is deployed again: do that first"
            options.append({"value": AS_BEFORE, "label": label})
        return [
            *options,
            {"value": NOTHING, "label": f"Run nothing{' more' * has_begun}, and tell the model"},
        ]


def _question(agent: str, tool: str, change: Change, *, has_result: bool) -> str:
    if has_result:
        became = "is not there any more" if change == "gone" else "takes other arguments by now"
        return f"{agent} has called {tool}, which {became}, and a result has come. What shall become of it?"
    if change == "gone":
        return f"{agent} has called {tool}, which is not there any more. What shall be run instead?"
    return f"{agent} has called {tool}, which takes other arguments by now. What shall be run?"


def _label(name: str, tool: ToolsetTool[Any] | None, args: dict[str, Any]) -> str:
    """Say what would be run, also what the tool takes where the arguments say nothing."""
    properties: dict[str, Any] = (
        {} if tool is None else tool.tool_def.parameters_json_schema.get("properties", {})
    )
    more = [
        f"{each}={json.dumps(schema['default'])}"
        for each, schema in properties.items()
        if each not in args and isinstance(schema, dict) and "default" in schema
    ]
    return f"Run {name} with these arguments" + (f", and {', '.join(more)}" if more else "")


def _takes(tools: ToolManager[Any], tool: ToolsetTool[Any], args: dict[str, Any]) -> bool:
    if tool.tool_def.kind == "output" or Outcome.of(tools, tool, args).error is not None:
        return False
    is_unchecked = tool.args_validator is TOOL_SCHEMA_VALIDATOR  # what is run elsewhere has but a schema
    return not is_unchecked or not problems(checkable(tool.tool_def.parameters_json_schema)[0], args)
