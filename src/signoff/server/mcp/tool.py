"""Tools: declarations of what an MCP client may call."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from signoff.server.mcp.api import Api

LONGEST_MEMBER: Final = 100_000
"""Bytes of JSON of a payload in a result. A longer one is left out, and the result says so."""


class ToolFailed(Exception):
    """A tool call that failed for a reason that the caller can act on."""


class ServerStopping(Exception):
    """The server stops while a call waits. Nothing was decided: the call is to be repeated."""


async def _no_progress(_: str) -> None:
    pass


@dataclass(frozen=True)
class Call:
    """One call of a tool.

    Attributes:
        api: The HTTP API, with the caller's credentials.
        arguments: The arguments, checked against the tool's schema.
        caller: The authenticated user or service; None: not authenticated.
        progress: Tells the client that the call still waits.
        assignees: Who may answer the caller's questions, unless it names assignees: the user of the client chose them.
        now: The time of the store.
    """

    api: Api
    arguments: Mapping[str, Any]
    caller: str | None = None
    progress: Callable[[str], Awaitable[None]] = _no_progress
    assignees: Sequence[str] = ()
    now: Callable[[], float] = time.time


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name, of letters, digits and underscores: clients refuse other characters.
        title: Its name for people.
        description: Its purpose, for models.
        parameters: The JSON Schema of its arguments.
        run: Performs a call and returns a JSON object.
        route: The method and path of the HTTP API whose rights it needs.
        reads_only: Whether it changes nothing.
        destroys: Whether it may destroy something.
        repeats: Whether repeated calls with the same arguments have no further effect.
        is_structured: Whether the result is also given as structured content, besides JSON text.
    """

    name: str
    title: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Call], Awaitable[dict[str, Any]]]
    route: tuple[str, str]
    reads_only: bool = False
    destroys: bool = False
    repeats: bool = False
    is_structured: bool = True


def parameters(required: tuple[str, ...] = (), **properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of arguments. Others are refused: a caller cannot name a user to act for."""
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def text(description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of a text argument."""
    return {"type": "string", "description": description, **more}


def seconds(description: str, most: float) -> dict[str, Any]:
    """Return the schema of a number of seconds."""
    return {"type": "number", "minimum": 0, "maximum": most, "description": description}


PAGE: Final[Mapping[str, Any]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many; 20 by default"},
    "after": text("The `next` of the page before"),
}
LIMIT: Final = 20


def bounded(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a record without those of the named members that are too long for a model. It names their sizes."""
    kept = dict(record)
    for name in names:
        size = len(to_json(kept.get(name)))
        if size > LONGEST_MEMBER:
            del kept[name]
            kept[f"{name}_left_out"] = f"{size:,} bytes; see it in the inbox or with the HTTP API"
    return kept


def short(text: str, width: int = 300) -> str:
    """Return the start of a text for a list."""
    return text if len(text) <= width else text[: width - 1] + "…"


def id_of(*parts: Any) -> str:
    """Return an id that stands for these values."""
    return hashlib.sha256(to_json(parts)).hexdigest()[:32]
