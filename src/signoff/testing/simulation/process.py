"""A simulated process: it may crash, freeze, stop in order, and be restarted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt, run_attempt
from signoff.engine.steps.threads import StepThreads
from signoff.engine.timers.timers import PeriodicJob
from signoff.engine.worker.compute_throttle import ComputeThrottle
from signoff.engine.worker.driver import Driver
from signoff.engine.worker.open_calls import OutcomeQuestion
from signoff.engine.worker.worker import Programs, Worker
from signoff.errors import StoreUnavailable
from signoff.records import Run, WorkerInfo, WorkflowInfo
from signoff.stores.contract.store import Store
from signoff.testing.inline_leases import LoopKeeper
from signoff.testing.simulation.database import Database, RemoteStore
from signoff.testing.simulation.loop import SimulatedLoop

if TYPE_CHECKING:
    from signoff.testing.simulation.world import World

Main = Callable[["Process"], Coroutine[Any, Any, None]]


class SkewedClock:
    """A process's skewed view of the store's time."""

    def __init__(self, world: World, skew: float) -> None:
        self._world = world
        self._skew = skew

    def now(self) -> float:
        return self._world.clock.now() + self._skew

    def on_jump(self, callback: Callable[[], None]) -> None:
        pass  # it never jumps


class Process:
    """One process, from its start to its end.

    Args:
        world: The world.
        name: Its name in the trace.
        host: Its host. Processes on one host know which of them are dead.
        pid: Its process id, never reused.
        skew: How many seconds its clock is ahead of the store's.

    Attributes:
        loop: Its event loop.
        store: Its connection to the store.
        is_alive: Whether it is running.
        is_frozen: Whether it is frozen.
        crash_after, freeze_after: The number of callbacks after which it crashes or freezes, if it does.
        is_spared: Whether it gets no faults of its own.
        executions: The executions that it began.
        worker: Its worker, if it is one.
    """

    def __init__(self, world: World, name: str, host: str, pid: int, *, skew: float = 0.0) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.pid = pid
        opaque = (Process, Database, RemoteStore, Worker, Driver, Execution)
        self.loop = SimulatedLoop(world, self._failed, opaque)
        self.store = cast("Store", RemoteStore(world.database, self, SkewedClock(world, skew)))
        self.is_alive = True
        self.is_frozen = False
        self.crash_after: int | None = None
        self.freeze_after: int | None = None
        self.freeze_seconds = 0.0
        self.is_spared = True
        self.executions: list[Execution] = []
        self.worker: Worker | None = None
        self._steps = 0
        self._is_stopping = False
        self._stopping: asyncio.Task[None] | None = None
        self._main: asyncio.Task[None] | None = None
        self._ends: list[Callable[[], None]] = []

    def begin(self, main: Main) -> None:
        """Start its code. The process ends when the code returns."""
        self.world.note(self.name, "begins")
        self._main = self.loop.create_task(main(self))
        self._main.add_done_callback(self._is_over)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the process has ended, in any way."""
        self._ends.append(callback)

    def run_one(self) -> None:
        """Run the next callback, unless it is frozen or dead."""
        self.loop.run_one()
        self._steps += 1
        if self._steps == self.crash_after:
            self.crash()
        elif self._steps == self.freeze_after:
            self.freeze(self.freeze_seconds)

    def freeze(self, seconds: float) -> None:
        """Freeze it for a while, as SIGSTOP does."""
        if self.is_alive and not self.is_frozen:
            self.world.note(self.name, "freezes", f"for {seconds:.1f} s")
            self.is_frozen = True
            self.world.call_later(seconds, self.thaw)

    def crash(self) -> None:
        """End it where it stands, without any cleanup."""
        if not self.is_alive:
            return
        self.world.note(self.name, "crashes")
        self._tear()

    def _tear(self) -> None:
        self.is_alive = False
        self.loop.tear()
        for execution in self.executions:
            execution.discard()
        for end in self._ends:
            end()

    def thaw(self) -> None:
        """Resume it, if it is frozen."""
        if self.is_frozen and self.is_alive:
            self.is_frozen = False
            self.world.note(self.name, "thaws")
            if self.loop.is_ready:
                self.world.enqueue(self.loop)

    def stop(self) -> None:
        """Stop it in order: running steps may end, leases are given back."""
        if self.is_alive and self._main is not None and not self._is_stopping:
            self._is_stopping = True
            self.world.note(self.name, "stops")
            self._stopping = self.loop.create_task(self._stop(self._main))

    async def _stop(self, main: asyncio.Task[None]) -> None:
        if self.worker is not None:
            await self.worker.drain(5.0)
        main.cancel()

    def _is_over(self, main: asyncio.Task[None]) -> None:
        error = None if main.cancelled() else main.exception()
        if error is not None and not isinstance(error, StoreUnavailable):
            self.world.blame(f"{self.name} ended with {error!r}")
        left = [task for task in asyncio.all_tasks(self.loop) if task is not self._stopping]
        if error is None and left:
            self.world.blame(f"{self.name} stopped and left {left!r}")
        self.world.note(self.name, "ends", error or "in order")
        self.loop.call_soon(self._tear)  # the remaining code does not run

    def _failed(self, context: dict[str, Any]) -> None:
        what = context.get("task") or context.get("future") or context.get("handle")
        self.world.blame(f"in {self.name}: {context.get('message')}: {context.get('exception')!r} of {what}")


@dataclass(frozen=True)
class _ObservedProgram:
    """A workflow whose executions are recorded, so that they can be discarded with their process."""

    program: Program
    process: Process

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def version(self) -> str:
        return self.program.version

    @property
    def function(self) -> Callable[..., Any]:
        return self.program.function

    @property
    def home(self) -> str:
        return self.program.home

    def body(self, execution: Execution, arguments: str) -> Coroutine[Any, Any, Any]:
        self.process.executions.append(execution)
        return self.program.body(execution, arguments)

    def settled(self, arguments: str) -> str | None:
        return self.program.settled(arguments)


class _ObservedPrograms:
    def __init__(self, programs: Programs, process: Process) -> None:
        self._programs = programs
        self._process = process

    @property
    def periodic_jobs(self) -> Sequence[PeriodicJob]:
        return self._programs.periodic_jobs

    @property
    def changes(self) -> int:
        return self._programs.changes

    def describe(self, group: str) -> Iterator[WorkflowInfo]:
        return self._programs.describe(group)

    def names(self) -> Sequence[str]:
        return self._programs.names()

    def program(self, workflow: str, version: str | None) -> Program:
        return _ObservedProgram(self._programs.program(workflow, version), self._process)

    def outcome_question(self, run: Run, call: StepCall, refused: str | None = None) -> OutcomeQuestion:
        return self._programs.outcome_question(run, call, refused)


def worker_of(programs: Programs, **options: Any) -> Main:
    """Return the code of a worker process.

    Args:
        programs: Its workflows.
        options: Options of ``Worker``.
    """

    async def main(process: Process) -> None:
        info = WorkerInfo(process.name, process.host, process.pid, 0.0, options.get("group", "default"))
        process.worker = worker_on(process, programs, info, **options)
        await process.worker.run()

    return main


def worker_on(process: Process, programs: Programs, info: WorkerInfo, **options: Any) -> Worker:
    """Return a worker on a process.

    Args:
        process: The process.
        programs: Its workflows.
        info: Its description.
        options: Options of ``Worker``.
    """

    async def attempt(
        call: StepCall, run_id: str, number: int, threads: StepThreads, throttle: ComputeThrottle
    ) -> Attempt:
        process.world.observer.step_begins(run_id, call)
        return await run_attempt(call, run_id, number, threads, throttle)

    return Worker(
        process.store,
        _ObservedPrograms(programs, process),
        info=info,
        is_dead=lambda other: other.host == process.host and process.world.is_dead(other.pid),
        keeper=LoopKeeper,
        attempt=attempt,
        **options,
    )
