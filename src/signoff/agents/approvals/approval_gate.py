"""The gate before a tool: what a policy says, whom to ask, and with which arguments the tool then runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
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
from pydantic_ai.toolsets import DynamicToolset

from signoff.agents.approvals.approval_policy import ASK, Decision, ToolCall, decide
from signoff.agents.approvals.argument_validation import Outcome, key_of, validate_once
from signoff.agents.approvals.call_questions import CallQuestions, answer_or_denial
from signoff.agents.approvals.call_state import Edited, held
from signoff.agents.approvals.operator_questions import RESULT, Choice, Operators
from signoff.agents.approvals.recorded_edits import EDITED, as_chosen, as_edited, chosen_call
from signoff.agents.approvals.stand_ins import change_in, manager_for, runs_inline, stand_in, tools_now
from signoff.agents.approvals.tool_arguments import Arguments, plain
from signoff.agents.approvals.tool_changes import Change, Known, ToolChanged, known_of
from signoff.agents.approvals.transcript import story_of
from signoff.agents.pausing import pause as pausing
from signoff.agents.pausing.pause import Answered, ToolPaused
from signoff.agents.steps.deps import copies_of_deps
from signoff.agents.steps.dynamic_toolsets import dynamic_toolset
from signoff.agents.steps.in_workflow import step_name_of
from signoff.agents.steps.in_workflow_calls import BRANCHES, INNER, UNTOUCHED, InlineCall
from signoff.agents.steps.step_backend import RETRY
from signoff.agents.steps.tools import is_external, requires_approval
from signoff.people.questions.answers import Answer
from signoff.people.questions.edits import applied, is_kept, is_same
from signoff.people.schemas.shown_values import show
from signoff.workflow.context import Context, current_context

if TYPE_CHECKING:
    from signoff.agents.durable import Durable

Handler = Callable[[dict[str, Any]], Awaitable[Any]]

DENIED: Final = "A person has not allowed this call."

CHANGED: Final = "A hook has changed these arguments. They are shown as the tool would get them."

MADE_OTHERWISE: Final = (
    "The tool makes something else of what the edit has left as it was. It is shown as the tool would get it."
)

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
    """What people let happen.

    Attributes:
        arguments: With which arguments.
        edited_by: Who has changed them; None: they are the model's.
        choice: The tool that an operator chose instead of the one that was called; None: that one.
    """

    arguments: Arguments
    edited_by: str | None
    choice: Choice | None = None

    @property
    def edit(self) -> dict[str, Any] | None:
        """What the history is to say of changed arguments; None: they are the model's."""
        if self.edited_by is None:
            return None
        return {"arguments": self.arguments.shown, "edited_by": self.edited_by}


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
        outcomes: dict[str, Sequence[Outcome]] = {}

        def look() -> dict[str, dict[str, Any]]:
            facts: dict[str, dict[str, Any]] = {}
            for name in sorted({call.tool_name for call in calls}):
                found, outcomes[name] = self._known(name, calls)
                facts[name] = found.facts()
            return facts

        kept: dict[str, dict[str, Any]] = await self.context.step(f"{self.durable.name}:calls", look)
        found = {name: Known(**facts) for name, facts in kept.items()}
        known.update(found)
        repeated: dict[str, dict[str, dict[str, Any]]] = {}
        for call in calls:
            sent = found[call.tool_name].repeated.get(call.tool_call_id)
            if sent is not None:
                repeated.setdefault(call.tool_name, {})[key_of(call.args)] = sent
        validate_once(self.tools, outcomes, repeated)
        stand_in(self.tools, found, self.durable, self._ctx.run_step)

    def _known(self, name: str, calls: Sequence[ToolCallPart]) -> tuple[Known, list[Outcome]]:
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
            arguments = await self.seen(call, args)
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
            return await handler(args)
        except ApprovalRequired as required:
            return await self._ask_and_run(call, definition, args, _asked_by_tool(required.metadata))
        except CallDeferred as deferred:
            return await self._ask_for_result(call, definition, args, _asked_by_tool(deferred.metadata))

    def arguments_of(self, call: ToolCallPart, validated: dict[str, Any]) -> Arguments:
        """Return the arguments of a call that was validated."""
        name = call.tool_name
        known = held().known.get(name)
        if known is not None and change_in(self.tools, name) is not None:
            # people see it as they did before the tool changed
            sent = plain(call.args)
            shown = applied(show(sent).value, known.shown.get(call.tool_call_id, ()))
            return Arguments(sent, validated, cast("dict[str, Any]", shown))
        return Arguments.of((self.tools.tools or {}).get(name), name, call.args, validated)

    async def seen(self, call: ToolCallPart, validated: dict[str, Any]) -> Arguments:
        """Return the arguments of a call, as ``arguments_of`` does; those of a dynamic toolset's tool are looked at.

        Raises:
            ModelRetry: The tool does not take them.
        """
        tool = (self.tools.tools or {}).get(call.tool_name)
        toolset = None if tool is None else dynamic_toolset(tool)
        known = held().known.get(call.tool_name)
        if not (toolset is not None if known is None else known.is_dynamic):
            return self.arguments_of(call, validated)
        found = held().dynamic
        key = (call.tool_call_id, key_of(validated))
        if key not in found:
            facts = await self._facts_of(call, validated, toolset, known)
            if "refused" in facts:
                raise ModelRetry(facts["refused"])
            shown = cast("dict[str, Any]", applied(show(validated).value, facts["differs"]))
            unseen, made = ([tuple(place) for place in facts[name]] for name in ("unseen", "made"))
            arguments = Arguments(plain(call.args), validated, shown, unseen, made)
            if made:
                again = Arguments(validated, validated, shown, unseen, made).repeatable
                arguments = replace(arguments, validated=again)
            found[key] = found[call.tool_call_id, key_of(arguments.validated)] = arguments
        return found[key]

    async def _facts_of(
        self,
        call: ToolCallPart,
        validated: dict[str, Any],
        toolset: DynamicToolset[Any] | None,
        known: Known | None,
    ) -> dict[str, Any]:
        """Look, in a step, at what a tool of a dynamic toolset makes of arguments."""
        tool = (self.tools.tools or {}).get(call.tool_name)
        name = known.step_name if known is not None else None if tool is None else step_name_of(tool)
        copy = copies_of_deps()

        async def look() -> dict[str, Any]:
            if toolset is None:  # it has changed before anybody could look: an operator is asked about it
                return {"differs": [], "unseen": [[]], "made": []}
            return await self.durable.look_at(toolset, name or call.tool_name, validated, self._ctx, copy)

        return await self.context.step(
            f"{self.durable.name}.{call.tool_name}:shown", look, retry=RETRY, returns=Any
        )

    async def check_unchanged(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], known: Known
    ) -> dict[str, Any]:
        """Decide again on a call whose arguments a hook has changed after they were decided on.

        Returns:
            The arguments to run the tool with.

        Raises:
            SkipToolExecution: Nobody lets it happen.
        """
        shown, before = held().decided[call.tool_call_id]
        arguments = await self.seen(call, args)
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
                raise SkipToolExecution(await self._run_instead(call, agreed, agreed.choice))
            arguments = agreed.arguments
        held().decided[call.tool_call_id] = (arguments.shown, decision)
        return arguments.validated

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
            sent = self.arguments_of(call, args).sent
            return await self.run_choice(call, sent, choice, metadata.get(EDITED))
        answers, goes_on = metadata.get(ANSWERS, ()), metadata.get(GOES_ON, False)
        result = await self.run_through_pauses(call, args, handler, answers, goes_on=goes_on)
        return as_edited(result, metadata.get(EDITED))

    async def resolve(self, requests: DeferredToolRequests) -> DeferredToolResults:
        """Ask about all the calls of a response that were deferred, at once, and wait for all answers."""
        results = DeferredToolResults()
        try:
            async with asyncio.TaskGroup() as group:
                for call in requests.approvals:
                    decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
                    group.create_task(self._approve_into(results, call, decision))
                for call in requests.calls:
                    decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
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
        definition = self._definition(call)
        try:
            results.calls[call.tool_call_id] = await self._result_from_outside(
                call, definition, await self._held_of(call), decision
            )
        except ModelRetry as retry:  # of a tool that an operator has chosen
            results.calls[call.tool_call_id] = retry

    def _hold(self, call: ToolCallPart, agreed: Agreed, decision: Decision) -> None:
        """Have the very arguments run that people have agreed to."""
        held().agreed[call.tool_call_id] = agreed.arguments.validated
        held().decided[call.tool_call_id] = (agreed.arguments.shown, decision)

    async def _held_of(self, call: ToolCallPart) -> Arguments:
        """Return the arguments of a call that was deferred after it was validated."""
        validated = held().validated.get(call.tool_call_id)
        return await self.seen(call, plain(call.args) if validated is None else validated)

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
            return await InlineCall(self, call, self.arguments_of(call, args)).run(handler)
        answers = list(given)
        while True:
            try:
                return await pausing.in_round(self.context, call.tool_name, answers, lambda: handler(args))
            except ToolPaused as paused:
                pause = paused.pause
            except ToolChanged as changed:
                pause = changed.change
            if isinstance(pause, str):
                sent = self.arguments_of(call, args).sent
                choice = await self._choose(call, sent, pause, {"answers": _said(answers)})
                if isinstance(choice, ToolDenied):
                    return choice
                if choice.goes_on:
                    continue
                return await self.run_choice(call, sent, choice, answers=answers)
            shown = (await self.seen(call, args)).shown
            asked = pausing.ask_for(self.context, pause, call.tool_name, shown, self._about(call))
            answer = await answer_or_denial(asked, "answered")
            if isinstance(answer, ToolDenied):
                return answer
            if pause.then == "tool":
                answers.append((pause, answer))
            elif answer.approved is False:
                return ToolDenied(answer.note or DENIED)
            else:
                sent = self.arguments_of(call, args).sent
                return await self._kept(call, sent, pausing.answered(answer, pause.schema), answer)

    # Deciding and asking

    async def _decision(
        self, call: ToolCallPart, arguments: Arguments, definition: ToolDefinition, known: Known
    ) -> Decision:
        proposed = ToolCall(
            call.tool_name,
            deepcopy(arguments.shown),
            call.tool_call_id,
            self.durable.name,
            self.context.run_id,
            self.context.session_id,
            self._ctx.deps,
            requires_approval(definition) or known.is_external,
            tuple(arguments.places),
        )
        return await self.context.step(
            f"{self.durable.name}.{call.tool_name}:policy",
            decide,
            self.durable.approvals,
            proposed,
            self.durable.operators,
        )

    async def _ask_and_run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
    ) -> Any:
        if self.durable.barrier and not self._ends_with_output():  # comes back with the others, in `resolve`
            held().validated[call.tool_call_id] = args
            raise ApprovalRequired(metadata={"decision": decision})
        agreed = await self._agree(call, definition, await self.seen(call, args), decision)
        if isinstance(agreed, ToolDenied):
            return agreed
        if agreed.choice is not None:
            return await self._run_instead(call, agreed, agreed.choice)
        self._hold(call, agreed, decision)
        validated = await self.tools.validate_tool_call(
            call if agreed.edited_by is None else replace(call, args=agreed.arguments.sent),
            approved=True,
            metadata={ASSIGNEES: tuple(decision.get("assignees", ()))},
        )
        return as_edited(await self.tools.execute_tool_call(validated), agreed.edit)

    def _ends_with_output(self) -> bool:
        """Whether the response gives the agent's output, too: Pydantic AI then drops the calls that are deferred."""
        responses = (each for each in reversed(self._ctx.messages) if isinstance(each, ModelResponse))
        parts = next((each.parts for each in responses), ())
        names = {part.tool_name for part in parts if isinstance(part, ToolCallPart)}
        tools = self.tools.tools or {}
        return any(name in tools and tools[name].tool_def.kind == "output" for name in names)

    async def _run_instead(self, call: ToolCallPart, agreed: Agreed, choice: Choice) -> Any:
        return await self.run_choice(call, agreed.arguments.sent, choice, agreed.edit)

    async def _ask_for_result(
        self, call: ToolCallPart, definition: ToolDefinition, args: dict[str, Any], decision: Decision
    ) -> Any:
        if self.durable.barrier and not self._ends_with_output() and self.context.patched(TOGETHER):
            held().validated[call.tool_call_id] = args
            raise CallDeferred(metadata={"decision": decision})
        return await self._result_from_outside(call, definition, await self.seen(call, args), decision)

    async def _agree(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        arguments: Arguments,
        decision: Decision,
        problem: str | None = None,
    ) -> Agreed | ToolDenied:
        """Ask until people say no, or agree to arguments that the tool takes."""
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
            while (change := await self._change(call)) is not None:
                choice = await self._choose(call, sent, change, {"approved_by": answer.user_id})
                if isinstance(choice, ToolDenied):
                    return choice
                if not choice.goes_on:
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
                problem, is_valid = f"These arguments are not taken: {error}", False
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
        """Return what the tool makes of an edit."""
        validated = await self.tools.validate_tool_call(
            replace(call, args=json.dumps(sent) if isinstance(call.args, str) else sent),
            approved=True,
            metadata={ASSIGNEES: tuple(decision.get("assignees", ()))},
            wrap_validation_errors=False,
        )
        return await self.seen(replace(call, args=sent), validated.validated_args or {})

    async def _made(self, call: ToolCallPart, arguments: Arguments) -> dict[str, Any]:
        """Journal an edit with what its tool has made anew, such as ids: people see it, so it stays as it is."""
        return await self.context.step(
            f"{self.durable.name}.{call.tool_name}:made", lambda: arguments.repeatable, returns=Any
        )

    async def _result_from_outside(
        self, call: ToolCallPart, definition: ToolDefinition, arguments: Arguments, decision: Decision
    ) -> Any:
        answer = await self._questions(call, definition).ask_for_result(arguments, decision)
        if isinstance(answer, ToolDenied):
            return answer
        return await self._kept(call, arguments.sent, cast("dict[str, Any]", answer.value)["result"], answer)

    def _questions(self, call: ToolCallPart, definition: ToolDefinition) -> CallQuestions:
        return CallQuestions(self.context, self.durable.name, call, definition, self._about(call))

    def shown(self, call: ToolCallPart, args: dict[str, Any]) -> dict[str, Any]:
        """Return what people are shown of a call that was interrupted."""
        return {
            "agent": self.durable.name,
            "tool": call.tool_name,
            "arguments": self.arguments_of(call, args).shown,
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
        self, call: ToolCallPart, sent: dict[str, Any], change: Change, shown: Mapping[str, Any]
    ) -> Choice | ToolDenied:
        operators = Operators(self.durable, self.context, self.tools)
        choice = await operators.choose(call, sent, change, cast("dict[str, Any]", show(dict(shown)).value))
        return choice or ToolDenied(UNTOUCHED.format(call.tool_name))

    async def _kept(self, call: ToolCallPart, sent: dict[str, Any], result: Any, answer: Answer) -> Any:
        """Return a result that a person has given, unless its tool has changed: then an operator decides."""
        change = await self._change(call) if self.context.patched(KEPT) else None
        if change is None:
            return result
        choice = await self._choose(call, sent, change, {"result": result, "given_by": answer.user_id})
        if isinstance(choice, ToolDenied):
            return choice
        return result if choice.tool == RESULT else await self.run_choice(call, sent, choice)

    async def run_choice(
        self,
        call: ToolCallPart,
        sent: dict[str, Any],
        choice: Choice,
        edit: Mapping[str, Any] | None = None,
        answers: Sequence[Answered] = (),
    ) -> Any:
        """Run the tool that an operator has chosen, which may have changed since."""
        gate = self.after(choice)
        result = await gate.run_chosen(chosen_call(call, sent, choice), choice.known, answers)
        return as_chosen(result, sent, choice, edit)

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
        definition, sent = self._definition(call), plain(call.args)
        held().decided.pop(call.tool_call_id, None)  # an operator has
        arguments = Arguments(sent, sent, sent)
        if is_external(definition) if known is None else known.is_external:
            return await self._result_from_outside(call, definition, arguments, ASK)
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
            return await self._result_from_outside(
                call, definition, arguments, _asked_by_tool(deferred.metadata)
            )


def _said(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    return [
        {"reason": pause.reason, "prompt": pause.prompt, "answer": answer.value, "by": answer.user_id}
        for pause, answer in answers
    ]


def _asked_by_tool(metadata: Mapping[str, Any] | None) -> Decision:
    """Return how to ask where a tool has asked itself, with ``ApprovalRequired(metadata=...)``."""
    if metadata is not None and "decision" in metadata:
        return cast("Decision", metadata["decision"])
    return {**ASK, "details": show(dict(metadata or {})).value}
