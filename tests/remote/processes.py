"""Servers and workers to be killed and frozen."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from signoff import Context, Signoff, current_step
from signoff.server import serve
from signoff.stores.postgres.store import PostgresStore
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.crash.programs import bring_agent, make_app
from tests.forks import fork

BEAT_SECONDS = 0.3
DIRECT_LEASE_SECONDS = 2.0


class Process:
    """A server or a worker, killed at the end. Its log is in a file."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        self.log = folder / f"{arguments[0]}.log"
        self._running = fork(_run, str(self.log), *map(str, arguments))

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._running.pid is not None
        return self._running.pid

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, also when it is frozen."""
        self._running.kill()
        self._running.join()


def server(database: str, port: str, lease_seconds: str) -> None:
    store = PostgresStore(database) if "://" in database else SqliteStore(database)
    lease = float(lease_seconds)
    asyncio.run(serve(store, port=int(port), worker_keys=worker_keys.KEYS, worker_lease_seconds=lease))


def worker(url: str, effects: str) -> None:
    bring_agent()
    _work(make_app(RemoteStore(url, key=worker_keys.SECRET), Path(effects)))


def slow(url: str, folder: str) -> None:
    _work(slow_app(RemoteStore(url, key=worker_keys.SECRET), Path(folder)))


def direct(database: str, folder: str) -> None:
    """A worker with a database of its own, whose leases are short."""
    made = PostgresStore if "://" in database else SqliteStore
    _work(slow_app(made(database, lease_seconds=DIRECT_LEASE_SECONDS), Path(folder)))


def slow_app(store: RemoteStore | SqliteStore | PostgresStore, folder: Path) -> Signoff:
    """An app whose step goes on once there is a file ``go-PID``; each execution is a line ``RUN PID`` in ``begun``."""
    app = Signoff(store)

    async def wait_for_go() -> int:
        with (folder / "begun").open("a") as begun:
            begun.write(f"{current_step().run_id} {os.getpid()}\n")
        while not (folder / f"go-{os.getpid()}").exists():
            await asyncio.sleep(0.01)
        return os.getpid()

    @app.workflow
    async def child(ctx: Context) -> int:
        return await ctx.step("wait", wait_for_go)

    @app.workflow
    async def parent(ctx: Context) -> int:
        return await ctx.rfc("child")

    return app


def _work(app: Signoff) -> None:
    async def work() -> None:
        async with app.worker(beat_seconds=BEAT_SECONDS):
            await asyncio.Event().wait()

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(process)d %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    asyncio.run(work())


def _run(log: str, name: str, *arguments: str) -> None:
    """Be a server or a worker that writes what it says into a file."""
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for told in (sys.stdout, sys.stderr):
        told.flush()
        os.dup2(written, told.fileno())
    os.close(written)
    {"server": server, "worker": worker, "slow": slow, "direct": direct}[name](*arguments)


def lines(file: Path) -> Sequence[str]:
    """The lines of a file that others write, without one that is not whole yet."""
    if not file.exists():
        return []
    text = file.read_text()
    return text[: text.rfind("\n") + 1].splitlines()
