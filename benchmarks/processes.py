"""Other processes that take part in a benchmark."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.row import Place


@asynccontextmanager
async def command(place: Place, *arguments: str, **environment: str) -> AsyncGenerator[Process]:
    """Run a ``signoff`` command in this context."""
    process = await asyncio.create_subprocess_exec(
        *place.python(arguments[0]),
        "-m",
        "signoff",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.communicate()


async def url_of(server: Process) -> str:
    """Return the URL of a ``signoff server --json``."""
    return (await facts_of(server))["url"]


async def facts_of(server: Process) -> dict[str, Any]:
    """Return what a ``signoff server --json`` prints about itself once it listens."""
    assert server.stdout is not None
    line = await server.stdout.readline()
    if not line:
        raise RuntimeError("the server did not start")
    return json.loads(line)
