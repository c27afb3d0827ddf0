"""The gate before a tool: what a policy says, whom to ask, and with which arguments the tool then runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError
from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.tool_manager import ToolManager, ValidatedToolCall
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied

from signoff.agents import pausing
from signoff.agents.approvals import ASK, Decision, ToolCall, decide, plain
from signoff.agents.changes import Change, Known, ToolChanged, known_of
from signoff.agents.inline import BRANCHES, INNER, UNTOUCHED, InlineCall
from signoff.agents.operators import RESULT, Choice, Operators
from signoff.agents.pausing import Answered, ToolPaused
from signoff.agents.ran import EDITED, as_chosen, as_edited, chosen_call, jsonable
from signoff.agents.stand_ins import change_in, manager_for, runs_inline, stand_in, tools_now
from signoff.agents.story import story_of
from signoff.agents.tools import is_external, requires_approval
from signoff.context import Context, current_context
from signoff.errors import QuestionCancelled, SignalTimeout
from signoff.people.actions import Action
from signoff.people.answers import Answer

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

Handler = Callable[[dict[str, Any]], Awaitable[Any]]

DENIED: Final = "A person has not allowed this call."

INSTEAD: Final = "signoff_instead"
"""Under which name the metadata of a call has what an operator has chosen."""

ANSWERS: Final = "signoff_answers"
"""Under which name the metadata of a call has what people have answered to the tool that it is run instead of."""

GOES_ON: Final = "signoff_goes_on"
"""Under which name the metadata of a call has whether it goes on where another tool has stopped."""

ASSIGNEES: Final = "signoff_assignees"
"""Under which name the metadata of a call has who could allow it."""

TOGETHER: Final = "signoff.results_behind_barrier"
"""The patch of runs that ask for results together with all else that a barrier waits for."""

KEPT: Final = "signoff.changed_results"
"""The patch of runs that look, before the model gets a result, whether its tool has changed."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What people let happen: a call with arguments that its tool takes, or another tool that an operator chose."""

    runs: ValidatedToolCall[Any] | Choice
    arguments: dict[str, Any]
    answer: Answer

    @property
    def edit(self) -> dict[str, Any] | None:
        """What the history is to say of changed arguments; None: they are the model's."""
        if not self.answer.edits:
            return None
        return {"arguments": self.arguments, "edited_by": self.answer.user_id}


class Gate:
    """What stands between a model's tool calls and the tools, in workflow code.

    Args:
        durable: The agent's.
        ctx: What Pydantic AI gives of the agent's run.
        context: The run's.

    Attributes:
        durable: The agent's.
        context: The run's.
        tools: Those of this step of the agent.
    """

    def __init__(self, durable: Durable[Any], ctx: RunContext[Any], context: Context) -> None:
        self.durable = durable
        self._ctx = ctx
        self.context = context
        assert ctx.tool_manager is not None
        self.tools: ToolManager[Any] = ctx.tool_manager

    @classmethod
    def of(cls, durable: Durable[Any], ctx: RunContext[Any]) -> Gate:
        """Return the gate of the run whose code runs here."""
        return cls(durable, ctx, current_context())

    async def record(self, calls: Sequence[ToolCallPart], known: dict[str, Known]) -> None:
        """Journal what is known of the tools that a response calls."""
        names = sorted({call.tool_name for call in calls})
        kept: dict[str, dict[str, Any]] = await self.context.step(
            f"{self.durable.name}:calls", lambda: {name: self._known(name, calls).facts() for name in names}
        )
        found = {name: Known(**facts) for name, facts in kept.items()}
        known.update(found)
        stand_in(self.tools, found, self.durable, self._ctx.run_step)

    def _known(self, name: str, calls: Sequence[ToolCallPart]) -> Known:
        of_that_name = [call for call in calls if call.tool_name == name]
        return known_of(self.tools, tools_now(self.tools).get(name), of_that_name, self.durable.approvals)

    async def run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        handler: Handler,
        known: Known,
    ) -> Any:
        """Ask whoever must agree, then run the tool with what they agreed to.

        Returns:
            What the tool returned, or ``ToolDenied``.
        """
        if known.is_gated:
            decision = await self._decision(call, args, is_asked=requires_approval(definition), known=known)
            verdict = decision.get("verdict")
            if verdict == "deny":
                return ToolDenied(decision.get("reason") or DENIED)
            if known.is_external:
                return await self._ask_for_result(call, definition, args, decision)
            if verdict == "ask":
                return await self._ask_and_run(call, definition, args, decision)
        try:
            return await handler(args)
        except ApprovalRequired as required:
            return await self._ask_and_run(call, definition, args, _asked_by_tool(required.metadata))
        except CallDeferred as deferred:
            return await self._ask_for_result(call, definition, args, _asked_by_tool(deferred.metadata))

    async def run_agreed(
        self, call: ToolCallPart, args: dict[str, Any], handler: Handler, metadata: Mapping[str, Any]
    ) -> Any:
        """Run a tool that people have agreed to, or what an operator has chosen instead.

        Args:
            call: The model's call.
            args: The arguments agreed to.
            handler: Runs the tool.
            metadata: What was agreed, as this gate has given it.
        """
        choice = metadata.get(INSTEAD)
        if choice is not None:
            return await self.run_choice(call, args, choice, metadata.get(EDITED))
        answers, goes_on = metadata.get(ANSWERS, ()), metadata.get(GOES_ON, False)
        result = await self.run_through_pauses(call, args, handler, answers, goes_on=goes_on)
        return as_edited(result, metadata.get(EDITED))

    async def resolve(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Ask about all the calls of a response that were deferred, at once, and wait for all answers."""
        results = DeferredToolResults()
        async with asyncio.TaskGroup() as group:
            for call in requests.approvals:
                decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
                group.create_task(self._approve_into(results, call, decision))
            for call in requests.calls:
                decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
                group.create_task(self._answer_into(results, call, decision))
        return results

    async def _approve_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision
    ) -> None:
        definition = self._definition(call)
        agreed = await self._agree(call, definition, plain(call.args), decision)
        if isinstance(agreed, ToolDenied):
            results.approvals[call.tool_call_id] = agreed
            return
        results.approvals[call.tool_call_id] = ToolApproved(override_args=agreed.arguments)
        choice = agreed.runs if isinstance(agreed.runs, Choice) else None
        known = {EDITED: agreed.edit, INSTEAD: choice, ASSIGNEES: tuple(decision.get("assignees", ()))}
        if any(known.values()):
            results.metadata[call.tool_call_id] = known

    async def _answer_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision
    ) -> None:
        definition = self._definition(call)
        try:
            results.calls[call.tool_call_id] = await self._result_from_outside(
                call, definition, plain(call.args), decision
            )
        except ModelRetry as retry:  # of a tool that an operator has chosen
            results.calls[call.tool_call_id] = retry

    def _definition(self, call: ToolCallPart) -> ToolDefinition:
        definition = self.tools.get_tool_def(call.tool_name)
        assert definition is not None  # it was validated
        return definition

    async def run_through_pauses(
        self,
        call: ToolCallPart,
        args: dict[str, Any],
        handler: Handler,
        given: Sequence[Answered] = (),
        *,
        goes_on: bool = False,
    ) -> Any:
        """Run a tool, and again with each answer that it leaves for.

        Args:
            call: The model's call.
            args: With which arguments.
            handler: Runs the tool.
            given: Answers that are there before it begins.
            goes_on: Whether its body goes on in the branch of another's, and needs none.

        Returns:
            What it returned; the answer, if that is for the model; or ``ToolDenied``.
        """
        needs_branch = runs_inline(self.tools, call.tool_name) and not goes_on
        if needs_branch and self.context.patched(INNER if self.context.is_in_branch else BRANCHES):
            return await InlineCall(self, call, args).run(handler)
        answers = list(given)
        while True:
            try:
                return await pausing.in_round(self.context, call.tool_name, answers, lambda: handler(args))
            except ToolPaused as paused:
                pause = paused.pause
            except ToolChanged as changed:
                pause = changed.change
            if isinstance(pause, str):
                choice = await self._choose(call, args, pause, {"answers": _said(answers)})
                if isinstance(choice, ToolDenied):
                    return choice
                if choice.goes_on:
                    continue
                return await self.run_choice(call, args, choice, answers=answers)
            asked = pausing.ask_for(self.context, pause, call.tool_name, jsonable(args), self._about(call))
            answer = await _answer_or_denial(asked, "answered")
            if isinstance(answer, ToolDenied):
                return answer
            if pause.then == "tool":
                answers.append((pause, answer))
            elif answer.approved is False:
                return ToolDenied(answer.note or DENIED)
            else:
                return await self._kept(call, args, pausing.answered(answer, pause.schema), answer)

    # Deciding and asking

    async def _decision(
        self, call: ToolCallPart, args: dict[str, Any], *, is_asked: bool, known: Known
    ) -> Decision:
        proposed = ToolCall(
            call.tool_name,
            jsonable(args),
            call.tool_call_id,
            self.durable.name,
            self.context.run_id,
            self.context.session_id,
            self._ctx.deps,
            is_asked or known.is_external,
        )
        return await self.context.step(
            f"{self.durable.name}.{call.tool_name}:policy", decide, self.durable.approvals, proposed
        )

    async def _ask_and_run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
    ) -> Any:
        if self.durable.barrier:  # comes back with the others, through `resolve`
            raise ApprovalRequired(metadata={"decision": decision})
        agreed = await self._agree(call, definition, args, decision)
        if isinstance(agreed, ToolDenied):
            return agreed
        if isinstance(agreed.runs, Choice):
            return await self.run_choice(call, agreed.arguments, agreed.runs, agreed.edit)
        return as_edited(await self.tools.execute_tool_call(agreed.runs), agreed.edit)

    async def _ask_for_result(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], decision: Decision
    ) -> Any:
        if self.durable.barrier and self.context.patched(TOGETHER):  # as in `_ask_and_run`
            raise CallDeferred(metadata={"decision": decision})
        return await self._result_from_outside(call, definition, args, decision)

    async def _agree(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
    ) -> Agreed | ToolDenied:
        """Ask until people say no, or agree to arguments that the tool takes."""
        problem: str | None = None
        while True:
            answer = await self._ask(call, definition, jsonable(args), decision, problem)
            if isinstance(answer, ToolDenied):
                return answer
            if not answer.approved:
                return ToolDenied(answer.note or DENIED)
            args = cast("dict[str, Any]", answer.proposal)
            while (change := await self._change(call)) is not None:
                choice = await self._choose(call, args, change, {"approved_by": answer.user_id})
                if isinstance(choice, ToolDenied):
                    return choice
                if not choice.goes_on:
                    return Agreed(choice, args, answer)
            try:
                validated = await self.tools.validate_tool_call(
                    replace(call, args=args),
                    approved=True,
                    metadata={ASSIGNEES: tuple(decision.get("assignees", ()))},
                    wrap_validation_errors=False,
                )
            except (ValidationError, ModelRetry, UnexpectedModelBehavior) as error:
                problem = f"These arguments are not taken: {error}"
            else:
                return Agreed(validated, args, answer)

    async def _ask(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        arguments: dict[str, Any],
        decision: Decision,
        problem: str | None,
    ) -> Answer | ToolDenied:
        asked = self.context.wait_for_user(
            decision.get("prompt") or f"{self.durable.name} wants to call {call.tool_name}",
            assignees=decision.get("assignees", ()),
            timeout_seconds=decision.get("timeout"),
            quorum=decision.get("approvers", 1),
            proposal=arguments,
            proposal_type=definition.parameters_json_schema,
            action=Action(call.tool_name, arguments, about=decision.get("details") or None),
            help=problem or definition.description,
            metadata={**decision.get("details", {}), **self._about(call)},
        )
        return await _answer_or_denial(asked, "allowed this call")

    async def _result_from_outside(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], decision: Decision
    ) -> Any:
        schema = definition.return_schema or {}
        form = {
            "type": "object",
            "properties": {"result": {name: value for name, value in schema.items() if name != "$defs"}},
            "required": ["result"],
            "additionalProperties": False,
            "$defs": schema.get("$defs", {}),
        }
        asked = self.context.wait_for_user(
            decision.get("prompt") or f"{self.durable.name} needs the result of {call.tool_name}",
            input_type="form",
            answer_type=form,
            assignees=decision.get("assignees", ()),
            timeout_seconds=decision.get("timeout"),
            help=definition.description,
            metadata={
                **decision.get("details", {}),
                **self._about(call),
                "tool": call.tool_name,
                "arguments": jsonable(args),
            },
        )
        answer = await _answer_or_denial(asked, "given the result of this call")
        if isinstance(answer, ToolDenied):
            return answer
        return await self._kept(call, args, cast("dict[str, Any]", answer.value)["result"], answer)

    def shown(self, call: ToolCallPart, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return what people are shown of a call that was interrupted."""
        return {
            "agent": self.durable.name,
            "tool": call.tool_name,
            "arguments": jsonable(args),
            "tool_call_id": call.tool_call_id,
        }

    def _about(self, call: ToolCallPart) -> dict[str, Any]:
        """What people are shown of any call."""
        return {
            "agent": self.durable.name,
            "tool_call_id": call.tool_call_id,
            "conversation": story_of(self._ctx.messages),
        }

    # Tools that changed while people thought

    async def _change(self, call: ToolCallPart) -> Change | None:
        return await self.context.step(
            f"{self.durable.name}.{call.tool_name}:changed",
            change_in,
            self.tools,
            call.tool_name,
            returns=Any,
        )

    async def _choose(
        self, call: ToolCallPart, args: dict[str, Any], change: Change, shown: Mapping[str, Any]
    ) -> Choice | ToolDenied:
        operators = Operators(self.durable, self.context, self.tools)
        choice = await operators.choose(call, jsonable(args), change, jsonable(shown))
        return choice or ToolDenied(UNTOUCHED.format(call.tool_name))

    async def _kept(self, call: ToolCallPart, args: dict[str, Any], result: Any, answer: Answer) -> Any:
        """Return a result that a person has given, unless its tool has changed: then an operator decides."""
        change = await self._change(call) if self.context.patched(KEPT) else None
        if change is None:
            return result
        choice = await self._choose(call, args, change, {"result": result, "given_by": answer.user_id})
        if isinstance(choice, ToolDenied):
            return choice
        return result if choice.tool == RESULT else await self.run_choice(call, args, choice)

    async def run_choice(
        self,
        call: ToolCallPart,
        args: dict[str, Any],
        choice: Choice,
        edit: Mapping[str, Any] | None = None,
        answers: Sequence[Answered] = (),
    ) -> Any:
        """Run the tool that an operator has chosen, which may have changed since."""
        gate = self.after(choice)
        result = await gate.run_chosen(chosen_call(call, args, choice), choice.known, answers)
        return as_chosen(result, args, choice, edit)

    def after(self, choice: Choice | None) -> Gate:
        """Return the gate before a tool that was chosen; None, or if it is the one that was called, this."""
        if choice is None or (choice.goes_on and choice.known is None):
            return self
        tools = manager_for(self.tools, choice.tool, choice.known, self.durable)
        return Gate(self.durable, replace(self._ctx, tool_manager=tools), self.context)

    async def run_chosen(
        self,
        call: ToolCallPart,
        known: Known | None,
        answers: Sequence[Answered] = (),
        *,
        goes_on: bool = False,
    ) -> Any:
        """Run a tool that the model has not called.

        Args:
            call: The call of it.
            known: What was known of it when it was chosen: people have seen that.
            answers: What people have answered to the tool that it is run instead of.
            goes_on: Whether its body goes on where that tool's has stopped.
        """
        definition, args = self._definition(call), plain(call.args)
        if is_external(definition) if known is None else known.is_external:
            return await self._result_from_outside(call, definition, args, ASK)
        # errors of the model's making come up as they are: they are told of the call that it has made
        validated = await self.tools.validate_tool_call(
            call,
            approved=True,
            metadata={ANSWERS: answers, GOES_ON: goes_on},
            wrap_validation_errors=False,
        )
        try:
            return await self.tools.execute_tool_call(validated, wrap_validation_errors=False)
        except CallDeferred as deferred:
            return await self._result_from_outside(call, definition, args, _asked_by_tool(deferred.metadata))


def _said(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    return [
        {"reason": pause.reason, "prompt": pause.prompt, "answer": answer.value, "by": answer.user_id}
        for pause, answer in answers
    ]


async def _answer_or_denial(asked: Awaitable[Answer], what: str) -> Answer | ToolDenied:
    """Wait for an answer. That there is none is for the model to read.

    Args:
        asked: The question.
        what: What nobody has done, if time runs out.
    """
    try:
        return await asked
    except SignalTimeout:
        return ToolDenied(f"Nobody has {what} in time.")
    except QuestionCancelled as withdrawn:
        return ToolDenied(f"The question was withdrawn: {withdrawn}")


def _asked_by_tool(metadata: Mapping[str, Any] | None) -> Decision:
    """Return how to ask where a tool has asked itself, with ``ApprovalRequired(metadata=...)``."""
    if metadata is not None and "decision" in metadata:
        return cast("Decision", metadata["decision"])
    return {**ASK, "details": jsonable(metadata or {})}
