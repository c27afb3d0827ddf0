"""The expected results of a program's runs, from the settlements alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from signoff.engine.run.trial_replay import Verdict, check
from signoff.records import CallKind, Entry, EntryKind, Promise, PromiseState, Run, RunState
from signoff.testing.simulation import World
from signoff.workflow.registry import Registry
from tests.simulation.programs import (
    COME_ROUND_AGAIN,
    UNDO,
    Ask,
    Await,
    Child,
    Free,
    Listen,
    Node,
    Patch,
    Program,
    Several,
    Sleep,
    Step,
)


class Oracle:
    """Compares the runs of a world with their programs.

    Args:
        world: The world at its end.
        registry: What ran there.
        programs: By name.
        cancelled: Ids of the runs that a caller asked to stop.
    """

    def __init__(
        self, world: World, registry: Registry, programs: dict[str, Program], cancelled: set[str]
    ) -> None:
        self._world = world
        self._registry = registry
        self._programs = programs
        self._cancelled = cancelled
        self._tables = world.store.model.tables

    def check(self) -> None:
        """Tell the world of every run that came to something else."""
        for (_, run_id), run in self._tables.runs.items():
            if not run.state.is_final:
                continue
            wrong = [*self._wrong_end(run), *self._wrong_replay(run)]
            for what in wrong:
                self._world.blame(f"run {run_id!r}: {what}\n{self._world.observer.journal(run_id)}")

    def _wrong_end(self, run: Run) -> Iterator[str]:
        name, *_ = json.loads(run.arguments)["args"]
        program = self._programs[name]
        match run.state:
            case RunState.SUCCEEDED:
                results = json.loads(run.result or "null")
                if program.fails:
                    yield "it must fail and succeeded"
                if len(results) != len(program.generations):
                    yield f"{len(program.generations)} generations came to {results}"
                for node, result in zip(program.generations, results, strict=False):
                    yield from self._wrong(node, result, run.id)
            case RunState.FAILED:
                is_late = run.deadline_at is not None and (run.ended_at or 0.0) >= run.deadline_at
                if is_late and "RunTimeout" in (run.error or ""):
                    return
                if not (program.fails and "BrokenError" in (run.error or "")):
                    yield f"it must not fail, and did: {run.error}"
            case _:
                if run.id not in self._cancelled and not self._was_cancelled_by_parent(run):
                    yield "it was cancelled without a request"
        if run.state is RunState.CANCELLED and run.epoch > 0 and not self._was_undone(run):
            yield "it was stopped, and its code did not get to undo anything"

    def _was_undone(self, run: Run) -> bool:
        kinds = {entry.kind for entry in self._entries(run.id)}
        if {EntryKind.CANCEL_REQUESTED, EntryKind.DEADLINE_PASSED} <= kinds:
            return True  # the second may have come in the midst of it
        return any((entry.kind, entry.name) == (EntryKind.COMPLETED, UNDO) for entry in self._entries(run.id))

    def _was_cancelled_by_parent(self, run: Run) -> bool:
        return run.parent_id is not None

    def _wrong_replay(self, run: Run) -> Iterator[str]:
        if run.epoch == 0:
            return
        finding = _at_once(check(run, self._entries(run.id), self._registry))
        if finding.verdict is Verdict.DIFFERS:
            yield f"its journal does not replay: {finding.message}"

    # Results

    def _wrong(self, node: Node, result: Any, run_id: str) -> Iterator[str]:
        match node:
            case Several(how="race"):
                first, value = result
                yield from self._wrong(node.parts[first], value, run_id)
                return
            case Several():
                if len(result) != len(node.parts):
                    yield f"{node} came to {result}"
                for part, value in zip(node.parts, result, strict=False):
                    yield from self._wrong(part, value, run_id)
                return
            case Step():
                expected = self._of_step(node, run_id)
            case Sleep():
                expected = "slept"
            case Ask():
                expected = self._of_question(node, run_id)
            case Await():
                expected = self._of_await(node, run_id, result)
            case Listen():
                yield from self._wrong_signals(node, result)
                return
            case Child():
                expected = self._of_child(f"{run_id}/{node.name}")
            case Free():
                expected = f"{run_id}/{node.name}"
                if ("default", expected) not in self._tables.runs:
                    yield f"{expected} was never started"
            case Patch():
                expected = "new"
        if result != expected:
            yield f"{node} came to {result!r} and not to {expected!r}"

    def _of_step(self, node: Step, run_id: str) -> str:
        if node.is_once and (verdicts := self._verdicts(node, run_id)):
            action = verdicts[-1]["action"]
            if action != "retry":
                return "done by hand" if action == "done" else "declared failed"
        return "broken" if node.hangs or node.fails >= node.attempts else node.name

    def _verdicts(self, node: Step, run_id: str) -> list[dict[str, Any]]:
        """What people said of a step that was interrupted, in order."""
        asked = [
            self._promise(entry.fact("id"))
            for entry in self._entries(run_id)
            if (entry.kind, entry.call, entry.name) == (EntryKind.OPENED, CallKind.STEP, node.name)
        ]
        return [json.loads(promise.value or "null") for promise in asked if promise.value is not None]

    def _of_question(self, node: Ask, run_id: str) -> Any:
        [asked] = [
            entry
            for entry in self._entries(run_id)
            if (entry.kind, entry.call, entry.name) == (EntryKind.OPENED, CallKind.QUESTION, node.name)
        ]
        promise = self._promise(asked.fact("id"))
        if promise.state is PromiseState.TIMED_OUT:
            return "nobody"
        value = json.loads(promise.value or "null")
        return [value["approved"] if node.input_type == "approval" else value, promise.settled_by]

    def _of_await(self, node: Await, run_id: str, result: Any) -> Any:
        had = any(
            (entry.kind, entry.call, entry.name) == (EntryKind.COMPLETED, CallKind.PROMISE, node.id)
            for entry in self._entries(run_id)
        )
        if had and result == COME_ROUND_AGAIN:
            return result
        return _of_promise(self._promise(node.id or f"{run_id}/{node.name}"))

    def _wrong_signals(self, node: Listen, result: list[Any]) -> Iterator[str]:
        heard = [value for value in result if value != "nobody"]
        if heard != list(range(len(heard))) or len(result) != node.count:
            yield f"{node} heard {result}"
        if node.timeout is None and len(heard) < node.count:
            yield f"{node} gave up"

    def _of_child(self, run_id: str) -> Any:
        run = self._tables.runs["default", run_id]
        if run.state is RunState.SUCCEEDED:
            return json.loads(run.result or "null")
        return "broken" if run.state is RunState.FAILED else "cancelled"

    def _promise(self, id: str) -> Promise:
        return self._tables.promises["default", id]

    def _entries(self, run_id: str) -> list[Entry]:
        return self._tables.journals["default", run_id]


def _of_promise(promise: Promise) -> Any:
    match promise.state:
        case PromiseState.RESOLVED:
            return json.loads(promise.value or "null")
        case PromiseState.REJECTED:
            return ["rejected", json.loads(promise.value or "null")]
        case PromiseState.TIMED_OUT:
            return "nobody"
        case _:
            return "cancelled"


def _at_once(work: Any) -> Any:
    try:
        while work.send(None) is None:  # now and then a check of a long journal lets others go on
            pass
    except StopIteration as done:
        return done.value
    raise AssertionError("a check of a journal does not wait")
