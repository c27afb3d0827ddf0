"""A worker: claims runs of one group, holds their leases and drives them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import math
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from signoff.codec.ciphers import is_encrypted
from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.fatal_exceptions import as_failure, is_asked_for
from signoff.engine.run.step_call import StepCall
from signoff.engine.run.unawaited_coroutines import watch_coroutines
from signoff.engine.steps.attempt import Attempt, run_attempt
from signoff.engine.steps.loop_containment import contained
from signoff.engine.steps.threads import StepThreads
from signoff.engine.timers.retention import Retention
from signoff.engine.timers.timers import LOOK_EVERY_SECONDS, PeriodicJob, TimerService
from signoff.engine.worker import process_identity
from signoff.engine.worker.compute_throttle import ComputeThrottle
from signoff.engine.worker.driver import Driver
from signoff.engine.worker.leases import (
    BEAT_SECONDS,
    BUSY_SECONDS,
    STALLED_SECONDS,
    Keeper,
    LeaseKeeper,
    Leases,
)
from signoff.engine.worker.live_text import Publisher
from signoff.engine.worker.memory_load import Load
from signoff.engine.worker.missing_code import OtherWorkers
from signoff.engine.worker.open_calls import OutcomeQuestion
from signoff.engine.worker.paused_runs import PausedRuns
from signoff.engine.worker.poison_runs import suspend_poison_run
from signoff.engine.worker.workflow_announcer import Announcer
from signoff.errors import MissingKey, StoreUnavailable
from signoff.observability import events
from signoff.observability.current_run import fields_of
from signoff.observability.events import WorkerTakenOver
from signoff.records import Run, WorkerInfo, WorkflowInfo
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Claim
from signoff.stores.contract.store import Change, Store
from signoff.stores.shared.listed_payloads import CLAIMED_BYTES, may_be_cut
from signoff.stores.shared.suspect_runs import SUSPECT_TAKEOVERS

log = own_logger("signoff.worker")

CLAIM_AT_ONCE = 100
HOT_RUNS = 5000
MAX_TAKEOVERS = 8
TRIAL_SECONDS = 3.0
"""Seconds for which a worker claims nothing beside suspect runs without progress, to find out which one ends it."""
BLAME_SECONDS = 5.0
"""Seconds for which an ending worker waits to write the failures of the steps that ended it."""


class Programs(Protocol):
    """The registry of workflows, as the engine uses it."""

    @property
    def periodic_jobs(self) -> Sequence[PeriodicJob]:
        """The periodic jobs that its workers run."""
        ...

    @property
    def changes(self) -> int:
        """The number of registrations so far."""
        ...

    def describe(self, group: str) -> Iterator[WorkflowInfo]:
        """Yield the descriptions of the workflows, as workers of a group announce them."""
        ...

    def names(self) -> Sequence[str]:
        """The names of the registered workflows."""
        ...

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow in the given version, or in its latest one if that is not registered."""
        ...

    def outcome_question(self, run: Run, call: StepCall, refused: str | None = None) -> OutcomeQuestion:
        """Return the question for an operator about a step whose outcome is unknown."""
        ...


class Worker:
    """Claims ready runs of one group and drives them until it is stopped.

    Args:
        store: An open store.
        programs: The registry of workflows.
        group: The group whose runs it claims.
        concurrency: How many runs it holds at once.
        threads: How many steps with plain functions run at once.
        hot_runs: How many paused runs stay in memory (about 16 KiB each, plus the objects of their code), to continue
            without a replay. A run with deep stacks, parallel waits or large values counts as several: an agent's turn
            as 12 to 30. No run counts as more than a tenth of all.
        busy_seconds: Seconds of computing without a wait after which workflow code is interrupted.
        stalled_seconds: Seconds without a turn of the event loop after which the leases are no longer extended.
        beat_seconds: Seconds between two extensions of the leases.
        look_seconds: Seconds between two polls for ready runs, messages and deadlines that the store did not notify
            about.
        build: The build of its code, such as a commit, shown to operators; by default the environment variable
            ``SIGNOFF_BUILD``.
        info: Its description in the list of workers; by default this process, and the build.
        is_dead: Returns whether another worker is known to have ended, so that its runs can be taken over at once.
        keeper: Makes the object that extends the leases; by default one with a thread.
        attempt: Runs an attempt of a step; replaced by tests.
        context: Returns the context variables of a run's code, for tests; None: the worker's own.
        max_takeovers: How often a run may lose its worker (killed, or blocked for longer than a lease) without progress
            of its journal. Then it is suspended until an operator resumes or terminates it. Losses beyond the third
            count only while it is the only such run on its worker. With 4 or fewer, runs that merely ran beside the
            cause may be suspended with it.
        retention_days: How long ended runs are kept; None: permanently.
    """

    def __init__(
        self,
        store: Store,
        programs: Programs,
        *,
        group: str = "default",
        concurrency: int = 1000,
        threads: int = 32,
        hot_runs: int = HOT_RUNS,
        beat_seconds: float = BEAT_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        stalled_seconds: float = STALLED_SECONDS,
        look_seconds: float = LOOK_EVERY_SECONDS,
        build: str | None = None,
        info: WorkerInfo | None = None,
        is_dead: Callable[[WorkerInfo], bool] = process_identity.is_dead,
        keeper: Callable[..., Keeper] = LeaseKeeper,
        attempt: Callable[
            [StepCall, str, int, StepThreads, ComputeThrottle], Coroutine[Any, Any, Attempt]
        ] = run_attempt,
        context: Callable[[], contextvars.Context | None] = lambda: None,
        max_takeovers: int = MAX_TAKEOVERS,
        retention_days: float | None = None,
    ) -> None:
        self.store = store
        self._threads = StepThreads(threads)
        self.draining = False
        self.info = info or process_identity.new_worker(group, store.namespace, build)
        self.program = programs.program
        self.outcome_question = programs.outcome_question
        self._programs = programs
        self._group = group
        self._concurrency = concurrency
        self._max_takeovers = max_takeovers
        self._keeping = {
            "beat_seconds": beat_seconds,
            "busy_seconds": busy_seconds,
            "stalled_seconds": stalled_seconds,
        }
        self._beat_seconds = beat_seconds
        self._look_seconds = look_seconds
        self._is_dead = is_dead
        self._keeper = keeper
        self._attempt = attempt
        self._context = context
        self._publisher = Publisher(store)
        self._periodic_jobs = programs.periodic_jobs
        self._retention = None if retention_days is None else Retention(store, retention_days)
        self._announcer = Announcer(store, programs, group, look_seconds=look_seconds)
        self._held: dict[str, Driver] = {}
        self._tasks: dict[Driver, asyncio.Task[None]] = {}
        self._paused_runs = PausedRuns(hot_runs)
        self._changed: set[str] = set()
        self._look_at_all = False
        self._may_claim = True
        self.load = Load(self._wake_to_claim)
        self.throttle: ComputeThrottle  # while it works
        self._on_trial: set[Driver] = set()  # suspects without progress so far
        self._trial_until = 0.0
        self._others = OtherWorkers(store, self.info, self.claim_again)
        self._wake = asyncio.Event()
        self._leases: Leases | None = None  # while it works
        self._is_leaving = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    async def run(self) -> None:
        """Work until cancelled. Then abandon running steps and give the leases back.

        Call ``drain`` first to let running steps finish.
        """
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._publisher.loop = self._loop
        self.throttle = ComputeThrottle(self._loop)
        watch_coroutines()
        await self.store.enlist(self.describe())
        self._leases = leases = Leases(self.store, self.describe, lambda: self._held, self._lose)
        keeper = self._keeper(leases, **self._keeping)
        stop_listening = self.store.listen(self._noticed)
        keeper.start()
        ended_by: BaseException | None = None
        with contained(self._loop) as containment:
            try:
                await self._serve()
            except BaseException as error:
                ended_by = error
                raise
            finally:
                self._leases = None
                self._is_leaving = True
                stop_listening()
                ended_by = containment.ended_by or ended_by
                await self._leave(keeper, None if ended_by is None or is_asked_for(ended_by) else ended_by)
                await self._publisher.close()

    async def _serve(self) -> None:
        timers = TimerService(self.store, look_seconds=self._look_seconds, periodic_jobs=self._periodic_jobs)
        services = [timers.run(), self._take_over(), self._announcer.run(), self._work()]
        if self._retention is not None:
            services.append(self._retention.run())
        tasks = [asyncio.create_task(service, name="signoff worker") for service in services]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # none of them ends on its own
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [end for end in ends if isinstance(end, Exception)]
        if len(errors) == 1:
            raise errors[0]
        raise BaseExceptionGroup(
            "a worker's services ended", [end for end in ends if isinstance(end, BaseException)]
        )

    async def drain(self, grace_seconds: float = 30.0) -> None:
        """Stop claiming runs; let running steps finish and journal their outcomes.

        Args:
            grace_seconds: How long to wait for them.
        """
        self.draining = True
        for driver in self._held.values():
            driver.poke()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=grace_seconds)
        await self._fail_blamed()

    async def _fail_blamed(self) -> None:
        """Fail the running steps that ended the worker: otherwise the next worker would start them again."""
        self.draining = True
        blamed = [task for driver, task in self._tasks.items() if driver.fail_blamed()]
        if blamed:
            await asyncio.wait(blamed, timeout=BLAME_SECONDS)

    @property
    def is_ready(self) -> bool:
        """Whether it accepts runs: it works, the store answered recently, and its leases are being extended."""
        return self._leases is not None and self._leases.are_kept and not self.draining

    def describe(self) -> WorkerInfo:
        """Return its current description for the list of workers. Thread-safe."""
        threads = self._threads
        return replace(
            self.info, threads=threads.count, threads_busy=threads.busy, threads_waiting=threads.waiting
        )

    @property
    def is_leaving(self) -> bool:
        """Whether it is ending or has ended, and need not be cancelled."""
        return self._is_leaving

    @property
    def is_full(self) -> bool:
        """Whether it has no room for another run."""
        return len(self._held) >= self._concurrency

    @property
    def held(self) -> Sequence[str]:
        """The ids of the runs it holds."""
        return list(self._held)

    @property
    def next_at(self) -> float:
        """When it has work to do without an event from outside: Unix seconds, infinity for never, 0 for now."""
        if self._wake.is_set():
            return 0.0
        return min((driver.next_at for driver in self._held.values()), default=math.inf)

    def evict(self) -> None:
        """Drop all paused runs from memory."""
        self._paused_runs.clear()

    # Changes in the store

    def _noticed(self, change: Change) -> None:
        assert self._loop is not None
        if change.runs is not None and not (change.ready or change.due or change.woken):
            return  # most commits are a worker's own appends
        if threading.get_ident() == self._thread:
            self._note(change)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, change)

    def _note(self, change: Change) -> None:
        if change.runs is None:
            self._look_at_all = True
        else:
            self._changed.update(change.woken & self._held.keys())
        self._may_claim = self._may_claim or change.ready
        if change.due:
            for driver in self._held.values():
                driver.poke()
        if self._changed or self._look_at_all or self._may_claim:
            self._wake.set()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time() + self._look_seconds
        while True:
            self._wake.clear()
            try:
                await self._read_messages()
                await self._claim()
            except StoreUnavailable as trouble:
                log.error("the worker waits for its store: %s", trouble)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._wake.wait()
            if loop.time() >= look_at:  # regardless of notifications in between
                look_at = loop.time() + self._look_seconds
                self._may_claim = True
                self.load.pass_once()
                self._look_at_all = True

    async def _read_messages(self) -> None:
        looked_at_all, self._look_at_all = self._look_at_all, False
        changed, self._changed = self._changed, set()
        wanted = list(self._held) if looked_at_all else [id for id in changed if id in self._held]
        if not wanted:
            return
        found = await self.store.read_messages(wanted)
        for message, wakes in found:
            driver = self._held.get(message.run_id)
            if driver is not None:
                driver.take([message], wakes)
        messages = [message for message, _ in found]
        if may_be_cut(messages):  # messages of the other runs may not have fit
            seen = {message.run_id for message in messages}
            self._changed.update(set(wanted) - seen)
            self._wake.set()

    async def _claim(self) -> None:
        while self._may_claim and not self.draining and not self._is_trial_on:
            room = min(CLAIM_AT_ONCE, self._concurrency - len(self._held), self.load.room)
            if room <= 0:
                return
            self._may_claim = False
            self.load.claiming()
            began = asyncio.get_running_loop().time()
            names = self._others.without_avoided(self._programs.names(), began)
            claims = await self.store.claim(self.info.id, self._group, names, room)
            for claim in claims:
                if is_encrypted(claim.run.arguments):  # the missing key is this worker's fault, not the run's
                    raise MissingKey(self.store.location, "this worker has no encryption keys")
                if claim.run.takeovers >= self._max_takeovers:
                    await suspend_poison_run(self.store, claim.run)
                    self._may_claim = True  # claim the next one instead
                else:
                    self._start(claim, began + self.store.lease_seconds)
            self._begin_trial(claim.run for claim in claims)
            self.load.claimed(claims)
            # A server sends fewer runs than there is room for if they are large.
            sent = [part for claim in claims for part in (claim.run, claim.messages)]
            if len(claims) == room or may_be_cut(sent, at=CLAIMED_BYTES):
                self._may_claim = True

    def _wake_to_claim(self) -> None:
        if self._may_claim:
            self._wake.set()

    # Suspects

    @property
    def _is_trial_on(self) -> bool:
        return bool(self._on_trial) and asyncio.get_running_loop().time() < self._trial_until

    def _begin_trial(self, runs: Iterable[Run]) -> None:
        """Claim nothing beside the suspects among these runs for a while, or until all have made progress."""
        suspects = {
            self._held[run.id] for run in runs if run.takeovers >= SUSPECT_TAKEOVERS and run.id in self._held
        }
        if suspects:
            loop = asyncio.get_running_loop()
            self._on_trial, self._trial_until = suspects, loop.time() + TRIAL_SECONDS
            loop.call_later(TRIAL_SECONDS + 0.01, self.claim_again)
            some = sorted((driver.run.id, driver.run.takeovers) for driver in suspects)
            log.warning(
                "%d runs have lost %d workers without progress; they start apart from other runs: %s",
                len(some),
                max(takeovers for _, takeovers in some),
                ", ".join(run_id for run_id, _ in some[:10]) + (", ..." if len(some) > 10 else ""),
            )

    def cleared(self, driver: Driver) -> None:
        """Note that a suspect has made progress or is no longer driven, so that another run may be claimed."""
        self._on_trial.discard(driver)
        self.claim_again()

    async def leaves_to_others(self, run: Run) -> bool:
        """Return whether to release a run that this worker cannot run, and to avoid it while other workers claim it."""
        return await self._others.take(run)

    async def leaves_version(self, run: Run, version: str) -> bool:
        """Return whether to release a run of a version that is not registered here, for a worker that has it."""
        return await self._others.take_version(run, version)

    def claim_again(self) -> None:
        """Claim runs soon, without a notification of the store: the names of its programs may have changed."""
        self._may_claim = True
        self._wake.set()

    # Driving

    def _start(self, claim: Claim, sure_until: float) -> None:
        run = claim.run
        stale = self._held.get(run.id)
        if stale is not None:  # its lease was lost unnoticed, and this is the next one
            self._drop(stale)
        paused = self._paused_runs.take(run, self._has_its_code)
        if paused is None:
            driver = Driver(self, claim, None, 0, sure_until=sure_until)
        else:
            driver = Driver(self, claim, paused.execution, paused.seq, sure_until=sure_until)
        self._held[run.id] = driver
        task = asyncio.create_task(driver.drive(), name=f"signoff run {run.id}", context=self._context())
        self._tasks[driver] = task
        task.add_done_callback(lambda done: self._ended(driver, done))

    def _has_its_code(self, execution: Execution) -> bool:
        """Whether a replay would use the same code. It may have been registered anew."""
        return self.program(execution.run.workflow, execution.version) is execution.program

    def _ended(self, driver: Driver, task: asyncio.Task[None]) -> None:
        run_id = driver.run.id
        del self._tasks[driver]
        driver.load.close()
        if self._held.get(run_id) is driver:
            del self._held[run_id]
        if driver.is_suspect:
            self.cleared(driver)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "an error of the engine dropped run %s; its lease will expire",
                run_id,
                exc_info=error,
                extra=fields_of(driver.run),
            )
        if driver.paused and driver.execution is not None:
            self._paused_runs.keep(run_id, driver.execution, driver.epoch, driver.seq)
        if len(self._held) == self._concurrency - 1:
            self._may_claim = True
            self._wake.set()

    def attempt(self, call: StepCall, run_id: str, number: int) -> Coroutine[Any, Any, Attempt]:
        """Run an attempt of a step."""
        call.attempt, call.live_streams, call.thread_wait, call.worker = number, self._publisher, 0.0, self
        return self._attempt(call, run_id, number, self._threads, self.throttle)

    # Leases

    async def confirm(self, driver: Driver) -> None:
        """Ask the store whether the lease still holds. If it does not, cancel the driver."""
        began = asyncio.get_running_loop().time()
        if await self.store.heartbeat(self.info.id, {driver.run.id: driver.epoch}):
            self._lose_one(driver)
            await asyncio.Event().wait()
        driver.sure_until = began + self.store.lease_seconds

    def _lose(self, lost: Mapping[str, int]) -> None:
        for run_id, epoch in sorted(lost.items()):
            driver = self._held.get(run_id)
            if driver is None or driver.epoch != epoch:  # it may have been claimed again
                continue
            if not driver.lets_go:  # otherwise its own write tells whether the lease was lost or given back
                self._lose_one(driver)

    def _lose_one(self, driver: Driver) -> None:
        log.info("the lease on run %s is lost", driver.run.id, extra=fields_of(driver.run))
        self._drop(driver)

    def _drop(self, driver: Driver) -> None:
        driver.lost = True
        self._tasks[driver].cancel()

    async def _take_over(self) -> None:
        """Free the runs of dead processes on this host, now and at every beat."""
        while True:
            try:
                for worker in await self.store.list_workers():
                    if worker.id != self.info.id and self._is_dead(worker):
                        freed = await self.store.release(worker.id, dead=True)
                        if freed and events.subscribers:
                            events.announce(WorkerTakenOver(worker.id, freed))
                        log.info("worker %s is dead: %d runs taken over", worker.id, freed)
            except StoreUnavailable as trouble:
                log.error("the takeover of dead workers' runs waits for the store: %s", trouble)
            await asyncio.sleep(self._beat_seconds)

    async def _leave(self, keeper: Keeper, lost_by: BaseException | None) -> None:
        """Release all runs. Must not be cancelled.

        Args:
            keeper: The object that extends the leases.
            lost_by: The unexpected error that ended the worker, if any. One of its runs may have caused it: each counts
                a takeover.
        """
        if lost_by is not None:
            log.error(
                "the worker ends unexpectedly. Each of its runs counts a lost worker: %s",
                as_failure("its code", lost_by),
                exc_info=lost_by,
            )
        await self._fail_blamed()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await keeper.stop()
        self.evict()
        self._threads.close()
        try:
            await self.store.release(self.info.id, dead=lost_by is not None)
        except StoreUnavailable as trouble:
            log.error("the leases could not be given back and will expire: %s", trouble)
