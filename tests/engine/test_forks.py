"""A forked process: the child uses its own connections and threads, or says why it cannot."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from signoff import AsyncClient, Client, Context, Signoff
from signoff.engine.run import blocking_guard
from signoff.errors import BegunBeforeFork, StoreUnavailable
from signoff.records import EntryKind, WorkerInfo
from signoff.stores.sqlite.store import SqliteStore
from signoff.testing import MemoryStore
from tests.places import NewStore

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")

HANGS_AFTER = 60  # seconds


def in_child(work: Callable[[], object]) -> str:
    """Do something in a forked child. Returns what it says of that; a child that hangs is killed."""
    receiving, sending = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this process has threads: that is the point
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANGS_AFTER)
            warnings.simplefilter("ignore")
            try:
                said = repr(work())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            os.write(sending, said.encode()[:8000])
        finally:
            os._exit(0)
    os.close(sending)
    with open(receiving) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    return said if status == 0 else f"ended by signal {os.WTERMSIG(status)}"


@contextmanager
def new_app(new_store: NewStore) -> Iterator[Signoff]:
    app = Signoff(new_store())

    @app.workflow
    async def add(ctx: Context, number: int) -> int:
        return await ctx.step("add", lambda: number + 1)

    yield app
    app.close()


def starts(app: Signoff, id: str) -> Callable[[], str]:
    return lambda: app.start("add", 1, id=id).id


def works(app: Signoff, id: str) -> Callable[[], object]:
    def work() -> object:
        with app.worker():
            return app.start("add", 1, id=id).result(30)

    return work


def works_async(app: Signoff, id: str) -> Callable[[], object]:
    async def work() -> object:
        async with AsyncClient(app) as client, app.worker():
            return await (await client.start("add", 1, id=id)).result(30)

    return lambda: asyncio.run(work())


@pytest.mark.parametrize("new_store", ["sqlite", "postgres", "remote"], indirect=True)
@pytest.mark.parametrize("opened", [False, True], ids=["constructed", "opened"])
def test_the_child_of_a_process_that_is_not_working_works(new_store: NewStore, *, opened: bool) -> None:
    with new_app(new_store) as app:
        if opened:
            app.start("add", 1, id="before")
        assert in_child(starts(app, "a")) == "'a'"
        assert in_child(works(app, "b")) == "2"
        assert in_child(works_async(app, "c")) == "2"
        with app.worker():
            assert app.get("a").result(30) == 2
            assert app.start("add", 5).result(30) == 6


@pytest.mark.parametrize("new_store", ["sqlite", "postgres", "remote"], indirect=True)
def test_the_child_of_a_worker_works_and_the_worker_goes_on(new_store: NewStore) -> None:
    with new_app(new_store) as app, app.worker(), Client(app) as client:
        handle = app.start("add", 1, id="before")
        assert handle.result(30) == 2
        assert in_child(starts(app, "a")) == "'a'"
        assert in_child(works_async(app, "b")) == "2"
        assert in_child(lambda: client.start("add", 1, id="c").result(30)) == "2"
        assert in_child(lambda: (handle.result(30), handle.done)) == "(2, True)"
        assert in_child(lambda: (app.close(), client.close())) == "(None, None)"
        assert [app.get(id).result(30) for id in "abc"] == [2, 2, 2]
        assert app.start("add", 5).result(30) == 6


def test_a_child_of_a_step_works(tmp_path: Path) -> None:
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))

    @app.workflow
    async def add(ctx: Context, number: int) -> int:
        return await ctx.step("add", lambda: number + 1)

    @app.workflow
    async def forks(ctx: Context) -> str:
        return await ctx.step("fork", lambda: in_child(starts(app, "a")))

    with app.worker():
        assert app.start(forks).result(60) == "'a'"
        assert app.get("a").result(30) == 2
    app.close()


@pytest.mark.parametrize("new_store", ["sqlite", "postgres", "remote"], indirect=True)
def test_a_parents_async_client_is_refused_in_the_child_with_a_remedy(
    new_store: NewStore,
) -> None:
    with new_app(new_store) as app:

        async def play() -> str:
            async with AsyncClient(app) as client:
                await client.start("add", 1, id="a")
                return in_child(lambda: asyncio.run(client.get("a")))

        said = asyncio.run(play())
        assert said.startswith("StoreUnavailable")
        assert "forked" in said
        assert "async with AsyncClient(app)" in said


def test_the_runs_of_a_memory_store_are_not_there_in_the_child() -> None:
    app = Signoff(MemoryStore())
    app.start("add", 1, id="a")
    for view in (app.store, app.store.within("other")):
        said = in_child(lambda view=view: asyncio.run(view.get_run("a")))
        assert said.startswith("StoreUnavailable")
        assert "forked" in said
    assert in_child(starts(app, "b")).startswith("StoreUnavailable")
    assert app.get("a").id == "a"
    app.close()


def test_an_iteration_of_the_parent_ends_in_the_child(tmp_path: Path) -> None:
    with new_app(lambda: SqliteStore(tmp_path / "signoff.db")) as app, app.worker():
        handle = app.start("add", 1)
        handle.result(30)
        events = handle.events()
        next(events)
        assert in_child(lambda: list(events)).startswith(BegunBeforeFork.__name__)
        assert len(list(events)) > 1


def test_no_connection_to_the_file_is_open_as_the_process_is_forked(tmp_path: Path) -> None:
    """SQLite would believe in the child that it has the parent's locks."""
    if sys.platform != "linux":
        pytest.skip("needs /proc")

    def open_files() -> list[str]:
        links = [os.path.join("/proc/self/fd", each) for each in os.listdir("/proc/self/fd")]
        return [
            path for link in links if os.path.islink(link) and "signoff.db" in (path := os.readlink(link))
        ]

    with new_app(lambda: SqliteStore(tmp_path / "signoff.db")) as app, app.worker():
        app.start("add", 1).result(30)
        app._client.list()
        assert open_files()
        assert in_child(open_files) == "[]"
        assert open_files()


def test_a_file_that_stays_in_use_is_refused_in_the_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signoff.runtime.forks.WAIT_SECONDS", 0.05)
    busy, free = threading.Event(), threading.Event()

    def read(_: sqlite3.Connection) -> None:
        busy.set()
        free.wait(60)

    with new_app(lambda: SqliteStore(tmp_path / "signoff.db")) as app:
        app.start("add", 1, id="a")
        store: SqliteStore = app.store  # pyright: ignore[reportAssignmentType]
        reading = threading.Thread(target=lambda: asyncio.run(store._file.read(read)))
        reading.start()
        busy.wait(60)
        said = in_child(lambda: app.get("a"))
        free.set()
        reading.join()
        assert said.startswith(StoreUnavailable.__name__)
        assert "forkserver" in said
        assert app.get("a").id == "a"


def test_a_child_may_connect_on_a_thread_id_that_drove_a_run(tmp_path: Path) -> None:
    class Watched:
        made = 0

        def refuse_io(self, what: str) -> None:
            raise AssertionError(what)

        def declare_busy(self, seconds: float, where: str) -> None: ...

    begun, over = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        over.wait(60)

    thread = threading.Thread(target=blocking_guard.drive, args=(Watched(), run))
    thread.start()
    begun.wait(60)

    def connect() -> None:
        with closing(sqlite3.connect(":memory:")):
            pass

    def on_threads() -> int:
        threads = [threading.Thread(target=connect) for _ in range(3)]
        for each in threads:
            each.start()
            each.join()
        return len(blocking_guard._drives)

    assert in_child(on_threads) == "0"
    over.set()
    thread.join()


def test_a_worker_never_exited_ends_with_its_process_after_its_steps(tmp_path: Path) -> None:
    """As hooks of gunicorn and Celery enter one: in each process of a pool, without an exit."""
    (tmp_path / "pool.py").write_text(
        """
import multiprocessing, time
from pathlib import Path
from signoff import Context, Signoff

app = Signoff("sqlite:///signoff.db")

@app.workflow
async def flow(ctx: Context, id: str) -> None:
    await ctx.step(slow, id)

def slow(id: str) -> None:
    with Path(f"{id}.begun").open("x"):
        time.sleep(0.3)

def work(id: str) -> None:
    app.worker(group=id).__enter__()
    app.options(target=f"poll://any@{id}").begin_run(id, flow, id)
    while not Path(f"{id}.begun").exists():
        time.sleep(0.01)

app.options(target="poll://any@nobody").begin_run("before", flow, "before")
if __name__ == "__main__":
    children = [multiprocessing.get_context("fork").Process(target=work, args=(id,)) for id in "ab"]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    work("c")
"""
    )
    done = subprocess.run(
        [sys.executable, "pool.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))
    for id in "abc":
        assert [entry.name for entry in app.get(id).journal() if entry.kind is EntryKind.COMPLETED] == [
            "slow"
        ]
    assert [worker.id for worker in asyncio.run(_workers(tmp_path))] == []
    app.close()


async def _workers(folder: Path) -> Sequence[WorkerInfo]:
    store = SqliteStore(folder / "signoff.db")
    await store.open()
    try:
        return await store.list_workers()
    finally:
        await store.close()
