"""Drives one leased run on a worker: rebuilds it, runs its steps and journals events before they have effects.

Replays stay true because of one rule: code runs as soon as an event arrives, but a step starts only once every journal
entry before it is durable. All events of one pass are one write.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections import deque
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any, Final, Protocol

from signoff import codec
from signoff.engine.run.calls import SignalCall, TimerCall
from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.fatal_exceptions import as_failure, encode_failure, ends_task, signal_of
from signoff.engine.run.replay import replay
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt
from signoff.engine.worker.compute_throttle import LONG_SECONDS, ComputeThrottle
from signoff.engine.worker.fenced_writes import FencedWrites
from signoff.engine.worker.journal_answers import MessageJournal
from signoff.engine.worker.journal_attempts import journal_attempt
from signoff.engine.worker.journal_write import PendingWrite
from signoff.engine.worker.memory_load import Load, RunLoad
from signoff.engine.worker.open_calls import OpenCalls, OutcomeQuestions
from signoff.engine.worker.run_events import RunEvents
from signoff.engine.worker.running_steps import RunningSteps
from signoff.errors import (
    CannotRunHere,
    LeaseLost,
    StoreError,
    UnknownWorkflow,
    WaitsForNothing,
)
from signoff.observability.current_run import current_run
from signoff.observability.logs import fields_of
from signoff.records import Entry, EntryKind, Message, PromiseState, Run, RunState
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.leases import Claim, Outcome, Write
from signoff.stores.contract.retries import without_dropped
from signoff.stores.contract.store import Store
from signoff.stores.shared.suspect_runs import SUSPECT_TAKEOVERS

log = own_logger("signoff.worker")

TURN_SECONDS = 0.005
HOLD_SECONDS = 1.0  # a run whose next timer is nearer than this is not paused
_FINAL_ENTRY = {
    RunState.SUCCEEDED: EntryKind.SUCCEEDED,
    RunState.FAILED: EntryKind.FAILED,
    RunState.CANCELLED: EntryKind.CANCELLED,
}

LEFT_SECONDS: Final = 0.5
"""Seconds until a run that this worker released may be claimed by another worker."""


class Host(OutcomeQuestions, Protocol):
    """The worker, as its drivers use it."""

    store: Store
    draining: bool
    load: Load
    throttle: ComputeThrottle

    @property
    def is_full(self) -> bool:
        """Whether the worker has no room for another run."""
        ...

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow in the given version, or in its latest one if that is not registered."""
        ...

    async def confirm(self, driver: Driver) -> None:
        """Ask the store whether the lease still holds. If it does not, cancel the driver."""
        ...

    async def leaves_to_others(self, run: Run) -> bool:
        """Return whether to release a run that this worker cannot run, and to avoid it while other workers claim it."""
        ...

    async def leaves_version(self, run: Run, version: str) -> bool:
        """Return whether to release a run of a version that is not registered here, for a worker that has it."""
        ...

    def cleared(self, driver: Driver) -> None:
        """Note that a suspect run has made progress."""
        ...

    def attempt(self, call: StepCall, run_id: str, number: int) -> Coroutine[Any, Any, Attempt]:
        """Run an attempt of a step."""
        ...


class Driver:
    """Drives one run while its lease is held.

    Args:
        host: The worker.
        claim: The lease, and the messages that came with it.
        execution: The run in memory, if this worker kept it and no other worker has run it since.
        seq: The journal's length, if ``execution`` is given.
        sure_until: The time (of the event loop) until which the lease surely holds.
    """

    def __init__(
        self,
        host: Host,
        claim: Claim,
        execution: Execution | None = None,
        seq: int = 0,
        *,
        sure_until: float,
    ) -> None:
        self.run = claim.run
        self.wakes = claim.run.wakes
        self.execution = execution
        if execution is not None:
            execution.run = claim.run
        self.paused = False
        self.ended = False
        self.lost = False
        self.is_suspect = claim.run.takeovers >= SUSPECT_TAKEOVERS
        self._held_seconds = 0.0  # time spent idle for short timers
        self.sure_until = sure_until
        self._host = host
        self._store = host.store
        self._events: deque[Attempt | Message] = deque(claim.messages)
        self._seen: set[int] = {message.id for message in claim.messages}
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._yielded_at = self._loop.time()
        self._pending = PendingWrite(seq)
        self._is_read = execution is not None  # the journal
        self._open_calls = OpenCalls(self._pending, self.run, host)
        self._report = RunEvents(self.run)
        self.load = RunLoad(host.load, claim)
        self._throttle = host.throttle
        self._steps = RunningSteps(self.run.id, self._pending, self._open_calls, self.load, host.attempt)
        self._messages = MessageJournal(self.run, self._pending, self._open_calls, self._report)
        self._writes = FencedWrites(self.run.id, self._store, self._pending, self._report, self.load)

    @property
    def epoch(self) -> int:
        """The epoch of the lease."""
        return self.run.epoch

    @property
    def seq(self) -> int:
        """The journal's length, including the entries about to be written."""
        return self._pending.seq

    @property
    def lets_go(self) -> bool:
        """Whether a write that gives the lease back may already be done."""
        return self._writes.is_giving_up_lease or self.paused or self.ended

    @property
    def next_at(self) -> float:
        """When it has work to do without an event from outside: Unix seconds, infinity for never, 0 for now."""
        if self._waiter is None or self._waiter.done() or not self._is_idle() or self.execution is None:
            return 0.0
        return self._open_calls.due_at(self.execution)

    async def drive(self) -> None:
        """Drive the run until it pauses or ends, the lease is lost, or the worker drains."""
        current_run.set(self.run)
        self._report.claimed(self._store.clock.now())
        try:
            if self.execution is None:
                await self.load.begin()
                if self._throttle.is_behind:
                    await self._throttle.turn()
                entries = await self._read()
                await self.load.begin()
                if await self._leaves_version(entries):
                    return
                if self._throttle.is_behind:  # the journals of many runs may have arrived in one turn
                    await self._throttle.turn()
                began = self._throttle.time()
                self.execution = await self._rebuild(entries)
                self._throttle.computed(began)
            else:
                self._open_calls.remind_of_all(self.execution)
            while await self._go_on(self.execution):
                pass
        except LeaseLost as lost:
            self.lost = True
            log.info("%s", lost)
        except (StoreError, UnknownWorkflow):
            self.lost = True
            raise
        except Exception as error:
            if signal_of(error) is not None:  # a signal handler interrupted the engine
                self.lost = True
                raise
            await self._give_up_after(error)
        except BaseException as error:  # of decoders, retry policies or subscribers
            if ends_task(error, asyncio.current_task()) or signal_of(error) is not None:
                raise
            await self._give_up_after(as_failure("code of the run", error))
        finally:
            if not self.paused and not self.ended:
                self._report.let_go(lost=self.lost)
            self._steps.stop_all()
            if not self.paused and self.execution is not None:
                self.execution.discard()

    def take(self, messages: Sequence[Message], wakes: int) -> None:
        """Queue messages read from the store. Messages seen before are skipped."""
        self.wakes = max(self.wakes, wakes)
        for message in messages:
            if message.id not in self._seen:
                self._seen.add(message.id)
                self._events.append(message)
                self.load.add(message.value)
        self.poke()

    def poke(self) -> None:
        """Wake the driver to check its events, the clock and ``draining``."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail_blamed(self) -> bool:
        """Fail the running steps that have ended their worker. Returns whether there are any."""
        if self.execution is None:
            return False
        failed = self._steps.fail_blamed(self.execution, self._pending.now)
        self._events.extend(failed)
        if failed:
            self.poke()
        return bool(failed)

    # One pass

    async def _go_on(self, execution: Execution) -> bool:
        """Deliver events, write their entries, and act on the result. Returns whether the driver continues."""
        throttle, open_calls = self._throttle, self._open_calls
        if throttle.is_behind:
            await throttle.turn(goes_on=True)
        began = throttle.time()
        self._absorb(execution)
        if throttle.time() - began >= LONG_SECONDS:
            throttle.computed(began)
        if execution.failure is not None:
            await self._give_up(execution)
            return False
        if execution.outcome is not None:
            await self._end(execution, execution.outcome)
            return False
        if execution.continuation is not None:
            self.execution = await self._begin_next_generation(execution, execution.continuation)
            return True
        if self._messages.is_suspending:
            return await self._suspend(execution)
        if self._host.draining:
            return await self._drain(execution)
        if self._is_idle():
            if not execution.open:
                execution.failure = WaitsForNothing(self.run.id, execution.waiting_line())
                return True
            if open_calls.due_at(execution) - self._store.clock.now() > self._may_hold:
                return not await self._pause(execution)
        if open_calls.to_start:
            open_calls.announce_once_steps()
        if self._pending:
            await self._writes.write(self.run, self._store.append)  # inlined from ``_append``
            if self.is_suspect:
                self._note_growth()
        if open_calls.to_start:
            self._steps.start(execution, self._store.clock.now(), self._confirm, self._take_attempt)
        await self._wait(execution)
        return True

    def _absorb(self, execution: Execution) -> None:
        pending = self._pending
        pending.now = max(pending.now, self._store.clock.now())
        self._collect(execution)
        events = self._events
        while events and not execution.ended:
            event = events.popleft()
            if isinstance(event, Attempt):
                self._steps.running.pop(event.call.n, None)
                journal_attempt(event, self.run, execution, pending, self._open_calls)
            else:
                self._messages.take(execution, event)
            self._collect(execution)
            if events:
                pending.may_be_cut()
        if self._open_calls.due:
            self._fire_timers(execution)

    async def _wait(self, execution: Execution) -> None:
        if self._events:
            await self._be_fair()
            return
        self._waiter = self._loop.create_future()
        alarm: asyncio.TimerHandle | None = None
        if self._open_calls.due and (due_at := self._open_calls.due_at(execution)) < math.inf:
            delay = max(0.0, due_at - self._store.clock.now())
            alarm = self._loop.call_later(min(delay, 3600.0), self.poke)
        is_idle = self._is_idle()
        began = self._loop.time() if is_idle else 0.0
        try:
            with self.load:
                await self._waiter
        finally:
            self._waiter = None
            if is_idle:
                self._held_seconds += self._loop.time() - began
            if alarm is not None:
                alarm.cancel()

    @property
    def _may_hold(self) -> float:
        """Seconds for which it may keep its slot while waiting for a timer. Other runs may need the slot."""
        return 0.0 if self._host.is_full else HOLD_SECONDS - self._held_seconds

    async def _be_fair(self) -> None:
        """Yield to the event loop now and then: steps may end as soon as they begin."""
        if self._loop.time() - self._yielded_at > TURN_SECONDS:
            await asyncio.sleep(0)
            self._yielded_at = self._loop.time()

    async def _drain(self, execution: Execution) -> bool:
        """Start no steps; let running ones finish and write their outcomes."""
        if self._pending:
            await self._append()
        if not self._steps.running:
            return False
        await self._wait(execution)
        return True

    async def _suspend(self, execution: Execution) -> bool:
        """Let running steps finish and write their outcomes, then release the suspended run."""
        if self._steps.running:
            return await self._drain(execution)

        async def pause(write: Write) -> bool:
            return await self._store.pause(write, wakes=-1, wake_at=None)  # -1: only if it is suspended

        if await self._writes.write_last(self.run, pause):
            self.ended = True
            self._report.paused()
            return False
        self._note_growth()
        self._messages.is_suspending = False  # the run was resumed meanwhile
        return True

    # Timers

    def _fire_timers(self, execution: Execution) -> None:
        while not execution.ended:
            call = self._open_calls.take_due(execution, self._pending.now)
            if call is None:
                return
            self._pending.may_be_cut()
            if isinstance(call, TimerCall | SignalCall):
                self._report.fired(execution, call, self._pending.now)
            if isinstance(call, TimerCall):
                execution.deliver(self._pending.record(EntryKind.COMPLETED, call))
            elif isinstance(call, SignalCall):
                timed_out = {"state": PromiseState.TIMED_OUT}
                execution.deliver(self._pending.record(EntryKind.COMPLETED, call, details=timed_out))
            elif isinstance(call, StepCall):
                self._open_calls.to_start.append(call)
            self._collect(execution)

    # New calls

    def _collect(self, execution: Execution) -> None:
        if execution.failure is not None:
            return  # calls made after the failure do not count
        if execution.issued or execution.abandoned or execution.patched:
            self._open_calls.collect(execution)
            self._steps.stop()

    def _close_rest(self, execution: Execution) -> None:
        self._open_calls.close_rest(execution)
        self._steps.stop()

    # Steps

    def _confirm(self) -> Awaitable[None] | None:
        """Return None if the lease surely holds, otherwise what to await until it does."""
        return None if self._throttle.time() < self.sure_until else self._ask_whether_it_holds()

    async def _ask_whether_it_holds(self) -> None:
        while self._loop.time() >= self.sure_until:  # the process may have been frozen in between
            await self._writes.retry(self._host.confirm, self)

    def _take_attempt(self, attempt: Attempt) -> None:
        self._events.append(attempt)
        self.load.add(attempt.text)
        self.poke()

    # Waiting, pausing, ending

    def _is_idle(self) -> bool:
        return not (self._open_calls.to_start or self._events or self._steps.running)

    async def _pause(self, execution: Execution) -> bool:
        self._open_calls.note_timers(execution)
        due_at = self._open_calls.due_at(execution)
        wake_at = due_at if due_at < math.inf else None
        wakes = self.wakes  # messages that arrive while the store is unavailable were not seen

        async def pause(write: Write) -> bool:
            return await self._store.pause(write, wakes=wakes, wake_at=wake_at)

        self.paused = await self._writes.write_last(self.run, pause)
        self._note_growth()
        if self.paused:
            self._report.paused()
        else:
            found = await self._writes.retry(self._store.read_messages, [self.run.id])
            for message, seen in found:
                self.take([message], seen)
            if not found:  # this version cannot read the message: do not ask for it again
                self.wakes = max(self.wakes, wakes + 1)
        return self.paused

    async def _give_up(self, execution: Execution) -> None:
        """Fail the run retryably and keep its journal, because its code is at fault."""
        failure = execution.failure
        assert failure is not None
        may_leave = isinstance(failure, CannotRunHere) and failure.may_run_elsewhere
        if may_leave and await self._writes.retry(self._host.leaves_to_others, self.run):
            await self._leave(str(failure))
            return
        log.error("run %s fails, and can be retried: %s", self.run.id, failure, extra=fields_of(self.run))
        await self._fail(codec.encode_error(failure))

    async def _leave(self, why: str) -> None:
        """Release the run unchanged, for another worker to claim it after a moment."""
        log.warning("run %s is released to another worker: %s", self.run.id, why)
        self._steps.stop()
        write, wake_at = Write(self.run.id, self.epoch), self._store.clock.now() + LEFT_SECONDS
        while not self.paused:
            self.paused = await self._writes.retry(
                functools.partial(self._store.pause, write, wakes=self.wakes, wake_at=wake_at)
            )
            if not self.paused:
                found = await self._writes.retry(self._store.read_messages, [self.run.id])
                # If the messages do not fit on a page, those on it have too low a count.
                self.wakes = max([self.wakes + 1, *(wakes for _, wakes in found)])
        self._report.paused()
        if self.execution is not None:
            self.execution.discard()
            self.execution = None

    async def _fail(self, error: str) -> None:
        self._pending.add(EntryKind.FAILED, error=error, details={"retryable": True})
        await self._complete(Outcome(RunState.FAILED, error=error, retryable=True))

    async def _give_up_after(self, error: Exception) -> None:
        """Fail the run because its calls cannot be written or the engine failed: the next worker would fail, too."""
        if not self._is_read:
            self.lost = True
            raise error
        log.error("run %s fails, and can be retried", self.run.id, exc_info=error, extra=fields_of(self.run))
        encoded = encode_failure(error)
        self._pending.drop_but_steps()
        try:
            await self._fail(encoded)
        except StoreError:
            self.lost = True
            raise
        except Exception:
            self._pending.drop()
            await self._fail(encoded)

    async def _end(self, execution: Execution, outcome: Outcome) -> None:
        self._close_rest(execution)
        self._pending.add(_FINAL_ENTRY[outcome.state], value=outcome.result, error=outcome.error)
        await self._complete(outcome)

    async def _complete(self, outcome: Outcome) -> None:
        await self._writes.write_last(self.run, lambda write: self._store.complete(write, outcome))
        self.ended = True
        self._report.ended(outcome, self._pending.now)

    async def _begin_next_generation(self, execution: Execution, arguments: str) -> Execution:
        self._close_rest(execution)
        newest = self._host.program(self.run.workflow, None)
        details: dict[str, Any] = {"signals": execution.signals.unread(), "version": newest.version}
        begin = self._pending.add(
            EntryKind.CONTINUED, n=execution.last_n + 1, value=arguments, details=details
        )
        await self._append(first_seq=begin.seq)
        execution.discard()
        self.run = replace(self.run, first_seq=begin.seq)
        self._open_calls.clear()
        following = self._begin(begin)
        following.start()
        return following

    # Writing

    async def _append(self, *, first_seq: int | None = None) -> None:
        await self._writes.write(self.run, self._store.append, first_seq=first_seq)
        self._note_growth()

    def _note_growth(self) -> None:
        if self.is_suspect and self._writes.have_grown:
            self.is_suspect = False
            self._host.cleared(self)

    # Rebuilding

    def _begin(self, begin: Entry, replaying: int = 0) -> Execution:
        program = self._host.program(self.run.workflow, begin.fact("version"))
        return Execution(self.run, program, begin, replaying=replaying)

    async def _read(self) -> Sequence[Entry]:
        """Read the journal of the run's current generation."""
        entries: Sequence[Entry] = ()
        if self.epoch > 1 or self.execution is not None:
            after = self.run.first_seq - 1
            entries = await self._writes.retry(self._store.read_journal, self.run.id, after=after)
            self.load.read(entries)
        self._pending.now = self._store.clock.now()
        self._is_read = True
        return entries

    async def _leaves_version(self, entries: Sequence[Entry]) -> bool:
        """Release the run if it began with a version that is not registered here, and other workers may have it."""
        begin = next((entry for entry in entries if not _is_before_begin(entry)), None)
        version: str | None = None if begin is None else begin.fact("version")
        if version is None or self._host.program(self.run.workflow, version).version == version:
            return False
        if not await self._writes.retry(self._host.leaves_version, self.run, version):
            return False
        await self._leave(f"it began with version {version!r} of workflow {self.run.workflow!r}")
        return True

    async def _rebuild(self, entries: Sequence[Entry]) -> Execution:
        end = entries[-1] if entries else None
        entries = list(dropwhile(_is_before_begin, without_dropped(entries)))
        if not entries:
            self._pending.begin_at(0 if end is None else end.seq + 1)
            program = self._host.program(self.run.workflow, None)
            begin = self._pending.add(
                EntryKind.STARTED,
                value=program.settled(self.run.arguments),
                details={"version": program.version},
            )
            execution = Execution(self.run, program, begin)
            execution.start()
            return execution
        assert end is not None
        self._pending.begin_at(end.seq + 1)
        self._pending.last_at = end.at
        self._pending.now = max(self._pending.now, end.at)
        return await replay(self._begin, entries, self._steps.rerun)


def _is_before_begin(entry: Entry) -> bool:
    """Whether an entry is from before the run began, when no worker had its code."""
    return entry.kind not in (EntryKind.STARTED, EntryKind.CONTINUED)
