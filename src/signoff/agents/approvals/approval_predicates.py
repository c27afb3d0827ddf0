"""Wraps predicates of ``toolset.approval_required(predicate)``: if one fails, people are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution
from pydantic_ai.toolsets import AbstractToolset, ApprovalRequiredToolset, CombinedToolset, WrapperToolset

from signoff.agents.approvals.approval_policy import failed
from signoff.engine.run.fatal_exceptions import as_failure, ends_task

Predicate = Callable[[RunContext[Any], ToolDefinition, dict[str, Any]], bool]

_MEANT = (ApprovalRequired, CallDeferred, ModelRetry, SkipToolExecution)
"""Exceptions that a predicate may raise on purpose."""


def asking_on_failure(
    toolset: AbstractToolset[Any], agent: str, operators: Sequence[str]
) -> AbstractToolset[Any]:
    """Return a toolset in which failing predicates, also those of inner toolsets, ask people.

    Args:
        toolset: The toolset. It is not changed.
        agent: The agent's name, for the log.
        operators: The people who are asked; empty: any user.
    """
    if isinstance(toolset, CombinedToolset):
        inner = [asking_on_failure(each, agent, operators) for each in toolset.toolsets]
        is_same = all(one is other for one, other in zip(inner, toolset.toolsets, strict=True))
        return toolset if is_same else replace(toolset, toolsets=inner)
    if not isinstance(toolset, WrapperToolset):
        return toolset
    wrapped = asking_on_failure(toolset.wrapped, agent, operators)
    if isinstance(toolset, ApprovalRequiredToolset):
        predicate = _Asking(toolset.approval_required_func, agent, operators)
        return replace(toolset, wrapped=wrapped, approval_required_func=predicate)
    return toolset if wrapped is toolset.wrapped else replace(toolset, wrapped=wrapped)


class _Asking:
    """Calls a predicate.

    Args:
        predicate: The predicate.
        agent: The agent's name.
        operators: The people who are asked when it fails.
    """

    def __init__(self, predicate: Predicate, agent: str, operators: Sequence[str]) -> None:
        self._predicate = predicate
        self._agent = agent
        self._operators = operators

    def __call__(self, ctx: RunContext[Any], tool: ToolDefinition, args: dict[str, Any]) -> bool:
        """Return the predicate's result.

        Raises:
            ApprovalRequired: It has failed.
        """
        try:
            return self._predicate(ctx, tool, args)
        except _MEANT:
            raise
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if ends_task(error, asyncio.current_task()):
                raise
            decision = failed(as_failure("the predicate", error), self._agent, tool.name, self._operators)
            raise ApprovalRequired(metadata={"decision": decision}) from error
