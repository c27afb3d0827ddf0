"""The gate before a tool: what a policy says, whom to ask, and with which arguments the tool then runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError
from pydantic_ai import RunContext, ToolDefinition
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, UnexpectedModelBehavior
from pydantic_ai.messages import ToolCallPart, ToolReturn
from pydantic_ai.tool_manager import ToolManager, ValidatedToolCall
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_core import to_jsonable_python

from signoff.agents import changes, pausing
from signoff.agents.approvals import ASK, Decision, ToolCall, decide, may_ask, plain
from signoff.agents.changes import Gone, Known
from signoff.agents.pausing import ToolPaused
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

UNTOUCHED: Final = "{} has changed since it was called, and was not run."

EDITED: Final = "signoff"
"""Under which name the metadata of a tool's return has what a person changed."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What people let happen: a call, with arguments that its tool takes."""

    call: ValidatedToolCall[Any]
    arguments: dict[str, Any]
    answer: Answer

    @property
    def edit(self) -> dict[str, Any] | None:
        """What the history is to say of changed arguments; None: they are the model's."""
        if not self.answer.edits:
            return None
        return {"arguments": self.arguments, "edited_by": self.answer.user_id}


class Gate:
    """What stands between a model's tool calls and the tools, in workflow code."""

    def __init__(self, durable: Durable[Any], ctx: RunContext[Any], context: Context) -> None:
        self._durable = durable
        self._ctx = ctx
        self._context = context
        assert ctx.tool_manager is not None
        self._tools: ToolManager[Any] = ctx.tool_manager

    @classmethod
    def of(cls, durable: Durable[Any], ctx: RunContext[Any]) -> Gate:
        """Return the gate of the run whose code runs here."""
        return cls(durable, ctx, current_context())

    async def record(self, calls: Sequence[ToolCallPart], known: dict[str, Known]) -> None:
        """Journal what is known of the tools that a response calls."""
        names = sorted({call.tool_name for call in calls})
        kept: dict[str, dict[str, Any]] = await self._context.step(
            f"{self._durable.name}:calls", lambda: {name: self._facts(name) for name in names}
        )
        known.update({name: Known(**facts) for name, facts in kept.items()})
        for name in names:
            of_that_name = [call for call in calls if call.tool_name == name]
            changes.stand_in(self._tools, of_that_name, known[name], self._durable)

    def _facts(self, name: str) -> dict[str, Any]:
        definition = self._tools.get_tool_def(name)
        if definition is None or definition.kind == "output":
            signature = None if definition is None else changes.signature_of(definition)
            return {"signature": signature, "is_gated": False, "is_external": False}
        external = is_external(definition)
        gated = external or requires_approval(definition) or may_ask(self._durable.approvals, name)
        return {"signature": changes.signature_of(definition), "is_gated": gated, "is_external": external}

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
                return await self._result_from_outside(call, definition, args, decision)
            if verdict == "ask":
                return await self._ask_and_run(call, definition, args, decision, known)
        try:
            return await handler(args)
        except ApprovalRequired as required:
            return await self._ask_and_run(call, definition, args, _asked_by_tool(required.metadata), known)
        except CallDeferred as deferred:
            return await self._result_from_outside(call, definition, args, _asked_by_tool(deferred.metadata))
        except Gone:
            return await self._run_instead(call, args, known)

    async def resolve(
        self, requests: DeferredToolRequests, known: Mapping[str, Known]
    ) -> DeferredToolResults:
        """Ask about all the calls of a response that were deferred, at once, and wait for all answers."""
        results = DeferredToolResults()
        async with asyncio.TaskGroup() as group:
            for call in requests.approvals:
                decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
                group.create_task(self._approve_into(results, call, decision, known[call.tool_name]))
            for call in requests.calls:
                decision = _asked_by_tool(requests.metadata.get(call.tool_call_id))
                group.create_task(self._answer_into(results, call, decision))
        return results

    async def _approve_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision, known: Known
    ) -> None:
        definition = self._definition(call)
        agreed = await self._agree(call, definition, plain(call.args), decision, known)
        if isinstance(agreed, ToolDenied):
            results.approvals[call.tool_call_id] = agreed
            return
        results.approvals[call.tool_call_id] = ToolApproved(override_args=agreed.arguments)
        if agreed.edit is not None:
            results.metadata[call.tool_call_id] = {EDITED: agreed.edit}

    async def _answer_into(
        self, results: DeferredToolResults, call: ToolCallPart, decision: Decision
    ) -> None:
        definition = self._definition(call)
        results.calls[call.tool_call_id] = await self._result_from_outside(
            call, definition, plain(call.args), decision
        )

    def _definition(self, call: ToolCallPart) -> ToolDefinition:
        definition = self._tools.get_tool_def(call.tool_name)
        assert definition is not None  # it was validated
        return definition

    async def run_through_pauses(self, call: ToolCallPart, args: dict[str, Any], handler: Handler) -> Any:
        """Run a tool, and again with each answer that it leaves for.

        Returns:
            What it returned; the answer, if that is for the model; or ``ToolDenied``.
        """
        answers: list[pausing.Answered] = []
        while True:
            token = pausing.with_answers(answers)
            try:
                return await handler(args)
            except ToolPaused as paused:
                pause = paused.pause
            finally:
                pausing.without_answers(token)
            asked = pausing.ask_for(self._context, pause, call.tool_name, jsonable(args), self._about(call))
            answer = await _answer_or_denial(asked, "answered")
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
        self, call: ToolCallPart, args: dict[str, Any], *, is_asked: bool, known: Known
    ) -> Decision:
        proposed = ToolCall(
            call.tool_name,
            jsonable(args),
            call.tool_call_id,
            self._durable.name,
            self._context.run_id,
            self._context.session_id,
            self._ctx.deps,
            is_asked or known.is_external,
        )
        return await self._context.step(
            f"{self._durable.name}.{call.tool_name}:policy", decide, self._durable.approvals, proposed
        )

    async def _ask_and_run(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
        known: Known,
    ) -> Any:
        if self._durable.barrier:  # comes back with the others, through `resolve`
            raise ApprovalRequired(metadata={"decision": decision})
        agreed = await self._agree(call, definition, args, decision, known)
        if isinstance(agreed, ToolDenied):
            return agreed
        return as_edited(await self._tools.execute_tool_call(agreed.call), agreed.edit)

    async def _agree(
        self,
        call: ToolCallPart,
        definition: ToolDefinition,
        args: dict[str, Any],
        decision: Decision,
        known: Known,
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
            changed = await self._context.step(
                f"{self._durable.name}.{call.tool_name}:changed",
                changes.change_of,
                self._tools,
                call.tool_name,
                known,
            )
            name = call.tool_name
            if changed is not None:
                chosen = await self._tool_instead(call, args, answer.user_id, changed)
                if chosen is None:
                    return ToolDenied(UNTOUCHED.format(call.tool_name))
                name = chosen
            try:
                validated = await self._tools.validate_tool_call(
                    replace(call, args=args, tool_name=name), approved=True, wrap_validation_errors=False
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
        asked = self._context.wait_for_user(
            decision.get("prompt") or f"{self._durable.name} wants to call {call.tool_name}",
            assignees=decision.get("assignees", ()),
            timeout_seconds=decision.get("timeout"),
            quorum=decision.get("approvers", 1),
            proposal=arguments,
            proposal_type=definition.parameters_json_schema,
            action=Action(call.tool_name, arguments),
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
        asked = self._context.wait_for_user(
            decision.get("prompt") or f"{self._durable.name} needs the result of {call.tool_name}",
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
        return answer if isinstance(answer, ToolDenied) else cast("dict[str, Any]", answer.value)["result"]

    def shown(self, call: ToolCallPart, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return what people are shown of a call that was interrupted."""
        return {
            "agent": self._durable.name,
            "tool": call.tool_name,
            "arguments": jsonable(args),
            "tool_call_id": call.tool_call_id,
        }

    def _about(self, call: ToolCallPart) -> dict[str, Any]:
        """What people are shown of any call."""
        return {
            "agent": self._durable.name,
            "tool_call_id": call.tool_call_id,
            "conversation": story_of(self._ctx.messages),
        }

    # Tools that changed while people thought

    async def _tool_instead(
        self, call: ToolCallPart, args: dict[str, Any], approved_by: str | None, changed: str
    ) -> str | None:
        """Ask an operator which tool to run in place of one that has changed; None: none."""
        while True:
            try:
                answer = await self._context.wait_for_user(
                    changes.question(self._durable.name, call.tool_name, changed),
                    input_type="select",
                    options=changes.options(self._tools, call.tool_name, args),
                    assignees=self._durable.operators,
                    help="The code has changed since the model called it. Nothing has been run yet.",
                    metadata={
                        "agent": self._durable.name,
                        "tool": call.tool_name,
                        "arguments": args,
                        "approved_by": approved_by,
                        "tool_call_id": call.tool_call_id,
                    },
                )
            except QuestionCancelled:
                return None
            if answer.value == changes.NOTHING:
                return None
            if self._tools.get_tool_def(answer.value) is not None:
                return answer.value

    async def _run_instead(self, call: ToolCallPart, args: dict[str, Any], known: Known) -> Any:
        change = changes.change_of(self._tools, call.tool_name, known) or changes.OTHER
        name = await self._tool_instead(call, jsonable(args), None, change)
        if name is None:
            return ToolDenied(UNTOUCHED.format(call.tool_name))
        validated = await self._tools.validate_tool_call(replace(call, tool_name=name), approved=True)
        return await self._tools.execute_tool_call(validated)


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


def jsonable(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return validated arguments as JSON has them."""
    return cast("dict[str, Any]", to_jsonable_python(dict(args)))


def _asked_by_tool(metadata: Mapping[str, Any] | None) -> Decision:
    """Return how to ask where a tool has asked itself, with ``ApprovalRequired(metadata=...)``."""
    if metadata is not None and "decision" in metadata:
        return cast("Decision", metadata["decision"])
    return {**ASK, "details": jsonable(metadata or {})}


def as_edited(result: Any, edit: Mapping[str, Any] | None) -> Any:
    """Say in the history what really ran, where a person has changed the arguments."""
    if edit is None:
        return result
    returned = cast(
        "ToolReturn[Any]", result if isinstance(result, ToolReturn) else ToolReturn(return_value=result)
    )
    ran = json.dumps(edit["arguments"])
    note = f"The person who approved this call changed its arguments; it ran with {ran}."
    content = returned.content
    said = [note] if content is None else [note, *([content] if isinstance(content, str) else content)]
    metadata = {EDITED: dict(edit)}
    if returned.metadata is not None:
        metadata["tool"] = returned.metadata
    return replace(returned, content=said, metadata=metadata)
