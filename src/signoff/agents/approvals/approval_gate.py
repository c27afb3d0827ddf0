"""The gate before a tool: decides whether to ask people, asks them, and runs the tool with the agreed arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError
from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelRetry,
    SkipToolExecution,
    ToolFailed,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from signoff.agents.approvals.approval_policy import ASK, Decision, ToolCall, asked_by_tool, decide
from signoff.agents.approvals.call_questions import CallQuestions, answer_or_denial
from signoff.agents.approvals.call_state import Edited, held
from signoff.agents.approvals.operator_questions import Choice, ask_operators
from signoff.agents.approvals.recorded_edits import EDITED, Agreed, as_chosen, as_edited
from signoff.agents.approvals.relisted_tools import relist
from signoff.agents.approvals.shown_arguments import ShownArguments
from signoff.agents.approvals.tool_arguments import Arguments, plain
from signoff.agents.approvals.tool_changes import Change, Known, ToolChanged, code_missing
from signoff.agents.approvals.tool_stubs import change_in, manager_of_chosen, runs_inline
from signoff.agents.approvals.transcript import transcript_of
from signoff.agents.pausing import pause as pausing
from signoff.agents.pausing.pause import Answered, ToolPaused
from signoff.agents.steps.tools import requires_approval
from signoff.agents.steps.turn_record import note_call
from signoff.people.questions.edits import is_kept, is_same
from signoff.workflow.context import Context
from signoff.workflow.current_context import current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

Handler = Callable[[dict[str, Any]], Awaitable[Any]]

DENIED: Final = "A person has not allowed this call."

CHANGED: Final = "A hook has changed these arguments. They are shown as the tool would get them."

MADE_OTHERWISE: Final = (
    "The tool changes a part that the edit kept. The arguments are shown as the tool would get them."
)

INSTEAD: Final = "signoff_instead"
"""The key in a call's metadata for the tool that an operator has chosen."""

ASSIGNEES: Final = "signoff_assignees"
"""The key in a call's metadata for the people who could allow it."""


class Gate:
    """The gate between a model's tool calls and the tools, in workflow code.

    Args:
        durable: The agent's capability.
        ctx: Pydantic AI's context of the agent's run.
        context: The run's context.

    Attributes:
        arguments: The arguments of validated calls.
    """

    def __init__(self, durable: Durable[Any], ctx: RunContext[Any], context: Context) -> None:
        assert ctx.tool_manager is not None
        self._durable = durable
        self._ctx = ctx
        self._context = context
        self._tools: ToolManager[Any] = ctx.tool_manager
        self.arguments = ShownArguments(durable, ctx, context, self._tools)

    @classmethod
    def of(cls, durable: Durable[Any], ctx: RunContext[Any]) -> Gate:
        """Return the gate of the run whose code runs here."""
        return cls(durable, ctx, current_context())

    async def run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        handler: Handler,
        known: Known,
    ) -> Any:
        """Ask the people who must agree, then run the tool with the agreed arguments.

        Returns:
            The tool's result, or ``ToolDenied``.
        """
        if known.is_gated:
            arguments = await self.arguments.seen(call, args)
            args = arguments.validated
            decision = await self._decision(call, arguments, definition, known)
            held().decided[call.tool_call_id] = (arguments.shown, decision)
            verdict = decision.get("verdict")
            if verdict == "deny":
                return ToolDenied(decision.get("reason") or DENIED)
            if known.is_external:
                return await self._ask_for_result(call, definition, args, decision)
            if verdict == "ask":
                return await self._ask_and_run(call, definition, args, decision)
        try:
            return await self.run_through_pauses(call, args, handler)
        except ApprovalRequired as required:
            return await self._ask_and_run(call, definition, args, asked_by_tool(required.metadata))
        except CallDeferred as deferred:
            return await self._ask_for_result(call, definition, args, asked_by_tool(deferred.metadata))

    async def check_unchanged(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], known: Known
    ) -> dict[str, Any]:
        """Decide again on a call if a hook has changed its arguments since the decision.

        Returns:
            The arguments to run the tool with.

        Raises:
            SkipToolExecution: The changed call is not allowed.
        """
        shown, before = held().decided[call.tool_call_id]
        arguments = await self.arguments.seen(call, args)
        if is_same(arguments.shown, shown):
            return args
        decision = await self._decision(call, arguments, definition, known)
        if decision.get("verdict") == "approve" and before.get("verdict") == "ask":
            decision = before
        if decision.get("verdict") == "deny":
            raise SkipToolExecution(ToolDenied(decision.get("reason") or DENIED))
        if decision.get("verdict") == "ask":
            agreed = await self._agree(call, definition, arguments, decision, CHANGED)
            if isinstance(agreed, ToolDenied):
                raise SkipToolExecution(agreed)
            if agreed.choice is not None:
                result = await self._run_choice(call, agreed.arguments.sent, agreed.choice, agreed.edit)
                raise SkipToolExecution(result)
            arguments = agreed.arguments
        held().decided[call.tool_call_id] = (arguments.shown, decision)
        return arguments.validated

    async def run_agreed(
        self, call: ToolCallPart, args: dict[str, Any], handler: Handler, metadata: Mapping[str, Any]
    ) -> Any:
        """Run a tool that people have allowed, or the one that an operator has chosen.

        Args:
            call: The model's call.
            args: The agreed arguments.
            handler: Runs the tool.
            metadata: The metadata that this gate has given the call.
        """
        choice: Choice | None = metadata.get(INSTEAD)
        if choice is not None:
            sent = self.arguments.of(call, args).sent
            return await self._run_choice(call, sent, choice, metadata.get(EDITED))
        return as_edited(await self.run_through_pauses(call, args, handler), metadata.get(EDITED))

    async def result_of(self, call: ToolCallPart, deferred: CallDeferred) -> Any:
        """Ask for the result of an allowed call that runs elsewhere."""
        metadata = {call.tool_call_id: deferred.metadata or {}}
        results = await self.resolve(DeferredToolRequests(calls=[call], metadata=metadata))
        return results.calls[call.tool_call_id]

    async def resolve(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Ask about all deferred calls of a response at once, and wait for all answers."""
        results = DeferredToolResults()
        try:
            async with asyncio.TaskGroup() as group:
                for call in requests.approvals:
                    decision = asked_by_tool(requests.metadata.get(call.tool_call_id))
                    group.create_task(self._approve_into(results, call, decision))
                for call in requests.calls:
                    decision = asked_by_tool(requests.metadata.get(call.tool_call_id))
                    group.create_task(self._answer_into(results, call, decision))
        except BaseExceptionGroup as failed:
            if len(failed.exceptions) > 1:
                raise
            for only in failed.exceptions:  # as without a barrier
                raise only from None
        return results

    async def _approve_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision
    ) -> None:
        definition = self._definition(call)
        agreed = await self._agree(call, definition, await self._held_of(call), decision)
        if isinstance(agreed, ToolDenied):
            results.approvals[call.tool_call_id] = agreed
            return
        self._hold(call, agreed, decision)
        override = None if agreed.edited_by is None else agreed.arguments.sent
        results.approvals[call.tool_call_id] = ToolApproved(override_args=override)
        known = {EDITED: agreed.edit, INSTEAD: agreed.choice, ASSIGNEES: tuple(decision.get("assignees", ()))}
        if any(known.values()):
            results.metadata[call.tool_call_id] = known

    async def _answer_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision
    ) -> None:
        results.calls[call.tool_call_id] = await self._result_from_outside(
            call, self._definition(call), await self._held_of(call), decision
        )

    def _hold(self, call: ToolCallPart, agreed: Agreed, decision: Decision) -> None:
        """Keep the agreed arguments, so that these very objects run."""
        held().agreed[call.tool_call_id] = agreed.arguments.validated
        held().decided[call.tool_call_id] = (agreed.arguments.shown, decision)

    async def _held_of(self, call: ToolCallPart) -> Arguments:
        """Return the arguments of a call that was deferred after it was validated."""
        validated = held().validated.get(call.tool_call_id)
        return await self.arguments.seen(call, plain(call.args) if validated is None else validated)

    def _definition(self, call: ToolCallPart) -> ToolDefinition:
        definition = self._tools.get_tool_def(call.tool_name)
        assert definition is not None  # it was validated
        return definition

    async def run_through_pauses(self, call: ToolCallPart, args: dict[str, Any], handler: Handler) -> Any:
        """Run a tool, and run it again with the answer to each of its pauses.

        Args:
            call: The model's call.
            args: The arguments.
            handler: Runs the tool.

        Returns:
            The tool's result; the answer to a pause, if it is for the model; or ``ToolDenied``.
        """
        note_call(call.tool_call_id)
        answers: list[Answered] = []
        while True:
            try:
                await self._check_code(call)
                return await pausing.in_round(self._context, call.tool_name, answers, lambda: handler(args))
            except ToolPaused as paused:
                pause = paused.pause
            except ToolChanged as changed:
                sent = self.arguments.of(call, args).sent
                choice = await self._choose(call, sent, changed.change, None)
                if isinstance(choice, ToolDenied):
                    return choice
                if choice is None:
                    continue
                return await self._run_choice(call, sent, choice)
            shown = (await self.arguments.seen(call, args)).shown
            asked = pausing.ask_for(self._context, pause, call.tool_name, shown, self._about(call))
            answer = await answer_or_denial(asked, "There was no answer")
            if isinstance(answer, ToolDenied):
                return answer
            if pause.then == "tool":
                answers.append((pause, answer))
            elif answer.approved is False:
                return ToolDenied(answer.note or DENIED)
            else:
                return pausing.answered(answer, pause.schema)

    # Deciding and asking

    async def _decision(
        self, call: ToolCallPart, arguments: Arguments, definition: ToolDefinition, known: Known
    ) -> Decision:
        proposed = ToolCall(
            call.tool_name,
            deepcopy(arguments.shown),
            call.tool_call_id,
            self._durable.name,
            self._context.run_id,
            self._context.session_id,
            self._ctx.deps,
            requires_approval(definition) or known.is_external,
            tuple(arguments.places),
        )
        return await self._context.step(
            f"{self._durable.name}.{call.tool_name}:policy",
            decide,
            self._durable.approvals,
            proposed,
            self._durable.operators,
        )

    async def _ask_and_run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
    ) -> Any:
        if self._has_barrier(call):  # `resolve` asks about all of them
            held().validated[call.tool_call_id] = args
            raise ApprovalRequired(metadata={"decision": decision})
        agreed = await self._agree(call, definition, await self.arguments.seen(call, args), decision)
        if isinstance(agreed, ToolDenied):
            return agreed
        if agreed.choice is not None:
            return await self._run_choice(call, agreed.arguments.sent, agreed.choice, agreed.edit)
        self._hold(call, agreed, decision)
        validated = await self._tools.validate_tool_call(
            call if agreed.edited_by is None else replace(call, args=agreed.arguments.sent),
            approved=True,
            metadata={ASSIGNEES: tuple(decision.get("assignees", ()))},
        )
        return as_edited(await self._tools.execute_tool_call(validated), agreed.edit)

    def _has_barrier(self, call: ToolCallPart) -> bool:
        """Whether the call, of a response without an output, waits until all of its response are answered."""
        responses = (each for each in reversed(self._ctx.messages) if isinstance(each, ModelResponse))
        parts = next((each.parts for each in responses), ())
        called = {part.tool_call_id: part.tool_name for part in parts if isinstance(part, ToolCallPart)}
        if not self._durable.barrier or call.tool_call_id not in called:
            return False  # or another tool has made it
        tools = self._tools.tools or {}  # beside an output, Pydantic AI drops deferred calls
        return not any(name in tools and tools[name].tool_def.kind == "output" for name in called.values())

    async def _ask_for_result(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], decision: Decision
    ) -> Any:
        if self._has_barrier(call):
            held().validated[call.tool_call_id] = args
            raise CallDeferred(metadata={"decision": decision})
        return await self._result_from_outside(
            call, definition, await self.arguments.seen(call, args), decision
        )

    async def _agree(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        arguments: Arguments,
        decision: Decision,
        problem: str | None = None,
    ) -> Agreed | ToolDenied:
        """Ask until people refuse, or agree to arguments that the tool accepts."""
        edited_by: str | None = None
        is_valid = True
        while True:
            answer = await self._questions(call, definition).ask_to_allow(arguments, decision, problem)
            if isinstance(answer, ToolDenied):
                return answer
            if not answer.approved:
                return ToolDenied(answer.note or DENIED)
            is_edited = bool(answer.edits)
            sent = arguments.edited(answer.proposal) if is_edited else arguments.sent
            before = arguments.shown
            edited_by = answer.user_id or "" if is_edited else edited_by
            while (change := await self._change(call, is_asked=True)) is not None:
                choice = await self._choose(call, sent, change, answer.user_id)
                if isinstance(choice, ToolDenied):
                    return choice
                if choice is not None:
                    return Agreed(Arguments(sent, sent, sent), edited_by, choice)
            if is_valid and not is_edited:
                return Agreed(arguments, edited_by)
            validating = Edited(sent)
            held().edits[call.tool_call_id] = validating
            try:
                arguments = await self._validated(call, sent, decision)
                if arguments.made:
                    sent = validating.sent = await self._made(call, arguments)
                    if is_same(sent, arguments.repeatable):
                        arguments = replace(arguments, sent=sent)
                    else:  # another process has made it
                        arguments = await self._validated(call, sent, decision)
            except (ValidationError, ModelRetry, ToolFailed, UnexpectedModelBehavior) as error:
                problem, is_valid = f"The tool refuses these arguments: {error}", False
                arguments = Arguments(sent, sent, answer.proposal)
                continue
            finally:
                del held().edits[call.tool_call_id]
            is_valid = True
            problem = CHANGED
            if validating.is_changed or not (
                validating.validated is None or is_same(arguments.shown, validating.validated)
            ):
                continue
            if is_edited and not is_kept(before, answer.proposal, arguments.shown):
                problem = MADE_OTHERWISE
                continue
            return Agreed(arguments, edited_by)

    async def _validated(self, call: ToolCallPart, sent: dict[str, Any], decision: Decision) -> Arguments:
        """Return the arguments that the tool gets for an edit."""
        validated = await self._tools.validate_tool_call(
            replace(call, args=json.dumps(sent) if isinstance(call.args, str) else sent),
            approved=True,
            metadata={ASSIGNEES: tuple(decision.get("assignees", ()))},
            wrap_validation_errors=False,
        )
        return await self.arguments.seen(replace(call, args=sent), validated.validated_args or {})

    async def _made(self, call: ToolCallPart, arguments: Arguments) -> dict[str, Any]:
        """Journal an edit with the values that its tool made anew, such as ids: people see them, so they stay."""
        return await self._context.step(
            f"{self._durable.name}.{call.tool_name}:made", lambda: arguments.repeatable, returns=Any
        )

    async def _result_from_outside(
        self, call: ToolCallPart, definition: ToolDefinition, arguments: Arguments, decision: Decision
    ) -> Any:
        answer = await self._questions(call, definition).ask_for_result(arguments, decision)
        return answer if isinstance(answer, ToolDenied) else cast("dict[str, Any]", answer.value)["result"]

    def _questions(self, call: ToolCallPart, tool: ToolDefinition) -> CallQuestions:
        return CallQuestions(self._context, self._durable.name, call, tool, self._about(call))

    def shown(self, call: ToolCallPart, args: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of the question about an interrupted call."""
        return {
            "agent": self._durable.name,
            "tool": call.tool_name,
            "arguments": self.arguments.of(call, args).shown,
            "tool_call_id": call.tool_call_id,
        }

    def _about(self, call: ToolCallPart) -> dict[str, Any]:
        """Return the metadata of any question about a call."""
        return {
            "agent": self._durable.name,
            "tool_call_id": call.tool_call_id,
            "conversation": transcript_of(self._ctx.messages),
        }

    # Tools that have changed since they were called

    async def _change(self, call: ToolCallPart, *, is_asked: bool = False) -> Change | None:
        """Journal whether a tool has changed since it was called, on an MCP server if people were asked meanwhile."""
        if is_asked:
            await relist(self._durable, self._ctx, self._tools, call.tool_name)

        async def look() -> Change | None:  # async, so that it does not wait for a thread
            return change_in(self._tools, call.tool_name)

        step = f"{self._durable.name}.{call.tool_name}:changed"
        return await self._context.step(step, look, returns=Any, compare=None)

    async def _check_code(self, call: ToolCallPart) -> None:
        """Journal that a body of workflow code begins, since it has no step of its own.

        Raises:
            ToolChanged: Its tool has changed, and it has not begun.
            ToolCodeMissing: Its tool has changed, and it has begun.
        """
        if not runs_inline(self._tools, call.tool_name):
            return
        change = await self._change(call)
        if change is not None:
            raise ToolChanged(change)
        change = change_in(self._tools, call.tool_name)
        if change is not None:
            self._context.cannot_run_here(
                code_missing(self._durable.name, call.tool_name, call.tool_call_id, change)
            )

    async def _choose(
        self, call: ToolCallPart, sent: dict[str, Any], change: Change, approved_by: str | None
    ) -> Choice | ToolDenied | None:
        return await ask_operators(self._durable, self._context, self._tools, call, sent, change, approved_by)

    async def _run_choice(
        self,
        call: ToolCallPart,
        sent: dict[str, Any],
        choice: Choice,
        edit: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the tool that an operator has chosen. If it has changed since, they are asked again."""
        tools = manager_of_chosen(self._tools, choice.tool, choice.known, self._durable)
        gate = Gate(self._durable, replace(self._ctx, tool_manager=tools), self._context)
        result = await gate._run_chosen(
            replace(call, tool_name=choice.tool, args=dict(sent)), choice.known.is_external
        )
        return as_chosen(result, sent, choice, edit)

    async def _run_chosen(self, call: ToolCallPart, is_external: bool) -> Any:
        definition, sent = self._definition(call), plain(call.args)
        held().decided.pop(call.tool_call_id, None)  # an operator has decided
        arguments = Arguments(sent, sent, sent)
        if is_external:
            return await self._result_from_outside(call, definition, arguments, ASK)
        # errors meant for the model are raised unchanged: the model reads them as the result of its own call
        validated = await self._tools.validate_tool_call(call, approved=True, wrap_validation_errors=False)
        try:
            return await self._tools.execute_tool_call(validated, wrap_validation_errors=False)
        except CallDeferred as deferred:
            return await self._result_from_outside(
                call, definition, arguments, asked_by_tool(deferred.metadata)
            )
