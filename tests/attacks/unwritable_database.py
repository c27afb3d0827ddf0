"""A Postgres that takes no writes for longer than a lease, under a real server and worker."""

from __future__ import annotations

import asyncio
import collections
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg

from signoff import Context, Signoff
from signoff.server import Server
from signoff.stores.postgres.store import PostgresStore
from tests.postgres.folder import HeldFolder
from tests.postgres.server import FAST, PostgresServer
from tests.support import PATIENCE_SECONDS

LEASE_SECONDS = 2.0
PATIENT_SECONDS = 2.0  # a write waits for so long for a database to fail over
VALUE_BYTES = 20_000
DISK = "size=400m,mode=755"

Change = Callable[[PostgresServer], None]


class Site:
    """A server, a worker with a store of its own, and what its steps did."""

    def __init__(self, url: str) -> None:
        self.app = Signoff(PostgresStore(url, lease_seconds=LEASE_SECONDS, patience_seconds=PATIENT_SECONDS))
        self.server_store = PostgresStore(url, lease_seconds=LEASE_SECONDS, patience_seconds=PATIENT_SECONDS)
        self.steps: collections.Counter[tuple[str, int]] = collections.Counter()
        self.is_over = False

        @self.app.workflow
        async def tick(ctx: Context, padding: str = "") -> int:
            number = 0
            while await ctx.step("tick", self._tick, ctx.run_id, number) != "over":
                number += 1
            return number

    async def _tick(self, run_id: str, number: int) -> str:
        self.steps[run_id, number] += 1
        if self.is_over:
            return "over"
        await asyncio.sleep(0.1)
        return secrets.token_hex(VALUE_BYTES // 2)


@asynccontextmanager
async def _working(url: str) -> AsyncGenerator[tuple[Site, httpx.AsyncClient]]:
    site = Site(url)
    try:
        async with (
            Server(site.server_store, port=0) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=PATIENCE_SECONDS) as http,
            site.app.worker(beat_seconds=LEASE_SECONDS / 4),
        ):
            yield site, http
    finally:
        await site.app.store.close()
        await site.server_store.close()


async def _start(http: httpx.AsyncClient, id: str, bytes: int) -> bool:
    """Start a run. Returns whether it was acknowledged; if not, it was refused with a reason."""
    padding = secrets.token_hex(bytes // 2)
    reply = await http.post("/v1/runs", json={"workflow": "tick", "args": [padding], "id": id})
    assert reply.status_code in (200, 201, 503, 507), reply.text
    return reply.status_code < 500


async def _ready(http: httpx.AsyncClient) -> int:
    return (await http.get("/ready")).status_code


async def _until(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while not await look():
            await asyncio.sleep(0.1)


async def attack(database: PostgresServer, breaks: Change, mends: Change) -> dict[str, Any]:
    """Break a database under work and mend it again. Returns what came of it."""
    async with _working(database.url()) as (site, http):

        async def is_ready() -> bool:
            return await _ready(http) == 200

        await _until(is_ready)
        begun = [f"r{k}" for k in range(3)]
        for id in begun:
            assert await _start(http, id, 100)

        async def all_step() -> bool:
            return {id for id, _ in site.steps} >= set(begun)

        await _until(all_step)
        await asyncio.to_thread(breaks, database)
        acknowledged, refused = begun, 0
        statuses: list[int] = []
        # Until work cannot go on: a disk that is full has room left in the files that are there.
        async with asyncio.timeout(PATIENCE_SECONDS):
            while refused < 3:
                id = f"a{len(acknowledged)}-{refused}"
                if await _start(http, id, 100_000):
                    acknowledged.append(id)
                else:
                    refused += 1
                    statuses.append(await _ready(http))
        await asyncio.sleep(2 * LEASE_SECONDS)
        statuses.append(await _ready(http))
        await asyncio.to_thread(mends, database)
        await _until(is_ready)
        assert await _start(http, "after", 100)
        site.is_over = True
        for id in (*acknowledged, "after"):

            async def has_ended(id: str = id) -> bool:
                reply = await http.get(f"/v1/runs/{id}")
                return reply.status_code == 200 and reply.json()["state"] == "succeeded"

            await _until(has_ended)
        doubled = {f"{id} {number}": times for (id, number), times in site.steps.items() if times > 1}
        return {"ready": statuses, "doubled": doubled, "refused": refused}


def fill_disk(database: PostgresServer) -> None:
    """Fill the disk that the database is on."""
    ballast = database.folder / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * size):
                    pass


def make_space(database: PostgresServer) -> None:
    """Have space on the disk again."""
    (database.folder / "ballast").unlink()


def fail_over(database: PostgresServer) -> None:
    """Restart as a standby: it reads, and takes no writes until it is promoted."""
    (database.folder / "data" / "standby.signal").touch()
    database.restart()


def promote(database: PostgresServer) -> None:
    """Promote a standby."""
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")


def only_read(database: PostgresServer) -> None:
    """Have sessions read only."""
    _read_only(database, "on")


def write_again(database: PostgresServer) -> None:
    """Have sessions write."""
    _read_only(database, "off")


def _read_only(database: PostgresServer, value: str) -> None:
    with psycopg.connect(database.url(), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        connection.execute("SELECT pg_reload_conf()")


def main(folder: str) -> None:
    """Print the effects of a full disk, on a small one at ``folder`` that only this process and its children see."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", DISK, "none", folder], check=True)
    held = HeldFolder.hold_new(Path(folder))
    with PostgresServer(settings={**FAST, "max_wal_size": "64MB"}, held=held) as database:
        print(asyncio.run(attack(database, fill_disk, make_space)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
