"""The operations of an agent as steps of the run: model requests, tool calls, discovery, events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
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
from pydantic_ai.tools import RunContext
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage

from signoff.agents.approvals.tool_arguments import sent_in
from signoff.agents.approvals.tool_changes import check_changed
from signoff.agents.pausing.pause import check_left, check_not_left, run_tool, without_pauses
from signoff.agents.steps.deps import Copy, given_here
from signoff.agents.steps.in_workflow import is_inline
from signoff.agents.steps.message_texts import last_prompt_digest
from signoff.agents.steps.recorded_calls import of_call, without_call
from signoff.agents.steps.tool_usage import counted, measured
from signoff.agents.steps.tools import KEY, outcome_operators, step_options_of
from signoff.agents.steps.turn_record import note_work
from signoff.engine.run.call_inputs import ComparedTexts, compared_text
from signoff.engine.steps.retry import RetryPolicy
from signoff.workflow.current_context import current_context

Config = Mapping[str, Any]
Unit = Callable[[Callable[[], Awaitable[object]], Copy], Awaitable[object]]

_MAY_PASS: Final = (408, 409, 425, 429)
"""Client errors (4xx) that may be temporary."""


def is_worth_retrying(error: Exception) -> bool:
    """Whether another attempt at a model request or tool call may succeed."""
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
    """Restore the class of an HTTP error that also has a category. The journal only keeps the category's class."""
    if isinstance(error, ModelHTTPError) or not hasattr(error, "status_code"):
        return error
    facts = {name: getattr(error, name) for name in _FACTS if hasattr(error, name)}
    return ModelHTTPError.for_category(cast("Any", type(error)), **facts)


class StepNames(JournalOperationNamer):
    """Names the steps of an agent. The journal has these names, so they must never change."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self._agent = agent

    def operation_name(self, operation_id: DurableOperationId) -> str:
        """Return the name of an operation, without a tool's name."""
        return _operation_name(self._agent, operation_id)

    def invocation_name(self, operation_id: DurableOperationId, *, label: str | None):
        """Return the name of a step; a tool call's step has the tool's name."""
        return _invocation_name(self._agent, operation_id, label)


@lru_cache(1_024)
def _invocation_name(agent: str, operation_id: DurableOperationId, label: str | None):
    usual = JournalOperationNamer(agent).invocation_name(operation_id, label=label or "")
    if label is None:
        return replace(usual, operation_name=_operation_name(agent, operation_id))
    name = f"{agent}.{label}"
    if isinstance(operation_id, ToolsetValidateToolArgumentsId):
        name += ":validate"
    return replace(usual, operation_name=name)


def _operation_name(agent: str, operation_id: DurableOperationId) -> str:
    return f"{agent}:{_suffix(operation_id)}"


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
        config: The options of operations.
        unit: Runs an operation's body inside its step, with a function that copies the dependencies.
        operators: The people who are asked about interrupted calls.
    """

    def __init__(
        self, agent: str, config: RoleBasedOperationConfig[Config], unit: Unit, operators: Sequence[str] = ()
    ) -> None:
        super().__init__(namer=StepNames(agent), config=config)
        self._unit = unit
        self._operators = operators

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

        given = given_here()
        # as they are where the step is made: code beside it may change them
        copy = (lambda: None) if given is None else given.as_now()
        context = current_context()
        is_call = isinstance(operation_id, ToolsetCallToolId)
        called = _context_in(cache_key)
        used = RunUsage() if called is None else called.usage
        if is_call:
            check_not_left(context, name)
        call_id = None if called is None or not is_call else called.tool_call_id
        operation = _Operation(name, body, used if is_call else None, self._unit, copy, call_id)
        compare = _compared(operation_id, called, cache_key)
        compare = with_given(name, _run, compare)
        call = context.step(name, _run, operation, returns=Any, compare=compare, **config)
        if is_call and config.get("effect") != "once":  # the tool may have been one that writes when it began
            call.ask_operators(outcome_operators(self._operators))
        try:
            payload = await call
        except ModelAPIError as error:
            raise _as_raised(error) from error
        finally:
            note_work(call.attempt_times)
        return outcome_of(counted(payload, used)) if is_call else payload


@dataclass(slots=True, eq=False)
class _Operation:
    """An operation of an agent, for its step.

    Attributes:
        name: The name of the step.
        body: The operation.
        used: For a tool call, the usage of the agent's run.
        unit: Runs it inside its step.
        copy: Copies the dependencies.
        call_id: For a tool call, the id of the model's call.
    """

    name: str
    body: Callable[[], Awaitable[object]]
    used: RunUsage | None
    unit: Unit
    copy: Copy
    call_id: str | None = None

    async def run(self) -> object:
        if self.used is not None:
            return of_call(self.call_id, await measured(self.used, lambda: run_tool(self.name, self.body)))
        with without_pauses(self.name):
            return await self.body()


async def _run(operation: _Operation) -> Any:
    """Run an operation. One function for all steps, since the facts about a nested one are collected at each call."""
    return await operation.unit(operation.run, operation.copy)


def with_given(name: str, function: Callable[..., Any], compare: object) -> object:
    """Return what a replay compares of a call, with the arguments of the agent's run if it is the first.

    Args:
        name: The name of the call.
        function: The function of its step.
        compare: The call's own data.
    """
    given = given_here()
    texts: Mapping[str, str] = {} if given is None else given.compared_by(name)
    return ComparedTexts({"compare": compared_text(name, function, compare), **texts}) if texts else compare


def _compared(
    operation_id: DurableOperationId, called: RunContext[Any] | None, about: tuple[object, ...]
) -> object:
    """Return the data that a replay compares besides an operation's name; None: nothing.

    For a tool call: the model's arguments, which do not change with the tool. For a model request: the user's last
    text, since instructions and tools may change while a run waits.
    """
    if isinstance(operation_id, ToolsetCallToolId):
        return None if called is None else sent_in(called)
    if isinstance(operation_id, ModelRequestId):
        histories = [cast("list[object]", each) for each in about if isinstance(each, list)]
        return last_prompt_digest(histories[0]) if histories else None
    return None


def _context_in(about: tuple[object, ...]) -> RunContext[Any] | None:
    for each in about:
        if isinstance(each, RunContext):
            return cast("RunContext[Any]", each)
    return None


def outcome_of(payload: object) -> object:
    """Return the recorded outcome of a tool call's step in Pydantic AI's form.

    Raises:
        ToolPaused: The tool has paused.
        ToolChanged: The tool has changed, and did not run.
    """
    check_left(payload)
    check_changed(payload)
    # a person has given the result of an interrupted call
    if isinstance(payload, dict) and "kind" in payload:
        return without_call(cast("dict[str, Any]", payload))
    return {"kind": "tool_return", "result": cast("object", payload)}


def config_of(model: Config, tool: Config, operators: Sequence[str] = ()) -> RoleBasedOperationConfig[Config]:
    """Return the options of all operations.

    Args:
        model: The options of model requests.
        tool: The default options of tool calls.
        operators: The people who are asked about interrupted calls of tools that write.
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
    """Return the provider's ``Retry-After`` in seconds; None: it sent none."""
    return getattr(error, "retry_after", None) if isinstance(error, ModelAPIError) else None


RETRY: Final = RetryPolicy(retried=is_worth_retrying, retry_after=wait_asked_by)
