"""The expected results of programs of the protocol, from the settlements of the promises that they awaited."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from signoff.records import Promise, PromiseState, Run, RunState
from signoff.server.resonate.durable_promises import to_record
from signoff.server.resonate.function_calls import run_id_of
from signoff.testing.simulation import World
from tests.simulation.protocol.callers import Callers, function_of
from tests.simulation.protocol.programs import (
    FUNCTION,
    STEP,
    Ask,
    Call,
    Local,
    Program,
    Several,
    Sleep,
    Wait,
    Workflow,
)
from tests.simulation.protocol.sdk import Steps, argument_of, decoded, id_of, is_awaited, outcome_of

_RUN_STATES = {PromiseState.RESOLVED: RunState.SUCCEEDED, PromiseState.REJECTED: RunState.FAILED}


class Oracle:
    """Compares the invocations of a world with their programs.

    Args:
        world: The world at its end.
        programs: By name.
        is_from_outside: Whether a caller may have settled a promise.
    """

    def __init__(
        self, world: World, programs: Mapping[str, Program], is_from_outside: Callable[[Promise], bool]
    ) -> None:
        self._world = world
        self._programs = programs
        self._is_from_outside = is_from_outside
        self._tables = world.store.model.tables

    def check(self) -> None:
        """Report every promise that was settled otherwise than its program says."""
        for promise in self._tables.promises.values():
            if is_stuck(promise):
                self._world.blame(f"promise {promise.id!r} is stuck")
            elif function_of(promise) == FUNCTION:
                for wrong in (*self._wrong(promise), *self._wrong_caller(promise)):
                    self._world.blame(f"invocation {promise.id!r}: {wrong}; {promise}")
        opened = Counter(run_id_of(promise) for promise in self._tables.promises.values())
        del opened[None]
        for id, count in opened.items():
            if count > 1:
                self._world.blame(f"run {id!r} has opened {count} invocations")

    def _wrong(self, promise: Promise) -> Iterator[str]:
        if promise.state is PromiseState.TIMED_OUT or self._is_from_outside(promise):
            return
        if promise.state is PromiseState.CANCELLED:
            run = self._run_of(promise)
            if run is None or run.state not in (RunState.CANCELLED, RunState.FAILED):
                yield "nobody cancelled it"
            return
        program = self._programs[argument_of(to_record(promise))]
        if program.fails is not (promise.state is PromiseState.REJECTED):
            yield f"it is {promise.state}"
        expected: list[Any] = []
        for id, node in _calls(promise.id, program):
            called = self._tables.promises.get(("default", id))
            if called is None or (called.state is PromiseState.PENDING and is_awaited(node)):
                yield f"it has not awaited {id!r}: {called}"
                return
            yield from self._wrong_call(node, called)
            expected.append(outcome_of(to_record(called)) if is_awaited(node) else id)
        value = json.loads(promise.value or "null")
        if value != expected:
            yield f"it came to {value} and not to {expected}"

    def _run_of(self, promise: Promise) -> Run | None:
        return self._tables.runs.get(("default", run_id_of(promise) or ""))

    def _wrong_caller(self, promise: Promise) -> Iterator[str]:
        """Yield what is wrong with the run that has opened an invocation."""
        run = self._run_of(promise)
        if run is None or promise.settled_at is None:
            return
        if run.ended_at is not None and run.ended_at < promise.settled_at:
            yield f"its run ended before it, {run.state}"
        elif run.state is RunState.SUCCEEDED:
            if promise.state is not PromiseState.RESOLVED or decoded(
                to_record(promise)["value"]
            ) != json.loads(run.result or "null"):
                yield f"its run came to {run.result}"
        elif (
            run.state is RunState.FAILED
            and promise.state is PromiseState.RESOLVED
            and run.deadline_at is None
        ):
            yield f"its run failed: {run.error}"

    def _wrong_call(self, node: Call, called: Promise) -> Iterator[str]:
        outcome = outcome_of(to_record(called)) if called.state is not PromiseState.PENDING else None
        match node:
            case Local() if outcome != (["rejected", node.name] if node.fails else node.name):
                yield f"step {called.id!r} came to {outcome}"
            case Sleep() | Wait() | Ask() if not self._may_be(called):
                yield f"nobody settled {called.id!r}: {called}"
            case Workflow():
                yield from self._wrong_run(called)
            case _:
                pass

    def _may_be(self, called: Promise) -> bool:
        ends = called.state is PromiseState.CANCELLED and called.run_id is not None  # with its run
        return ends or called.state is PromiseState.TIMED_OUT or self._is_from_outside(called)

    def _wrong_run(self, called: Promise) -> Iterator[str]:
        run = self._tables.runs.get(("default", called.id))
        if self._is_from_outside(called) or called.state not in _RUN_STATES:
            return
        if run is None or run.state is not _RUN_STATES[called.state]:
            yield f"the run of {called.id!r} is {run and run.state}, and the promise {called.state}"
        elif run.state is RunState.SUCCEEDED and run.result != called.value:
            yield f"the run of {called.id!r} came to {run.result}, and the promise to {called.value}"


def is_stuck(promise: Promise) -> bool:
    """Whether a promise has yet to be settled. A step is nobody's business once its invocation is settled."""
    return promise.state is PromiseState.PENDING and function_of(promise) != STEP


def check_repeated(world: World, steps: Steps, callers: Callers) -> None:
    """Check that no step began twice for no reason: nothing went wrong, and nobody halted its task."""
    for id in sorted(steps.repeated):
        if not world.has_faults and id.rpartition(".")[0] not in callers.halted:
            world.blame(f"step {id!r} began twice, and nothing went wrong")


def _calls(id: str, program: Program) -> Iterator[tuple[str, Call]]:
    """Yield the calls of an invocation, with their ids."""
    number = 0
    for node in program.nodes:
        for part in node.parts if isinstance(node, Several) else (node,):
            yield id_of(id, number, part), part
            number += 1
