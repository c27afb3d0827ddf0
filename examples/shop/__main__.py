"""``python -m examples.shop [SERVER]`` starts the samples on a server, by default the one of ``signoff dev``."""

from __future__ import annotations

import asyncio
import sys

from examples.shop.samples import start_samples
from signoff import AsyncClient, SignoffError

SERVER = "http://127.0.0.1:8000"


async def main(server: str) -> int:
    """Start the samples and say where they are."""
    try:
        async with AsyncClient(server) as client:
            for run in await start_samples(client):
                print(f"{server}/runs/{run.id}")
    except SignoffError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*(sys.argv[1:] or [SERVER]))))
