"""A flow within an execution: its state, joins and running lines. Each nested flow has its own scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from signoff import codec
from signoff.errors import PayloadTooLarge
from signoff.flows.chunks import Moment, Outcome, run_chunk, settled
from signoff.flows.conditions import Case, Decision
from signoff.flows.data import Resume, Surroundings, written
from signoff.flows.errors import ChunkFailed, ResumedTooOften, reason_of, shortened
from signoff.flows.graph import (
    BatchOp,
    ChunkOp,
    CollectOp,
    FlowOp,
    ForEachOp,
    IfOp,
    Line,
    MatchOp,
    Op,
    SourceKind,
    all_operations,
    source_names,
)
from signoff.flows.joins import Join
from signoff.flows.pauses import Pause
from signoff.flows.recorded_graph import Recorded
from signoff.flows.state_size import Room
from signoff.people.questions.answers import Answer

if TYPE_CHECKING:
    from signoff.flows.graph_walk import Machine


class Memory(TypedDict):
    """The data of an idle execution."""

    state: dict[str, Any]
    joins: dict[str, dict[str, list[Any]]]
    graph: dict[str, Any]


class LineEnded(Exception):
    """Ends a line, with a value."""

    def __init__(self, value: Any) -> None:
        super().__init__("the line has ended")
        self.value = value


class Scope:
    """A flow within an execution.

    Args:
        machine: The execution.
        parts: The flow.
        path: Its path in the execution's top-level flow, with a trailing slash; empty for the top-level flow.

    Attributes:
        state: Its state.
    """

    def __init__(self, machine: Machine, parts: Recorded, path: str) -> None:
        self.parts = parts
        self.state: dict[str, Any] = {}
        self.room = Room()
        self._machine = machine
        self._path = path
        self._graph = parts.graph
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listened = source_names(self._graph, "event")
        self._joins = self._all_joins()
        self._beginnings = self._all_beginnings()
        self._continuations = {
            op.name: op.then for op in all_operations(self._graph) if isinstance(op, CollectOp) and op.then
        }

    def _all_beginnings(self) -> dict[tuple[SourceKind, str], list[tuple[Join | None, str, Line]]]:
        """Return the lines that each source starts."""
        found: dict[tuple[SourceKind, str], list[tuple[Join | None, str, Line]]] = {}
        for index, root in enumerate(self._graph.roots):
            join = self._joins[f"when {index}"] if root.mode == "and" else None
            for source in root.begins:
                found.setdefault((source.kind, source.name), []).append((join, source.label, root.then))
        return found

    def _all_joins(self) -> dict[str, Join]:
        joins = {
            f"when {index}": Join([source.label for source in root.begins])
            for index, root in enumerate(self._graph.roots)
            if root.mode == "and"
        }
        branches: dict[str, list[str]] = {}
        for op in all_operations(self._graph):
            if isinstance(op, CollectOp):
                branches.setdefault(op.name, []).append(op.branch)
        return joins | {f"collect {name}": Join(names) for name, names in branches.items()}

    # Starting lines

    def begin(self, input: Any) -> Sequence[asyncio.Task[Any]]:
        """Start the lines of the execution's start."""
        return self.dispatch("start", "", input)

    async def run(self, input: Any) -> Any:
        """Run until all lines have ended. Returns the value of the first line of the start."""
        begun = self.begin(input)
        while self._tasks:
            await asyncio.wait(self._tasks)
        return begun[0].result() if begun else None

    def remember(self, memory: Memory) -> None:
        """Restore the data of an earlier generation of the run."""
        self.state = memory["state"]
        self.room.set_all(self.state)
        for name, kept in memory["joins"].items():
            if name in self._joins:
                self._joins[name].keep(kept)

    def memory(self) -> Memory:
        """Return the scope's data while none of its lines is running."""
        joins = {name: kept for name, join in self._joins.items() if (kept := join.kept())}
        return {"state": self.state, "joins": joins, "graph": self._graph.to_json()}

    def dispatch(self, kind: SourceKind, name: str, value: Any) -> Sequence[asyncio.Task[Any]]:
        """Start the lines of a source."""
        begun: list[asyncio.Task[Any]] = []
        if kind == "event" and name not in self._listened:
            self._machine.note_unheard(name, self._listened)
        for join, label, line in self._beginnings.get((kind, name), ()):
            given = value if join is None else join.add(label, value)
            if join is None or given is not None:
                begun.append(self._spawn(line, Moment(given, label)))
        return begun

    def _spawn(self, line: Line, moment: Moment) -> asyncio.Task[Any]:
        task = self._machine.spawn(self._line(line, moment))
        if self._path:  # lines of the top-level flow belong to the machine
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    # Walking the graph

    async def _line(self, line: Line, moment: Moment) -> Any:
        for op in line:
            moment = moment.with_input(await self._op(op, moment))
            for side in op.sides:
                self._spawn(side, moment)
        return moment.input

    async def _op(self, op: Op, moment: Moment) -> Any:
        match op:
            case ChunkOp():
                return await self._chunk(op, moment)
            case IfOp():
                cases = [Case(case.when) for case in op.cases]
                taken = await self._decision(f"if {op.cases[0].when}", moment).make(
                    self._machine.ctx, cases, first=True
                )
                return await self._line(op.cases[taken[0]].then if taken else op.otherwise or [], moment)
            case MatchOp():
                return await self._match(op, moment)
            case BatchOp():
                lines = [(line, moment) for line in op.branches.values()]
                return dict(zip(op.branches, await self._all(lines, op.concurrency), strict=True))
            case ForEachOp():
                return await self._for_each(op, moment)
            case CollectOp():
                given = self._joins[f"collect {op.name}"].add(op.branch, moment.input)
                if given is not None and op.name in self._continuations:
                    self._spawn(self._continuations[op.name], moment.with_input(given))
                raise LineEnded(moment.input)
            case FlowOp():
                return await self._flow(op, moment)

    async def _match(self, op: MatchOp, moment: Moment) -> Any:
        cases = [Case(case.when, codec.encode(case.value)) for case in op.cases]
        named = op.subject or next((case.when for case in op.cases if case.when), "")
        hits = await self._decision(f"match {named}", moment).make(
            self._machine.ctx, cases, op.subject, first=op.hits == "first"
        )
        if not hits:
            return await self._line(op.default or [], moment)
        if op.hits == "first":
            return await self._line(op.cases[hits[0]].then, moment)
        return await self._all([(op.cases[hit].then, moment) for hit in hits], None)

    async def _for_each(self, op: ForEachOp, moment: Moment) -> list[Any]:
        if not isinstance(cast("object", moment.input), list):
            raise ChunkFailed(
                f"{self._path}for_each",
                shortened(moment.text),
                "for_each needs a list",
            )
        items = cast("list[Any]", moment.input)
        lines = [(op.each, moment.of_item(item, index, len(items))) for index, item in enumerate(items)]
        return await self._all(lines, op.concurrency)

    async def _all(self, lines: Sequence[tuple[Line, Moment]], concurrency: int | None) -> list[Any]:
        if concurrency is None:
            return await asyncio.gather(*(self._spawn(line, moment) for line, moment in lines))
        slots = asyncio.Semaphore(concurrency)

        is_joined = True

        async def in_turn(line: Line, moment: Moment) -> Any:
            nonlocal is_joined
            async with slots:
                try:
                    return await self._line(line, moment) if is_joined else None
                except asyncio.CancelledError:
                    is_joined = False  # nothing waits any more for lines that have not started
                    raise

        return await asyncio.gather(*(self._machine.spawn(in_turn(*each)) for each in lines))

    async def _flow(self, op: FlowOp, moment: Moment) -> Any:
        inner = Scope(self._machine, self.parts.flows[op.flow], f"{self._path}{op.id or op.flow}/")
        given: Any = moment.input
        for target, source in op.capture.items():
            value = moment.input if source == "input" else self.state.get(source.removeprefix("state."))
            if target == "input":
                given = value
            else:
                inner.state[target.removeprefix("state.")] = value
        inner.room.set_all(inner.state)
        output = await inner.run(given)
        for target, source in op.write_back.items():
            value = output if source == "output" else inner.state.get(source.removeprefix("state."))
            self._write(target.removeprefix("state."), value)
        if self.room.is_over:
            full = PayloadTooLarge("state", self.room.size, codec.MAX_CARRIED)
            raise ChunkFailed(f"{self._path}{op.id}", shortened(moment.text), reason_of(full))
        return output

    # Conditions

    def _decision(self, name: str, moment: Moment) -> Decision:
        around = self._around(name, is_condition=True)
        return Decision(f"{self._path}{name}", self._path, self.parts.conditions, moment, around)

    def _around(self, chunk: str, *, is_condition: bool = False) -> Surroundings:
        machine = self._machine
        return Surroundings(
            machine.ctx.run_id,
            machine.ctx.started_by,
            self.parts.name,
            chunk,
            dict(self.state),
            self.room,
            self._listened,
            machine.ids,
            machine.resources,
            self.parts.types,
            is_condition,
        )

    # Chunks

    async def _chunk(self, op: ChunkOp, moment: Moment) -> Any:
        place = f"{self._path}{op.id}"
        chunk = self.parts.chunks[op.chunk]
        moment = await settled(self._machine.ctx, chunk, place, moment)
        resume: Resume | None = None
        while True:
            around = self._around(place)
            try:
                outcome = await run_chunk(self._machine.ctx, chunk, place, moment, resume, around)
                self.room.end(around.owner)
                self._commit(outcome)
                pause = outcome.pause
                if pause is None or pause.interrupt_id is None:
                    self._machine.ids.free(around.owner)  # of an earlier attempt
                if pause is None:
                    break
                count = 0 if resume is None else resume.count
                if pause.resume_to == "self" and pause.max_resumes is not None and count >= pause.max_resumes:
                    raise ResumedTooOften(place, pause.max_resumes)
                answer = await self._ask(pause, place, count, around.owner)
            except Exception as error:
                raise ChunkFailed(place, shortened(moment.text), reason_of(error)) from error
            value = answered(answer)
            if pause.event is not None:
                self.dispatch("event", pause.event, value)
                raise LineEnded(value)
            if pause.resume_to == "next":
                outcome = Outcome(value)
                break
            resume = Resume(value, answer.user_id, answer.note, count + 1)
        self.dispatch("chunk", op.id, outcome.output)
        return outcome.output

    def _commit(self, outcome: Outcome) -> None:
        self._machine.journaled += 1
        written(self.state, outcome.writes, is_commit=True)
        for write in outcome.writes:
            self.room.change(*write)
        for name, value in outcome.events:
            self.dispatch("event", name, value)
        for key in dict.fromkeys(key for _, key, _ in outcome.writes):
            if key in self.state:
                self.dispatch("state", key, self.state[key])

    def _write(self, key: str, value: Any) -> None:
        self.state[key] = value
        self.room.change("set", key, value)
        self.dispatch("state", key, value)

    async def _ask(self, pause: Pause, place: str, resumes: int, owner: object) -> Answer:
        machine = self._machine
        if machine.closing == "cancel":
            raise asyncio.CancelledError
        if pause.interrupt_id is not None:
            machine.ids.take(pause.interrupt_id, owner)
        asked = pause.question(self.parts.name, place, resumes)
        call = machine.ctx.wait_for_user(asked.pop("question"), **asked)
        call.begin()
        name = pause.interrupt_id or call.id
        task = asyncio.current_task()
        assert task is not None
        machine.interrupts[name] = task
        try:
            if machine.closing is not None:
                await machine.reopen()
            return await call
        finally:
            machine.interrupts.pop(name, None)
            machine.ids.free(owner)


def answered(answer: Answer) -> Any:
    """Return the value of an answer in a flow, as plain data."""
    if answer.skipped:
        return None
    if answer.approved is None:
        return json.loads(codec.encode(answer.value))
    value: dict[str, Any] = {"approved": answer.approved}
    if answer.proposal is not None:
        value["proposal"] = answer.proposal
    if answer.note is not None:
        value["note"] = answer.note
    return value
