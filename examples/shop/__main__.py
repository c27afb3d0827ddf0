"""``python -m examples.shop [SERVER]`` starts the samples on a server, by default that of ``signoff dev``."""

from __future__ import annotations

import asyncio
import sys

from examples.shop.samples import samples, start_sample
from signoff import AsyncClient, SignoffError

SERVER = "http://127.0.0.1:8000"
USAGE = f"usage: python -m examples.shop [SERVER], such as: python -m examples.shop {SERVER}"


def main(arguments: list[str]) -> int:
    """Start the samples, and print where each one is."""
    if len(arguments) > 1:
        print(USAGE, file=sys.stderr)
        return 2
    (server,) = arguments or [SERVER]
    try:
        asyncio.run(start(server.rstrip("/")))
    except KeyboardInterrupt:
        print("\nThe started runs continue.", file=sys.stderr)
        return 130
    except SignoffError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def start(server: str) -> None:
    """Start them in order. Raises SignoffError."""
    async with AsyncClient(server) as client:
        for sample in samples():
            run = await start_sample(client, sample)
            print(f"{server}/runs/{run.id}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
