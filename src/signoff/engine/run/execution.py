"""One run in memory: its loop, its open calls, and how the journal's entries reach its code.

An execution does no I/O and knows no store. Its driver feeds it journal entries, old ones at replay and new
ones as things happen, and takes from it what the code asked for in between.
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
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import CodeType
from typing import Any, Final, Protocol, TypeVar, cast

from signoff import codec
from signoff.engine.run import blocking_guard, fatal_exceptions
from signoff.engine.run.branches import GROWN_FROM, Branch, Numbers, by_number, first_future_of
from signoff.engine.run.call_inputs import KEY as INPUTS
from signoff.engine.run.calls import Call, DetachedCall, ProgressCall, SignalCall, TimerCall, check_name
from signoff.engine.run.discard import discard, forget
from signoff.engine.run.event_loop import (
    UNKNOWN_LINE,
    Stuck,
    WorkflowLoop,
    calling_line,
    frames_of_run,
    frames_waiting,
    waiting_line,
)
from signoff.engine.run.loop_callbacks import TimerCallback
from signoff.engine.run.memory_weight import PLAIN_BYTES, bytes_of, runs_weighed
from signoff.engine.run.replay_check import ReplayCheck, diverged
from signoff.engine.run.replay_index import Past, inputs_in
from signoff.engine.run.unawaited_context_calls import Built, report_left
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
from signoff.stores.contract.store import Outcome

T = TypeVar("T")

RESULT_LIMIT: Final = "signoff_result_limit"
"""The attribute of a workflow's function with how long its result may be as JSON, in bytes; by default 1 MiB."""

_TASKS_LOOKED_AT: Final = 64

_MAY_BE_NEWS: Final = (SignalCall, DetachedCall, ProgressCall)

_INPUTS_BEGIN: Final = f'{{"{INPUTS}":'

_alive: weakref.WeakSet[Execution] = weakref.WeakSet()


@atexit.register
def _discard_all() -> None:
    """At the end of the process, paused code must not be closed: its ``finally`` blocks belong to the run's end."""
    for execution in list(_alive):
        execution.discard()


class Program(Protocol):
    """A registered workflow, as the engine sees it."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def home(self) -> str:
        """The module of the function."""
        ...

    def body(self, execution: Execution, arguments: str) -> Coroutine[Any, Any, Any]:
        """Return the code of one run, not begun yet.

        Args:
            execution: What its context talks to.
            arguments: JSON ``{"args": [...], "kwargs": {...}}``.
        """
        ...

    def settled(self, arguments: str) -> str | None:
        """Return what the journal keeps of arguments that would be read otherwise each time; None: nothing."""
        ...


class Execution:
    """One generation of a run, from its ``STARTED`` or ``CONTINUED`` entry on.

    Attributes:
        open: Calls that are issued and not settled, by number.
        issued: Calls issued since the driver last took them.
        abandoned: Calls given up by the code since the driver last took them.
        left_open: Openings of what skipped branches have left open, to be closed, since the driver last took them.
        patched: Patch ids met for the first time since the driver last took them.
        failure: What the engine found wrong with the code; nothing it did since then counts.
        outcome: How the run ended, once it has.
        continuation: The arguments of the next generation, if the code asked for one.
        is_outdated: Whether the code wants to be rebuilt from the journal.
        is_discarded: Whether the code was let go where it stood.
        is_replaying: Whether the code did before what it does now.
        unbegun: How many calls the code has built, and neither awaited nor dropped.
        setbacks: How often something that the code waited for has failed or was given up.
        dropped: What is wrong with the first call that it has dropped without an await.
        large_bytes: What the large values take that the code was given: arguments, results, answers and signals. It
            may hold all of them.
    """

    def __init__(self, run: Run, program: Program, begin: Entry, *, replaying: int = 0) -> None:
        self.run = run
        self.program = program
        self.version: str = begin.fact("version") or program.version
        self.past = Past()
        self.undelivered = replaying
        self.numbers = Numbers(run.id, begin.n or 1, begin.fact("grown_from") or GROWN_FROM)
        self.open: dict[int, Call[Any]] = {}
        self.issued: list[Call[Any]] = []
        self.abandoned: list[Call[Any]] = []
        self.left_open: list[Entry] = []
        self.patched: list[str] = []
        self.failure: SignoffError | None = None
        self.outcome: Outcome | None = None
        self.continuation: str | None = None
        self.stop_reason: str | None = None
        self.is_outdated = False
        self.is_discarded = False
        self.is_replaying = False
        self.unbegun = 0
        self.setbacks = 0
        self.dropped: NotAwaited | None = None
        self.large_bytes = 0
        self.absent: list[str] = []  # classes of errors that were not imported when the code was given these
        self.known_promises: dict[str, int] | None = (
            None  # those with chosen ids whose outcomes the code has had
        )
        self.loop = WorkflowLoop(self, begin.at, first_future_of(run.id))
        self._timers: dict[int, TimerCall] = {}
        self._signals: dict[str, deque[Entry]] = {}
        self._listeners: dict[str, deque[SignalCall]] = {}
        self._passed_over: set[int] = set()  # signals that nobody is to have
        self._patches: dict[str, bool] = {}
        self._children: list[Call[Any] | asyncio.Task[Any]] = []
        self._stopped_by: EntryKind | None = None
        self._check: ReplayCheck | None = None  # once a call differs from the journal
        self._recorded: list[Entry] | None = None  # of calls, while a journal is replayed
        self._begin = begin
        self._main: asyncio.Task[Any] | None = None

    # What the driver does

    def expect(self, entries: Sequence[Entry]) -> None:
        """Take in a journal that is going to be replayed."""
        self.past.expect(entries)
        self.numbers.expect(entries)

    def start(self) -> None:
        """Begin the code and run it until it waits."""
        arguments = self._begin.value or self.run.arguments
        self.large_bytes = bytes_of(arguments)
        for carried in self._begin.fact("signals") or ():
            signal = Entry(self._begin.seq, self._begin.at, EntryKind.SIGNALLED, **carried)
            self.large_bytes += bytes_of(signal.value)
            self._keep_signal(signal)
        self._main = self.loop.create_task(self._run_to_end(arguments))
        _alive.add(self)
        self._drive()

    def deliver(self, entry: Entry) -> None:
        """Give a journal entry to the code and run it until it waits again."""
        self._hand_over(entry)
        self._drive()

    def deliver_some(self, entries: Sequence[Entry], index: int, stop: Callable[[int], bool]) -> int:
        """Deliver several entries under one watch, while this run's loop is the running one.

        Args:
            entries: Entries of a journal.
            index: Of the first to deliver.
            stop: Whether an entry is not to be delivered.

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
        self.large_bytes += bytes_of(entry.value)
        if self.undelivered:
            self.undelivered -= 1
        match entry.kind:
            case EntryKind.COMPLETED:
                self._complete(entry)
            case EntryKind.SIGNALLED:
                self._receive(entry)
            case EntryKind.CANCEL_REQUESTED | EntryKind.DEADLINE_PASSED:
                self._stop(entry)
            case _:
                raise AssertionError(f"{entry.kind} is not delivered")

    def forget_settled(self) -> None:
        """Let go of calls that were issued and settled since the driver took some: of a long replay nearly all."""
        self.issued = [call for call in self.issued if call.n in self.open or self._is_news(call)]

    def _is_news(self, call: Call[Any]) -> bool:
        """Whether a call that waits for nothing is not in the journal yet."""
        if not isinstance(call, _MAY_BE_NEWS):
            return False
        if isinstance(call, SignalCall):
            return self.took_kept(call)
        return call.n not in self.past.opened

    def took_kept(self, call: SignalCall) -> bool:
        """Whether a call in a branch got a signal that was there before it, which is not in the journal yet."""
        return call.kept is not None and self.numbers.is_in_branch(call.n) and call.n not in self.past.opened

    def pass_over_signals(self, branch: Branch) -> None:
        """Give nobody the signals that a branch which is skipped has received."""
        for seq, name in (each for n, each in self.past.received.items() if self.numbers.is_of(n, branch)):
            kept = self._signals.get(name, deque())
            found = next((entry for entry in kept if entry.seq == seq), None)
            if found is None:
                self._passed_over.add(seq)
            else:
                kept.remove(found)

    def check_replayed(self) -> None:
        """After the last entry: the code must have asked for everything that the journal knows."""
        self.past.completed.clear()
        for recorded in self.past.calls.values():
            self._diverge(recorded, "nothing: it waits or has ended before that", None)
            return

    def overran(self, entry: Entry) -> None:
        """The code has ended where the journal goes on with ``entry``."""
        self._diverge(entry, "nothing: it has ended before that", None, CallKind.SIGNAL)

    def waiting_line(self) -> str:
        """Name the line of user code at which the run waits."""
        return waiting_line(self._main.get_coro()) if self._main is not None else "an unknown line"

    @property
    def weight(self) -> int:
        """For how many plain runs it counts while it is kept in memory."""
        frames = runs_weighed([task.get_coro() for task in self.loop.tasks])
        return frames + self.large_bytes // PLAIN_BYTES

    def discard(self) -> None:
        """Let go of the code where it stands. Nothing of it runs any more."""
        self.is_discarded = True
        coroutines = [task.get_coro() for task in self.loop.tasks]
        discard([*coroutines, *self.loop.generators.kept], (Execution, WorkflowLoop))
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
        """Whether the class of an error was imported after the code was given it: an ``except`` may have missed it."""
        return bool(self.absent) and codec.are_imported(self.absent)

    @property
    def ended(self) -> bool:
        """Whether nothing can be delivered any more."""
        return self.outcome is not None or self.continuation is not None or self.failure is not None

    def listener(self, signal: str) -> SignalCall | None:
        """Return the call that gets the next signal of a name, if one waits for it."""
        waiting = self._listeners.get(signal, ())
        return next((call for call in waiting if call.n in self.open), None)

    def unread_signals(self) -> list[dict[str, Any]]:
        """Signals that came and were not waited for, to be carried into the next generation."""
        return [
            {"name": entry.name, "value": entry.value} for queue in self._signals.values() for entry in queue
        ]

    # What calls and the context do

    def codes(self) -> list[CodeType]:
        """Return the code of the run: what is running, the workflow's, and what waits in other tasks."""
        frames = list(frames_of_run())
        for task in itertools.islice(self.loop.tasks, _TASKS_LOOKED_AT):
            frames += frames_waiting(task.get_coro())
        own: CodeType | None = getattr(inspect.unwrap(self.program.function), "__code__", None)
        found = {id(frame.f_code): frame.f_code for frame in frames}
        return [*found.values()] if own is None else [*found.values(), own]

    @property
    def shared(self) -> Sequence[object]:
        """What all runs of this code share, besides modules."""
        return (self.program, self.program.function)

    @property
    def random(self) -> random.Random:
        """The source of random numbers of the code that runs here, the same at every replay."""
        return self.numbers.random

    def issue(self, call: Call[Any]) -> asyncio.Future[Any]:
        """Number a call and leave it for the driver.

        Raises:
            OutsideWorkflow: This is not the run's own code, but a step or something outside.
        """
        if not self.loop.is_running_here():
            error = OutsideWorkflow(f"{call.kind} {call.name!r}", self.run.id)
            raise refused(error) if call.kind is CallKind.QUESTION else error
        if self.dropped is not None:
            self.failure = self.failure or self.dropped
        future = self.loop.create_future()
        call.future = future
        call.n = self.numbers.take(self)
        call.inputs = call.inputs_now()
        recorded = self.past.calls.pop(call.n, None) if self.past.calls else None
        if self._check is not None:
            self.failure = self.failure or self._check.moved(call)
        if recorded is not None:
            call.is_journaled = True
            self._compare(call, recorded)
        elif call.is_kept_elsewhere and (refusal := call.refusal(self.known_promises or {})) is not None:
            call.future = None
            raise refusal  # journals of earlier versions have such calls, and keep them
        if self.failure is not None:
            return future
        self.open[call.n] = call
        self.issued.append(call)
        if isinstance(call, SignalCall):
            self._listen(call)
        return future

    def _compare(self, call: Call[Any], recorded: Entry) -> None:
        """Fail the run if a call is not what the journal has under its number."""
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
        """Return the function that a step of this name calls if the journal names none: see ``identity_of``."""
        return f"{self.program.home}:{name}"

    def line(self) -> str:
        """Name the line of user code that runs; if none does, as a task begins a call, that at which the run waits."""
        found = calling_line(inspect.currentframe(), is_own=True)
        return self.waiting_line() if found == UNKNOWN_LINE else found

    def abandon(self, call: Call[Any]) -> None:
        """Give up an open call: its task was cancelled while it waited."""
        self.setbacks += 1
        if self.open.pop(call.n, None) is not None:
            self.past.ends.pop(call.n, None)
            self.abandoned.append(call)

    def know_promise(self, id: str, n: int) -> None:
        """Note that the code gets the outcome of a promise with a chosen id."""
        if self.known_promises is None:
            self.known_promises = {}
        self.known_promises[id] = n

    def drop(self, what: str, where: str, *, is_sure: bool) -> None:
        """Note that the code has dropped what it has built and never awaited.

        Args:
            what: The call.
            where: The line that built it.
            is_sure: Whether that is the code's fault, and not the end of what it had come to await it in.
        """
        if self.is_discarded or self.ended:
            return
        error = NotAwaited(f"run {self.run.id!r}", what, where)
        if is_sure:
            self.dropped = self.dropped or error
        else:
            warnings.warn(str(error), RuntimeWarning, 3)

    def excuse(self, given: Iterable[object]) -> None:
        """Note that a task was cancelled before it began: it cannot await what it was given."""
        self.setbacks += 1
        for each in given:
            if isinstance(each, Built):
                each.excuse()

    def note(self, call: Call[Any]) -> None:
        """Issue a call that is done at once and has no outcome to wait for."""
        call.begin()
        self.open.pop(call.n, None)

    def branch(self) -> Branch:
        """Begin a branch. See ``Context.branch``."""
        if not self.loop.is_running_here():
            raise OutsideWorkflow("branch()", self.run.id)
        if not self.past.journal:
            return self.numbers.branch(self, ())
        if self._recorded is None:
            self._recorded = by_number(self.past.journal)
        return self.numbers.branch(self, self._recorded)

    def forget_journal(self) -> None:
        """Let go of what was replayed."""
        self.past.journal = ()
        self._recorded = None

    def adopt(self, child: Call[Any] | asyncio.Task[Any]) -> None:
        """Make the run wait for ``child`` before it ends, unless the code does so itself."""
        self._children.append(child)

    def disown(self, child: Call[Any] | asyncio.Task[Any]) -> None:
        """The code waits for ``child`` itself; what comes of it is the code's affair."""
        if child in self._children:
            self._children.remove(child)

    def is_patched(self, id: str) -> bool:
        """Whether this run executes the changed code. The answer stays the same for the rest of the run."""
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

    # What the loop asks

    def open_timer(self, timer: TimerCallback) -> None:
        if timer.when() <= self.loop.time():
            self.loop.fire(timer)
            return
        if math.isinf(timer.when()):  # asyncio's way to say that there is no limit: nothing ever comes of it
            return
        call = TimerCall(self, timer)
        self._timers[id(timer)] = call
        self.issue(call)

    def close_timer(self, timer: TimerCallback) -> None:
        call = self._timers.pop(id(timer), None)
        if call is not None:
            self.open.pop(call.n, None)

    def fire(self, call: TimerCall) -> None:
        """Make the callback of a timer ready."""
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

    # What the guard asks

    def refuse_io(self, what: str) -> None:
        self.loop.refuse(what)

    @property
    def made(self) -> int:
        return self.loop.made

    def declare_busy(self, seconds: float, where: str) -> None:
        self.failure = self.failure or BusyLoop(self.run.id, f"{seconds:.1f} s", where)

    # Inside

    def _drive(self) -> None:
        loop = self.loop
        if loop.is_running_here():
            blocking_guard.drive(self, self._turn)
        else:
            outside = loop.enter()
            try:  # around the guard: an interruption must not hit what ends this
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
            self._main.exception()  # what it came to counts no more: asyncio need not complain that nobody looked

    def _turn(self) -> None:
        try:
            self.loop.run_until_quiet()
        except Stuck as stuck:
            self.failure = self.failure or BusyLoop(self.run.id, "100,000 turns of its loop", stuck.where)
        if self.dropped is not None and not (self._main is not None and self._main.done()):
            self.failure = self.failure or self.dropped

    async def _run_to_end(self, arguments: str) -> Any:
        try:
            result = await self.program.body(self, arguments)
            while self._children:
                await self._children.pop(0)
            return result
        finally:
            await self._cancel_rest()

    async def _cancel_rest(self) -> None:
        """End what the code left running, as ``asyncio.run`` does."""
        for child in self._children:
            if isinstance(child, Call) and child.future is not None and child.future.cancel():
                self.abandon(child)
        rest = [task for task in self.loop.tasks if task is not self._main]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.gather(*rest, return_exceptions=True)
        for generator in self.loop.generators.left():
            with contextlib.suppress(Exception):  # as asyncio does, whose log would say it
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
            if declared is Any:  # callers may say returns=
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
        elif self.numbers.passes_over(entry):
            pass
        elif not self.numbers.has_come_to(entry.n):
            self._diverge(entry, "nothing: it has not come to that call", None)
        # else the code had given the call up before its outcome was journaled
        self.past.ends.pop(entry.n, None)

    def _receive(self, entry: Entry) -> None:
        if entry.seq in self._passed_over:
            return
        listeners = self._listeners.get(entry.name or "")
        while listeners:
            call = listeners.popleft()
            if self.open.pop(call.n, None) is not None:
                call.settle(entry)
                return
        self._keep_signal(entry)

    def _keep_signal(self, entry: Entry) -> None:
        self._signals.setdefault(entry.name or "", deque()).append(entry)

    def _listen(self, call: SignalCall) -> None:
        waiting = self._signals.get(call.name)
        if waiting:
            del self.open[call.n]
            call.kept = waiting.popleft()
            call.settle(call.kept)
            return
        if call.timeout is not None:
            call.due_at = self.loop.time() + call.timeout
        self._listeners.setdefault(call.name, deque()).append(call)

    def _diverge(
        self, recorded: Entry, issued: str, where: str | None, otherwise: CallKind = CallKind.STEP
    ) -> None:
        """Fail the run since the code does not do what the journal has."""
        error = diverged(self.run.id, recorded, issued, where, otherwise)
        self.failure = self.failure or error


def _only_continuation(error: BaseException | None) -> ContinueAsNew | None:
    """Find the ContinueAsNew of a branch in what its TaskGroup made of it, if nothing else went wrong."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        if group.split(ContinueAsNew)[1] is not None:
            return None
        error = group.exceptions[0]
    return error if isinstance(error, ContinueAsNew) else None
