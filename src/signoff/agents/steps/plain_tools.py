"""Plain functions of agents: they run in the worker's threads for plain steps, and a wait for one costs no time."""

from __future__ import annotations

import inspect
import math
from collections.abc import Generator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.toolsets import FunctionToolset, ToolsetTool
from pydantic_ai.toolsets.function import FunctionToolsetTool

from signoff.engine.run.value_copies import copied
from signoff.engine.steps.detached_functions import is_equal
from signoff.engine.steps.step_executor import step_executor
from signoff.engine.steps.time_limit import TimeLimit
from signoff.observability.current_run import current_attempt
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")


@contextmanager
def in_step_threads() -> Generator[None]:
    """Have Pydantic AI run plain functions in the worker's threads, if a step runs here."""
    executor = step_executor()
    if executor is None:
        yield
        return
    with Agent.using_thread_executor(executor):
        yield


def for_step(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """Return a tool for calls that run as steps.

    Each attempt gets its own copies of the arguments, so that a body that changes them in place does not change what
    another attempt, or the body after a pause, runs with. A wait for a thread does not count for ``timeout=``; in
    Pydantic AI it does.
    """
    if not isinstance(tool, FunctionToolsetTool):
        return tool
    call, seconds = tool.call_func, tool.tool_def.timeout
    if seconds is None and isinstance(tool.toolset, FunctionToolset):
        seconds = tool.toolset.timeout
    limit_seconds = None if seconds is None or math.isinf(seconds) else seconds

    async def attempt(args: dict[str, Any], ctx: RunContext[Any]) -> Any:
        own: dict[str, Any] = copied(args, {})
        if limit_seconds is None:
            return await call(own, ctx)
        limit = TimeLimit(limit_seconds)
        try:
            async with limit:
                return await call(own, ctx)
        except TimeoutError:
            if limit.has_expired:
                raise ModelRetry(f"Timed out after {limit_seconds} seconds.") from None
            raise

    async def call_func(args: dict[str, Any], ctx: RunContext[Any]) -> Any:
        return await (call if current_attempt.get(None) is None else attempt)(args, ctx)

    made = copy(tool)  # `replace` takes twice as long, and each call needs one
    made.call_func = call_func
    if limit_seconds is not None:
        made.tool_def = replace(tool.tool_def, timeout=math.inf)
    return made


def with_own_copies(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """Return a tool whose ``args_validator`` gets copies of the arguments: it runs as a step, so a replay skips it."""
    check = tool.args_validator_func
    if check is None:
        return tool

    async def check_copies(ctx: RunContext[Any], **args: Any) -> None:
        own: dict[str, Any] = copied(args, {})
        made = check(ctx, **own)
        if inspect.isawaitable(made):
            await made
        changed = [name for name, value in args.items() if not is_equal(value, own[name])]
        if changed:
            log.warning(
                "the args_validator of tool %r changed %s in place. The change is lost: it works on copies, since a "
                "replay does not run it again. Use a validator of the argument's type to convert values",
                tool.tool_def.name,
                ", ".join(map(repr, changed)),
            )

    return replace(tool, args_validator_func=check_copies)
