"""The MCP server of the ``mcp`` SDK: lists tools and calls them. Importing this module needs the extra ``mcp``."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as McpTool
from pydantic_core import PydanticSerializationError, to_json

from signoff import codec
from signoff.codec.parameter_schema import BY_POSITION
from signoff.errors import InvalidValue
from signoff.people.schemas.validation import listed
from signoff.people.schemas.validation_process import find_problems
from signoff.runtime.loggers import own_logger
from signoff.server.auth.roles import reach_of, rights_on
from signoff.server.mcp.api import Api, Refused
from signoff.server.mcp.asking_tools import ASKING_TOOLS
from signoff.server.mcp.question_tools import QUESTION_TOOLS
from signoff.server.mcp.run_tools import RUN_TOOLS
from signoff.server.mcp.tool import Call, ServerStopping, Tool, ToolFailed
from signoff.server.mcp.workflow_tools import PREFIX, find_workflow_tool, workflow_tools
from signoff.version import __version__

log = own_logger("signoff.server")

TOOLS: Final = {tool.name: tool for tool in (*QUESTION_TOOLS, *ASKING_TOOLS, *RUN_TOOLS)}

_INSTRUCTIONS: Final = (
    "Signoff holds questions for people and durable runs. Answer a question only as the user has told you to, after "
    "show_question; never approve a call of your own. A call that waits may return before the end: poll with the id "
    "that it returned."
)
_HIDDEN: Final = (BY_POSITION, codec.REST)


@dataclass(frozen=True)
class Caller:
    """The caller of a tool.

    Attributes:
        api: The HTTP API, with the caller's credentials.
        name: The authenticated user or service; None: not authenticated.
        roles: The roles; None: everything is allowed.
        assignees: Who may answer its questions, unless it names assignees.
        now: The time of the store.
    """

    api: Api
    name: str | None = None
    roles: Collection[str] | None = None
    assignees: Sequence[str] = ()
    now: Callable[[], float] = time.time

    def may(self, tool: Tool) -> bool:
        """Whether the caller's roles have rights on the route that a tool needs."""
        return self.roles is None or reach_of(self.roles, rights_on(*tool.route) or {}) is not None


Connect = Callable[[ServerRequestContext[Any, Any]], AbstractAsyncContextManager[Caller]]
"""Finds the caller of a request."""


def mcp_server(connect: Connect) -> Server[Any]:
    """Return the MCP server.

    Args:
        connect: Finds the caller of a request.
    """

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        cursor = None if params is None else params.cursor
        async with connect(ctx) as caller:
            own = [] if cursor else [tool for tool in TOOLS.values() if caller.may(tool)]
            try:
                page = await workflow_tools(caller.api, cursor)
            except Refused as refusal:
                if cursor is not None and refusal.status == 422:
                    raise MCPError(INVALID_PARAMS, f"the cursor is not valid: {refusal.detail}") from None
                if refusal.status != 403:
                    raise
                return ListToolsResult(tools=[declared(tool) for tool in own])
        found = [tool for tool in page.tools if caller.may(tool)]
        return ListToolsResult(tools=[declared(tool) for tool in (*own, *found)], next_cursor=page.next)

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
        async with connect(ctx) as caller, _failures(params.name) as failure:
            tool = TOOLS.get(params.name)
            if tool is None and params.name.startswith(PREFIX):
                tool = await find_workflow_tool(caller.api, params.name)
            if tool is None:
                raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]!r}")
            arguments = params.arguments or {}
            if wrong := await find_problems(tool.parameters, arguments):
                raise ToolFailed(listed(wrong, "arguments"))
            done = 0

            async def progress(message: str) -> None:
                nonlocal done
                done += 1
                await ctx.session.report_progress(done, message=message)

            found = await tool.run(
                Call(caller.api, arguments, caller.name, progress, caller.assignees, caller.now)
            )
            return _result(found, is_structured=tool.is_structured)
        return _failed(failure.reason)

    return Server(
        "signoff",
        title="Signoff",
        version=__version__,
        instructions=_INSTRUCTIONS,
        get_tool_input_schema=lambda _: None,  # no argument is mirrored in a header
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class _Failure:
    """The reason why a call has failed."""

    reason = ""


@asynccontextmanager
async def _failures(tool: str) -> AsyncGenerator[_Failure]:
    """Catch the failures that a model can act on. They are results of the tool, not errors of the protocol."""
    failure = _Failure()
    try:
        yield failure
    except (ToolFailed, InvalidValue) as error:
        failure.reason = str(error)
    except Refused as refusal:
        failure.reason = f"{refusal.detail} (HTTP {refusal.status})"
    except PydanticSerializationError:
        failure.reason = "an argument has characters that are not valid Unicode"
    except ServerStopping:
        raise MCPError(CONNECTION_CLOSED, "the server is stopping: repeat the call") from None
    except MCPError:
        raise
    except Exception:
        log.exception("the MCP tool %r failed", tool[:100])
        failure.reason = "the call failed in the server; its log says more"


def declared(tool: Tool) -> McpTool:
    """Return a tool as the protocol describes it."""
    schema = {name: value for name, value in tool.parameters.items() if name not in _HIDDEN}
    hints = ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.reads_only,
        destructive_hint=tool.destroys,
        idempotent_hint=tool.repeats or tool.reads_only,
        open_world_hint=False,
    )
    return McpTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema,
        annotations=hints,
    )


def _result(found: Mapping[str, Any], *, is_structured: bool) -> CallToolResult:
    text = to_json(found, inf_nan_mode="null").decode()
    structured = dict(found) if is_structured else None
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structured)


def _failed(reason: str) -> CallToolResult:
    """Return an error. It has no structured content: some clients check that against the schema of results."""
    return CallToolResult(content=[TextContent(type="text", text=reason)], is_error=True)
