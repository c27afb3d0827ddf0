"""Rules of the remote store alone: batches, repetitions through cuts and restarts, patience, the server's time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import free_port
from signoff.engine.timers import timers
from signoff.engine.worker import worker
from signoff.errors import InvalidValue, PayloadTooLarge, StoreError, StoreUnavailable
from signoff.records import (
    Amendment,
    AuditKind,
    Entry,
    EntryKind,
    NewAuditEvent,
    NewPromise,
    NewRun,
    PromiseKind,
    RunState,
)
from signoff.records.paging import AuditFilter, RunFilter
from signoff.server import Server
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.stores.remote.clock import RemoteClock
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from tests import worker_keys
from tests.remote.proxy import FINE, REPLY_LOST, Fate, Proxy, is_batch
from tests.server import workflows
from tests.stores.scene import (
    GROUP,
    KEPT_FAILURE,
    SUCCESS,
    WORKFLOW,
    YES,
    Scene,
    asking_nothing,
    entry,
    opening_all,
    question,
    until,
)
from tests.support import PATIENCE_SECONDS, OnThread, in_asyncio, pauses


class Line:
    """A remote store, a proxy and a server that can be restarted, on an SQLite file."""

    def __init__(self, folder: Path, proxy: Proxy, make: Callable[[Path], SqliteStore]) -> None:
        self.proxy = proxy
        self._folder = folder
        self._make = make
        self._server: OnThread | None = None

    async def start_server(self) -> None:
        self._server = OnThread(self._serve)
        await asyncio.to_thread(self._server.__enter__)

    async def stop_server(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.__exit__)
            self._server = None

    async def restart_server(self) -> None:
        await self.stop_server()
        await self.start_server()

    @property
    def batches(self) -> list[bytes]:
        return [request for request in self.proxy.requests if is_batch(request)]

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[Server]:
        self.served = self._make(self._folder / "signoff.db")
        try:
            async with Server(self.served, port=self.proxy.target, worker_keys=worker_keys.KEYS) as server:
                yield server
        finally:
            await self.served.close()


@asynccontextmanager
async def line(
    folder: Path, *, make: Callable[[Path], SqliteStore] = SqliteStore, **options: Any
) -> AsyncIterator[tuple[RemoteStore, Line]]:
    async with Proxy(free_port()).running() as proxy:
        stack = ExitStack()
        stack.enter_context(asking_nothing())
        stack.enter_context(opening_all())
        made = Line(folder, proxy, make)
        await made.start_server()
        store = RemoteStore(proxy.url, key=worker_keys.SECRET, **options)
        try:
            await store.open()
            yield store, made
        finally:
            await store.close()
            await made.stop_server()
            stack.close()


def scene_of(store: RemoteStore) -> Scene:
    return Scene(store, None, None)  # type: ignore[arg-type]  # no rule here needs a clock


def new_run(id: str = "r") -> NewRun:
    return NewRun(id, WORKFLOW, GROUP, "{}")


# Batches


@in_asyncio
async def test_what_one_turn_asks_for_travels_in_one_request(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, made):
        created = await asyncio.gather(*(store.create_run(new_run(f"r{n}")) for n in range(200)))
        assert [run.id for run, _ in created] == [f"r{n}" for n in range(200)]
        assert len(made.batches) == 1


class SlowStore(SqliteStore):
    """Takes its time over run ``slow``, until it is let go."""

    go = threading.Event()

    async def get_run(self, run_id: str) -> Any:
        if run_id == "slow":
            await asyncio.to_thread(self.go.wait, PATIENCE_SECONDS)
        return await super().get_run(run_id)

    def within(self, namespace: str) -> SqliteStore:
        view = super().within(namespace)
        view.__class__ = SlowStore
        return view


@in_asyncio
async def test_a_slow_operation_delays_no_other_reply(tmp_path: Path) -> None:
    async with line(tmp_path, make=SlowStore) as (store, made):
        await asyncio.gather(store.create_run(new_run("slow")), store.create_run(new_run("quick")))
        SlowStore.go.clear()
        slow = asyncio.create_task(store.get_run("slow"))
        assert (await store.get_run("quick")).id == "quick"
        assert len(made.batches) == 2, "both were asked in one turn"
        assert not slow.done()
        SlowStore.go.set()
        assert (await slow).id == "slow"


@pytest.mark.parametrize("accident", [Fate(delay=0.3), Fate(delay=0.1, is_lost=True), REPLY_LOST])
@in_asyncio
async def test_a_write_is_not_overtaken_by_the_next_when_its_caller_leaves(
    tmp_path: Path, accident: Fate
) -> None:
    async with line(tmp_path) as (store, made):
        run = await scene_of(store).run()
        accidents = [accident]
        made.proxy.fate = lambda _: accidents.pop() if accidents else FINE
        first = asyncio.create_task(store.append(Write("r", run.epoch, entries=[entry(0)])))
        await until(lambda: not accidents)
        first.cancel()
        await store.append(Write("r", run.epoch, entries=[entry(1)]))
        assert len(await store.read_journal("r")) == 2


@in_asyncio
async def test_a_large_write_crosses_and_one_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, _):
        run = await scene_of(store).run()
        large = [replace(entry(seq), value='"' + "x" * 1_000_000 + '"') for seq in range(12)]
        await store.append(Write("r", run.epoch, entries=large))
        assert list(await store.read_journal("r")) == large
        absurd = [replace(entry(12), value='"' + "x" * 70_000_000 + '"')]
        refused, created = await asyncio.gather(
            store.append(Write("r", run.epoch, entries=absurd)),
            store.create_run(new_run("other")),
            return_exceptions=True,
        )
        assert isinstance(refused, PayloadTooLarge)
        assert "the value of call 12 of run 'r'" in str(refused)
        assert refused.size == 70_000_002
        assert isinstance(created, tuple)


@in_asyncio
async def test_a_state_that_would_take_too_much_memory_is_named_with_its_size(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, _):
        run = await scene_of(store).run()
        state = f'{{"args":["{"x" * 9_000_000}"]}}'
        goes_on = Entry(0, 1.5, EntryKind.CONTINUED, n=1, value=state)
        ends = Entry(1, 1.5, EntryKind.COMPLETED, n=2, value=state)
        with pytest.raises(InvalidValue) as refused:
            await store.append(Write("r", run.epoch, entries=[goes_on, ends]))
        assert str(refused.value).startswith(
            f"the arguments (a flow's state) of run 'r': {len(state):,} bytes as JSON exceed what the server accepts"
        )
        assert "more than 46" in str(refused.value)


def test_loops_on_many_threads_share_a_store(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def use(store: RemoteStore, number: int) -> None:
        async def create() -> None:
            await asyncio.gather(*(store.create_run(new_run(f"{number}.{n}")) for n in range(20)))

        try:
            for _ in range(2):  # again, on another loop of the same thread
                asyncio.run(create())
        except BaseException as failure:
            failures.append(failure)

    @in_asyncio
    async def play() -> None:
        async with line(tmp_path) as (store, _):
            threads = [threading.Thread(target=use, args=(store, number)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                await asyncio.to_thread(thread.join)
            assert len((await store.list_runs(RunFilter(), limit=1000)).items) == 160

    play()
    assert failures == []


@in_asyncio
async def test_an_error_of_the_server_itself_is_raised_and_not_repeated(
    tmp_path: Path,
) -> None:
    class Broken(SqliteStore):
        async def list_workers(self) -> Any:
            raise RuntimeError("a bug")

        def within(self, namespace: str) -> SqliteStore:
            view = super().within(namespace)
            view.__class__ = Broken
            return view

    async with line(tmp_path, make=Broken) as (store, made):
        with pytest.raises(StoreError, match=r"failed to perform list_workers: .*log says more"):
            await store.list_workers()
        assert len(made.batches) == 1


# Repetitions


async def _create_run(scene: Scene) -> None:
    assert (await scene.store.create_run(new_run()))[1]


async def _create_promise(scene: Scene) -> None:
    assert (await scene.store.create_promise(NewPromise("p")))[1]


async def _signal(scene: Scene) -> None:
    assert await scene.store.signal("r", "go", "1")
    assert len(await scene.messages()) == 1


async def _signal_with_request_id(scene: Scene) -> None:
    assert await scene.store.signal("r", "go", "1", request_id="q")
    assert len(await scene.messages()) == 1


async def _settle(scene: Scene) -> None:
    promise, settled_it = await scene.store.settle("r.0", PromiseKind.QUESTION, YES)
    assert (promise.value, settled_it) == ("true", True)
    assert len(await scene.messages()) == 1


async def _amend(scene: Scene) -> None:
    change = Amendment(0, "1", ("user:bob",), None, YES, (NewAuditEvent("e", AuditKind.VOTED, "r.0", "r"),))
    question, amended_it = await scene.store.amend("r.0", change)
    assert (question.version, question.assignees, question.value, amended_it) == (
        1,
        ("user:bob",),
        "true",
        True,
    )
    assert len(await scene.messages()) == 1
    kinds = [event.kind for event in (await scene.store.list_audit(AuditFilter())).items]
    assert kinds == [AuditKind.ASKED, AuditKind.VOTED, AuditKind.RESOLVED]


async def _record(scene: Scene) -> None:
    await scene.store.record([NewAuditEvent(id, AuditKind.VIEWED, "r.0") for id in ("a", "b")])
    assert [event.id for event in (await scene.store.list_audit(AuditFilter("r.0"))).items] == ["a", "b"]


async def _claim(scene: Scene) -> None:
    [claim] = await scene.claim()
    assert (claim.run.epoch, claim.run.state) == (1, RunState.RUNNING)


async def _append(scene: Scene) -> None:
    await scene.store.append(Write("r", 1, entries=[entry(0)], opens=[question("r")]))
    assert len(await scene.journal()) == 1


async def _pause(scene: Scene) -> None:
    assert await scene.store.pause(Write("r", 1, entries=[entry(0)]), wakes=0, wake_at=None)
    assert await scene.state() is RunState.PAUSED


async def _complete(scene: Scene) -> None:
    await scene.store.complete(Write("r", 1, entries=[entry(0)]), SUCCESS)
    assert await scene.state() is RunState.SUCCEEDED


async def _retry(scene: Scene) -> None:
    assert (await scene.store.retry("r")).state is RunState.READY


async def _nothing(scene: Scene) -> None:
    pass


async def _kept(scene: Scene) -> None:
    await scene.complete(await scene.run(), KEPT_FAILURE)


CALLS: dict[str, tuple[Callable[[Scene], Awaitable[object]], Callable[[Scene], Awaitable[None]]]] = {
    "create_run": (_nothing, _create_run),
    "create_promise": (_nothing, _create_promise),
    "signal": (Scene.start, _signal),
    "signal with a request id": (Scene.start, _signal_with_request_id),
    "settle": (Scene.paused, _settle),
    "amend": (Scene.paused, _amend),
    "record": (_nothing, _record),
    "claim": (Scene.start, _claim),
    "append": (Scene.run, _append),
    "pause": (Scene.run, _pause),
    "complete": (Scene.run, _complete),
    "retry": (_kept, _retry),
}


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("call", CALLS)
@in_asyncio
async def test_a_call_whose_reply_is_lost_is_done_once_and_says_so(
    tmp_path: Path, call: str, restarts: bool
) -> None:
    prepare, check = CALLS[call]
    down = asyncio.Event()

    def lose_one_reply(request: bytes) -> Fate:
        if not is_batch(request):
            return FINE
        if down.is_set():
            return Fate(is_lost=True)
        down.set()
        return REPLY_LOST

    async with line(tmp_path) as (store, made):
        scene = scene_of(store)
        await prepare(scene)
        made.proxy.fate = lose_one_reply
        calling = asyncio.create_task(check(scene))
        await down.wait()
        if restarts:
            await made.restart_server()
        made.proxy.fate = lambda _: FINE
        await calling


@in_asyncio
async def test_what_one_caller_does_to_a_question_is_done_in_that_order(tmp_path: Path) -> None:
    """Each is made for what the one before it leaves."""
    async with line(tmp_path) as (store, made):
        scene = scene_of(store)
        await scene.paused()
        made.proxy.fate = lambda _: Fate(delay=0.05, copies=[0.0])
        results = await asyncio.gather(
            *(store.amend("r.0", Amendment(n, str(n), (), None)) for n in range(5)), scene.settle("r.0")
        )
        assert [done for _, done in results] == [True] * 6
        assert (await store.get_promise("r.0")).version == 5


@in_asyncio
async def test_a_request_that_comes_again_much_later_does_nothing(tmp_path: Path) -> None:
    """It would lease a run to a worker that does not know of it."""
    async with line(tmp_path) as (store, made):
        scene = scene_of(store)
        run = await scene.run("a")
        claim = made.batches[-1]
        assert b'"claim"' in claim
        await scene.complete(run)
        await scene.start("b")
        await made.proxy.send_copy(claim)
        assert await scene.state("b") is RunState.READY


@in_asyncio
async def test_requests_that_come_twice_are_done_once(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, made):
        scene = scene_of(store)
        await scene.start()
        made.proxy.fate = lambda _: Fate(copies=[0.0, 0.02])
        for number in range(10):
            assert await store.signal("r", "go", str(number))
        assert [message.value for message in await scene.messages()] == [str(n) for n in range(10)]
        assert len(await scene.claim()) == 1


# Patience


@in_asyncio
async def test_operations_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, made):
        await made.stop_server()
        tried = len(made.batches)
        creating = asyncio.create_task(store.create_run(new_run()))
        await until(lambda: len(made.batches) > tried + 2)
        await made.start_server()
        assert (await creating)[1]


@in_asyncio
async def test_patience_ends(tmp_path: Path) -> None:
    async with line(tmp_path, patience_seconds=3) as (store, made):
        await made.stop_server()
        with pytest.raises(StoreUnavailable, match="no reply for 3 s"):
            await store.create_run(new_run())
        await made.start_server()
        await until_done(lambda: store.create_run(new_run()))


async def until_done(work: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await work()
                return
            except StoreUnavailable:
                pass


@in_asyncio
async def test_opening_without_a_server_says_so() -> None:
    store = RemoteStore(f"http://127.0.0.1:{free_port()}", patience_seconds=0.1)
    with pytest.raises(StoreUnavailable, match="no server answers there"):
        await store.open()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.get_run("r")
    await store.close()


@in_asyncio
async def test_what_is_no_signoff_server_is_not_taken_for_one() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        store = RemoteStore(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}")
        with pytest.raises(StoreUnavailable, match="not from a signoff server"):
            await store.open()


@pytest.mark.parametrize("url", ["sqlite:///x.db", "127.0.0.1:8000", "http://"])
def test_a_url_of_no_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidValue):
        RemoteStore(url)


@in_asyncio
async def test_closing_finishes_what_was_begun(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, made):
        made.proxy.fate = lambda _: Fate(delay=0.1)
        creating = [asyncio.create_task(store.create_run(new_run(f"r{n}"))) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await store.close()
        assert all(created for _, created in await asyncio.gather(*creating))
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.create_run(new_run())
        await store.close()


@in_asyncio
async def test_a_forked_child_gets_an_error_to_open_its_own(tmp_path: Path) -> None:
    async with line(tmp_path) as (store, _):
        connection = store._server.connection
        store._server.forked()
        with pytest.raises(StoreUnavailable, match="forked"):
            await store.create_run(new_run())
        store._server._connection = connection


# Hearing of commits


@in_asyncio
async def test_listeners_miss_nothing_through_a_cut_and_learn_of_a_restart(tmp_path: Path) -> None:
    heard: list[Change] = []

    def told_of(run_id: str) -> bool:
        return any(run_id in (change.runs or ()) for change in heard)

    async with line(tmp_path) as (store, made):
        scene = scene_of(store)
        stop = await scene.listen(heard)
        await store.create_run(new_run("a"))
        await until(lambda: told_of("a"))
        made.proxy.fate = lambda request: FINE if is_batch(request) else Fate(is_lost=True)
        made.proxy.cut()
        await store.create_run(new_run("b"))
        made.proxy.fate = lambda _: FINE
        await until(lambda: told_of("b"))
        assert Change(runs=None) not in heard
        await made.restart_server()
        await until(lambda: heard[-1] == Change(runs=None))
        await store.create_run(new_run("c"))
        await until(lambda: told_of("c"))
        stop()


@in_asyncio
async def test_an_answer_given_at_the_server_wakes_a_remote_worker_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from signoff import AsyncClient, Signoff

    monkeypatch.setattr(worker, "LOOK_EVERY_SECONDS", 3600.0)
    monkeypatch.setattr(timers, "LOOK_EVERY_SECONDS", 3600.0)
    async with line(tmp_path) as (store, made):
        app = Signoff(store)
        workflows.register(app)
        async with app.worker(), AsyncClient(made.proxy.url) as client:
            handle = await client.start("ask", id="r")
            await pauses(app, "r")
            await client.answer("r.1", True)
            assert (await handle.result(PATIENCE_SECONDS))["approved"] is True


# The server's time


class Machine:
    """A monotonic clock that the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("signoff.stores.remote.clock.time.monotonic", lambda: self.now)


def test_the_clock_is_the_servers_as_well_as_the_quickest_reply_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    clock = RemoteClock()
    clock.learn(5_000.0, 99.0, 100.0)
    assert clock.now() == pytest.approx(5_000.5)
    clock.learn(5_000.2, 99.9, 100.1)  # a quicker reply knows better, but time does not go back
    assert clock.now() == pytest.approx(5_000.5)
    machine.now = 102.0
    assert clock.now() == pytest.approx(5_002.2)
    clock.learn(5_000.3, 98.0, 102.0)  # a slow one does not
    assert clock.now() == pytest.approx(5_002.2)


def test_the_clock_follows_when_the_servers_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    clock = RemoteClock()
    clock.learn(5_000.0, 100.0, 100.0)
    machine.now = 101.0
    clock.learn(9_000.0, 100.9, 101.0)
    assert clock.now() == pytest.approx(9_000.05)
    clock.learn(4_000.0, 101.0, 101.0)
    assert clock.now() == pytest.approx(4_000.0)
