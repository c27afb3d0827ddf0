"""A process that starts all flows of the table, waits until each asks, and is then killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.flows.places import register_all
from tests.support import new_app, running


async def main(folder: Path) -> None:
    """Start them, say so, and wait for the end."""
    app = new_app(folder)
    made = register_all(app)
    async with running(app):
        for name, case in made.items():
            execution = await case.flow.start(case.input, id=name.replace(" ", "-"))
            assert await execution.get_pending_interrupts(wait_seconds=60)
        print("all asked", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
