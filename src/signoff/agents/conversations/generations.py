"""The generations of a long turn: each begins with a later request, which keeps replays short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.agent import AbstractAgent, Agent, ModelRequestNode
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import RunUsage

from signoff.agents.durable import Durable, InWorkflow
from signoff.agents.steps.in_workflow import has_workflow_code

RESPONSES: Final = 5
"""The number of responses after which a turn continues in a new generation."""

_USAGE: Final = TypeAdapter(RunUsage)

_PER_RUN: Final = (
    "for_run",
    "get_workspace",
    "wrap_run",
    "before_run",
    "after_run",
    "on_run_error",
    "before_node_run",
    "wrap_node_run",
    "after_node_run",
    "on_node_run_error",
)
"""The hooks with which a capability may see a whole run of the agent. It would take each generation for one."""

_OWN: Final = (Durable, InWorkflow, Instrumentation)
"""Capabilities with some of these hooks that do not depend on earlier generations."""


class State(TypedDict):
    """Pydantic AI's state of a run between two requests, besides the messages.

    Attributes:
        usage: The used budget.
        run_step: The number of requests.
        output_retries: The number of refused outputs.
        retries: The number of failed calls of each tool before the last response.
        failed: The tools whose calls in the last response failed.
        succeeded: The tools with a successful call in the last response.
        refused: The tools that were called once before they existed.
    """

    usage: dict[str, Any]
    run_step: int
    output_retries: int
    retries: dict[str, int]
    failed: list[str]
    succeeded: list[str]
    refused: list[str]


class Progress(State):
    """The input of a turn's next generation. The messages are in the journal.

    Attributes:
        begun: The result of the turn's first step.
        parts: The number of journal entries with earlier messages.
        request: The entries with the next request: from the first to before the second.
        seconds: The time that the turn was at work.
    """

    begun: dict[str, Any]
    parts: int
    request: tuple[int, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Behind:
    """The messages of a turn's earlier generations.

    Attributes:
        messages: The answered messages; the last one is a response.
        request: The next request.
    """

    messages: Sequence[ModelMessage]
    request: ModelRequest

    @property
    def all(self) -> Sequence[ModelMessage]:
        """All messages, in order."""
        return [*self.messages, self.request]


@dataclass(frozen=True, slots=True)
class Stop:
    """A request before which a generation of a turn ends.

    Attributes:
        messages: What this generation has added.
        request: The next request.
        state: Pydantic AI's state.
    """

    messages: Sequence[ModelMessage]
    request: ModelRequest
    state: State


def can_be_split(agent: AbstractAgent[Any, Any]) -> bool:
    """Whether a turn of an agent may be split: not for agents that wrap another, or with an event handler."""
    return type(agent) is Agent and agent.event_stream_handler is None


class Generation:
    """One generation of a turn, around Pydantic AI's run.

    Args:
        run: Pydantic AI's run.
    """

    def __init__(self, run: AgentRun[Any, Any]) -> None:
        self._run = run
        self._given: Sequence[ModelMessage] = ()
        self._first_step = 0

    async def begin(self, progress: Progress | None, behind: Behind | None) -> Any:
        """Continue where the turn stands, as if the earlier messages belonged to this run.

        Returns:
            The next node.
        """
        first: Any = self._run.next_node
        if progress is None or behind is None:
            following = await self._run.next(first)
        else:
            # The instructions that the turn began with are in the first of the earlier messages.
            bare: dict[str, Any] = {"system_prompts": (), "system_prompt_functions": []}
            await self._run.next(replace(first, **bare, system_prompt_dynamic_functions={}))
            self._restore(progress)
            self._run.ctx.state.message_history.extend(behind.messages)
            following = ModelRequestNode[Any, Any](request=behind.request)
        self._given = tuple(self._run.ctx.state.message_history)
        self._first_step = self._run.ctx.state.run_step
        return following

    def _restore(self, progress: Progress) -> None:
        state, deps = self._run.ctx.state, self._run.ctx.deps
        state.run_step = progress["run_step"]
        state.output_retries_used = progress["output_retries"]
        deps.tool_manager = replace(
            deps.tool_manager,
            ctx=RunContext[Any](
                deps=deps.user_deps,
                model=deps.model,
                usage=state.usage,
                run_step=state.run_step,
                retries=dict(progress["retries"]),
            ),
            failed_tools=set(progress["failed"]),
            succeeded_tools=set(progress["succeeded"]),
            availability_refused=set(progress["refused"]),
        )

    async def next(self, node: Any) -> Any:
        """Run a node, and return the next one."""
        return await self._run.next(node)

    def stop_at(self, node: Any) -> Stop | None:
        """Return the stop before a node, where this generation may end; None: it continues.

        It continues while there is state that the next generation would not get: unread messages to the turn, messages
        that a processor has replaced, and variables of tools that are workflow code. State of capabilities counts,
        too, if they see a whole run or are not Pydantic AI's.
        """
        state, tools = self._run.ctx.state, self._run.ctx.deps.tool_manager
        if not Agent.is_model_request_node(node) or state.run_step - self._first_step < RESPONSES:
            return None
        history = state.message_history
        added = history[len(self._given) :]
        is_all_there = (
            _is_answered(history)
            and not state.pending_messages
            and tools.ctx is not None
            and all(one is other for one, other in zip(history, self._given, strict=False))
            and all(message.run_id == self._run.run_id for message in added)
            and not _knows_more(self._run.ctx.deps.root_capability)
            and not has_workflow_code(tools.toolset)
        )
        if not is_all_there:
            return None
        assert tools.ctx is not None
        return Stop(
            added,
            replace(node.request, run_id=self._run.run_id, conversation_id=state.conversation_id),
            State(
                usage=_USAGE.dump_python(state.usage, mode="json"),
                run_step=state.run_step,
                output_retries=state.output_retries_used,
                retries=dict(tools.ctx.retries),
                failed=sorted(tools.failed_tools),
                succeeded=sorted(tools.succeeded_tools),
                refused=sorted(tools.availability_refused),
            ),
        )


def usage_of(progress: Progress) -> RunUsage:
    """Return the usage before a generation."""
    return _USAGE.validate_python(progress["usage"])


def _is_answered(history: Sequence[ModelMessage]) -> bool:
    last = history[-1] if history else None
    return isinstance(last, ModelResponse) and last.state == "complete"


def _knows_more(root: AbstractCapability[Any]) -> bool:
    found: list[AbstractCapability[Any]] = []
    root.apply(found.append)
    return not all(type(each) in _OWN or _is_of_requests(type(each)) for each in found)


def _is_of_requests(kind: type[Any]) -> bool:
    """Whether a capability is one of Pydantic AI's, and sees only one request at a time."""
    is_known = kind.__module__.startswith("pydantic_ai.")
    return is_known and all(getattr(kind, name) is getattr(AbstractCapability, name) for name in _PER_RUN)
