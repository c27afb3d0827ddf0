"""A real MCP server, over HTTP."""

from __future__ import annotations

from starlette.applications import Starlette


def desk(trace: list[str]) -> Starlette:
    """Return a server of a shop's desk, that leaves a trace of each call."""
    from mcp.server import MCPServer  # it takes a second to load, also where its test is only collected
    from mcp.types import ToolAnnotations

    server = MCPServer("desk")

    @server.tool()
    def look_up(order: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Look up an order."""
        trace.append(f"look_up {order}")
        return f"{order} is late"

    @server.tool(annotations=ToolAnnotations(read_only_hint=False))
    def cancel(order: str) -> str:  # pyright: ignore[reportUnusedFunction]
        """Cancel an order."""
        trace.append(f"cancel {order}")
        return f"{order} is cancelled"

    return server.streamable_http_app()
