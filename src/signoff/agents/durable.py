"""``Durable``: the capability that makes an agent of Pydantic AI durable."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, cast

from pydantic_ai import CallToolsNode, RunContext, ToolDefinition
from pydantic_ai.agent import AbstractAgent, EventStreamHandler
from pydantic_ai.capabilities import (
    AbstractCapability,
    AgentNode,
    CombinedCapability,
    WrapModelRequestHandler,
)
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CallToolResult,
    DurabilityEngineSpec,
    DurableOperationBackend,
    conversation_id_from_run_id,
)
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import KnownModelName, Model, ModelRequestContext, ModelResolutionContext
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, DeferredToolRequests, DeferredToolResults
from pydantic_ai.toolsets import AbstractToolset, DynamicToolset

from signoff.agents.approvals.approval_gate import ASSIGNEES, Gate
from signoff.agents.approvals.approval_policy import Policy, check_has_no_policy, check_policy, names_in
from signoff.agents.approvals.approval_predicates import asking_on_failure
from signoff.agents.approvals.approved_toolset import AsApproved, Running, running_call
from signoff.agents.approvals.call_state import GIVEN_MODEL, held, hold, let_go
from signoff.agents.approvals.called_tools import known_tools, record_tools
from signoff.agents.approvals.recorded_edits import EDITED, as_edited
from signoff.agents.approvals.tool_arguments import plain
from signoff.agents.pausing.pause import INSTEAD, without_pauses
from signoff.agents.steps.deps import Copy, GivenDeps
from signoff.agents.steps.dynamic_toolsets import facts_of, witness
from signoff.agents.steps.live_model_text import speaking
from signoff.agents.steps.plain_tools import in_step_threads
from signoff.agents.steps.run_arguments import note_arguments
from signoff.agents.steps.step_backend import RETRY, Config, StepBackend, config_of
from signoff.agents.steps.tool_usage import with_own_usage
from signoff.agents.steps.tools import KEY, Calling, asked_here, calling, check_may_run
from signoff.agents.steps.truncated_responses import WholeAnswers
from signoff.agents.steps.turn_record import check_time, steered
from signoff.agents.steps.unawaited_tools import check_awaits
from signoff.agents.steps.workflow_scope import InWorkflow
from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_options import check_retry
from signoff.errors import NotSerializable, RegistrationError
from signoff.people.questions.edits import is_same
from signoff.records.responders import check_names
from signoff.records.start_options import check_flag, check_seconds
from signoff.runtime import private_names
from signoff.runtime.loggers import own_logger
from signoff.workflow.current_context import context_here

log = own_logger("signoff.agents")

DepsFactory = Callable[[Any], Any]

_own: contextvars.ContextVar[_Own] = contextvars.ContextVar("signoff_agent_deps")


@dataclass(frozen=True, slots=True)
class _Own:
    deps: Any


def _not_serializable(error: Exception) -> BaseException:
    return NotSerializable("result", f"a durable agent keeps what its steps return as JSON: {error}")


class Durable(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable: inside a workflow, its model requests and tool calls are steps of the run.

    Finished work is not repeated after a crash. Outside workflow code (in a step, a plain tool, a script) the agent
    behaves as without this capability. An agent with ``approvals`` is refused there, since it cannot ask people.

    Args:
        name: The prefix of its steps' names; by default the agent's name. It must never change.
        deps: Makes ``ctx.deps`` for tools (clients, connections) from the ``deps`` of ``agent.run``, on the worker and
            for each step. It may be async, or return an async context manager, which is exited at the step's end. By
            default each step gets a copy of the given ``deps``: JSON, or a model or dataclass that JSON can restore.
        approvals: The calls that need approval, besides those of tools with ``requires_approval=True``: tool names,
            decisions by tool name, or a function of a ``ToolCall`` that returns ``approve()``, ``deny(reason)``,
            ``ask(...)``, or a bool: whether to ask.
        barrier: Whether the approved tools of a response wait until all of its questions are answered.
        operators: The people to ask when a tool has changed before its call began, or when a call of a tool that
            writes was interrupted; by default the app's ``operators``.
        retry: The policy for model requests and tool calls; by default temporary errors are retried up to 8 times.
        model_timeout: The time limit for one attempt at a model request, in seconds.
        models: Further models that runs may choose by these names.
        event_stream_handler: Receives the events of model requests live, and those of tools in separate steps.
        stream: Whether model requests are streamed, and the model's output is published live (``StepInfo.live``).
            Changing it changes the names of steps: runs that have begun need the value that they began with.

    Raises:
        RegistrationError: ``approvals`` is not a valid policy.
        InvalidValue: An operator is not a valid user name, or ``barrier`` or ``stream`` is neither true nor false.

    Example::

        agent = Agent("openai:gpt-5", name="support", capabilities=[Durable(approvals=["delete_file"])])

        @app.workflow
        async def clean_up(ctx: Context, wish: str) -> str:
            return (await agent.run(wish)).output
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Signoff",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=_not_serializable,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        # Steps run on the worker's loop, workflow code on the run's own: no session outlives its step.
        toolset_lifecycles={"function": "enter-never", "mcp": "enter-never", "dynamic": "enter-never"},
        tool_config_key=KEY,
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        deps: DepsFactory | None = None,
        approvals: Policy | None = None,
        barrier: bool = False,
        operators: Sequence[str] = (),
        retry: RetryPolicy = RETRY,
        model_timeout: float | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        stream: bool = False,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._deps = deps
        self._models: Mapping[str, Model] = models or {}
        self._known_models: Sequence[object] = ()
        check_policy(approvals)
        self.approvals = approvals
        self._warned_of: set[str] = set()
        self.barrier = check_flag("barrier", barrier)
        self._streams = check_flag("stream", stream)
        self.operators = check_names("operators", operators)
        check_retry("Durable", retry)
        check_seconds("model_timeout", model_timeout)
        self.retry = retry
        self._model_config: Config = {"retry": retry, "timeout": model_timeout}
        self._tool_config: Config = {"retry": retry}

    # The engine, for Pydantic AI

    def for_agent(self, agent: AbstractAgent[AgentDepsT, Any]) -> AbstractCapability[AgentDepsT]:
        """Return this capability, bound to the agent, and the one around all others."""
        for toolset in agent.toolsets:
            toolset.apply(witness)
        bound = cast("Durable[AgentDepsT]", super().for_agent(agent))
        bound._known_models = (agent.model, *self._models.values())
        return CombinedCapability([InWorkflow[AgentDepsT](bound.ask_people), bound])

    @property
    def in_durable_context(self) -> bool:
        """Whether the caller is workflow code."""
        return context_here() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[Config]:
        """Return the backend that runs operations as steps."""
        return StepBackend(
            self.name,
            config_of(self._model_config, self._tool_config, self.operators),
            self._unit,
            self.operators,
        )

    def get_default_run_id(self) -> str | None:
        """Return an id for this run of the agent, the same at every replay."""
        context = context_here()
        return None if context is None else str(context.uuid4())

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the session's id, else one derived from the agent's run."""
        context = context_here()
        if context is None:
            return None
        note_arguments()
        return context.session_id or conversation_id_from_run_id(run_id)

    def get_run_clock(self) -> Callable[[], datetime] | None:
        """Return the run's clock: journal time."""
        context = context_here()
        return None if context is None else context.now

    async def get_run_start_time(self, run_id: str) -> datetime | None:
        """Return the start time of this run of the agent."""
        context = context_here()
        return None if context is None else context.now()

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether model requests are streamed."""
        return super().has_wrap_run_event_stream or (self._streams and self.in_durable_context)

    def _model_stream_event_handler(self) -> EventStreamHandler[AgentDepsT] | None:
        handler = super()._model_stream_event_handler()
        return speaking(handler) if self._streams else handler

    # In a step

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return a model that treats truncated responses as failed requests."""
        return WholeAnswers(model) if _at_step_of.get(None) is self else None

    async def _unit(self, body: Callable[[], Awaitable[object]], copy: Copy) -> object:
        """Run an operation in its step, with its own dependencies."""
        _at_step_of.set(self)
        private_names.enable_threads()  # a step inherits the context of workflow code
        async with AsyncExitStack() as stack:
            stack.enter_context(in_step_threads())
            made = copy()
            if self._deps is not None:
                made = self._deps(made)
                if inspect.isawaitable(made):
                    made = await made
                if isinstance(made, AbstractAsyncContextManager):
                    made = await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", made))
            _own.set(_Own(made))
            return await body()

    async def look_at(
        self, toolset: DynamicToolset[Any], name: str, args: dict[str, Any], ctx: RunContext[Any], copy: Copy
    ) -> dict[str, Any]:
        """Validate arguments with a tool of a dynamic toolset, inside a step. See ``facts_of``."""

        async def body() -> dict[str, Any]:
            with self._durable_run_context_scope(ctx) as inner:
                return await facts_of(toolset, name, args, inner)

        return cast("dict[str, Any]", await self._unit(body, copy))

    @contextmanager
    def _durable_run_context_scope(self, ctx: RunContext[AgentDepsT]) -> Generator[RunContext[AgentDepsT]]:
        own = _own.get(None)
        ctx = with_own_usage(ctx if own is None else replace(ctx, deps=own.deps))
        with super()._durable_run_context_scope(ctx) as guarded:
            yield guarded

    # In workflow code

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: Callable[[], Awaitable[AgentRunResult[Any]]]
    ) -> AgentRunResult[Any]:
        """Hold the dependencies, and the facts about called tools, for the agent's run.

        Raises:
            NotSerializable: The dependencies cannot be stored as JSON.
            OutsideWorkflow: The agent has ``approvals``, and cannot ask people here.
        """
        if not self.in_durable_context:
            check_has_no_policy(self.approvals, self.name)
            with (
                without_pauses(f"agent {self.name!r} outside of workflow code. {INSTEAD}"),
                in_step_threads(),
            ):
                return await super().wrap_run(ctx, handler=handler)
        given = GivenDeps.of(ctx, has_factory=self._deps is not None)
        token = hold()
        try:
            with given.current():
                async with steered(ctx):
                    return await super().wrap_run(ctx, handler=handler)
        finally:
            let_go(token)

    def get_wrapper_toolset(self, toolset: AbstractToolset[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
        """Return the toolset whose tools run as steps, with the approved arguments.

        Raises:
            NotAwaited: A tool calls an async function without an await.
        """
        if not self.in_durable_context:
            return super().get_wrapper_toolset(toolset)
        check_awaits(self.name, toolset, self.approvals, self._deps)
        checked = asking_on_failure(toolset, self.name, self.operators).visit_and_replace(
            AsApproved[AgentDepsT]
        )
        return super().get_wrapper_toolset(checked) or checked

    async def prepare_tools(
        self, ctx: RunContext[AgentDepsT], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        """Pass tools that Pydantic AI would defer to ``wrap_tool_execute``, which asks people."""
        if not self.in_durable_context:
            return tool_defs
        self._warn_of_unknown([each.name for each in tool_defs])
        return [asked_here(each) if each.defer else each for each in tool_defs]

    async def prepare_output_tools(
        self, ctx: RunContext[AgentDepsT], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        """Refuse approvals of output tools.

        Raises:
            RegistrationError: ``approvals`` names an output tool. It is workflow code, which can ask by itself.
        """
        if self.in_durable_context:
            for name in names_in(self.approvals):
                if any(each.name == name for each in tool_defs):
                    raise RegistrationError(
                        f"agent {self.name!r}: approvals= names the output tool {name!r}, which needs no approval: "
                        "ask in its function with current_context().wait_for_user(...), or make it a tool"
                    )
        return tool_defs

    def _warn_of_unknown(self, tools: Sequence[str]) -> None:
        """Warn of tool names that do not exist, usually because of a typo: their calls need no approval."""
        for name in names_in(self.approvals):
            if name not in tools and name not in self._warned_of:
                self._warned_of.add(name)
                log.warning(
                    "agent %r: approvals= names %r, but it has no such tool: no call needs approval. Its tools: %s",
                    self.name,
                    name,
                    ", ".join(sorted(tools)) or "none",
                )

    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Stop before a request if the turn has no time left for it. Raises UsageLimitExceeded."""
        check_time(ctx)
        return await super().before_model_request(ctx, request_context)

    async def wrap_model_request(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        request_context: ModelRequestContext,
        handler: WrapModelRequestHandler,
    ) -> ModelResponse:
        """Let the step use a model object that workflow code has passed: it runs in the same process."""
        model = request_context.model
        if not self.in_durable_context or request_context.model_id is not None or self._is_known(model):
            return await super().wrap_model_request(ctx, request_context=request_context, handler=handler)

        async def by_itself(request: ModelRequestContext) -> ModelResponse:
            request.model_id = None  # responses name their model, not this
            return await handler(request)

        request_context.model_id = held().key_of(model)
        return await super().wrap_model_request(ctx, request_context=request_context, handler=by_itself)

    async def resolve_model_id(
        self, ctx: ModelResolutionContext[AgentDepsT], *, model_id: KnownModelName | str
    ) -> Model | None:
        """Return the model that workflow code has passed, or one of ``models``."""
        if model_id.startswith(GIVEN_MODEL):
            return held().models[model_id]
        return await super().resolve_model_id(ctx, model_id=model_id)

    def _is_known(self, model: Model) -> bool:
        """Whether a model, or one that it wraps, is the agent's or one of ``models``."""
        while True:
            if any(model is each for each in self._known_models):
                return True
            if not isinstance(model, WrapperModel):
                return False
            model = model.wrapped

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Journal the facts about the called tools: they may have changed when people answer."""
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        if self.in_durable_context and calls:
            await record_tools(self, ctx, calls)
        return response

    async def before_node_run(
        self, ctx: RunContext[AgentDepsT], *, node: AgentNode[AgentDepsT]
    ) -> AgentNode[AgentDepsT]:
        """Journal the facts about tools whose calls end a given history, before they are looked up."""
        if self.in_durable_context and isinstance(node, CallToolsNode):
            calls = [part for part in node.model_response.parts if isinstance(part, ToolCallPart)]
            is_given = any(call.tool_name not in held().known for call in calls)
            if is_given and ctx.tool_manager is not None:
                await known_tools(self, ctx, calls)
        return node

    # This capability is the innermost: its hooks run after those of all others.

    async def before_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: str | dict[str, Any],
    ) -> str | dict[str, Any]:
        """Note the tools of the call, and whether hooks have changed an edit."""
        if context_here() is None:
            return args
        held().managers[call.tool_call_id] = ctx.tool_manager
        edit = held().edits.get(call.tool_call_id)
        if edit is not None and not is_same(plain(args), edit.sent):
            edit.is_changed = True
        return args

    async def after_tool_validate(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Note an edit's validated arguments before hooks change them."""
        edit = held().edits.get(call.tool_call_id) if context_here() is not None else None
        if edit is not None:
            edit.validated = (await Gate.of(self, ctx).arguments.seen(call, args)).shown
        return args

    async def before_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
    ) -> dict[str, Any]:
        """Decide again on arguments that hooks have changed since the decision."""
        if context_here() is None or call.tool_call_id not in held().decided:
            return args
        known = await known_tools(self, ctx, [call])
        return await Gate.of(self, ctx).check_unchanged(call, tool_def, args, known[call.tool_name])

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Ask the people who must agree, then run the tool."""
        if not self.in_durable_context:
            check_has_no_policy(self.approvals, self.name, call.tool_name)
            if not ctx.tool_call_approved:
                check_may_run(tool_def)
            return await handler(args)
        gate = Gate.of(self, ctx)

        async def handled(arguments: dict[str, Any]) -> Any:
            known = held().known.get(call.tool_name)
            if known is None:  # an operator has chosen the tool; the model did not call it
                return await handler(arguments)
            with running_call(Running(gate, call, tool_def, known, self.approvals)):
                return await handler(arguments)

        metadata: Any = ctx.tool_call_metadata if ctx.tool_call_approved else None
        agreed: Mapping[str, Any] = cast("Any", metadata) if isinstance(metadata, Mapping) else {}

        def about() -> dict[str, Any]:
            return gate.shown(call, args)

        with calling(Calling(ctx.tool_call_approved, about, tuple(agreed.get(ASSIGNEES, ())))):
            if not ctx.tool_call_approved:
                known = await known_tools(self, ctx, [call])
                return await gate.run(call, tool_def, args, handled, known[call.tool_name])
            try:
                return await gate.run_agreed(call, args, handled, agreed)
            except CallDeferred as deferred:
                if not self.barrier:
                    raise
                # a call that has passed the barrier does not return to it
                held().validated[call.tool_call_id] = args
                return as_edited(await gate.result_of(call, deferred), agreed.get(EDITED))

    async def ask_people(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask about the calls of a response together: behind a barrier, or deferred by validators."""
        if not self.in_durable_context:
            return None
        for call in requests.approvals + requests.calls:
            ctx = replace(ctx, tool_manager=held().managers.get(call.tool_call_id, ctx.tool_manager))
        await known_tools(self, ctx, requests.approvals)
        return await Gate.of(self, ctx).resolve(requests)

    def recorded(self, payload: object) -> Any:
        """Return the recorded result of a tool call's step, or raise its error."""
        return self._unwrap_tool_result(JSON_CODEC.load(CallToolResult, payload))


_at_step_of: contextvars.ContextVar[Durable[Any]] = contextvars.ContextVar("signoff_agent_step")
