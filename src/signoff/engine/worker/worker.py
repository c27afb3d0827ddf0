"""A worker: holds leases on runs of one group and drives them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from signoff.codec.ciphers import is_encrypted
from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.fatal_exceptions import as_failure, is_asked_for
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt, run_attempt
from signoff.engine.steps.loop_containment import contained
from signoff.engine.steps.threads import StepThreads
from signoff.engine.timers.retention import Retention
from signoff.engine.timers.timers import LOOK_EVERY_SECONDS, Duty, TimerService
from signoff.engine.worker import process
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
from signoff.engine.worker.open_calls import Doubt
from signoff.engine.worker.pace import Pace
from signoff.engine.worker.workflow_announcer import Announcer
from signoff.errors import LeaseLost, MissingKey, StoreUnavailable
from signoff.observability import events
from signoff.observability.current_run import fields_of
from signoff.observability.events import RunInfo, RunSetAside, WorkerTakenOver
from signoff.records import AuditKind, Entry, NewAuditEvent, Run, WorkerInfo, WorkflowInfo
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Change, Claim, Store
from signoff.stores.shared.listed_payloads import CLAIMED_BYTES, may_be_cut
from signoff.stores.shared.suspect_runs import SUSPECT_TAKEOVERS

log = own_logger("signoff.worker")

CLAIM_AT_ONCE = 100
HOT_RUNS = 5000
GARBAGE_BYTES = 64 * 1024 * 1024
"""The collector is called when the large values of evicted runs took so many bytes."""
MAX_TAKEOVERS = 8
TRIAL_SECONDS = 3.0
"""For how long a worker claims nothing beside suspects that have made no progress, so that nothing else ends it."""
BLAME_SECONDS = 5.0
"""For how long a worker that leaves writes that steps have ended it."""


class Programs(Protocol):
    """The registry of workflows, as the engine sees it."""

    @property
    def duties(self) -> Sequence[Duty]:
        """What its workers do besides, when time has come."""
        ...

    @property
    def changes(self) -> int:
        """How often a workflow was registered."""
        ...

    def describe(self, group: str) -> Iterator[WorkflowInfo]:
        """Yield what the register of workflows is told by workers of a group."""
        ...

    def names(self) -> Sequence[str]:
        """The workflows that can be run here."""
        ...

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow: that version if it is here, else the newest."""
        ...

    def unclear_question(self, run: Run, call: StepCall, refused: str | None = None) -> Doubt:
        """Return the question to ask about a step of which nobody knows whether it happened."""
        ...


@dataclass(frozen=True, slots=True)
class _Hot:
    """A paused run in memory.

    Attributes:
        execution: Its code.
        epoch: The epoch that it paused in.
        seq: The last journal entry that the code knows.
        weight: For how many plain runs it counts.
    """

    execution: Execution
    epoch: int
    seq: int
    weight: int


class Worker:
    """Claims ready runs of one group and drives them until it is stopped.

    Args:
        store: An open store.
        programs: The registry of workflows.
        group: The group it polls.
        concurrency: How many runs it holds at once.
        threads: How many plain functions of steps run at once.
        hot_runs: How many paused runs stay in memory (about 16 KiB each, and what their code makes itself) to go on
            without a replay. One that waits deeper, or in parallel, or was given large values, counts for
            several: an agent's turn for 12 to 30, none for more than a tenth of all.
        busy_seconds: After how long of computing workflow code that waits for nothing is interrupted.
        stalled_seconds: After how long without a turn of the loop its leases are let go.
        beat_seconds: How often leases are extended.
        look_seconds: How often to look for what the store did not tell: ready runs, messages, deadlines.
        build: What its code was built from, such as a commit, for whoever looks who runs what; by default what the
            environment variable ``SIGNOFF_BUILD`` says.
        info: What the register of workers says of it; by default this process, and the build.
        is_dead: Whether another worker is known to have ended, so that its runs can be taken over at once.
        keeper: Makes what extends the leases, by default from a thread.
        attempt: Runs an attempt of a step, for tests that look at it.
        context: Returns the context variables that a run begins with, for tests; None: the worker's.
        max_takeovers: How often a run may lose its worker (killed, or blocked for longer than a lease) while its
            journal does not grow. Then it is suspended until an operator resumes or terminates it. Those beyond
            the third count while it is the only such run on its worker: with 4 or fewer, runs that were merely
            beside one that ends its workers may be suspended with it.
        retention_days: How long ended runs are kept; None: for ever.
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
        is_dead: Callable[[WorkerInfo], bool] = process.is_dead,
        keeper: Callable[..., Keeper] = LeaseKeeper,
        attempt: Callable[
            [StepCall, str, int, StepThreads, Pace], Coroutine[Any, Any, Attempt]
        ] = run_attempt,
        context: Callable[[], contextvars.Context | None] = lambda: None,
        max_takeovers: int = MAX_TAKEOVERS,
        retention_days: float | None = None,
    ) -> None:
        self.store = store
        self._threads = StepThreads(threads)
        self.draining = False
        self.info = info or process.new_worker(group, store.namespace, build)
        self.program = programs.program
        self.unclear_question = programs.unclear_question
        self._programs = programs
        self._group = group
        self._concurrency = concurrency
        self._hot_runs = hot_runs
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
        self._duties = programs.duties
        self._retention = None if retention_days is None else Retention(store, retention_days)
        self._announcer = Announcer(store, programs, group, look_seconds=look_seconds)
        self._held: dict[str, Driver] = {}
        self._tasks: dict[Driver, asyncio.Task[None]] = {}
        self._hot: OrderedDict[str, _Hot] = OrderedDict()  # by run id, the longest kept first
        self._hot_weight = 0
        self._garbage_bytes = 0  # of large values of runs that were evicted
        self._changed: set[str] = set()
        self._look_at_all = False
        self._may_claim = True
        self.load = Load(self._wake_to_claim)
        self.pace: Pace  # while it works
        self._on_trial: set[Driver] = set()  # suspects that have made no progress yet
        self._trial_until = 0.0
        self._others = OtherWorkers(store, self.info, self._claim_again)
        self._wake = asyncio.Event()
        self._leases: Leases | None = None  # while it works
        self._is_leaving = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    async def run(self) -> None:
        """Work until cancelled. Then running steps are left where they are and the leases are given back.

        Call ``drain`` first to let running steps finish.
        """
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._publisher.loop = self._loop
        self.pace = Pace(self._loop)
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
        timers = TimerService(self.store, look_seconds=self._look_seconds, duties=self._duties)
        services = [timers.run(), self._take_over(), self._announcer.run(), self._work()]
        if self._retention is not None:
            services.append(self._retention.run())
        tasks = [asyncio.create_task(service, name="signoff worker") for service in services]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # none ends by itself
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [end for end in ends if isinstance(end, Exception)]
        if len(errors) == 1:
            raise errors[0]
        raise BaseExceptionGroup(
            "a worker has ended", [end for end in ends if isinstance(end, BaseException)]
        )

    async def drain(self, grace_seconds: float = 30.0) -> None:
        """Claim nothing more and let running steps finish and be journaled.

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
        """Have steps fail that ended their worker and still run: the next worker would begin them again."""
        self.draining = True
        blamed = [task for driver, task in self._tasks.items() if driver.fail_blamed()]
        if blamed:
            await asyncio.wait(blamed, timeout=BLAME_SECONDS)

    @property
    def is_ready(self) -> bool:
        """Whether it takes runs: it works, the store answered of late, and its leases are being extended."""
        return self._leases is not None and self._leases.are_kept and not self.draining

    def describe(self) -> WorkerInfo:
        """Return what the register of workers says of it now. From any thread."""
        threads = self._threads
        return replace(
            self.info, threads=threads.count, threads_busy=threads.busy, threads_waiting=threads.waiting
        )

    @property
    def is_leaving(self) -> bool:
        """Whether it ends, or has ended: it need not be cancelled."""
        return self._is_leaving

    @property
    def is_full(self) -> bool:
        """Whether no other run has room beside those that it holds."""
        return len(self._held) >= self._concurrency

    @property
    def held(self) -> Sequence[str]:
        """The ids of the runs it holds."""
        return list(self._held)

    @property
    def next_at(self) -> float:
        """When it has something to do that nobody has to bring: unix seconds, infinity for never, 0 for now."""
        if self._wake.is_set():
            return 0.0
        return min((driver.next_at for driver in self._held.values()), default=math.inf)

    def evict(self) -> None:
        """Let go of all paused runs that are still in memory."""
        while self._hot:
            self._evict(next(iter(self._hot)))

    # Noticing

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
                log.error("worker waits: %s", trouble)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(look_at):
                    await self._wake.wait()
            if loop.time() >= look_at:  # however much was told meanwhile
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
        if may_be_cut(messages):  # those of the other runs may not have fit
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
                if is_encrypted(claim.run.arguments):  # it would fail for what is wrong with us
                    raise MissingKey(self.store.location, "there are no keys here")
                if claim.run.takeovers >= self._max_takeovers:
                    await self._set_aside(claim.run)
                    self._may_claim = True  # the next one
                else:
                    self._start(claim, began + self.store.lease_seconds)
            self._begin_trial(claim.run for claim in claims)
            self.load.claimed(claims)
            # A server sends fewer than there is room for if they are large.
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
        """Claim nothing beside the suspects among these runs until all have made progress, or for a while."""
        suspects = {
            self._held[run.id] for run in runs if run.takeovers >= SUSPECT_TAKEOVERS and run.id in self._held
        }
        if suspects:
            loop = asyncio.get_running_loop()
            self._on_trial, self._trial_until = suspects, loop.time() + TRIAL_SECONDS
            loop.call_later(TRIAL_SECONDS + 0.01, self._claim_again)
            some = sorted((driver.run.id, driver.run.takeovers) for driver in suspects)
            log.warning(
                "%d runs have lost %d workers without progress, and begin apart from others: %s",
                len(some),
                max(takeovers for _, takeovers in some),
                ", ".join(run_id for run_id, _ in some[:10]) + (", ..." if len(some) > 10 else ""),
            )

    def cleared(self, driver: Driver) -> None:
        """Note that a suspect has made progress, or is not driven any more: another one may have its room."""
        self._on_trial.discard(driver)
        self._claim_again()

    async def leaves_to_others(self, run: Run) -> bool:
        """Whether a run that cannot be run here is left to other workers, which claim it while this one does not."""
        return await self._others.take(run)

    async def leaves_version(self, run: Run, version: str) -> bool:
        """Whether a run of a version that is not here is left to other workers, which may have it."""
        return await self._others.take_version(run, version)

    def _claim_again(self) -> None:
        self._may_claim = True
        self._wake.set()

    async def _set_aside(self, run: Run) -> None:
        """Have an operator look at a run that gets nowhere: it blocks or kills one worker after the other."""
        entries = await self.store.read_journal(run.id, after=run.first_seq - 1)
        reason = (
            f"{run.takeovers} workers in turn were lost or blocked while they ran it, and its journal did not grow "
            f"{place_of(entries[-1] if entries else None)}. Look for a step or workflow code that blocks the event "
            "loop or ends the process; then resume the run, or terminate it"
        )
        event = NewAuditEvent(f"{run.id}/suspended/{run.epoch}", AuditKind.SUSPENDED, "", run.id)
        log.error("run %s is suspended: %s", run.id, reason, extra=fields_of(run))
        try:
            await self.store.suspend(run.id, event, reason=reason, epoch=run.epoch)
            if events.subscribers:
                events.announce(RunSetAside(RunInfo.of(run), run.takeovers))
        except LeaseLost as lost:
            log.info("%s", lost)

    # Driving

    def _start(self, claim: Claim, sure_until: float) -> None:
        run = claim.run
        stale = self._held.get(run.id)
        if stale is not None:  # its lease was lost without a word, and now we have the next one
            self._drop(stale)
        hot = self._hot.get(run.id)
        if hot is not None and (hot.epoch != run.epoch - 1 or not self._has_its_code(hot.execution)):
            self._evict(run.id)
            hot = None
        if hot is None:
            driver = Driver(self, claim, None, 0, sure_until=sure_until)
        else:
            self._take_hot(run.id)
            driver = Driver(self, claim, hot.execution, hot.seq, sure_until=sure_until)
        self._held[run.id] = driver
        task = asyncio.create_task(driver.drive(), name=f"signoff run {run.id}", context=self._context())
        self._tasks[driver] = task
        task.add_done_callback(lambda done: self._ended(driver, done))

    def _has_its_code(self, execution: Execution) -> bool:
        """Whether a run in memory has the code that it would have if it were rebuilt: it may be registered anew."""
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
                "run %s was dropped by an error of the engine; its lease runs out",
                run_id,
                exc_info=error,
                extra=fields_of(driver.run),
            )
        if driver.paused and driver.execution is not None:
            self._keep_hot(run_id, driver.execution, driver.epoch, driver.seq)
        if len(self._held) == self._concurrency - 1:
            self._may_claim = True
            self._wake.set()

    def _keep_hot(self, run_id: str, execution: Execution, epoch: int, seq: int) -> None:
        if run_id in self._hot:
            self._evict(run_id)
        # However much waits in one run: to replay it at each answer would cost more than its memory.
        weight = min(execution.weight, max(1, self._hot_runs // 10))
        self._hot[run_id] = _Hot(execution, epoch, seq, weight)
        self._hot_weight += weight
        while self._hot_weight > self._hot_runs:
            self._evict(next(iter(self._hot)))

    def _take_hot(self, run_id: str) -> _Hot:
        hot = self._hot.pop(run_id)
        self._hot_weight -= hot.weight
        return hot

    def _evict(self, run_id: str) -> None:
        """Let go of a paused run, which is in circles: each task with what it waits for.

        The collector frees it. That looks when so many objects were made, and large values may be few.
        """
        hot = self._take_hot(run_id)
        hot.execution.discard()
        self._garbage_bytes += hot.execution.large_bytes
        if self._garbage_bytes >= GARBAGE_BYTES and gc.isenabled():
            self._garbage_bytes = 0
            del hot
            gc.collect()

    def attempt(self, call: StepCall, run_id: str, number: int) -> Coroutine[Any, Any, Attempt]:
        """Run an attempt of a step."""
        call.attempt, call.speech, call.thread_wait = number, self._publisher, 0.0
        return self._attempt(call, run_id, number, self._threads, self.pace)

    # Leases

    async def confirm(self, driver: Driver) -> None:
        """Ask the store whether a run is still held; if it is not, its driver is cancelled."""
        began = asyncio.get_running_loop().time()
        if await self.store.heartbeat(self.info.id, {driver.run.id: driver.epoch}):
            self._lose_one(driver)
            await asyncio.Event().wait()
        driver.sure_until = began + self.store.lease_seconds

    def _lose(self, lost: Mapping[str, int]) -> None:
        for run_id, epoch in sorted(lost.items()):
            driver = self._held.get(run_id)
            if driver is None or driver.epoch != epoch:  # it may be held anew since the heartbeat left
                continue
            if not driver.lets_go:  # else its own write says whether the lease was lost, or was given back
                self._lose_one(driver)

    def _lose_one(self, driver: Driver) -> None:
        log.info("the lease on run %s is lost", driver.run.id, extra=fields_of(driver.run))
        self._drop(driver)

    def _drop(self, driver: Driver) -> None:
        driver.lost = True
        self._tasks[driver].cancel()

    async def _take_over(self) -> None:
        """Free the runs of dead processes of this host, now and whenever there may be some."""
        while True:
            try:
                for worker in await self.store.list_workers():
                    if worker.id != self.info.id and self._is_dead(worker):
                        freed = await self.store.release(worker.id, dead=True)
                        if freed and events.subscribers:
                            events.announce(WorkerTakenOver(worker.id, freed))
                        log.info("worker %s is dead: %d runs taken over", worker.id, freed)
            except StoreUnavailable as trouble:
                log.error("take-over waits: %s", trouble)
            await asyncio.sleep(self._beat_seconds)

    async def _leave(self, keeper: Keeper, lost_by: BaseException | None) -> None:
        """Let go of all runs. Not to be cancelled.

        Args:
            keeper: What extends the leases.
            lost_by: What ended the worker, if nobody asked for it: one of its runs may have. Each counts a takeover.
        """
        if lost_by is not None:
            log.error(
                "the worker ends, and nobody has asked it to. Each of its runs counts a lost worker: %s",
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
            log.error("leases could not be given back, they run out by themselves: %s", trouble)


def place_of(entry: Entry | None) -> str:
    """Say where a journal ends, for people."""
    if entry is None:
        return "at all"
    what = " ".join(filter(None, (entry.call, repr(entry.name) if entry.name else None)))
    return f"after entry {entry.seq} ({entry.kind}{f' {what}' if what else ''})"
