"""Watches all operations on the store of a simulated world, and reports violations of its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from signoff.engine.run.step_call import StepCall
from signoff.records import CallKind, EntryKind, Promise, PromiseState, Run, RunState
from signoff.records.paging import RunFilter
from signoff.stores.contract.leases import Write
from signoff.stores.contract.store import Change
from signoff.testing.simulation.task_observer import WRITES, TaskObserver

if TYPE_CHECKING:
    from signoff.testing.simulation.world import World

CALM_SECONDS = 15.0  # work in progress when the world became calm has ended by then

# Operations that add nothing to the trace, or differ between equal worlds, such as ids of audit events.
_QUIET = frozenset(
    {
        "due",
        "due_questions",
        "due_schedules",
        "due_promise_schedules",
        "unsealed",
        "last_seal",
        "heads",
        "queued_namespaces",
        "record",
        "seal",
        "claim",
        "list_workers",
        "heartbeat",
        "read_messages",
        "ended",
        "list_promises",
        "list_branch",
        "heartbeat_tasks",
    }
)

# Operations that may settle a promise without a run, of which listeners are not notified.
_SETTLING = WRITES | {"settle", "amend", "due"}


class Observer:
    """Sees every operation and every commit.

    Args:
        world: The world, which records violations.

    Attributes:
        completed: (run, call) of the steps whose outcome is journaled.
    """

    def __init__(self, world: World) -> None:
        self.completed: set[tuple[str, int]] = set()
        self._world = world
        self._tables = world.store.model.tables
        self._pending: list[str] = []
        self._seen = 0
        self._settled: dict[str, Promise] = {}
        self._begun: dict[tuple[str, int], int] = {}
        self._holder: Run | None = None
        self._length = 0
        self._on_promise: list[Callable[[Promise], None]] = []
        self._tasks = TaskObserver(world)
        world.store.listen(self._committed)

    # Operations

    def before(self, operation: str, args: Sequence[Any]) -> None:
        """Check the state before an operation."""
        if operation in ("append", "pause", "complete"):
            self._holder = self._run(args[0].run_id)
            self._length = len(self._tables.journals.get(("default", args[0].run_id), ()))
        elif operation in WRITES:
            self._tasks.before(operation, args)

    def after(
        self, who: str, operation: str, args: Sequence[Any], outcome: Any, error: Exception | None
    ) -> None:
        """Check the effect of an operation."""
        if operation in ("append", "pause", "complete"):
            write: Write = args[0]
            if error is None:
                self._check_write(write)
            described = f"{write.run_id}/{write.epoch} {_entries(write)}"
            self._world.note(who, operation, f"{described} -> {_described(outcome, error)}")
        elif error is not None or (outcome and operation not in _QUIET) or (operation == "claim" and outcome):
            self._world.note(who, operation, f"{_described(args, None)} -> {_described(outcome, error)}")
        if operation in WRITES and error is None:
            self._tasks.after(operation, args, outcome)
        if operation in _SETTLING:
            self._look()

    def _check_write(self, write: Write) -> None:
        run = self._holder
        if run is not None and run.epoch == write.epoch and self._is_repeated(write):
            return
        if run is None or run.state is not RunState.RUNNING or run.epoch != write.epoch:
            self._world.blame(
                f"run {write.run_id!r} was written to in epoch {write.epoch}, outside of its lease"
            )
        for entry in write.entries:
            if entry.call is not CallKind.STEP or entry.n is None:
                continue
            call = (write.run_id, entry.n)
            if call in self.completed:
                self._world.blame(
                    f"step {entry.name!r} of {write.run_id!r} is journaled, and {entry.kind} follows"
                )
            elif entry.kind is EntryKind.COMPLETED:
                self.completed.add(call)

    def _is_repeated(self, write: Write) -> bool:
        """Return whether a write repeats one whose reply was lost, without further effect."""
        journal = self._tables.journals["default", write.run_id]
        return bool(write.entries) and len(journal) == self._length

    # Steps

    def step_begins(self, run_id: str, step: StepCall) -> None:
        """Check that a step may begin."""
        if not step.step_options.durable:
            return  # it runs again at each replay
        call, n, name = (run_id, step.n), step.n, step.name
        self._world.note("step", name, f"of {run_id} begins as call {n}")
        if call in self.completed:
            self._world.blame(f"step {name!r} of {run_id!r} runs again, and the journal holds its outcome")
        begun = self._begun[call] = self._begun.get(call, 0) + 1
        if step.step_options.effect == "once" and begun > 1 + self._retries(run_id, n):
            self._world.blame(
                f"step {name!r} of {run_id!r} must happen once, and begins for the {begun}th time"
            )

    def _retries(self, run_id: str, n: int) -> int:
        """Return how often an operator decided to retry a step."""
        return sum(
            promise.value == '{"action":"retry"}'
            for promise in self._tables.promises.values()
            if (promise.run_id, promise.n) == (run_id, n)
        )

    # Commits

    def _committed(self, change: Change) -> None:
        self._look()

    def _look(self) -> None:
        """Find the promises that were created or settled since the last look."""
        promises = self._tables.promises
        if len(promises) > self._seen:
            new = list(islice(promises.values(), self._seen, None))
            self._seen = len(promises)
            for promise in new:
                self._pending.append(promise.id)
                for callback in self._on_promise:
                    callback(promise)
        for id in list(self._pending):
            promise = promises["default", id]
            if promise.state is not PromiseState.PENDING:
                self._pending.remove(id)
                self._settled[id] = promise
                self._check_settled(promise)
                self._tasks.settled(promise)

    def _check_settled(self, promise: Promise) -> None:
        self._world.note("promise", promise.id, f"{promise.state} {promise.value} by {promise.settled_by}")
        is_late = promise.due_at is not None and promise.due_at <= self._world.clock.now()
        if promise.state is PromiseState.TIMED_OUT and not is_late:
            self._world.blame(f"promise {promise.id!r} timed out before its time")
        if promise.state is PromiseState.TIMED_OUT:
            self._check_punctual(promise)
        if promise.state is PromiseState.RESOLVED and is_late:
            self._world.blame(f"promise {promise.id!r} was resolved after its deadline")

    def _check_punctual(self, promise: Promise) -> None:
        """Check that a deadline fires on time, or as soon as it exists and everything is up."""
        world = self._world
        up_again = world.start_at + world.calm_at + CALM_SECONDS if world.has_faults else 0.0
        due_at = max(promise.due_at or 0.0, promise.created_at, up_again)
        if world.clock.now() - due_at > world.punctual_seconds:
            world.blame(f"promise {promise.id!r} timed out {world.clock.now() - due_at:.1f} s late")

    def on_promise(self, callback: Callable[[Promise], None]) -> None:
        """Call ``callback`` with each promise that is created."""
        self._on_promise.append(callback)

    # At the end

    def check_end(self) -> None:
        """Check that no settled promise has changed, no run is stuck, and no journal has a gap."""
        tables = self._tables
        self._tasks.check_end()
        for id, promise in self._settled.items():
            if tables.promises["default", id] != promise:
                self._world.blame(f"promise {id!r} was settled, and changed afterwards")
        for (_, run_id), run in tables.runs.items():
            if not run.state.is_final:
                self._world.blame(f"run {run_id!r} is stuck: it is {run.state}\n{self.journal(run_id)}")
            elif run.retryable:
                self._world.blame(f"run {run_id!r} failed by its code: {run.error}\n{self.journal(run_id)}")
            seqs = [entry.seq for entry in tables.journals["default", run_id]]
            if seqs != list(range(len(seqs))):
                self._world.blame(f"the journal of {run_id!r} has a hole: {seqs}")

    def journal(self, run_id: str) -> str:
        """Return a run's journal as text."""
        lines = [
            f"    {entry.seq:3} {entry.at - self._world.start_at:9.3f} {entry.kind} {entry.n or ''} {entry.call or ''} "
            f"{entry.name or ''} {entry.value or entry.error or ''} {entry.details or ''}"
            for entry in self._tables.journals["default", run_id]
        ]
        messages = [f"    waiting: {message}" for message in self._tables.messages["default", run_id]]
        return "\n".join([*lines, *messages])

    def _run(self, run_id: str) -> Run | None:
        return self._tables.runs.get(("default", run_id))


def _entries(write: Write) -> str:
    return " ".join(f"{entry.seq}:{entry.kind}:{entry.name or ''}" for entry in write.entries)


def _described(outcome: Any, error: Exception | None) -> str:
    if error is not None:
        return f"{type(error).__name__}: {error}"
    if isinstance(outcome, Run):
        return f"{outcome.id} {outcome.state}"
    if isinstance(outcome, RunFilter):  # its set has another order in each process
        return f"{replace(outcome, states=None)} {sorted(outcome.states or ())}"
    if isinstance(outcome, list | tuple):
        return "[" + ", ".join(_described(each, None) for each in outcome) + "]"  # pyright: ignore[reportUnknownVariableType]
    run = getattr(outcome, "run", None)
    return f"{run.id}/{run.epoch}" if run is not None else str(outcome)
