"""A soak: innocent tenants work beside hostile ones, while processes and the database are killed and the disk fills.

Some of the innocent have orders executed by workers that speak the durable promise protocol.

    python -m tests.soak sqlite --seconds 600 --seed 7
    python -m tests.soak both --seconds 300

Prints the seed and the figures; with ``both``, a soak of each store runs beside the other. The exit code is 1 if a
promise to the innocent did not hold. As root on Linux it has a small disk of its own, which becomes full; elsewhere it
prints that this was not tried.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from examples.website_summary.processes import free_port
from signoff.server import Role
from signoff.server.auth.stored_keys import StoredKeys
from signoff.stores.address import store_at
from tests.cli.commands import Running
from tests.grouping import ROOT
from tests.postgres.folder import HeldFolder
from tests.postgres.server import DURABLE, PostgresServer
from tests.soak.hostile import Hostile
from tests.soak.innocent import PATIENCE_SECONDS, Figures, Innocent
from tests.soak.orders import Orders
from tests.soak.programs import PAYMENTS, WORKFLOWS
from tests.soak.protocol_worker import Connection

CLONE_NEWNS: Final = 0x00020000
QUIET_PART: Final = 0.25
"""The part of the time before the hostile tenants and the kills begin, to compare with."""

MOST_AT_ONCE: Final = 4
"""Innocents, each with one run at a time: as many steps can be under way when a worker is killed."""

ORDERERS: Final = "xy"
"""The callers of the durable promise protocol."""

DISK: Final = "size=640m"
SMALL_LOG: Final = {**DURABLE, "max_wal_size": "96MB", "min_wal_size": "32MB"}
"""Postgres' settings: its log fits on the small disk."""


class Soak:
    """The processes, and what happens to them.

    Args:
        folder: Where they work.
        store: The database's URL.
        port: The server's.
        database: The Postgres server, if it is one.
        has_disk: Whether the folder is a disk of its own.
        chance: Chooses what happens.
        worker_key: Of the workers that have no database, and of those that speak the durable promise protocol.

    Attributes:
        protocol_url: The URL of the protocol.
    """

    def __init__(
        self,
        folder: Path,
        store: str,
        port: int,
        database: PostgresServer | None,
        has_disk: bool,
        chance: random.Random,
        worker_key: str,
    ) -> None:
        self.folder = folder
        self._variables = {"SIGNOFF_STORE": store}
        remote = {"SIGNOFF_URL": f"http://127.0.0.1:{port}", "SIGNOFF_WORKER_KEY": worker_key}
        self._workers = ({}, remote)
        self._worker_key = worker_key
        self._port = port
        self._protocol_port = free_port()
        self.protocol_url = f"http://127.0.0.1:{self._protocol_port}"
        self._database = database
        self._has_disk = has_disk
        self._chance = chance
        self._stack = ExitStack()
        self.happened = Counter[str]()
        self.most_memory = 0
        self.server: Running | None = None
        self.workers: list[Running] = []
        self.protocol_workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start a server and four workers: on the database, through the server, and two that speak the protocol."""
        self.server = self._server()
        self.server.wait_for("listening")
        self.workers = [self._worker(place) for place in range(len(self._workers))]
        for worker in self.workers:
            worker.wait_for("working")
        self.protocol_workers = [self._protocol_worker() for _ in range(2)]

    def stop(self) -> None:
        """Stop all of them."""
        for worker in self.protocol_workers:
            _end(worker)
        self._stack.close()

    def look(self) -> None:
        """Note how much memory the server has."""
        if self.server is not None:
            with contextlib.suppress(psutil.Error):
                memory = psutil.Process(self.server.process.pid).memory_info().rss
                self.most_memory = max(self.most_memory, memory)

    async def trouble(self, stop: asyncio.Event, every_seconds: float) -> None:
        """Let one thing after the other happen, until it is to stop: each once, then each once again."""
        things = {
            "worker: SIGKILL": self._kill_worker,
            "worker: SIGTERM": self._stop_worker,
            "server: SIGKILL": self._kill_server,
            "worker of the protocol: SIGKILL": self._kill_protocol_worker,
        }
        if self._database is not None:
            things["database: kill -9 of all its processes"] = self._crash_database
        if self._has_disk:
            things["disk: full for 2 s"] = self._fill_disk
        self.happened.update(dict.fromkeys(things, 0))
        left = list(things)
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), every_seconds * self._chance.uniform(0.5, 1.5))
                return
            name = left.pop(self._chance.randrange(len(left)))
            self.happened[name] += 1
            await things[name]()
            left = left or list(things)

    def _server(self) -> Running:
        ports = ("--port", str(self._port), "--resonate", "--resonate-port", str(self._protocol_port))
        options = ("--require-auth", *ports)
        return self._stack.enter_context(
            Running("server", "soak:app", *options, cwd=self.folder, **self._variables)
        )

    def _worker(self, place: int) -> Running:
        variables = self._variables | self._workers[place]
        return self._stack.enter_context(Running("worker", "soak:app", cwd=self.folder, **variables))

    async def _kill_worker(self) -> None:
        await self._replace_worker(signal.SIGKILL)

    async def _stop_worker(self) -> None:
        await self._replace_worker(signal.SIGTERM)

    async def _replace_worker(self, number: signal.Signals) -> None:
        place = self._chance.randrange(len(self.workers))
        self.workers[place].signal(number)
        await asyncio.to_thread(self.workers[place].ends)
        self.workers[place] = self._worker(place)

    def _protocol_worker(self) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-m", "tests.soak.protocol_worker"]
        return subprocess.Popen(
            [*module, self.protocol_url, self._worker_key],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    async def _kill_protocol_worker(self) -> None:
        place = self._chance.randrange(len(self.protocol_workers))
        await asyncio.to_thread(_end, self.protocol_workers[place])
        self.protocol_workers[place] = self._protocol_worker()

    async def _kill_server(self) -> None:
        assert self.server is not None
        self.server.signal(signal.SIGKILL)
        await asyncio.to_thread(self.server.ends)
        self.server = self._server()

    async def _crash_database(self) -> None:
        assert self._database is not None
        await asyncio.to_thread(self._database.kill)
        await asyncio.to_thread(self._database.start)

    async def _fill_disk(self) -> None:
        ballast = self.folder / "ballast"
        await asyncio.to_thread(_fill, ballast)
        await asyncio.sleep(2)
        ballast.unlink()
        if self._database is not None and not psutil.pid_exists(self._database.pid):
            self.happened["database: stopped by the full disk, and started again"] += 1
            await asyncio.to_thread(self._database.start)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()


def _fill(ballast: Path) -> None:
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"\0" * size):
                    pass


async def soak(run: Soak, url: str, keys: tuple[str, str, str, str], seconds: float, seed: int) -> int:
    """Run all tenants. Returns the exit code."""
    innocent_key, hostile_key, worker_key, _ = keys
    figures, attacks = Figures(), Counter[tuple[str, int]]()
    innocents = [Innocent(url, innocent_key, name, figures) for name in "abcd"]
    hostiles = [
        Hostile(url, hostile_key, worker_key, random.Random(f"{seed}-{n}"), attacks) for n in range(2)
    ]
    stop = asyncio.Event()
    playing = [asyncio.create_task(each.play(stop)) for each in innocents]
    orders = Orders()
    playing += [
        asyncio.create_task(orders.play(Connection(run.protocol_url, innocent_key), name, stop))
        for name in ORDERERS
    ]
    schedule = {"id": "ticks", "workflow": "tick", "cron": "* * * * *"}
    scheduled_at = time.time()
    async with httpx.AsyncClient(
        base_url=url, headers={"authorization": f"Bearer {innocent_key}"}, trust_env=False, timeout=30
    ) as http:
        (await http.post("/v1/schedules", json=schedule)).raise_for_status()
    began_at = time.monotonic()
    await _wait(run, seconds * QUIET_PART)
    loud_at = time.monotonic()
    playing += [asyncio.create_task(each.play(stop)) for each in hostiles]
    playing.append(asyncio.create_task(run.trouble(stop, max(2.0, seconds / 60))))
    await _wait(run, seconds * (1 - QUIET_PART))
    stop.set()
    await asyncio.gather(*playing)
    ticked, expected = await _ticks(url, innocent_key, scheduled_at)
    if ticked != expected:
        figures.broken.append(f"the schedule fired at the minutes {ticked}, not {expected}")
    print(
        f"{time.monotonic() - began_at:.0f} s; {len(figures.ids)} refunds as expected, each started, answered and "
        f"followed to its end; {figures.reconnected} streams resumed; {len(figures.broken)} broken promises"
    )
    print("  what happened: ", ", ".join(f"{count} x {name}" for name, count in sorted(run.happened.items())))
    print("  ticks: ", len(ticked), "of", len(expected))
    print(f"  the server's most memory: {run.most_memory / 2**20:.0f} MiB")
    for name, pairs in (("start to question", figures.asked), ("answer to end", figures.ended)):
        print(
            f"  {name}: {_spread(pairs, 0, loud_at)} alone; {_spread(pairs, loud_at, 1e18)} beside the hostile"
        )
    print("  attacks (0: no reply wanted, -1: none came): ")
    for name in sorted({name for name, _ in attacks}):
        print(
            f"    {name}:",
            {status: count for (each, status), count in sorted(attacks.items()) if each == name},
        )
    figures.broken += [f"the attack {name} got {status}" for name, status in attacks if status == 500]
    figures.broken += _unpaid(run.folder, figures, run.happened)
    figures.broken += orders.check(run.folder, sum(run.happened.values()), len(ORDERERS))
    for each in figures.broken:
        print("BROKEN:", each)
    return int(bool(figures.broken) or not figures.ids or not orders.steps)


def _unpaid(folder: Path, figures: Figures, happened: Counter[str]) -> list[str]:
    """Return what is wrong with the payments: each was made, and twice only where a worker died in between."""
    paid = Counter((folder / PAYMENTS).read_text().split())
    repeated, kills = sum(paid.values()) - len(paid), happened["worker: SIGKILL"]
    print(f"  payments: {sum(paid.values())} for {len(paid)} refunds")
    missing = [f"{id} was not paid" for id in figures.ids if id not in paid]
    most = kills * MOST_AT_ONCE
    return missing if repeated <= most else [*missing, f"{repeated} payments were repeated, by {kills} kills"]


async def _wait(run: Soak, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        run.look()
        await asyncio.sleep(0.5)


async def _ticks(url: str, key: str, since: float) -> tuple[list[int], list[int]]:
    """Return the minutes at which the schedule fired, and those at which it should have."""
    until = time.time()
    expected = list(range(int(since // 60) + 1, int(until // 60) + 1))
    headers = {"authorization": f"Bearer {key}"}
    ticked = list[int]()
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=30) as http:
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < give_up_at:
            with contextlib.suppress(httpx.HTTPError):
                page = await http.get("/v1/runs", params={"workflow": "tick", "limit": 1000})
                if page.status_code == 200:
                    runs = page.json()["items"]
                    ticked = sorted(int(run["created_at"] // 60) for run in runs)
                    ticked = [minute for minute in ticked if minute <= int(until // 60)]
                    if len(ticked) >= len(expected) and all(run["state"] == "succeeded" for run in runs):
                        break
            await asyncio.sleep(0.5)
    return ticked, expected


def _spread(pairs: list[tuple[float, float]], since: float, until: float) -> str:
    values = sorted(taken for began_at, taken in pairs if since <= began_at < until)
    if len(values) < 2:
        return "-"
    last = values[int(0.95 * (len(values) - 1))]
    return f"median {statistics.median(values) * 1000:.0f} ms, 95 % {last * 1000:.0f} ms, most {values[-1]:.1f} s"


@contextmanager
def own_disk(folder: Path) -> Iterator[bool]:
    """Make a folder a small disk that only this process and its children see. Yields whether it could be made."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    is_own = sys.platform == "linux" and os.getuid() == 0 and libc.unshare(CLONE_NEWNS) == 0
    if is_own:
        subprocess.run(["mount", "--make-rprivate", "/"], check=False, capture_output=True)
        mount = ["mount", "-t", "tmpfs", "-o", DISK, "none", str(folder)]
        is_own = subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        yield is_own
    finally:
        if is_own:
            subprocess.run(["umount", "--lazy", str(folder)], check=False, capture_output=True)


async def make_keys(store: str) -> tuple[str, str, str, str]:
    """Return keys: of an innocent operator, of a hostile operator and worker, and of an innocent worker."""
    opened = store_at(store)
    await opened.open()
    try:
        evil = StoredKeys(opened.within("evil"))
        return (
            (await StoredKeys(opened).create_for_service("innocent", [Role.OPERATOR], act_as=True))[0],
            (await evil.create_for_service("hostile", [Role.OPERATOR], act_as=True))[0],
            (await evil.create_for_worker("hostile"))[0],
            (await StoredKeys(opened).create_for_worker("innocent"))[0],
        )
    finally:
        await opened.close()


def main() -> int:
    """Run the soak that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("store", choices=["sqlite", "postgres", "both"])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    asked = parser.parse_args()
    if asked.store == "both":
        return _both(asked.seconds, asked.seed)
    print(f"soak on {asked.store} for {asked.seconds:g} s, seed {asked.seed}", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-soak-")))
        has_disk = stack.enter_context(own_disk(folder))
        if not has_disk:
            print("A full disk is NOT tried: that needs the right to mount one")
        (folder / "soak.py").write_text(WORKFLOWS)
        database = (
            stack.enter_context(PostgresServer(settings=SMALL_LOG, held=HeldFolder.hold_new(folder)))
            if asked.store == "postgres"
            else None
        )
        store = f"sqlite:///{folder / 'signoff.db'}" if database is None else database.url()
        keys = asyncio.run(make_keys(store))
        port = free_port()
        run = Soak(folder, store, port, database, has_disk, random.Random(asked.seed), keys[3])
        stack.callback(run.stop)
        run.start()
        return asyncio.run(soak(run, f"http://127.0.0.1:{port}", keys, asked.seconds, asked.seed))


def _both(seconds: float, seed: int) -> int:
    """Run a soak of each store beside the other, and print what each prints. Returns the exit code."""
    commands = [
        [sys.executable, "-m", "tests.soak", store, "--seconds", str(seconds), "--seed", str(seed)]
        for store in ("sqlite", "postgres")
    ]
    soaks = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for command in commands
    ]
    for soak in soaks:
        print(soak.communicate()[0].decode(), flush=True)
    return max(abs(soak.returncode) for soak in soaks)


if __name__ == "__main__":
    sys.exit(main())
