"""Tools whose body is workflow code."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import (
    AbstractToolset,
    FunctionToolset,
    PrefixedToolset,
    RenamedToolset,
    ToolsetTool,
    WrapperToolset,
)
from pydantic_ai.toolsets.function import FunctionToolsetTool

from signoff.agents.steps.tools import KEY
from signoff.errors import RegistrationError

F = TypeVar("F", bound=Callable[..., Any])

_LIBRARY: Final = ("pydantic_ai.", "signoff.")

_MARK: Final = "__signoff_in_workflow__"


def in_workflow(function: F) -> F:
    """Make a tool's body workflow code: it may wait for people, and continues where it stopped, on any worker.

    It uses ``signoff.current_context()`` as a workflow does, and must do all other work in steps. Its ``ctx.deps`` is
    the object given to ``agent.run(deps=...)``: not a copy, and not made by ``Durable(deps=...)``.

    Args:
        function: An async function.

    Raises:
        RegistrationError: It is not async.

    Example::

        @agent.tool_plain
        @in_workflow
        async def deploy(service: str) -> str:
            ctx = signoff.current_context()
            plan = await ctx.step("plan", make_plan, service)
            answer = await ctx.wait_for_user(f"Deploy {service}?", metadata=plan)
            return await ctx.step("deploy", run, plan, effect="once") if answer.approved else "not deployed"
    """
    if not inspect.iscoroutinefunction(function):
        name = getattr(function, "__name__", function)
        raise RegistrationError(
            f"@in_workflow: {name!r} must be an async function, since it is workflow code"
        )
    # attributes cannot be set on methods, only on their functions
    setattr(getattr(function, "__func__", function), _MARK, True)
    return function


def has_workflow_code(toolset: AbstractToolset[Any]) -> bool:
    """Whether the body of any tool of a toolset is workflow code."""
    found: list[bool] = []

    def look(leaf: AbstractToolset[Any]) -> None:
        if isinstance(leaf, FunctionToolset):
            found.extend(getattr(tool.function, _MARK, False) for tool in leaf.tools.values())

    toolset.apply(look)
    return any(found)


def function_tool(tool: ToolsetTool[Any], name: str) -> Tool[Any] | None:
    """Return the tool as made from a function; None: it was not made from one."""
    tool = source_of(tool)
    toolset = _leaf_of(tool.toolset)
    if FunctionToolset not in type(toolset).__mro__:
        return None
    own_name = tool.original_name if isinstance(tool, FunctionToolsetTool) else None
    return toolset.tools.get(own_name or name)


def source_of(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """Return the tool in a tool of combined toolsets."""
    while (source := getattr(tool, "source_tool", None)) is not None:
        tool = source
    return tool


def _leaf_of(toolset: Any) -> Any:
    # `isinstance`, which is slow for abstract classes, would say the same
    while WrapperToolset in type(toolset).__mro__:
        toolset = toolset.wrapped
    return toolset


def is_inline(tool: ToolsetTool[Any], name: str) -> bool:
    """Whether a tool's body runs as workflow code, and not as a step."""
    if (tool.tool_def.metadata or {}).get(KEY) is False:
        return True
    found = function_tool(tool, name)
    return _is_of_a_toolset_of_its_own(tool) if found is None else getattr(found.function, _MARK, False)


def _is_of_a_toolset_of_its_own(tool: ToolsetTool[Any]) -> bool:
    """Whether a tool belongs to a toolset of the user's own class, whose calls are not steps."""
    leaf = _leaf_of(source_of(tool).toolset)
    return not any(
        each.__module__.startswith(_LIBRARY)
        for each in type(leaf).__mro__[:-1]
        if each is not AbstractToolset
    )


def step_name_of(tool: ToolsetTool[Any]) -> str:
    """Return the name of a tool's step: the tool's own, without prefixes and renames."""
    name, toolset = tool.tool_def.name, tool.toolset
    while isinstance(toolset, WrapperToolset):
        if isinstance(toolset, PrefixedToolset):
            name = name.removeprefix(f"{toolset.prefix}_")
        elif isinstance(toolset, RenamedToolset):
            name = toolset.name_map.get(name, name)
        toolset = toolset.wrapped
    return name
