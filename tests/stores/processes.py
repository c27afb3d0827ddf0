"""Programs that tests of the SQLite store run in separate processes: ``python -m tests.stores.processes NAME ...``.

It imports the store alone: a process that imported the tests as well would take three times as long to start.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from signoff.errors import AlreadySettled, StoreError
from signoff.records import CallKind, Entry, EntryKind, NewRun, PromiseKind, PromiseState, Settlement
from signoff.stores.contract.leases import Write
from signoff.stores.sqlite import schema
from signoff.stores.sqlite.store import SqliteStore

ROOT = Path(__file__).parents[2]
# Not measured: CPython 3.11 can lose a thread that starts while another one is given coverage's trace function.
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


@contextmanager
def process(name: str, *arguments: object, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run one of the functions below in a process of its own, killed at the end if it still runs."""
    command = [*prefix, sys.executable, "-m", "tests.stores.processes", name, *map(str, arguments)]
    running = subprocess.Popen(
        command, cwd=ROOT, env=UNMEASURED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def outcome(name: str, *arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    """Run one of the functions below to its end, and return the lines that it printed."""
    with process(name, *arguments, prefix=prefix) as running:
        printed, _ = running.communicate(timeout=60)
        assert running.returncode == 0
        return printed.splitlines()


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _attempt(work: Awaitable[object]) -> str:
    async def attempt() -> str:
        try:
            await work
        except StoreError as error:
            return f"{type(error).__name__}: {error}"
        return "done"

    return asyncio.run(attempt())


def open_many_times(path: str) -> None:
    store = SqliteStore(path)
    asyncio.run(store.open())
    asyncio.run(store.close())


def die_at_each_statement_of_opening(folder: str, original: str = "", migration: str = "") -> None:
    """Open files 0.db, 1.db, ...: n.db in a child that is killed as its nth statement begins.

    They are new, or copies of ``original``. ``migration`` is the file of one that they do not have yet. Prints the
    number of the first child that lived.
    """
    if migration:
        files = [*schema.migration_files(), Path(migration)]
        schema.migration_files = lambda: files  # pyright: ignore[reportAttributeAccessIssue]
    for fatal in count():
        if original:
            shutil.copy(original, Path(folder, f"{fatal}.db"))
        child = os.fork()
        if child == 0:
            _die_at_statement(fatal)
            asyncio.run(SqliteStore(Path(folder, f"{fatal}.db")).open())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            say(fatal)
            return


def _die_at_statement(fatal: int) -> None:
    statements = count()
    connect = sqlite3.connect

    def die(_: str) -> None:
        if next(statements) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    def doomed(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)
        connection.set_trace_callback(die)
        return connection

    sqlite3.connect = doomed


def settle_with_threads(path: str, promise_id: str, process_name: str, threads: str) -> None:
    """Settle one promise from many threads at once; print the result of each."""
    store = SqliteStore(path)
    asyncio.run(store.open())
    told: list[tuple[str, str]] = []
    barrier = threading.Barrier(int(threads) + 1)

    def settle(name: str) -> None:
        barrier.wait()
        answer = Settlement(PromiseState.RESOLVED, json.dumps(name), by=name)
        try:
            asyncio.run(store.settle(promise_id, PromiseKind.QUESTION, answer))
            told.append(("won", name))
        except AlreadySettled as error:
            told.append(("lost", str(error.settled_by)))

    workers = [threading.Thread(target=settle, args=(f"{process_name}.{n}",)) for n in range(int(threads))]
    for worker in workers:
        worker.start()
    say("ready")
    sys.stdin.readline()
    barrier.wait()
    for worker in workers:
        worker.join()
    asyncio.run(store.close())
    say(json.dumps(told))


def append_for_ever(path: str, worker: str, runs: str) -> None:
    """Append to several runs at once, and print each entry after it was acknowledged."""

    async def work() -> None:
        store = SqliteStore(path)
        await store.open()
        for number in range(int(runs)):
            await store.create_run(NewRun(f"{worker}.{number}", worker, "default", "{}"))
        claims = await store.claim(worker, "default", [worker], int(runs))

        async def drive(run_id: str, epoch: int) -> None:
            seq = 0
            while True:
                done = Entry(
                    seq, 1.5, EntryKind.COMPLETED, n=seq, call=CallKind.STEP, name="fetch", value="1"
                )
                await store.append(Write(run_id, epoch, entries=[done]))
                say(f"{run_id} {seq}")
                seq += 1

        await asyncio.gather(*(drive(claim.run.id, claim.run.epoch) for claim in claims))

    asyncio.run(work())


def create_runs(path: str, prefix: str, runs: str) -> None:
    """Create runs one after the other."""

    async def work() -> None:
        store = SqliteStore(path)
        await store.open()
        for number in range(int(runs)):
            await store.create_run(NewRun(f"{prefix}{number}", "refund", "default", "{}"))
        await store.close()

    asyncio.run(work())


def fork_while_open(path: str) -> None:
    """Use a store in a forked child; print what came of it there, and then in the parent."""
    store = SqliteStore(path)
    asyncio.run(store.open())
    child = os.fork()
    if child == 0:
        say(_attempt(store.create_run(NewRun("child", "refund", "default", "{}"))))
        say(_attempt(store.get_run("r")))
        say(_attempt(store.list_workers()))
        asyncio.run(store.close())
        os._exit(0)
    os.waitpid(child, 0)
    say(_attempt(store.create_run(NewRun("parent", "refund", "default", "{}"))))
    asyncio.run(store.close())


def open_as_nobody(path: str) -> None:
    """Open a file that this process may read but not write; print what came of it."""
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # import everything needed first: the other user may be unable to read root's Python
        _attempt(_open_and_close(SqliteStore(Path(folder) / "x.db")))
    if os.getuid() == 0:
        os.setuid(65534)
    say(_attempt(SqliteStore(path).open()))


async def _open_and_close(store: SqliteStore) -> None:
    await store.open()
    await store.close()


def outgrow_a_file_size_limit(path: str) -> None:
    """Print the results of writes while the file must not grow, and afterwards."""
    _fill(
        path,
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)),
    )


def outgrow_a_disk(folder: str) -> None:
    """Print the results of writes while a disk fills up, and once there is space again."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=True)
    filler = Path(folder, "filler")

    def fill() -> None:
        with filler.open("wb") as file:
            file.write(bytes(1_500_000))

    _fill(f"{folder}/signoff.db", fill, filler.unlink)


def _fill(path: str, fill: Callable[[], object], make_space: Callable[[], object]) -> None:
    async def work() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.create_run(NewRun("r", "refund", "default", "{}"))
        fill()
        acknowledged = 0
        refusal = ""
        while not refusal:
            try:
                padded = NewRun(f"r{acknowledged}", "refund", "default", json.dumps("x" * 5_000))
                await store.create_run(padded)
                acknowledged += 1
            except StoreError as error:
                refusal = type(error).__name__
        say(refusal)
        make_space()
        for number in range(acknowledged):
            await store.get_run(f"r{number}")
        await store.create_run(NewRun("after", "refund", "default", "{}"))
        say(acknowledged > 0)
        await store.close()

    asyncio.run(work())


def hold_the_lock(path: str, seconds: str) -> None:
    """Keep the write lock, as a backup tool or a long transaction would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    time.sleep(float(seconds))
    connection.execute("COMMIT")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
