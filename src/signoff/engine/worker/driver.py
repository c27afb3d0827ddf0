"""One leased run on a worker: rebuilds it, runs its steps, and writes what happens before it has effects.

The rule that keeps replays true: code is driven as soon as something arrives, but no step starts before
every journal entry that led to it is durable. What one pass over the events brings is one write.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from signoff import codec
from signoff.engine.run.branches import GROWN_FROM
from signoff.engine.run.calls import SignalCall, TimerCall
from signoff.engine.run.execution import Execution, Program
from signoff.engine.run.fatal_exceptions import as_failure, encode_failure, ends_task, signal_of
from signoff.engine.run.replay import replay
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt, create_step_task
from signoff.engine.steps.failed_attempt_log import log_failed_attempt
from signoff.engine.steps.live_stream import Voice
from signoff.engine.worker.journal_write import Draft, parts
from signoff.engine.worker.memory_load import Load, RunLoad
from signoff.engine.worker.open_calls import Agenda, Interviewer
from signoff.engine.worker.pace import Pace
from signoff.engine.worker.run_events import Report
from signoff.errors import (
    BeyondStep,
    CannotRunHere,
    LeaseLost,
    NotAwaited,
    SignoffError,
    StepFailed,
    StoreError,
    StoreUnavailable,
    UnknownWorkflow,
    WaitsForNothing,
)
from signoff.observability.current_run import current_run
from signoff.observability.logs import fields_of
from signoff.records import Entry, EntryKind, Message, MessageKind, PromiseState, Run, RunState
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.retries import ISSUED, without_dropped
from signoff.stores.contract.store import Claim, Outcome, Store, Write
from signoff.stores.shared.suspect_runs import SUSPECT_TAKEOVERS

log = own_logger("signoff.worker")

TURN_SECONDS = 0.005
HOLD_SECONDS = 1.0  # a run whose next timer is nearer than this is not worth pausing
NEAR_SECONDS = 0.01  # a step that began this near to the entry before its outcome need not say when
_FINAL_ENTRY = {
    RunState.SUCCEEDED: EntryKind.SUCCEEDED,
    RunState.FAILED: EntryKind.FAILED,
    RunState.CANCELLED: EntryKind.CANCELLED,
}

LEFT_SECONDS: Final = 0.5
"""After how long a run that one worker has left may be claimed by another."""

P = ParamSpec("P")
T = TypeVar("T")


class Host(Interviewer, Protocol):
    """What a driver needs of its worker."""

    store: Store
    draining: bool
    load: Load
    pace: Pace

    @property
    def is_full(self) -> bool:
        """Whether no other run has room beside those that are driven."""
        ...

    def program(self, workflow: str, version: str | None) -> Program:
        """Return the code of a workflow: that version if it is here, else the newest."""
        ...

    async def confirm(self, driver: Driver) -> None:
        """Ask the store whether a run is still held; if it is not, its driver is cancelled."""
        ...

    async def leaves_to_others(self, run: Run) -> bool:
        """Whether a run that cannot be run here is left to other workers, which claim it while this one does not."""
        ...

    async def leaves_version(self, run: Run, version: str) -> bool:
        """Whether a run of a version that is not here is left to other workers, which may have it."""
        ...

    def cleared(self, driver: Driver) -> None:
        """Note that a suspect has made progress."""
        ...

    def attempt(self, call: StepCall, run_id: str, number: int) -> Coroutine[Any, Any, Attempt]:
        """Run an attempt of a step."""
        ...


class Driver:
    """Drives one run for as long as its lease is held.

    Args:
        host: The worker.
        claim: The lease, and the messages that came with it.
        execution: The run as it was left by this worker, if nobody ran it since.
        seq: The journal's length, if ``execution`` is given.
        sure_until: Before this time of the loop nobody else can have the run.
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
        self._suspending = False
        self.is_suspect = claim.run.takeovers >= SUSPECT_TAKEOVERS
        self._held_seconds = 0.0  # idle, for short timers
        self.sure_until = sure_until
        self._host = host
        self._store = host.store
        self._events: deque[Attempt | Message] = deque(claim.messages)
        self._held: list[Message] = []
        self._seen: set[int] = {message.id for message in claim.messages}
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._yielded_at = self._loop.time()
        self._draft = Draft(seq)
        self._is_read = execution is not None  # the journal
        self._agenda = Agenda(self._draft, self.run, host)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._report = Report(self.run)
        self._is_letting_go = False
        self.load = RunLoad(host.load, claim)
        self._pace = host.pace

    @property
    def epoch(self) -> int:
        """The epoch of the lease."""
        return self.run.epoch

    @property
    def seq(self) -> int:
        """The journal's length, what is about to be written included."""
        return self._draft.seq

    @property
    def lets_go(self) -> bool:
        """Whether the lease is given back by a write that may be done already, and is refused without the lease."""
        return self._is_letting_go or self.paused or self.ended

    @property
    def next_at(self) -> float:
        """When there is something to do that nobody has to bring: unix seconds, infinity for never, 0 for now."""
        if self._waiter is None or self._waiter.done() or not self._is_idle() or self.execution is None:
            return 0.0
        return self._agenda.due_at(self.execution)

    async def drive(self) -> None:
        """Drive the run until it pauses, ends, or the lease is lost or the worker drains."""
        current_run.set(self.run)
        self._report.claimed(self._store.clock.now())
        try:
            if self.execution is None:
                await self.load.begin()
                if self._pace.is_behind:
                    await self._pace.turn()
                entries = await self._read()
                await self.load.begin()
                if await self._leaves_version(entries):
                    return
                if self._pace.is_behind:  # journals of many runs may have come in one turn
                    await self._pace.turn()
                began = self._pace.time()
                self.execution = await self._rebuild(entries)
                self._pace.computed(began)
            else:
                self._agenda.remind_of_all(self.execution)
            while await self._go_on(self.execution):
                pass
        except LeaseLost as lost:
            self.lost = True
            log.info("%s", lost)
        except (StoreError, UnknownWorkflow):
            self.lost = True
            raise
        except Exception as error:
            if signal_of(error) is not None:  # it has hit the engine here by chance
                self.lost = True
                raise
            await self._give_up_after(error)
        except BaseException as error:  # of code that the engine calls: decoders, policies, subscribers
            if ends_task(error, asyncio.current_task()) or signal_of(error) is not None:
                raise
            await self._give_up_after(as_failure("code of the run", error))
        finally:
            if not self.paused and not self.ended:
                self._report.let_go(lost=self.lost)
            running, self._running = self._running, {}
            for task in running.values():
                task.cancel()
            if not self.paused and self.execution is not None:
                self.execution.discard()

    def take(self, messages: Sequence[Message], wakes: int) -> None:
        """Hand over messages read from the store; those seen before are skipped."""
        self.wakes = max(self.wakes, wakes)
        for message in messages:
            if message.id not in self._seen:
                self._seen.add(message.id)
                self._events.append(message)
                self.load.add(message.value)
        self.poke()

    def poke(self) -> None:
        """Have the driver look at what came, at the clock and at ``draining`` again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail_blamed(self) -> bool:
        """Have its running steps fail that have ended their worker. Returns whether there are any."""
        execution, found = self.execution, False
        for n, task in list(self._running.items()):
            call = None if execution is None else execution.open.get(n)
            blamed: BeyondStep | None = getattr(call, "blamed", None)
            if isinstance(call, StepCall) and blamed is not None:
                found = True
                del self._running[n]
                task.cancel()
                self._events.append(Attempt(call, call.attempt, error=blamed, started_at=self._draft.now))
                self.poke()
        return found

    # One pass

    async def _go_on(self, execution: Execution) -> bool:
        """Absorb what came, write it, and act on it. Returns False when the driver is done with the run."""
        if self._pace.is_behind:
            await self._pace.turn(goes_on=True)
        began = self._pace.time()
        self._absorb(execution)
        self._pace.computed(began)
        if execution.failure is not None:
            await self._give_up(execution)
            return False
        if execution.outcome is not None:
            await self._end(execution, execution.outcome)
            return False
        if execution.continuation is not None:
            self.execution = await self._begin_next_generation(execution, execution.continuation)
            return True
        if self._suspending:
            return await self._suspend(execution)
        if self._host.draining:
            return await self._drain(execution)
        if execution.is_outdated:
            await self._replace(execution)
            return True
        if self._is_idle():
            if not execution.open:
                execution.failure = WaitsForNothing(self.run.id, execution.waiting_line())
                return True
            if self._agenda.due_at(execution) - self._store.clock.now() > self._may_hold:
                return not await self._pause(execution)
        self._agenda.announce_once_steps()
        if self._draft:
            await self._persist(self._store.append)
        self._start_steps()
        await self._wait(execution)
        return True

    def _absorb(self, execution: Execution) -> None:
        self._draft.now = max(self._draft.now, self._store.clock.now())
        self._collect(execution)
        while self._events and not execution.ended:
            self._draft.may_be_cut()
            event = self._events.popleft()
            if isinstance(event, Attempt):
                self._take_attempt(execution, event)
            else:
                self._take_message(execution, event)
            self._collect(execution)
        self._fire_timers(execution)

    async def _wait(self, execution: Execution) -> None:
        if self._events:
            await self._be_fair()
            return
        self._waiter = self._loop.create_future()
        alarm: asyncio.TimerHandle | None = None
        due_at = self._agenda.due_at(execution)
        if due_at < math.inf:
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
        """For how many seconds it may keep its slot while it waits for a timer: others may wait for the slot."""
        return 0.0 if self._host.is_full else HOLD_SECONDS - self._held_seconds

    async def _be_fair(self) -> None:
        """Give the loop a turn now and then, where steps end as soon as they begin."""
        if self._loop.time() - self._yielded_at > TURN_SECONDS:
            await asyncio.sleep(0)
            self._yielded_at = self._loop.time()

    async def _drain(self, execution: Execution) -> bool:
        """Let running steps finish and be written; start nothing."""
        if self._draft:
            await self._persist(self._store.append)
        if not self._running:
            return False
        await self._wait(execution)
        return True

    async def _suspend(self, execution: Execution) -> bool:
        """Let running steps finish and be written, then let go of the run: an operator wants it to stop."""
        if self._running:
            return await self._drain(execution)

        async def pause(write: Write) -> bool:
            return await self._store.pause(write, wakes=-1, wake_at=None)  # only a suspended run pauses so

        if await self._let_go(pause):
            self.ended = True
            self._report.paused()
            return False
        self._suspending = False  # it was resumed meanwhile
        return True

    async def _replace(self, execution: Execution) -> None:
        """Let running steps finish and be written, then rebuild the run."""
        if self._draft:
            await self._persist(self._store.append)
        if self._running:
            await self._wait(execution)
            return
        execution.discard()
        self._agenda.clear()
        held, self._held = self._held, []
        self._events.extendleft(reversed(held))
        self.execution = await self._rebuild(await self._read())

    # What came

    def _take_attempt(self, execution: Execution, attempt: Attempt) -> None:
        call = attempt.call
        self._running.pop(call.n, None)
        if call.n not in execution.open:
            return
        if attempt.error is not None and isinstance(attempt.error, (CannotRunHere, NotAwaited)):
            execution.refuse(attempt.error)
            return
        details: dict[str, Any] | None = None
        before = self._draft.last_at
        if abs(attempt.started_at - before) > NEAR_SECONDS:
            details = {"started_at": attempt.started_at}
        if attempt.error is None:
            value = attempt.text
            if not call.step_options.durable:
                value, details = None, {**(details or {}), "durable": False}
            call.computed = attempt.value
            entry = self._draft.record(EntryKind.COMPLETED, call, value=value, details=details)
            execution.past.note_end(before, entry)
            execution.deliver(entry)
            return
        wait = attempt.retry_after  # its policy may add a note to the error
        log_failed_attempt(f"step {call.name!r}", self.run, attempt.number, attempt.error, wait)
        if wait is None and call.step_options.on_failure is not None:
            execution.refuse(call.step_options.on_failure(attempt.error))
            return
        error = encode_failure(attempt.error)
        if wait is None:
            if not execution.numbers.has_branches:  # whose numbers do not say which call was first
                details = {**(details or {}), ISSUED: execution.numbers.last_n}
            entry = self._draft.record(EntryKind.COMPLETED, call, error=error, details=details)
            execution.past.note_end(before, entry)
            execution.deliver(entry)
            return
        next_at = self._draft.now + wait
        details = {**(details or {}), "attempt": attempt.number, "next_at": next_at}
        entry = self._draft.record(EntryKind.ATTEMPT_FAILED, call, error=error, details=details)
        execution.past.note_end(before, entry)
        execution.past.attempts[call.n] = (attempt.number, next_at)
        self._agenda.remind(next_at, call.n)

    def _take_message(self, execution: Execution, message: Message) -> None:
        if message.n in execution.past.asked and execution.numbers.is_held(message.n):
            self._held.append(message)  # what became of a step: only its code can say what fits
            return
        self._draft.taken.append(message.id)
        told = {"by": message.by, "note": message.note, "at": message.at}
        match message.kind:
            case MessageKind.SETTLED:
                self._take_settlement(execution, message, {"state": message.state, **told})
            case MessageKind.SIGNAL:
                call = execution.listener(message.name or "")
                if call is not None and execution.numbers.is_in_branch(call.n):
                    told |= {"received_by": call.n}  # for replays that skip it
                entry = self._draft.add(
                    EntryKind.SIGNALLED, name=message.name, value=message.value, details=told
                )
                self._report.signalled(execution, message, entry.at)
                execution.deliver(entry)
            case MessageKind.CANCEL:
                entry = self._draft.add(
                    EntryKind.CANCEL_REQUESTED, details={"reason": message.note, "by": message.by}
                )
                execution.deliver(entry)
            case MessageKind.SUSPEND:
                self._suspending = True
            case MessageKind.DEADLINE:
                self._report.deadline_passed(self._draft.now)
                execution.deliver(self._draft.add(EntryKind.DEADLINE_PASSED))

    def _take_settlement(self, execution: Execution, message: Message, details: dict[str, Any]) -> None:
        assert message.n is not None
        call = execution.open.get(message.n)
        if isinstance(call, StepCall):
            self._take_verdict(execution, call, message, details)
            return
        entry = self._draft.add(
            EntryKind.COMPLETED,
            n=message.n,
            call=None if call is None else call.kind,
            name=message.name if call is None else call.name,
            value=message.value,
            error=message.error,
            details=details,
        )
        self._report.settled(execution, call, entry, message)
        execution.deliver(entry)

    def _take_verdict(
        self, execution: Execution, call: StepCall, message: Message, details: dict[str, Any]
    ) -> None:
        """A person has said what became of a step that was interrupted."""
        if call.n not in execution.past.asked:
            raise LeaseLost(self.run.id, self.epoch)  # another worker has asked
        verdict = json.loads(message.value or "null") if message.state == PromiseState.RESOLVED else None
        action = verdict.get("action") if isinstance(verdict, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if action == "retry":
            details |= {"attempt": execution.past.asked[call.n], "next_at": self._draft.now}
            execution.past.learn([self._draft.record(EntryKind.ATTEMPT_FAILED, call, details=details)])
            self._agenda.to_start.append(call)
        elif action == "done":
            result = json.dumps(verdict.get("result"))  # pyright: ignore[reportUnknownMemberType, reportOptionalMemberAccess]
            try:
                codec.decode(result, call.step_options.returns, path="result")
            except (
                SignoffError
            ) as error:  # the step's own type knows more than its schema, or is another one by now
                self._agenda.ask_about(execution, call, str(error))
                return
            execution.deliver(self._draft.record(EntryKind.COMPLETED, call, value=result, details=details))
        else:
            failed = StepFailed("UnclearOutcome", f"step {call.name!r} was interrupted and declared failed")
            error = codec.encode_error(failed)
            execution.deliver(self._draft.record(EntryKind.COMPLETED, call, error=error, details=details))

    def _fire_timers(self, execution: Execution) -> None:
        while not execution.ended:
            call = self._agenda.take_due(execution, self._draft.now)
            if call is None:
                return
            self._draft.may_be_cut()
            if isinstance(call, TimerCall | SignalCall):
                self._report.fired(execution, call, self._draft.now)
            if isinstance(call, TimerCall):
                execution.deliver(self._draft.record(EntryKind.COMPLETED, call))
            elif isinstance(call, SignalCall):
                timed_out = {"state": PromiseState.TIMED_OUT}
                execution.deliver(self._draft.record(EntryKind.COMPLETED, call, details=timed_out))
            elif isinstance(call, StepCall):
                self._agenda.to_start.append(call)
            self._collect(execution)

    # What the code asked for

    def _collect(self, execution: Execution) -> None:
        if execution.failure is not None:
            return  # what the code has asked for and given up on its way out does not count
        asked_for = execution.issued or execution.abandoned or execution.patched or execution.left_open
        if asked_for or execution.numbers.grown:
            self._agenda.collect(execution)
            self._stop_steps()

    def _close_rest(self, execution: Execution) -> None:
        self._agenda.close_rest(execution)
        self._stop_steps()

    # Steps

    def _stop_steps(self) -> None:
        if not self._agenda.to_stop:
            return
        for n in self._agenda.to_stop:
            task = self._running.pop(n, None)
            if task is not None:
                task.cancel()
        self._agenda.to_stop.clear()

    def _start_steps(self) -> None:
        assert self.execution is not None
        now = self._store.clock.now()
        for call in self._agenda.to_start:
            if call.n not in self.execution.open:
                continue
            before, _ = self.execution.past.attempts.get(call.n, (0, 0.0))
            self._running[call.n] = create_step_task(call, self._attempt(call, before + 1, now))
        self._agenda.to_start.clear()

    async def _attempt(self, call: StepCall, number: int, started_at: float) -> None:
        while self._loop.time() >= self.sure_until:  # this process may have been frozen meanwhile
            await self._insist(self._host.confirm, self)
        try:
            attempt = await self._host.attempt(call, self.run.id, number)
        except GeneratorExit as error:  # of a task that the step awaited: it closes what awaits it
            if ends_task(error, asyncio.current_task()):
                raise
            attempt = Attempt(call, number, error=as_failure(f"step {call.name!r}", error))
        except asyncio.CancelledError as error:
            if self._running.get(call.n) is not asyncio.current_task():
                if call.hush() is not None:
                    self._draft.unpublishes.append(call.n)
                raise
            # Not the driver has cancelled it, but code of the step, or the app, by the step's task.
            failure = call.refused or RuntimeError(f"step {call.name!r} was cancelled: {error}")
            attempt = Attempt(call, number, error=failure)
        if (voice := call.hush()) is not None:
            try:
                await self._end_live(call, voice)
            except asyncio.CancelledError:  # of a step that has cancelled itself, or by the driver
                if self._running.get(call.n) is not asyncio.current_task():
                    raise
                self._draft.unpublishes.append(call.n)
        attempt.started_at = started_at + call.thread_wait
        self._events.append(attempt)
        self.load.add(attempt.text)
        self.poke()

    async def _end_live(self, call: StepCall, voice: Voice) -> None:
        """Have what an attempt said deleted with the write that says how it has ended."""
        if await voice.was_heard():
            self._draft.unpublishes.append(call.n)

    # Waiting, pausing, ending

    def _is_idle(self) -> bool:
        return not (self._running or self._agenda.to_start or self._events)

    async def _pause(self, execution: Execution) -> bool:
        self._agenda.note_timers(execution)
        due_at = self._agenda.due_at(execution)
        wake_at = due_at if due_at < math.inf else None
        wakes = self.wakes  # what comes while the store cannot be reached was not looked at

        async def pause(write: Write) -> bool:
            return await self._store.pause(write, wakes=wakes, wake_at=wake_at)

        self.paused = await self._let_go(pause)
        if self.paused:
            self._report.paused()
        else:
            found = await self._insist(self._store.read_messages, [self.run.id])
            for message, seen in found:
                self.take([message], seen)
            if not found:  # a message that this version cannot read: do not ask for it again
                self.wakes = max(self.wakes, wakes + 1)
        return self.paused

    async def _give_up(self, execution: Execution) -> None:
        """The code is at fault: keep everything as it is, so that the run can be retried with other code."""
        failure = execution.failure
        assert failure is not None
        may_leave = isinstance(failure, CannotRunHere) and failure.may_run_elsewhere
        if may_leave and await self._insist(self._host.leaves_to_others, self.run):
            await self._leave(str(failure))
            return
        log.error("run %s fails, and can be retried: %s", self.run.id, failure, extra=fields_of(self.run))
        await self._fail(codec.encode_error(failure))

    async def _leave(self, why: str) -> None:
        """Leave the run as it was claimed to another worker, which claims it in a moment."""
        log.warning("run %s is left to another worker: %s", self.run.id, why)
        self._stop_steps()
        write, wake_at = Write(self.run.id, self.epoch), self._store.clock.now() + LEFT_SECONDS
        while not self.paused:
            self.paused = await self._insist(
                functools.partial(self._store.pause, write, wakes=self.wakes, wake_at=wake_at)
            )
            if not self.paused:
                found = await self._insist(self._store.read_messages, [self.run.id])
                # If they do not fit on a page, those that are there say too little.
                self.wakes = max([self.wakes + 1, *(wakes for _, wakes in found)])
        self._report.paused()
        if self.execution is not None:
            self.execution.discard()
            self.execution = None

    async def _fail(self, error: str) -> None:
        self._draft.add(EntryKind.FAILED, error=error, details={"retryable": True})
        await self._complete(Outcome(RunState.FAILED, error=error, retryable=True))

    async def _give_up_after(self, error: Exception) -> None:
        """What the code asked for cannot be written, or the engine failed: so it would with the next worker."""
        if not self._is_read:
            self.lost = True
            raise error
        log.error("run %s fails, and can be retried", self.run.id, exc_info=error, extra=fields_of(self.run))
        encoded = encode_failure(error)
        self._draft.drop_but_steps()
        try:
            await self._fail(encoded)
        except StoreError:
            self.lost = True
            raise
        except Exception:
            self._draft.drop()
            await self._fail(encoded)

    async def _end(self, execution: Execution, outcome: Outcome) -> None:
        self._close_rest(execution)
        self._draft.add(_FINAL_ENTRY[outcome.state], value=outcome.result, error=outcome.error)
        await self._complete(outcome)

    async def _complete(self, outcome: Outcome) -> None:
        await self._let_go(lambda write: self._store.complete(write, outcome))
        self.ended = True
        self._report.ended(outcome, self._draft.now)

    async def _begin_next_generation(self, execution: Execution, arguments: str) -> Execution:
        self._close_rest(execution)
        newest = self._host.program(self.run.workflow, None)
        numbers = execution.numbers
        details: dict[str, Any] = {"signals": execution.unread_signals(), "version": newest.version}
        if numbers.grown_to > GROWN_FROM:
            details["grown_from"] = numbers.grown_to
        begin = self._draft.add(EntryKind.CONTINUED, n=numbers.last_n + 1, value=arguments, details=details)
        await self._persist(self._store.append, first_seq=begin.seq)
        execution.discard()
        self.run = replace(self.run, first_seq=begin.seq)
        self._agenda.clear()
        following = self._begin(begin)
        following.start()
        return following

    # Rebuilding

    def _begin(self, begin: Entry, replaying: int = 0) -> Execution:
        program = self._host.program(self.run.workflow, begin.fact("version"))
        return Execution(self.run, program, begin, replaying=replaying)

    async def _read(self) -> Sequence[Entry]:
        """Read the journal of the run's generation."""
        entries: Sequence[Entry] = ()
        if self.epoch > 1 or self.execution is not None:
            after = self.run.first_seq - 1
            entries = await self._insist(self._store.read_journal, self.run.id, after=after)
            self.load.read(entries)
        self._draft.now = self._store.clock.now()
        self._is_read = True
        return entries

    async def _leaves_version(self, entries: Sequence[Entry]) -> bool:
        """Leave the run if it began with a version that is not here, and others may have it."""
        begin = next((entry for entry in entries if not _is_before_begin(entry)), None)
        version: str | None = None if begin is None else begin.fact("version")
        if version is None or self._host.program(self.run.workflow, version).version == version:
            return False
        if not await self._insist(self._host.leaves_version, self.run, version):
            return False
        await self._leave(f"it began with version {version!r} of workflow {self.run.workflow!r}")
        return True

    async def _rebuild(self, entries: Sequence[Entry]) -> Execution:
        end = entries[-1] if entries else None
        entries = list(dropwhile(_is_before_begin, without_dropped(entries)))
        if not entries:
            self._draft.begin_at(0 if end is None else end.seq + 1)
            program = self._host.program(self.run.workflow, None)
            begin = self._draft.add(
                EntryKind.STARTED,
                value=program.settled(self.run.arguments),
                details={"version": program.version},
            )
            execution = Execution(self.run, program, begin)
            execution.start()
            return execution
        assert end is not None
        self._draft.begin_at(end.seq + 1)
        self._draft.last_at = end.at
        self._draft.now = max(self._draft.now, end.at)
        return await replay(self._begin, entries, self._rerun)

    async def _rerun(self, call: StepCall) -> Attempt:
        """Run a ``durable=False`` step again, for the value that the journal does not hold."""
        number = 0
        while True:
            number += 1
            running = self._host.attempt(call, self.run.id, number)
            with self.load:
                attempt = await create_step_task(call, running)
            if (voice := call.hush()) is not None:
                await self._end_live(call, voice)
            wait = attempt.retry_after
            if wait is None:
                return attempt
            with self.load:
                await asyncio.sleep(wait)

    # Writing

    async def _let_go(self, operation: Callable[[Write], Awaitable[T]]) -> T:
        """Do a fenced write that gives the lease back."""
        self._is_letting_go = True
        try:
            return await self._persist(operation)
        finally:
            self._is_letting_go = False

    async def _persist(
        self, operation: Callable[[Write], Awaitable[T]], *, first_seq: int | None = None
    ) -> T:
        """Do a fenced write, waiting for as long as the store cannot be written. Written twice, it counts once.

        A long one is written in parts, the last of them by ``operation``.
        """
        write, cuts = self._draft.take(self.run, first_seq)
        last = write
        if cuts:
            *ahead, last = parts(write, cuts)
            await self._write_ahead(ahead, last)
        try:
            done = await self._insist(operation, last)
        except Exception:
            self._draft.put_back(last)
            raise
        self._draft.written(last)
        self._report.written(write)
        if self.is_suspect and write.entries:
            self.is_suspect = False
            self._host.cleared(self)
        return done

    async def _write_ahead(self, ahead: Sequence[Write], last: Write) -> None:
        """Append the parts of a long write that come before its last one."""
        for number, part in enumerate(ahead):
            try:
                await self._insist(self._store.append, part)
            except Exception:
                for unwritten in reversed([*ahead[number:], last]):
                    self._draft.put_back(unwritten)
                raise
            self._draft.written(part)

    async def _insist(self, operation: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        wait = 0.05
        while True:
            try:
                return await operation(*args, **kwargs)
            except StoreUnavailable as trouble:
                log.error("run %s waits for its store: %s", self.run.id, trouble)
            with self.load:
                await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


def _is_before_begin(entry: Entry) -> bool:
    """Whether an entry is of a time at which the run could not begin, for want of its code."""
    return entry.kind not in (EntryKind.STARTED, EntryKind.CONTINUED)
