"""A process that works, prompts its agent, and waits until it is stopped. Reports when the approval is open."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from tests.agents.chats import Chats


async def main(folder: Path, prompt: str) -> None:
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    chats = Chats(folder)
    async with chats.running(grace_seconds=0.1):
        chat = chats.conversation("c")
        turn = asyncio.create_task(chat.run(prompt))
        await chats.slow.wait()
        while not await chat.pending():
            await asyncio.sleep(0.01)
        print("asked", flush=True)
        await turn


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
