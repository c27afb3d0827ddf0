"""Marks requests that the MCP server makes to the HTTP API in its own process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from signoff.records import Origin

PATH: Final = "/mcp"

KEY: Final = "signoff.mcp"
"""The key in an ASGI scope. Only code in this process can set it."""


@dataclass(frozen=True)
class McpRequest:
    """A request to the HTTP API on behalf of a tool call.

    Attributes:
        local: The origin of a caller that has the database, and so is not authenticated; None: the credentials in the
            request's headers count.
    """

    local: Origin | None = None
