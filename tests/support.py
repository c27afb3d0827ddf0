"""Helpers for tests of runs: an app on a real store, workers that stop or crash, and waiting without sleeping."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from signoff import AsyncClient, NotFound, Signoff
from signoff.engine.run.execution import Execution
from signoff.engine.run.replay import replay
from signoff.engine.worker.worker import Worker
from signoff.records import Entry, EntryKind, Promise, Run, RunState
from signoff.runtime.clock import Clock
from signoff.stores.sqlite.store import SqliteStore

T = TypeVar("T")

PATIENCE_SECONDS = 60.0  # how long a test waits for what must happen


def in_asyncio(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test function with ``asyncio.run``."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


def new_app(folder: Path, *, clock: Clock | None = None, **options: Any) -> Signoff:
    """Make an app on a store in ``folder``; a second one on the same folder sees the same runs."""
    return Signoff(SqliteStore(folder / "signoff.db", clock=clock), **options)


@asynccontextmanager
async def opened(app: Signoff) -> AsyncIterator[AsyncClient]:
    """A client of an app without workers; the store is closed at the end."""
    try:
        async with AsyncClient(app) as client:
            yield client
    finally:
        await app.store.close()


@asynccontextmanager
async def running(app: Signoff, **options: Any) -> AsyncIterator[AsyncClient]:
    """A client of an app, and a worker that stops in order at the end."""
    async with opened(app) as client, app.worker(**options):
        yield client


@asynccontextmanager
async def doomed_worker(app: Signoff, **options: Any) -> AsyncIterator[Worker]:
    """A worker that is torn away at the end, in the middle of whatever its steps do."""
    worker = Worker(app.store, app.registry, **options)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class OnThread:
    """Has an async context manager entered and left on an event loop of its own thread."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._make = make
        self._entered = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._failure: BaseException | None = None

    def __enter__(self) -> Any:
        self._thread.start()
        self._entered.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._value

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        try:
            async with self._make() as self._value:
                self._entered.set()
                await self._leave.wait()
        except BaseException as failure:
            self._failure = failure
            self._entered.set()


async def until(app: Signoff, look: Callable[[], Awaitable[T]]) -> T:
    """Look after each commit until what is there is true; returns it."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    stop = app.store.listen(lambda change: loop.call_soon_threadsafe(changed.set))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                changed.clear()
                if found := await look():
                    return found
                await changed.wait()
    finally:
        stop()


async def comes(look: Callable[[], Awaitable[T]]) -> T:
    """Look again and again until what is there is true, for what no commit tells of; returns it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await look()):
            await asyncio.sleep(0.01)
        return found


async def reaches(app: Signoff, run_id: str, *states: RunState) -> Run:
    """Wait until a run is in one of these states."""

    async def look() -> Run | None:
        try:
            run = await app.store.get_run(run_id)
        except NotFound:
            return None
        return run if run.state in states else None

    found = await until(app, look)
    assert found is not None
    return found


async def pauses(app: Signoff, run_id: str) -> Run:
    """Wait until a run is paused."""
    return await reaches(app, run_id, RunState.PAUSED)


async def fails(app: Signoff, run_id: str) -> Run:
    """Wait until a run has failed."""
    return await reaches(app, run_id, RunState.FAILED)


async def asked(client: AsyncClient, run_id: str) -> Sequence[Promise]:
    """The open questions of a run, oldest first."""
    return (await client.questions(run_id=run_id)).items


async def journal(app: Signoff, run_id: str) -> Sequence[Entry]:
    """A run's journal."""
    return await app.store.read_journal(run_id)


async def journaled(app: Signoff, run_id: str, kind: EntryKind) -> Sequence[Entry]:
    """The entries of one kind in a run's journal."""
    return [entry for entry in await journal(app, run_id) if entry.kind is kind]


async def opens(app: Signoff, promise_id: str) -> Promise:
    """Wait until a promise is there to be settled."""

    async def look() -> Promise | None:
        try:
            return await app.store.get_promise(promise_id)
        except NotFound:
            return None

    found = await until(app, look)
    assert found is not None
    return found


@asynccontextmanager
async def rebuilt(app: Signoff, run: Run, entries: Sequence[Entry]) -> AsyncIterator[Execution]:
    """A run that is rebuilt in memory from its journal or the beginning of it."""

    def begin(entry: Entry, replaying: int) -> Execution:
        program = app.registry.program(run.workflow, entry.fact("version"))
        return Execution(run, program, entry, replaying=replaying)

    async def rerun(call: Any) -> Any:
        raise AssertionError(f"{call.name} is durable")

    execution = await replay(begin, entries, rerun)
    try:
        yield execution
    finally:
        execution.discard()
