"""The operations of an agent as steps of the run: model requests, tool calls, discovery, events."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

from pydantic_ai.durable_exec import (
    CallableOperationBackend,
    CapabilityOperationId,
    DurableOperationId,
    EventStreamHandlerId,
    JournalOperationNamer,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestId,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
)
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAPIError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool

from signoff.agents.approvals.tool_arguments import sent_in
from signoff.agents.approvals.tool_changes import check_changed
from signoff.agents.pausing.pause import check_left, check_not_left, run_tool, without_pauses
from signoff.agents.steps.deps import Copy, copies_of_deps
from signoff.agents.steps.in_workflow import is_inline
from signoff.agents.steps.tools import KEY, step_options_of
from signoff.agents.steps.turn_record import note_work
from signoff.codec import digest
from signoff.engine.steps.retry import RetryPolicy
from signoff.workflow.current_context import current_context

Config = Mapping[str, Any]
Unit = Callable[[Callable[[], Awaitable[object]], Copy], Awaitable[object]]

_MAY_PASS: Final = (408, 409, 425, 429)
"""Of the errors that are the caller's, those that another attempt may not meet."""


def is_worth_retrying(error: Exception) -> bool:
    """Whether another attempt at a model request or tool call may go better."""
    if isinstance(error, (ModelQuotaExceededError, ModelRequestRejectedError)):
        return False
    status: int | None = getattr(error, "status_code", None)
    if isinstance(error, ModelAPIError):
        return status is None or status >= 500 or status in _MAY_PASS
    return not isinstance(error, (UserError, AgentRunError))


_FACTS: Final = (
    "status_code",
    "model_name",
    "body",
    "headers",
    "suggested_model_id",
    "hint",
    "provider_error_code",
    "provider_error_type",
    "retry_after",
    "in_stream",
)


def _as_raised(error: ModelAPIError) -> ModelAPIError:
    """Give back the class of an error of HTTP and of a category at once, which a journal knows by the category only."""
    if isinstance(error, ModelHTTPError) or not hasattr(error, "status_code"):
        return error
    facts = {name: getattr(error, name) for name in _FACTS if hasattr(error, name)}
    return ModelHTTPError.for_category(cast("Any", type(error)), **facts)


class StepNames(JournalOperationNamer):
    """Names the steps of an agent, as the journal keeps them: they must never change."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self._agent = agent

    def operation_name(self, operation_id: DurableOperationId) -> str:
        """Return the name of an operation, without the tool's."""
        return f"{self._agent}:{_suffix(operation_id)}"

    def invocation_name(self, operation_id: DurableOperationId, *, label: str | None):
        """Return the name of one step; that of a tool call is the tool's."""
        usual = super().invocation_name(operation_id, label=label or "")
        if label is None:
            return replace(usual, operation_name=self.operation_name(operation_id))
        name = f"{self._agent}.{label}"
        if isinstance(operation_id, ToolsetValidateToolArgumentsId):
            name += ":validate"
        return replace(usual, operation_name=name)


def _suffix(operation_id: DurableOperationId) -> str:
    match operation_id:
        case ModelRequestId(streaming=streaming):
            return "model_stream" if streaming else "model"
        case ModelCancelSuspendedResponseId():
            return "cancel_response"
        case ModelCompactMessagesId():
            return "compact"
        case EventStreamHandlerId():
            return "event"
        case ToolsetGetToolsId(toolset_id=toolset):
            return f"tools:{toolset}"
        case ToolsetGetInstructionsId(toolset_id=toolset):
            return f"instructions:{toolset}"
        case ToolsetCallToolId(toolset_id=toolset):
            return f"call:{toolset}"
        case ToolsetValidateToolArgumentsId(toolset_id=toolset):
            return f"validate:{toolset}"
        case CapabilityOperationId(capability_id=capability, operation=operation):
            return f"{capability}.{operation}"


class StepBackend(CallableOperationBackend[Config]):
    """Runs each operation as a step.

    Args:
        agent: The agent's name.
        config: With which options.
        unit: Runs an operation's body inside its step, given what makes copies of the dependencies.
    """

    def __init__(self, agent: str, config: RoleBasedOperationConfig[Config], unit: Unit) -> None:
        super().__init__(namer=StepNames(agent), config=config)
        self._unit = unit

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: Config,
    ) -> object:
        """Run ``body`` as one step of the run."""

        copy = copies_of_deps()  # as they are where the step is made: code beside it may change them
        context = current_context()
        is_call = isinstance(operation_id, ToolsetCallToolId)
        if is_call:
            check_not_left(context, name)

        async def run() -> object:
            if is_call:
                return await run_tool(name, body)
            with without_pauses(name):
                return await body()

        async def step() -> object:
            return await self._unit(run, copy)

        # said here, as the annotation of a function made for one call would be resolved at each
        compare = _compared(operation_id, cache_key)
        call = context.step(name, step, returns=Any, compare=compare, **config)
        try:
            payload = await call
        except ModelAPIError as error:
            raise _as_raised(error) from error
        finally:
            note_work(call.attempt_times)
        return outcome_of(payload) if is_call else payload


def _compared(operation_id: DurableOperationId, about: tuple[object, ...]) -> object:
    """Return what a replay compares of an operation, besides its name; None: nothing.

    Of a tool call these are the arguments that the model has sent, which do not change with the tool. Of a model
    request it is what the user has said last: instructions and tools may change while a run waits.
    """
    if isinstance(operation_id, ToolsetCallToolId):
        contexts = [cast("RunContext[Any]", each) for each in about if isinstance(each, RunContext)]
        return sent_in(contexts[0]) if contexts else None
    if isinstance(operation_id, ModelRequestId):
        histories = [cast("list[object]", each) for each in about if isinstance(each, list)]
        return _said_last(histories[0]) if histories else None
    return None


def _said_last(messages: Sequence[object]) -> str | None:
    """Return a digest of what the user says in the last message: it may be long, and for few eyes."""
    last = messages[-1] if messages else None
    parts = last.parts if isinstance(last, ModelRequest) else ()
    texts: list[str] = []
    for part in parts:
        if isinstance(part, UserPromptPart):
            said = [part.content] if isinstance(part.content, str) else part.content
            texts += [each for each in said if isinstance(each, str)]
    return digest(json.dumps(texts)) if texts else None


def outcome_of(payload: object) -> object:
    """Return what the step of a tool call has recorded as Pydantic AI knows it.

    Raises:
        ToolPaused: The tool has left, and waits.
        ToolChanged: It was not run, as it had changed.
    """
    check_left(payload)
    check_changed(payload)
    # a person has given the result of an interrupted call as it is
    if isinstance(payload, dict) and "kind" in payload:
        return cast("object", payload)
    return {"kind": "tool_return", "result": cast("object", payload)}


def config_of(model: Config, tool: Config, operators: Sequence[str] = ()) -> RoleBasedOperationConfig[Config]:
    """Return the options of all operations.

    Args:
        model: Those of model requests.
        tool: Those of tool calls that say nothing else.
        operators: Who is asked about calls of writing tools that were interrupted.
    """

    def resolve(operation_id: DurableOperationId, found: object | None, name: str) -> Config | Literal[False]:
        if found is None:
            return tool
        tool_found = cast("ToolsetTool[Any]", found)
        if is_inline(tool_found, name):
            return False
        definition = tool_found.tool_def
        options = cast("Mapping[str, Any]", definition.metadata or {}).get(KEY)
        chosen = step_options_of(cast("Mapping[str, Any]", options or {}), definition, operators)
        if not isinstance(operation_id, ToolsetCallToolId):
            for name in ("effect", "metadata", "operators"):
                chosen.pop(name, None)
        return chosen if chosen.get("effect") == "once" else {**tool, **chosen}

    return RoleBasedOperationConfig(model=model, event=tool, capability=tool, tool=tool, resolve_tool=resolve)


def wait_asked_by(error: Exception) -> float | None:
    """Return in how many seconds a provider wants to be asked again, or None if it did not say."""
    return getattr(error, "retry_after", None) if isinstance(error, ModelAPIError) else None


RETRY: Final = RetryPolicy(retried=is_worth_retrying, retry_after=wait_asked_by)
