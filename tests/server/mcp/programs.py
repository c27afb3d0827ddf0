"""``signoff mcp`` as a program that a client starts."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests.server.mcp.clients import MODES
from tests.support import PATIENCE_SECONDS


@asynccontextmanager
async def program(
    *arguments: str, folder: Path, mode: str = MODES[0], variables: Mapping[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client that has started ``signoff mcp``."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **(variables or {})}
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "signoff", "mcp", *arguments], env=environment, cwd=folder
    )
    async with Client(command, mode=mode, read_timeout_seconds=PATIENCE_SECONDS) as client:
        yield client
