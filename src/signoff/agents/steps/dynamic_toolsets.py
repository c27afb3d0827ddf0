"""Tools of a ``DynamicToolset``: workflow code only knows their definitions, and a step validates their arguments.

Each step of such a toolset builds it anew, so its tools validate a call's arguments twice: to show them, and to run
them. The second result must be the first, or nothing runs.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset, ToolsetTool, WrapperToolset

from signoff.agents.approvals.tool_arguments import Arguments
from signoff.agents.steps.plain_tools import for_step
from signoff.agents.steps.unawaited_tools import check_awaits
from signoff.errors import NotAsApproved
from signoff.observability.current_run import current_attempt
from signoff.people.questions.edits import is_same


def dynamic_toolset(tool: ToolsetTool[Any]) -> DynamicToolset[Any] | None:
    """Return the dynamic toolset of a tool; None: it has another kind of toolset."""
    while (source := getattr(tool, "source_tool", None)) is not None:  # of combined toolsets
        tool = source
    leaf = tool.toolset
    while isinstance(leaf, WrapperToolset):
        leaf = leaf.wrapped
    return leaf if isinstance(leaf, DynamicToolset) else None


async def facts_of(
    toolset: DynamicToolset[Any], name: str, args: dict[str, Any], ctx: RunContext[Any]
) -> dict[str, Any]:
    """Return the facts about a tool's validated arguments, as JSON. Runs inside a step.

    Args:
        toolset: The toolset, which is built for this.
        name: The tool's name in it.
        args: The model's arguments.
        ctx: Pydantic AI's context of the agent's run, for a step.
    """
    async with await toolset.for_run(ctx) as built:
        built = await built.for_run_step(ctx)
        tool = (await built.get_tools(ctx)).get(name)
        if tool is None:
            return {"refused": f"tool {name!r} no longer exists"}
        try:
            validated = tool.args_validator.validate_python(args, context=ctx.validation_context)
        except Exception as error:  # a validator may raise ModelRetry, too
            return {"refused": str(error)}
        found = Arguments.of(tool, name, args, validated)
    places = {"unseen": found.unseen, "made": found.made}
    return {
        "differs": found.differs,
        **{name: [list(place) for place in each] for name, each in places.items()},
    }


@dataclass(frozen=True, slots=True)
class _Expected:
    tool: str
    sent: dict[str, Any]
    shown: Mapping[str, Any]


_expected: ContextVar[_Expected | None] = ContextVar("signoff_dynamic_call", default=None)


@contextmanager
def expecting(tool: str, sent: dict[str, Any], shown: Mapping[str, Any]) -> Generator[None]:
    """Let the step of a call made here run it only if the tool gets the shown arguments.

    Args:
        tool: The tool, for the error.
        sent: The arguments that the tool validates.
        shown: The arguments that were decided on.
    """
    token = _expected.set(_Expected(tool, sent, shown))
    try:
        yield
    finally:
        _expected.reset(token)


def witness(toolset: AbstractToolset[Any]) -> None:
    """Let a dynamic toolset check in its steps that tools get the shown arguments."""
    if isinstance(toolset, DynamicToolset) and not isinstance(toolset.toolset_func, _Witnessed):
        toolset.toolset_func = _Witnessed(toolset.toolset_func)


class _Witnessed:
    """Builds a dynamic toolset's tools, and wraps them in a check.

    Args:
        build: Builds them.
    """

    def __init__(self, build: Any) -> None:
        self._build = build
        # a function may return the same toolset each time, which is then not entered again
        self._known: weakref.WeakValueDictionary[int, _Witness] = weakref.WeakValueDictionary()

    async def __call__(self, ctx: RunContext[Any]) -> AbstractToolset[Any] | None:
        made: Any = self._build(ctx)
        if inspect.isawaitable(made):
            made = await made
        if made is None:
            return None
        found = self._known.get(id(cast("object", made)))
        if found is None or found.wrapped is not made:
            if current_attempt.get(None) is not None:
                check_awaits(None if ctx.agent is None else ctx.agent.name, made)
            found = self._known[id(cast("object", made))] = _Witness(made)
        return found


class _Witness(WrapperToolset[Any]):
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        expected, tool = _expected.get(), for_step(tool)
        if expected is None:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        found = Arguments.of(tool, name, expected.sent, tool_args)
        if not is_same(found.shown, expected.shown):
            raise NotAsApproved(expected.tool, expected.shown, found.shown)
        token = _expected.set(None)  # the tool may run an agent with tools of its own
        try:
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        finally:
            _expected.reset(token)
