"""A worker embedded in a program: on a separate thread, or on the program's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from typing import Any, Final

from signoff.engine.steps import own_tasks
from signoff.engine.worker.worker import Worker
from signoff.engine.worker.worker_options import check_options
from signoff.runtime import forks, private_names
from signoff.runtime.loggers import own_logger
from signoff.runtime.real_threads import check_loop, check_threads
from signoff.stores.contract.store import Store
from signoff.workflow.registry import Registry

log = own_logger("signoff.worker")

END_SECONDS: Final = 5.0
"""How long a worker on another thread's loop may take to stop, in addition to its steps' grace period."""


class RunningWorker:
    """A worker as a context manager. Leaving it lets running steps finish, then gives the leases back.

    It may be entered again after it was left. If it is still entered when the main thread ends, it is stopped then:
    Python starts no threads for steps after that.
    """

    def __init__(self, store: Store, registry: Registry, options: dict[str, Any]) -> None:
        check_options(options)
        self._store = store
        self._registry = registry
        self._grace_seconds: float = options.pop("grace_seconds", 30.0)
        self._options = options
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_entered = False
        self._is_inherited = False
        forks.in_child(self)

    def forked(self) -> None:
        """Drop the parent's worker in a forked child without stopping it."""
        forks.keep(self._loop, self._thread, self._task)
        self._is_inherited = self._is_inherited or self._is_entered
        self._is_entered = False

    def _enter(self) -> None:
        check_threads("a worker")
        if not threading.main_thread().is_alive():
            raise RuntimeError(
                "a worker cannot start after the main thread has ended: Python then starts no threads for steps. "
                "Keep the main thread alive, for example with thread.join()"
            )
        if self._is_entered:
            raise RuntimeError("this worker is entered already; app.worker() creates another one")
        self._is_entered = True
        self._is_inherited = False
        self._thread = None

    async def __aenter__(self) -> Worker:
        check_loop("a worker")
        self._enter()
        try:
            worker = await self._begin()
        except BaseException:
            self._is_entered = False
            raise
        _entered.add(self)
        return worker

    async def __aexit__(self, *error: object) -> None:
        if self._is_inherited:
            return
        _entered.discard(self)
        try:
            await self._end()
        finally:
            self._is_entered = False

    async def _begin(self) -> Worker:
        self._loop = asyncio.get_running_loop()
        await self._store.open()
        worker = Worker(self._store, self._registry, **self._options)
        self._worker = worker
        self._task = own_tasks.own_task(worker.run(), name="signoff worker")
        return worker

    async def _end(self) -> None:
        assert self._task is not None
        await self._worker.drain(self._grace_seconds)
        if not self._worker.is_leaving:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def __enter__(self) -> RunningWorker:
        self._enter()
        self._leave = asyncio.Event()
        self._failure: BaseException | None = None
        self._is_over = False
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="signoff worker")
        self._thread.start()
        started.wait()
        if self._failure is not None:
            self._thread.join()
            self._is_entered = False
            raise self._failure
        _entered.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_inherited:
            return
        assert self._thread is not None
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # it was left before: its loop is closed
            self._loop.call_soon_threadsafe(self._leave.set)
        self._thread.join()
        _entered.discard(self)
        self._is_entered = False

    def leave_at_the_end(self) -> None:
        """Stop the worker when the main thread has ended. Called on the main thread."""
        if self._is_inherited:
            return
        if self._thread is not None:
            self.__exit__()
            return
        loop = self._loop
        if loop is None or not loop.is_running():  # it ran in the main thread
            return
        log.warning(
            "the main thread has ended, so the worker of group %s stops: Python now starts no threads for steps. "
            "Keep the main thread alive as long as the worker, for example with thread.join()",
            self._options["group"],
        )
        with contextlib.suppress(Exception):  # its loop ends meanwhile, or is blocked
            asyncio.run_coroutine_threadsafe(self._end(), loop).result(self._grace_seconds + END_SECONDS)

    def _run(self, started: threading.Event) -> None:
        try:
            own_tasks.run(self._serve(started))
        except BaseException as failure:
            if self._is_over and isinstance(failure, RuntimeError):
                return  # at exit Python 3.12 starts no threads, such as the one that shuts an executor down
            self._failure = failure
            started.set()
            raise

    async def _serve(self, started: threading.Event) -> None:
        await self._begin()
        try:
            started.set()
            await self._leave.wait()
        finally:
            await self._end()
        self._is_over = True


_entered: weakref.WeakSet[RunningWorker] = weakref.WeakSet()
"""The workers that are entered in this process."""


def _leave_all() -> None:
    """Stop the workers that a program entered and never left, as in gunicorn hooks, notebooks or exit stacks."""
    for worker in list(_entered):
        worker.leave_at_the_end()


private_names.before_threads_end(_leave_all)
