"""Reads lines from the terminal while a worker and a conversation run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading


async def typed(prompt: str) -> str:
    """Show a prompt, and return the line that the user types.

    The program never waits for the reading thread, so Ctrl-C ends it at once. With ``asyncio.to_thread(input)`` it
    would wait for Enter.

    Raises:
        EOFError: There is no one at the terminal.
    """
    print(prompt, end="", flush=True)
    loop = asyncio.get_running_loop()
    lines = asyncio.Queue[str | None]()

    def read() -> None:
        line = _line()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, name="terminal", daemon=True).start()
    line = await lines.get()
    if line is None:
        raise EOFError
    return line


def _line() -> str | None:
    """Read one line, and nothing after it. ``sys.stdin`` is not used: an abandoned thread would keep it locked."""
    read = bytearray()
    with contextlib.suppress(OSError):  # the terminal is gone
        while byte := os.read(0, 1):
            if byte == b"\n":
                return read.decode(errors="replace").rstrip("\r")
            read += byte
    return read.decode(errors="replace") or None
