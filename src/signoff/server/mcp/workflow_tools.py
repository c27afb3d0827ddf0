"""Announced workflows as tools, with the schemas of their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from pydantic_core import from_json, to_json

from signoff import codec
from signoff.codec.parameter_schema import BY_POSITION
from signoff.server.mcp.api import Api
from signoff.server.mcp.run_tools import started
from signoff.server.mcp.tool import Call, Tool, id_of, short, text

PREFIX: Final = "start__"
LONGEST_NAME: Final = 48
"""Characters of a tool's name. Clients put their name for the server before it and allow 64 in all."""

LONGEST_SCHEMA: Final = 20_000
"""Bytes of a schema in the list of tools, which each client gives to its model."""

PAGE: Final = 50
RUN_ID: Final = "signoff_run_id"
"""The argument that chooses the run's id, beside those of the workflow."""


@dataclass(frozen=True)
class Workflows:
    """A page of workflows as tools, and the cursor of the next page."""

    tools: list[Tool]
    next: str | None


async def workflow_tools(api: Api, after: str | None = None) -> Workflows:
    """Return a page of the workflows that workers serve now. Raises Refused."""
    page = await api.get("/v1/workflows", limit=PAGE, after=after)
    return Workflows(list(_tools(page["items"])), page.get("next"))


async def find_workflow_tool(api: Api, name: str) -> Tool | None:
    """Return the tool of a workflow by its name. Raises Refused."""
    after: str | None = None
    while True:
        page = await workflow_tools(api, after)
        for tool in page.tools:
            if tool.name == name:
                return tool
        if page.next is None:
            return None
        after = page.next


def tool_name(workflow: str, group: str) -> str:
    """Return the tool's name: letters, digits, ``_`` and ``-``. An altered or long one gets a hash, so it is unique."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", workflow)
    is_own = group == "default" and plain == workflow and len(PREFIX + plain) <= LONGEST_NAME
    if is_own and re.fullmatch(r".*_[0-9a-f]{8}", plain) is None:
        return PREFIX + plain
    return f"{(PREFIX + plain)[: LONGEST_NAME - 9]}_{id_of(workflow, group)[:8]}"


def _tools(workflows: Iterable[Mapping[str, Any]]) -> Iterable[Tool]:
    for each in workflows:
        schema = _schema(each.get("parameters"))
        if each.get("is_current") and schema is not None:
            yield _tool(each["name"], each["group"], each.get("description"), schema)


def _schema(announced: Any) -> dict[str, Any] | None:
    """Return the parameters of a workflow; None if they are unknown or too long: ``start_workflow`` starts it."""
    read = from_json(announced) if isinstance(announced, str) else announced
    schema = cast("dict[str, Any]", read if isinstance(read, dict) else {})
    if not schema or len(to_json(schema)) > LONGEST_SCHEMA:
        return None
    return None if RUN_ID in schema.get("properties", {}) else schema


def _tool(workflow: str, group: str, description: str | None, schema: dict[str, Any]) -> Tool:
    own = {"type": "object", **schema}
    own["properties"] = {
        **schema.get("properties", {}),
        RUN_ID: text("The id of the run; repeated calls with it start one run", minLength=1),
    }
    about = f"{short(description, 1000)} " if description else ""
    return Tool(
        tool_name(workflow, group),
        f"Start {workflow}",
        f"{about}Starts a run of the workflow {workflow!r}, which goes on when this call has returned; poll it with "
        "show_run.",
        own,
        partial(_start, workflow, group, schema),
        ("POST", "/v1/runs"),
    )


async def _start(workflow: str, group: str, schema: Mapping[str, Any], call: Call) -> dict[str, Any]:
    kwargs = dict(call.arguments)
    run_id = kwargs.pop(RUN_ID, None)
    args: list[Any] = []
    for name in schema.get(BY_POSITION, ()):
        if name not in kwargs:
            break
        args.append(kwargs.pop(name))
    if (rest := schema.get(codec.REST)) in kwargs:
        args += kwargs.pop(rest)
    body = {"workflow": workflow, "group": group, "args": args, "kwargs": kwargs}
    return await started(call, body, run_id)
