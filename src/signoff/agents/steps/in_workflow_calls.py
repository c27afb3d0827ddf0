"""Calls of tools whose body is workflow code: each in a branch of its run, so that it may change while it waits."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tools import ToolDenied

from signoff.agents.approvals.operator_questions import Begun, Choice, Operators
from signoff.agents.approvals.recorded_edits import as_chosen, chosen_call
from signoff.agents.approvals.stand_ins import change_in
from signoff.agents.approvals.tool_arguments import Arguments
from signoff.engine.steps.retry import NO_RETRY
from signoff.errors import CannotRunHere
from signoff.records import CallKind, Entry, EntryKind
from signoff.runtime.private_names import tool_outcome

if TYPE_CHECKING:
    from signoff.agents.approvals.approval_gate import Gate

BRANCHES: Final = "signoff.tools_in_branches"
"""The patch of runs in which the bodies of such tools make their calls in branches."""

INNER: Final = "signoff.tools_in_inner_branches"
"""The patch of runs in which they do so also where an agent runs in the body of such a tool."""

UNTOUCHED: Final = "{} has changed since it was called, and was not run."

UNFINISHED: Final = "{} has changed while it ran, and does not go on. What it has done stays done: {}."

SHOWN: Final = 200
"""How much is shown of each answer that a body has got, in characters."""

_GOES_ON: Final = ":goes_on"
"""How the name of the step ends that notes which tool goes on."""


class InlineCall:
    """One call of a tool whose body is workflow code.

    The body makes its calls in a branch, and what came of it is recorded, so a replay can do without its code if that
    is gone: if it has finished, it has returned what it has; if it has not, operators say what is to become of it. They
    are asked in a branch, too, so that the rest of the run goes on. Where the code is, a replay runs it: it may have
    received signals, changed ``ctx.deps``, or begun what still goes on.

    Args:
        gate: What stands before the tool.
        call: The model's call.
        args: With which arguments.
    """

    def __init__(self, gate: Gate, call: ToolCallPart, args: Arguments) -> None:
        self._gate = gate
        self._context = gate.context
        self._call = call
        self._args = args
        self._name = f"{gate.durable.name}.{call.tool_name}"
        self._body = self._context.branch()
        self._asking = self._context.branch()
        self._end = self._context.branch()

    async def run(self, handler: Callable[[dict[str, Any]], Awaitable[Any]]) -> Any:
        """Run the tool, or the one that goes on in its place; ask what is to become of it, if neither is there.

        Args:
            handler: Runs the tool.

        Returns:
            What came of it, or ``ToolDenied``.
        """
        chosen = self._chosen_before()
        choice = chosen[-1] if chosen else None
        gate = self._gate.after(choice)
        is_there = change_in(gate.tools, self._tool_of(choice)) is None and not self._is_being_asked()
        has_finished = any(entry.kind is EntryKind.COMPLETED for entry in self._end.recorded)
        if not is_there:
            self._body.skip()
            if not has_finished:
                return await self._ask(len(chosen))
        self._asking.skip()
        another = None if choice is None or choice.known is None else choice
        if not is_there:
            result = await self._came_to(None)
        elif another is None:
            result = await self._run_body(handler(self._args.validated))
        else:
            call = chosen_call(self._call, self._args.sent, another)
            result = await self._run_body(gate.run_chosen(call, another.known, goes_on=True))
        return result if another is None else as_chosen(result, self._args.sent, another)

    # The body

    async def _run_body(self, body: Awaitable[Any]) -> Any:
        try:
            with self._body.entered():
                outcome = self._gate.durable.payload_of(await tool_outcome(body))
        except CannotRunHere:
            raise
        except Exception as error:
            with contextlib.suppress(Exception):
                await self._came_to(error)
            raise
        return await self._came_to(outcome)

    async def _came_to(self, outcome: object) -> Any:
        """Record what came of the body, or find it recorded."""
        with self._end.entered():
            step = self._context.step(f"{self._name}:returned", _give, outcome, retry=NO_RETRY, returns=Any)
            return self._gate.durable.recorded(await step)

    # Operators

    def _chosen_before(self) -> list[Choice]:
        """Return what operators had chosen to go on, each time, when this process took the run up."""
        notes = [entry for entry in self._asking.recorded if _notes_choice(entry)]
        return [Choice.of(json.loads(entry.value or "null")) for entry in notes]

    def _is_being_asked(self) -> bool:
        recorded = self._asking.recorded
        return bool(recorded) and not _notes_choice(recorded[-1])

    def _tool_of(self, choice: Choice | None) -> str:
        return self._call.tool_name if choice is None else choice.tool

    async def _ask(self, before: int) -> Any:
        """Ask what is to become of the call.

        Args:
            before: How often operators had chosen to go on when this process took the run up.
        """
        try:
            choice, begun = await self._decided(before)
        finally:  # also if the call is given up meanwhile, as its own code would close what it has asked
            self._body.close()
        if choice is not None:
            return await self._gate.run_choice(self._call, self._args.sent, choice)
        said = UNFINISHED.format(self._call.tool_name, "; ".join(begun)) if begun else None
        return ToolDenied(said or UNTOUCHED.format(self._call.tool_name))

    async def _decided(self, before: int) -> tuple[Choice | None, list[str]]:
        choice, begun = await self._asked(None)
        while choice is not None and choice.goes_on:
            choice = await self._noted(choice)
            before -= 1
            if before < 0:
                await self._context.rebuild()
            choice, begun = await self._asked(choice)
        return choice, begun

    async def _asked(self, candidate: Choice | None) -> tuple[Choice | None, list[str]]:
        """Ask once. Returns what an operator has chosen, and what the body had done.

        Args:
            candidate: What was to go on, and has changed; None: what the model has called.
        """
        gate, tool = self._gate.after(candidate), self._tool_of(candidate)

        def found() -> dict[str, Any]:
            return {"change": change_in(gate.tools, tool), "begun": _said_of(self._body.recorded)}

        with self._asking.entered():
            facts: dict[str, Any] = await self._context.step(f"{self._name}:changed", found, returns=Any)
            choice = await Operators(gate.durable, self._context, gate.tools).choose(
                replace(self._call, tool_name=tool),
                self._args.sent,
                facts["change"] or "gone",  # by now it is there again
                {},
                begun=Begun(self._call.tool_name, facts["begun"]),
            )
        return choice, facts["begun"]

    async def _noted(self, choice: Choice) -> Choice:
        with self._asking.entered():
            facts = await self._context.step(f"{self._name}{_GOES_ON}", choice.facts, returns=Any)
        return Choice.of(facts)


def _give(outcome: object) -> object:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _notes_choice(entry: Entry) -> bool:
    is_done = entry.kind is EntryKind.COMPLETED and entry.call is CallKind.STEP
    return is_done and (entry.name or "").endswith(_GOES_ON)


_STATES: Final = {
    EntryKind.OPENED: "open",
    EntryKind.STEP_STARTED: "interrupted: it may have happened",
    EntryKind.ATTEMPT_FAILED: "failed, to be tried again",
    EntryKind.PROGRESSED: "said",
}


def _said_of(entries: Sequence[Entry]) -> list[str]:
    """Say in words what a body has done, call by call."""
    last: dict[int, Entry] = {}
    names: dict[int, str] = {}
    for entry in entries:
        if entry.n is None or entry.call is CallKind.TIMER:
            continue
        last[entry.n] = entry
        if entry.call is not None:
            names[entry.n] = f"{entry.call} {entry.name!r}"
    return [f"{names[n]} ({_state_of(entry)})" for n, entry in last.items() if n in names]


def _state_of(entry: Entry) -> str:
    if entry.kind is EntryKind.OPENED and entry.call is CallKind.SIGNAL:
        return "waited for"  # the journal has it when it came
    if entry.kind is EntryKind.OPENED and entry.call is CallKind.STEP:
        return _STATES[EntryKind.STEP_STARTED]  # people are asked about it
    if entry.kind is not EntryKind.COMPLETED:
        return _STATES.get(entry.kind, str(entry.kind))
    if entry.error is not None:
        return "failed"
    by = entry.fact("by")
    return "done" if by is None else f"{entry.state or 'done'} by {by}: {_clipped(entry.value or '')}"


def _clipped(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
