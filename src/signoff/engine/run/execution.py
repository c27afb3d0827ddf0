"""One run in memory: its event loop, its open calls, and the delivery of journal entries to its code.

An execution does no I/O and does not use the store. Its driver delivers journal entries to it, from the journal during
replay and new ones afterwards, and collects the calls that the code makes.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import itertools
import math
import random
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import CodeType
from typing import Any, Final, Protocol, TypeVar, cast

from signoff import codec
from signoff.engine.run import blocking_guard, fatal_exceptions
from signoff.engine.run.call_inputs import KEY as INPUTS
from signoff.engine.run.calls import Call, ProgressCall, SignalCall, TimerCall, check_name
from signoff.engine.run.child_calls import DetachedCall
from signoff.engine.run.discard_suspended_code import discard, forget
from signoff.engine.run.event_loop import Stuck, WorkflowLoop, first_future_of
from signoff.engine.run.loop_callbacks import TimerCallback
from signoff.engine.run.memory_weight import PLAIN_BYTES, bytes_of, runs_weighed
from signoff.engine.run.nondeterminism import ReplayCheck, diverged
from signoff.engine.run.replay_index import ReplayIndex, inputs_in
from signoff.engine.run.signals import Signals
from signoff.engine.run.unawaited_context_calls import Built, report_left
from signoff.engine.run.user_code_lines import (
    UNKNOWN_LINE,
    calling_line,
    frames_of_run,
    frames_waiting,
    waiting_line,
)
from signoff.errors import (
    BusyLoop,
    CallbackFailed,
    CannotRunHere,
    ContinueAsNew,
    InvalidValue,
    NotAwaited,
    OutsideWorkflow,
    RunCancelled,
    RunTimeout,
    SignoffError,
)
from signoff.observability.current_run import refused
from signoff.records import CallKind, Entry, EntryKind, Run, RunState
from signoff.stores.contract.leases import Outcome

T = TypeVar("T")

RESULT_LIMIT: Final = "signoff_result_limit"
"""The attribute of a workflow's function with the maximum size of its result as JSON, in bytes; by default 1 MiB."""

_TASKS_LOOKED_AT: Final = 64

_COMPLETED: Final = EntryKind.COMPLETED  # a global name: members of enums are slow to read

_MAY_BE_NEWS: Final = (DetachedCall, ProgressCall)

_INPUTS_BEGIN: Final = f'{{"{INPUTS}":'

_alive: weakref.WeakSet[Execution] = weakref.WeakSet()


@atexit.register
def _discard_all() -> None:
    """Discard the code of paused runs at process exit.

    Closing it would run its ``finally`` blocks, which belong to the end of the run.
    """
    for execution in list(_alive):
        execution.discard()


class Program(Protocol):
    """A registered workflow, as the engine uses it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def home(self) -> str:
        """The module that defines the function."""
        ...

    def body(self, execution: Execution, arguments: str) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of one run, not yet started.

        Args:
            execution: The execution behind its context.
            arguments: JSON ``{"args": [...], "kwargs": {...}}``.
        """
        ...

    def settled(self, arguments: str) -> str | None:
        """Return arguments to journal if decoding them is not repeatable (such as a default factory), else None."""
        ...


class Execution:
    """One generation of a run, from its ``STARTED`` or ``CONTINUED`` entry on.

    Attributes:
        last_n: The number of the last call.
        open: Calls that are issued and not settled, by number.
        signals: The run's signals, and the calls that wait for one.
        issued: Calls issued since the driver last collected them.
        abandoned: Calls cancelled by the code since the driver last collected them.
        patched: Patch ids met for the first time since the driver last collected them.
        failure: The engine's reason to stop the run. Anything the code does afterwards is ignored.
        outcome: How the run ended, once it has.
        continuation: The arguments of the next generation, if the code asked for one.
        is_discarded: Whether the code was dropped where it was suspended.
        is_replaying: Whether the code is repeating journaled work.
        built: The number of calls that the code has built.
        unbegun: The number of calls that the code has built and neither awaited nor dropped.
        setbacks: The number of awaited calls that have failed or were cancelled.
        dropped: The error for the first call that the code dropped without an await.
        large_bytes: The size of the large values that the code has received: arguments, results, answers and signals.
            It may still hold all of them.
    """

    def __init__(self, run: Run, program: Program, begin: Entry, *, replaying: int = 0) -> None:
        self.run = run
        self.program = program
        self.version: str = begin.fact("version") or program.version
        self.past = ReplayIndex()
        self.undelivered = replaying
        self.last_n = (begin.n or 1) - 1
        self.open: dict[int, Call[Any]] = {}
        self.issued: list[Call[Any]] = []
        self.abandoned: list[Call[Any]] = []
        self.patched: list[str] = []
        self.failure: SignoffError | None = None
        self.outcome: Outcome | None = None
        self.continuation: str | None = None
        self.stop_reason: str | None = None
        self.is_discarded = False
        self.is_replaying = False
        self.built = 0
        self.unbegun = 0
        self.setbacks = 0
        self._setbacks_before = 0  # this turn
        self.dropped: NotAwaited | None = None
        self.large_bytes = 0
        self.absent: list[str] = []  # error classes that were not imported when the code received them
        self.known_promises: dict[str, int] | None = (
            None  # promises with chosen ids whose outcomes the code has received
        )
        self.loop = WorkflowLoop(self, begin.at, first_future_of(run.id))
        self._random: random.Random | None = None
        self._timers: dict[int, TimerCall] = {}
        self.signals = Signals()
        self._patches: dict[str, bool] = {}
        self._children: list[Call[Any] | asyncio.Task[Any]] = []
        self._stopped_by: EntryKind | None = None
        self._check: ReplayCheck | None = None  # once a call differs from the journal
        self._begin = begin
        self._main: asyncio.Task[Any] | None = None

    # Used by the driver

    def expect(self, entries: Sequence[Entry]) -> None:
        """Prepare for the replay of a journal."""
        self.past.expect(entries)

    def start(self) -> None:
        """Start the code and run it until it waits."""
        arguments = self._begin.value or self.run.arguments
        self.large_bytes = bytes_of(arguments)
        for carried in self._begin.fact("signals") or ():
            signal = Entry(self._begin.seq, self._begin.at, EntryKind.SIGNALLED, **carried)
            self.large_bytes += bytes_of(signal.value)
            self.signals.keep(signal)
        self._main = self.loop.create_task(self._run_to_end(arguments))
        _alive.add(self)
        self._drive()

    def deliver(self, entry: Entry) -> None:
        """Deliver a journal entry to the code and run it until it waits again."""
        self._hand_over(entry)
        self._drive()

    def deliver_some(self, entries: Sequence[Entry], index: int, stop: Callable[[int], bool]) -> int:
        """Deliver several entries in one guarded turn, while this run's loop is the running one.

        Args:
            entries: Entries of a journal.
            index: The index of the first entry to deliver.
            stop: Returns whether to stop before the entry at an index.

        Returns:
            The index of the first entry that was not delivered.
        """
        main = self._main

        def run() -> None:
            nonlocal index
            begin_anew = blocking_guard.begin_anew()
            while True:
                entry = entries[index]
                index += 1
                self._hand_over(entry)
                self._turn()
                if self.failure is not None or main is None or main.done() or stop(index):
                    return
                begin_anew()

        blocking_guard.drive(self, run)
        self._end_turn()
        return index

    def _hand_over(self, entry: Entry) -> None:
        self.loop.advance(entry.at)
        if entry.value is not None and len(entry.value) >= PLAIN_BYTES:
            self.large_bytes += bytes_of(entry.value)
        if self.undelivered:
            self.undelivered -= 1
        if entry.kind is _COMPLETED:  # nearly all
            self._complete(entry)
            return
        match entry.kind:
            case EntryKind.SIGNALLED:
                self._receive(entry)
            case EntryKind.CANCEL_REQUESTED | EntryKind.DEADLINE_PASSED:
                self._stop(entry)
            case _:
                raise AssertionError(f"{entry.kind} is not delivered")

    def forget_settled(self) -> None:
        """Drop calls that were issued and settled since the driver last collected them.

        In a long replay, these are nearly all calls.
        """
        self.issued = [call for call in self.issued if call.n in self.open or self._is_news(call)]

    def _is_news(self, call: Call[Any]) -> bool:
        """Whether a call without an outcome to wait for is missing in the journal."""
        return isinstance(call, _MAY_BE_NEWS) and call.n not in self.past.opened

    def check_replayed(self) -> None:
        """After the last entry, check that the code has issued every journaled call."""
        self.past.completed.clear()
        for recorded in self.past.calls.values():
            self._diverge(recorded, "nothing: it waits or ends before that", None)
            return

    def overran(self, entry: Entry) -> None:
        """Fail the run because its code ended before ``entry``."""
        self._diverge(entry, "nothing: it ends before that", None, CallKind.SIGNAL)

    def waiting_line(self) -> str:
        """Return the line of user code at which the run waits."""
        return waiting_line(self._main.get_coro()) if self._main is not None else "an unknown line"

    @property
    def weight(self) -> int:
        """Its size in memory, in multiples of a plain run."""
        frames = runs_weighed([task.get_coro() for task in self.loop.tasks])
        return frames + self.large_bytes // PLAIN_BYTES

    def discard(self) -> None:
        """Drop the code where it is suspended. None of it runs again."""
        self.is_discarded = True
        coroutines = [task.get_coro() for task in self.loop.tasks]
        kept = self.loop.generators.kept
        discard([*coroutines, *kept], (Execution, asyncio.AbstractEventLoop), loop=self.loop)
        forget(list(self.loop.tasks))
        self.loop.drop()
        self._main = None

    def error_of(self, text: str) -> Exception:
        """Rebuild an error for the run's code, and note the classes that are not imported here."""
        error = codec.decode_error(text)
        self.absent += codec.absent_classes(error)
        return error

    @property
    def has_missed_classes(self) -> bool:
        """Whether the class of a delivered error was imported only later.

        An ``except`` clause may have missed it.
        """
        return bool(self.absent) and codec.are_imported(self.absent)

    @property
    def ended(self) -> bool:
        """Whether the run accepts no more deliveries."""
        return self.outcome is not None or self.continuation is not None or self.failure is not None

    # Used by calls and the context

    def codes(self) -> list[CodeType]:
        """Return the run's code objects: of its running code, its workflow and its suspended tasks."""
        frames = list(frames_of_run())
        for task in itertools.islice(self.loop.tasks, _TASKS_LOOKED_AT):
            frames += frames_waiting(task.get_coro())
        own: CodeType | None = getattr(inspect.unwrap(self.program.function), "__code__", None)
        found = {id(frame.f_code): frame.f_code for frame in frames}
        return [*found.values()] if own is None else [*found.values(), own]

    @property
    def shared(self) -> Sequence[object]:
        """Objects shared by all runs of this code, besides modules."""
        return (self.program, self.program.function)

    @property
    def random(self) -> random.Random:
        """The random number generator of workflow code, with the same numbers at every replay."""
        if self._random is None:
            self._random = random.Random(f"{self.run.id}:{self._begin.n or 1}")
        return self._random

    def opening_time(self, call: Call[Any]) -> float:
        """Return the journal time from which a call's timeout counts: now, or its retry by an operator."""
        retried = self.past.anew.get(call.n)
        return self.loop.time() if retried is None else max(self.loop.time(), retried.at)

    def issue(self, call: Call[Any]) -> asyncio.Future[Any]:
        """Number a call and queue it for the driver.

        Raises:
            OutsideWorkflow: The caller is not the run's own code, but a step or code outside the run.
        """
        if not self.loop.is_running_here():
            error = OutsideWorkflow(f"{call.kind} {call.name!r}", self.run.id)
            raise refused(error) if call.kind is CallKind.QUESTION else error
        if self.dropped is not None:
            self.failure = self.failure or self.dropped
        future = self.loop.create_future()
        call.future = future
        self.last_n = call.n = self.last_n + 1
        call.inputs = call.inputs_now()
        recorded = self.past.calls.pop(call.n, None) if self.past.calls else None
        if self._check is not None:
            self.failure = self.failure or self._check.moved(call)
        if recorded is not None:
            call.is_journaled = True
            self._compare(call, recorded)
        elif call.is_kept_elsewhere and (refusal := call.refusal(self.known_promises or {})) is not None:
            call.future = None
            raise refusal  # journals of earlier versions contain such calls; they stay valid
        if self.failure is not None:
            return future
        self.open[call.n] = call
        self.issued.append(call)
        if isinstance(call, SignalCall):
            self._listen(call)
        return future

    def _compare(self, call: Call[Any], recorded: Entry) -> None:
        """Fail the run if a call differs from the journaled call with its number."""
        if recorded.call != call.kind or (recorded.name or "") != call.name:
            self._diverge(recorded, f"{call.kind} {call.name!r}", self.line())
            return
        details = recorded.details
        if call.inputs is None:
            if details is None or not inputs_in(recorded):
                return
        elif details is not None and details.startswith(_INPUTS_BEGIN + call.inputs):
            return
        if self._check is None:
            self._check = ReplayCheck(self.run.id, weakref.proxy(self))
        self.failure = self.failure or self._check.compare(call, recorded)

    def function_named(self, name: str) -> str:
        """Return the identity of the function that a step of this name calls by default; see ``identity_of``."""
        return f"{self.program.home}:{name}"

    def line(self) -> str:
        """Return the running line of user code.

        If no user code is running (a task begins a call), return the line at which the run waits.
        """
        found = calling_line(inspect.currentframe(), is_own=True)
        return self.waiting_line() if found == UNKNOWN_LINE else found

    def abandon(self, call: Call[Any]) -> None:
        """Cancel an open call, because its task was cancelled while waiting."""
        self.setbacks += 1
        if self.open.pop(call.n, None) is not None:
            self.past.ends.pop(call.n, None)
            self.abandoned.append(call)

    def know_promise(self, id: str, n: int) -> None:
        """Note that the code receives the outcome of a promise with a chosen id."""
        if self.known_promises is None:
            self.known_promises = {}
        self.known_promises[id] = n

    def drop(self, what: str, where: str, *, is_sure: bool) -> None:
        """Report a call that the code built and dropped without an await.

        Args:
            what: The call.
            where: The line that built it.
            is_sure: Whether the code is at fault. It is not if an error or a cancellation came before the await.
        """
        if self.is_discarded or self.ended:
            return
        error = NotAwaited(f"run {self.run.id!r}", what, where)
        if is_sure:
            self.dropped = self.dropped or error
        else:
            warnings.warn(str(error), RuntimeWarning, 3)

    def note_dropped(self, what: str, where: str) -> None:
        """Note that the code has dropped a coroutine without an await, see ``drop``."""
        self.drop(what, where, is_sure=self.setbacks == self._setbacks_before)

    def excuse(self, given: Iterable[object]) -> None:
        """Excuse a task that was cancelled before it began: it could not await its arguments."""
        self.setbacks += 1
        for each in given:
            if isinstance(each, Built):
                each.excuse()

    def note(self, call: Call[Any]) -> None:
        """Issue a call that completes immediately and has no outcome."""
        call.begin()
        self.open.pop(call.n, None)

    def adopt(self, child: Call[Any] | asyncio.Task[Any]) -> None:
        """Make the run wait for ``child`` before it ends, unless the code awaits it."""
        self._children.append(child)

    def disown(self, child: Call[Any] | asyncio.Task[Any]) -> None:
        """Leave ``child`` to the code, which awaits it."""
        if child in self._children:
            self._children.remove(child)

    def is_patched(self, id: str) -> bool:
        """Return whether this run takes the changed code path. The answer is constant for the rest of the run."""
        check_name("patch id", id)
        if not id.strip():
            raise InvalidValue("patch id", "it is empty")
        known = self._patches.get(id)
        if known is None:
            replaying = self.undelivered > 0 or bool(self.past.calls)
            known = self._patches[id] = id in self.past.patches or not replaying
            if known and id not in self.past.patches:
                self.patched.append(id)
        return known

    # Used by the event loop

    def open_timer(self, timer: TimerCallback) -> None:
        if timer.when() <= self.loop.time():
            self.loop.fire(timer)
            return
        if math.isinf(timer.when()):  # asyncio's way to express "no limit": such a timer never fires
            return
        call = TimerCall(self, timer)
        self._timers[id(timer)] = call
        self.issue(call)

    def close_timer(self, timer: TimerCallback) -> None:
        call = self._timers.pop(id(timer), None)
        if call is not None:
            self.open.pop(call.n, None)

    def fire(self, call: TimerCall) -> None:
        """Make a timer's callback ready."""
        self._timers.pop(id(call.timer), None)
        self.loop.fire(call.timer)

    def fail_for(self, error: BaseException) -> None:
        if fatal_exceptions.is_stop(error):
            raise error
        self.failure = self.failure or CallbackFailed(
            self.run.id, str(fatal_exceptions.as_failure("it", error))
        )

    def refuse(self, error: SignoffError) -> None:
        self.failure = self.failure or error

    # Used by the blocking guard

    def refuse_io(self, what: str) -> None:
        self.loop.refuse(what)

    @property
    def made(self) -> int:
        return self.loop.made

    def declare_busy(self, seconds: float, where: str) -> None:
        self.failure = self.failure or BusyLoop(self.run.id, f"{seconds:.1f} s", where)

    # Internal

    def _drive(self) -> None:
        loop = self.loop
        if loop.is_running_here():
            blocking_guard.drive(self, self._turn)
        else:
            outside = loop.enter()
            try:  # outside the guard, so that an interruption cannot hit the cleanup
                blocking_guard.drive(self, self._turn)
            finally:
                loop.leave(outside)
        self._end_turn()

    def _end_turn(self) -> None:
        if self._main is None or not self._main.done():
            return
        if not self.ended:
            self._end(self._main)
        elif not self._main.cancelled():
            self._main.exception()  # retrieve the ignored outcome, or asyncio logs an unretrieved exception

    def _turn(self) -> None:
        try:
            self.loop.run_until_quiet()
        except Stuck as stuck:
            self.failure = self.failure or BusyLoop(self.run.id, "100,000 turns of its loop", stuck.where)
        if self.dropped is not None and not (self._main is not None and self._main.done()):
            self.failure = self.failure or self.dropped
        self._setbacks_before = self.setbacks

    async def _run_to_end(self, arguments: str) -> Any:
        try:
            result = await self.program.body(self, arguments)
            while self._children:
                await self._children.pop(0)
            return result
        finally:
            await self._cancel_rest()

    async def _cancel_rest(self) -> None:
        """Cancel the tasks that the code left running, as ``asyncio.run`` does."""
        for child in self._children:
            if isinstance(child, Call) and child.future is not None and child.future.cancel():
                self.abandon(child)
        rest = [task for task in self.loop.tasks if task is not self._main]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.gather(*rest, return_exceptions=True)
        for generator in self.loop.generators.left():
            with contextlib.suppress(Exception):  # as in asyncio, whose log would report it
                await generator.aclose()

    def _end(self, main: asyncio.Task[Any]) -> None:
        if main.cancelled():
            error: BaseException | None = self._stopped_error()
        else:
            error = main.exception()
        if isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
            if fatal_exceptions.is_stop(error):
                raise error
            error = fatal_exceptions.as_failure("workflow code", error)
        error = _only_continuation(error) or error
        if isinstance(error, ContinueAsNew):
            self.continuation = error.arguments
        elif isinstance(error, CannotRunHere | NotAwaited):
            self.failure = self.failure or error
        elif error is None and self._has_dropped():
            self.failure = self.dropped
        elif error is None:
            self._succeed(main.result())
        else:
            state = (
                RunState.CANCELLED
                if isinstance(error, RunCancelled) and main.cancelled()
                else RunState.FAILED
            )
            self.outcome = Outcome(state, error=fatal_exceptions.encode_failure(error))

    def _has_dropped(self) -> bool:
        if self.unbegun and self.dropped is None:
            report_left(self)
        return self.dropped is not None

    def _succeed(self, result: object) -> None:
        try:
            function = self.program.function
            limit = getattr(function, RESULT_LIMIT, codec.MAX_BYTES)
            declared = codec.return_annotation(function)
            if declared is Any:  # callers may pass returns=
                reader = f"a caller of workflow {self.run.workflow!r}"
                text = codec.encode_for(reader, result, path="result", limit=limit)
            else:
                text, _ = codec.normalize(result, declared, path="result", limit=limit)
            self.outcome = Outcome(RunState.SUCCEEDED, result=text)
        except SignoffError as error:
            self.outcome = Outcome(RunState.FAILED, error=fatal_exceptions.encode_failure(error))

    def _stopped_error(self) -> SignoffError:
        if self._stopped_by is EntryKind.DEADLINE_PASSED:
            return RunTimeout(self.run.id)
        return RunCancelled(self.run.id, self.stop_reason)

    def _stop(self, entry: Entry) -> None:
        self._stopped_by = entry.kind
        self.stop_reason = entry.fact("reason")
        self.setbacks += 1
        if self._main is not None:
            self._main.cancel()

    def _complete(self, entry: Entry) -> None:
        assert entry.n is not None
        call = self.open.pop(entry.n, None)
        self.past.opened.pop(entry.n, None)
        if call is not None:
            call.settle(entry)
        elif entry.n > self.last_n:
            self._diverge(entry, "nothing: it has not reached that call", None)
        # Otherwise the code had cancelled the call before its outcome was journaled.
        self.past.ends.pop(entry.n, None)

    def _receive(self, signal: Entry) -> None:
        call = self.signals.take_listener(signal.name or "", self.open)
        if call is None:
            self.signals.keep(signal)
        else:
            del self.open[call.n]
            call.settle(signal)

    def _listen(self, call: SignalCall) -> None:
        kept = self.signals.take_kept(call.name)
        if kept is not None:
            del self.open[call.n]
            call.settle(kept)
            return
        if call.timeout is not None:
            call.due_at = self.opening_time(call) + call.timeout
        self.signals.listen(call)

    def _diverge(
        self, recorded: Entry, issued: str, where: str | None, otherwise: CallKind = CallKind.STEP
    ) -> None:
        """Fail the run because its code differs from the journal."""
        error = diverged(self.run.id, recorded, issued, where, otherwise)
        self.failure = self.failure or error


def _only_continuation(error: BaseException | None) -> ContinueAsNew | None:
    """Return the ContinueAsNew inside a TaskGroup's exception group, if it holds no other error."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if group.split(ContinueAsNew)[1] is not None:
            return None
        error = group.exceptions[0]
    return error if isinstance(error, ContinueAsNew) else None
