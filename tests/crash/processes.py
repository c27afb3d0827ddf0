"""Workers and people on a Postgres store, to be killed and frozen: ``python -m tests.crash.processes NAME ...``."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

from signoff import AlreadySettled, Signoff
from signoff.engine.worker import process_identity
from signoff.engine.worker.worker import Worker
from signoff.records import PromiseKind, PromiseState, Settlement, WorkerInfo
from signoff.stores.postgres.store import PostgresStore
from tests.crash.programs import bring_agent, make_app
from tests.remote.processes import BEAT_SECONDS, slow_app


def worker(url: str, lease_seconds: str, machine: str, effects: str) -> None:
    """Work as if on a machine of that name: workers of other machines cannot tell that it is dead."""
    bring_agent()
    app = make_app(PostgresStore(url, lease_seconds=float(lease_seconds)), Path(effects))
    asyncio.run(_work(app, machine))


def slow(url: str, lease_seconds: str, machine: str, folder: str) -> None:
    store = PostgresStore(url, lease_seconds=float(lease_seconds))
    asyncio.run(_work(slow_app(store, Path(folder)), machine))  # type: ignore[arg-type]


def settle(url: str, promise_id: str, value: str, begin_at: str, outcome: Path) -> None:
    """Settle a promise at a given time, and write into a file who won."""
    outcome.write_text(asyncio.run(_settle(url, promise_id, value, float(begin_at))))


async def _work(app: Signoff, machine: str) -> None:
    await app.store.open()
    try:
        me = replace(process_identity.new_worker(app.group, "default"), host=machine)

        def is_dead(other: WorkerInfo) -> bool:
            return other.host == machine and process_identity.is_dead(
                replace(other, host=process_identity.this_host())
            )

        await Worker(app.store, app.registry, info=me, is_dead=is_dead, beat_seconds=BEAT_SECONDS).run()
    finally:
        await app.store.close()


async def _settle(url: str, promise_id: str, value: str, begin_at: float) -> str:
    store = PostgresStore(url)
    await store.open()
    try:
        await asyncio.sleep(begin_at - time.time())
        settlement = Settlement(PromiseState.RESOLVED, value=value, by=f"user:{value}")
        try:
            promise, _ = await store.settle(promise_id, PromiseKind.PROMISE, settlement)
            return f"won {promise.value}"
        except AlreadySettled as error:
            return f"told {error.settled_by}"
    finally:
        await store.close()


def main(name: str, *arguments: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s")
    {"worker": worker, "slow": slow}[name](*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
