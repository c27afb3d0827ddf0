"""Plain functions of agents: they run in the worker's threads for plain steps, and a wait for one costs no time."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool
from pydantic_ai.toolsets.function import FunctionToolsetTool

from signoff.engine.steps.step_executor import step_executor
from signoff.engine.steps.time_limit import TimeLimit
from signoff.observability.current_run import current_attempt


@contextmanager
def in_step_threads() -> Generator[None]:
    """Have Pydantic AI run plain functions in the worker's threads, if a step runs here."""
    executor = step_executor()
    if executor is None:
        yield
        return
    with Agent.using_thread_executor(executor):
        yield


def timed(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """Return a tool whose ``timeout=`` does not count a wait for a thread. Pydantic AI's own counts it."""
    if not isinstance(tool, FunctionToolsetTool):
        return tool
    seconds = tool.tool_def.timeout
    if seconds is None and isinstance(tool.toolset, FunctionToolset):
        seconds = tool.toolset.timeout
    if seconds is None or math.isinf(seconds):
        return tool
    call, limit_seconds = tool.call_func, seconds

    async def call_in_time(args: dict[str, Any], ctx: RunContext[Any]) -> Any:
        limit = TimeLimit(limit_seconds)
        try:
            async with limit:
                return await call(args, ctx)
        except TimeoutError:
            if limit.has_expired:
                raise ModelRetry(f"Timed out after {limit_seconds} seconds.") from None
            raise

    async def call_func(args: dict[str, Any], ctx: RunContext[Any]) -> Any:
        return await (call if current_attempt.get(None) is None else call_in_time)(args, ctx)

    return replace(tool, call_func=call_func, tool_def=replace(tool.tool_def, timeout=math.inf))
