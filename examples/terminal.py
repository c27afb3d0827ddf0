"""Reading a line from the terminal while a worker and a conversation go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading


async def typed(prompt: str) -> str:
    """Show a prompt and return the line that is typed.

    Nothing waits for the thread that reads it, so Ctrl-C ends the program at once; whoever leaves
    ``asyncio.to_thread(input)`` waits for Enter.

    Raises:
        EOFError: Nobody is there.
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
    """Read up to a line's end, and nothing behind it: not by ``sys.stdin``, which a thread that is left would lock."""
    read = bytearray()
    with contextlib.suppress(OSError):  # the terminal is gone
        while byte := os.read(0, 1):
            if byte == b"\n":
                return read.decode(errors="replace").rstrip("\r")
            read += byte
    return read.decode(errors="replace") or None
