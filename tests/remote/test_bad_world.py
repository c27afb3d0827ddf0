"""Remote workers and servers that are killed, frozen and cut off, in real processes: correct results, nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import free_port
from signoff import AsyncClient
from signoff.records import Entry, EntryKind, RunState
from signoff.records.paging import RunFilter
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.crash import programs
from tests.halves import sample
from tests.remote.bad_world import answer_everything, check_effects, check_results, comes, everything, pauses
from tests.remote.processes import Process, lines, slow_app
from tests.remote.proxy import REPLY_LOST, Fate, Proxy, bad_network
from tests.support import PATIENCE_SECONDS, in_asyncio

RUNS_OF_EACH = 4
KILLS = 12
LEASE_SECONDS = 3.0


class World:
    """A server, a proxy before it, and workers, of which any may be killed."""

    def __init__(self, folder: Path, proxy: Proxy, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self.folder = folder
        self.effects = folder / "effects"
        self.proxy = proxy
        self._lease_seconds = lease_seconds
        self._stack = ExitStack()
        self.servers = 0
        self.start_server()

    def start_server(self, *, lease_seconds: float | None = None) -> None:
        lease = lease_seconds or self._lease_seconds
        self.server = self._begin("server", self.folder / "signoff.db", self.proxy.target, lease)
        self.servers += 1

    def start_worker(self, kind: str = "worker") -> Process:
        return self._begin(kind, self.proxy.url, self.effects if kind == "worker" else self.folder)

    async def lose_a_reply(self, verb: bytes, *, seconds: float) -> None:
        """Have one more request with this operation done, lose its reply, and cut the network. Or wait in vain."""
        usual, met = self.proxy.fate, asyncio.Event()

        def lose(request: bytes) -> Fate:
            if met.is_set() or verb not in request:
                return usual(request)
            met.set()
            self.proxy.reply_was_lost.clear()
            return REPLY_LOST

        self.proxy.fate = lose
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await met.wait()
                await self.proxy.reply_was_lost.wait()
            self.proxy.is_cut = True
            self.proxy.cut()
        self.proxy.fate = usual

    def _begin(self, *arguments: object) -> Process:
        return self._stack.enter_context(Process(self.folder, *arguments))

    def close(self) -> None:
        self._stack.close()


@asynccontextmanager
async def world(folder: Path, proxy: Proxy, **options: Any) -> AsyncIterator[World]:
    async with proxy.running():
        made = World(folder, proxy, **options)
        try:
            yield made
        finally:
            await asyncio.to_thread(made.close)


async def kill_one_after_the_other(world: World, chance: random.Random) -> None:
    """Keep three workers at work, kill one every second or two, and the server now and then."""
    workers = [world.start_worker() for _ in range(3)]
    for _ in range(KILLS):
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        victim = chance.randrange(5)
        if victim >= 3:
            await kill_server(world, chance)
        else:
            workers[victim].kill()
            workers[victim] = world.start_worker()


async def kill_server(world: World, chance: random.Random) -> None:
    """Kill the server after an operation and before its reply, or at some other moment."""
    if chance.random() < 0.8:
        verbs = [b"append", b"pause", b"complete", b"claim", b"settle"]
        await world.lose_a_reply(b'"do":"%b"' % chance.choice(verbs), seconds=2)
    world.server.kill()
    await asyncio.sleep(chance.uniform(0.0, 0.5))
    world.start_server()
    world.proxy.is_cut = False


async def play(world: World, seed: int) -> tuple[dict[str, Any], dict[str, Sequence[Entry]]]:
    """Start many runs, let the world be bad until all have ended; return results and journals."""
    app = programs.make_app(RemoteStore(world.proxy.url, key=worker_keys.SECRET), world.effects)
    busy: list[asyncio.Task[None]] = []
    try:
        async with AsyncClient(app) as client:
            names = [f"{name}-{k}" for k in range(RUNS_OF_EACH) for name in programs.NAMES]
            bad = asyncio.create_task(kill_one_after_the_other(world, random.Random(seed)))
            people = asyncio.create_task(answer_everything(client))
            busy += [bad, people]
            handles = [await client.start(name.partition("-")[0], id=name) for name in names]
            ends = asyncio.gather(*(handle.result() for handle in handles))
            await asyncio.wait({ends, people}, timeout=240, return_when=asyncio.FIRST_COMPLETED)
            for task in (bad, people):
                if task.done():
                    task.result()
            if not ends.done():
                stuck = (await client.list(states=[s for s in RunState if not s.is_final], limit=500)).items
                raise AssertionError(f"stuck: {stuck}")
            for task in (bad, people):
                task.cancel()
            await asyncio.gather(bad, people, return_exceptions=True)
            results = dict(zip(names, ends.result(), strict=True))
            runs = (await app.store.list_runs(RunFilter(), limit=1000)).items
            journals = {run.id: await app.store.read_journal(run.id) for run in runs}
            return results, journals
    finally:
        for task in busy:
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        await app.store.close()


@pytest.mark.long
@pytest.mark.timeout(400)
@in_asyncio
async def test_kills_of_workers_and_servers_and_a_bad_network_change_no_result(
    tmp_path: Path,
) -> None:
    seed = random.randrange(10_000)
    print(f"seed {seed}")
    proxy = Proxy(free_port(), bad_network(seed))
    async with world(tmp_path, proxy) as bad:
        began = time.monotonic()
        results, journals = await play(bad, seed)
    for log in (tmp_path / "worker.log", tmp_path / "server.log"):
        assert "Traceback" not in log.read_text(), log.read_text()
    check_results(results)
    repeated = check_effects(bad.effects, journals)
    print(
        f"{len(results)} runs in {time.monotonic() - began:.1f} s, {bad.servers} servers, "
        f"{len(proxy.requests)} requests, {repeated} executions repeated before they were journaled"
    )


@pytest.mark.timeout(120)
@pytest.mark.parametrize("verb", sample(["append", "claim", "pause", "complete", "settle"]))
@in_asyncio
async def test_what_a_server_did_silently_before_a_kill_is_not_repeated(tmp_path: Path, verb: str) -> None:
    async with world(tmp_path, Proxy(free_port()), lease_seconds=90.0) as made:
        app = programs.make_app(RemoteStore(made.proxy.url, key=worker_keys.SECRET), made.effects)
        try:
            async with AsyncClient(app) as client:
                losing = asyncio.create_task(made.lose_a_reply(b'"do":"%b"' % verb.encode(), seconds=60))
                if verb == "claim":  # the first that leases something
                    handle = await client.start("questions", id="questions")
                    made.start_worker()
                else:
                    made.start_worker()
                    handle = await client.start("questions", id="questions")
                people = asyncio.create_task(answer_everything(client))
                await losing
                made.server.kill()
                made.start_server()
                made.proxy.is_cut = False
                ended = asyncio.create_task(handle.result(PATIENCE_SECONDS * 2))
                await asyncio.wait({ended, people}, return_when=asyncio.FIRST_COMPLETED)
                people.cancel()
                check_results({"questions": await ended})
                await asyncio.gather(people, return_exceptions=True)
                [run] = (await app.store.list_runs(RunFilter())).items
                journals = {run.id: await app.store.read_journal(run.id)}
        finally:
            await app.store.close()
    assert "Traceback" not in (tmp_path / "worker.log").read_text()
    assert check_effects(made.effects, journals) == 0


@pytest.mark.timeout(120)
@in_asyncio
async def test_a_remote_worker_frozen_past_its_lease_writes_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, Proxy(free_port()), lease_seconds=1.5) as made:
        frozen = made.start_worker("slow")
        app = slow_app(RemoteStore(made.proxy.url, key=worker_keys.SECRET), tmp_path)
        try:
            async with AsyncClient(app) as client:
                parent = await client.start("parent", id="p")
                await comes(lambda: len(lines(tmp_path / "begun")) == 1)
                await pauses(app, "p")
                frozen.send(signal.SIGSTOP)
                made.server.kill()
                made.start_server(lease_seconds=90.0)  # the other's does not run out
                other = made.start_worker("slow")
                await comes(lambda: len(lines(tmp_path / "begun")) == 2)
                before = await everything(app)
                sent = len(made.proxy.requests)
                (tmp_path / f"go-{frozen.pid}").touch()  # what it does first when it wakes is to write
                frozen.send(signal.SIGCONT)
                await comes(lambda: any("the lease on run" in line for line in lines(frozen.log)))
                me = str(frozen.pid).encode()
                await comes(lambda: any(me in request for request in made.proxy.requests[sent:]))
                after = await everything(app)
                assert [(run.state, run.epoch) for run, _ in after.values()] == [
                    (run.state, run.epoch) for run, _ in before.values()
                ]
                assert [journal for _, journal in after.values()] == [
                    journal for _, journal in before.values()
                ]
                (tmp_path / f"go-{other.pid}").touch()
                assert await parent.result(PATIENCE_SECONDS) == other.pid
                other.kill()
                # It works on as before, and so has done all that it might have done with the runs it lost.
                following = await client.start("child", id="next")
                assert await following.result(PATIENCE_SECONDS) == frozen.pid
                completed = [
                    entry.value
                    for entry in (await everything(app))["p"][1]
                    if entry.kind is EntryKind.COMPLETED
                ]
                assert completed == [str(other.pid)]
        finally:
            await app.store.close()


@pytest.mark.timeout(120)
@in_asyncio
async def test_a_cut_and_a_server_restart_are_invisible_to_a_running_step(
    tmp_path: Path,
) -> None:
    """A lease outlives a cut: the step continues, its outcome waits, and no other worker begins it anew."""
    async with world(tmp_path, Proxy(free_port()), lease_seconds=90.0) as made:
        store = SqliteStore(tmp_path / "signoff.db")
        app = slow_app(store, tmp_path)
        try:
            workers = [made.start_worker("slow") for _ in range(2)]
            async with AsyncClient(app) as client:
                parent = await client.start("parent", id="p")
                await comes(lambda: len(lines(tmp_path / "begun")) == 1)
                made.proxy.is_cut = True
                made.proxy.cut()
                made.server.kill()
                for worker in workers:
                    (
                        tmp_path / f"go-{worker.pid}"
                    ).touch()  # the step ends while its outcome cannot be reported
                await comes(
                    lambda: any(
                        "is unavailable, still retrying" in line for line in lines(tmp_path / "slow.log")
                    )
                )
                made.start_server()
                await comes(lambda: _listens(made.proxy.target))
                assert not await parent.done()
                made.proxy.is_cut = False
                assert await parent.result(PATIENCE_SECONDS) in {worker.pid for worker in workers}
                assert len(lines(tmp_path / "begun")) == 1
                [child] = (await store.list_runs(RunFilter(parent_id="p"))).items
                assert child.epoch == 1
        finally:
            await store.close()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
