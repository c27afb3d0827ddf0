"""How far a turn has come: a long one goes on in a new generation, whose replay begins at the last response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict

from pydantic import TypeAdapter
from pydantic_ai.agent import Agent, CallToolsNode
from pydantic_ai.messages import ModelMessage
from pydantic_ai.run import AgentRun
from pydantic_ai.usage import RunUsage

from signoff.agents.in_workflow import is_in_workflow
from signoff.agents.record import TurnRecord

RESPONSES: Final = 5
"""After how many of the model's responses a turn goes on in a new generation."""

_USAGE: Final = TypeAdapter(RunUsage)


class Progress(TypedDict):
    """What a generation of a turn begins with, besides the messages that the journal has.

    Attributes:
        begun: What the turn's first step has found.
        parts: In how many entries of the journal the messages are that are behind.
        seconds: How long the turn was at work.
        usage: What it has used up.
        run_step: How many requests it has made.
        output_retries: How many of its outputs were not taken.
        retries: How often calls of a tool have failed since one went well.
    """

    begun: dict[str, Any]
    parts: int
    seconds: float
    usage: dict[str, Any]
    run_step: int
    output_retries: int
    retries: dict[str, int]


@dataclass(frozen=True, slots=True)
class Stop:
    """A response at which a generation of a turn ends, before a tool is called.

    Attributes:
        messages: What this generation has added, that response at their end.
        usage: What the turn has used up so far.
    """

    messages: Sequence[ModelMessage]
    usage: dict[str, Any]
    run_step: int
    output_retries: int
    retries: dict[str, int]

    def progress(self, begun: dict[str, Any], parts: int, seconds: float) -> Progress:
        """Return what the next generation begins with."""
        return Progress(
            begun=begun,
            parts=parts,
            seconds=seconds,
            usage=self.usage,
            run_step=self.run_step,
            output_retries=self.output_retries,
            retries=self.retries,
        )


def usage_of(progress: Progress) -> RunUsage:
    """Return what was used up before a generation."""
    return _USAGE.validate_python(progress["usage"])


class Generation:
    """One generation of a turn, as Pydantic AI runs it.

    Args:
        run: What runs.
        record: What is noted of it.
    """

    def __init__(self, run: AgentRun[Any, Any], record: TurnRecord) -> None:
        self._run = run
        self._record = record
        self._given: Sequence[ModelMessage] = ()
        self._first_step = 0

    async def begin(self, progress: Progress | None, prompt: Any) -> Any:
        """Go to where the turn stands.

        Returns:
            The node that is next.
        """
        state, deps = self._run.ctx.state, self._run.ctx.deps
        first: Any = self._run.next_node
        if progress is not None:
            deps.prompt = prompt
            state.output_retries_used = progress["output_retries"]
            # the tools of a given response are made for the step after the state's
            state.run_step = progress["run_step"] - 1
        following = await self._run.next(first)
        if progress is not None:
            state.run_step = progress["run_step"]
            if deps.tool_manager.ctx is not None:
                deps.tool_manager.ctx.retries.update(progress["retries"])
        self._given = tuple(self._run.ctx.state.message_history)
        self._first_step = state.run_step
        return following

    async def next(self, node: Any) -> Any:
        """Run a node; returns the one that is next."""
        following = await self._run.next(node)
        if self._record.first_request is None and Agent.is_model_request_node(following):
            self._record.first_request = following.request
        return following

    def stop_at(self, node: Any) -> Stop | None:
        """Return where this generation may end; None: not before this node.

        It may not as long as something is known that the next one would not be told: what was said to the turn and
        not read yet, messages that a processor has put in the place of others, and what tools of this agent keep in
        their variables, being workflow code.
        """
        state, tools = self._run.ctx.state, self._run.ctx.deps.tool_manager
        if not Agent.is_call_tools_node(node) or state.run_step - self._first_step < RESPONSES:
            return None
        history = state.message_history
        added = history[len(self._given) :]
        is_whole = (
            _is_plain(node)
            and not state.pending_messages
            and tools.ctx is not None
            and not any(is_in_workflow(tool, name) for name, tool in (tools.tools or {}).items())
            and all(one is other for one, other in zip(history, self._given, strict=False))
            and all(message.run_id == self._run.run_id for message in added)
            and history[-1] is node.model_response
        )
        if not is_whole:
            return None
        assert tools.ctx is not None
        return Stop(
            added,
            _USAGE.dump_python(state.usage, mode="json"),
            state.run_step,
            state.output_retries_used,
            dict(tools.ctx.retries),
        )


def _is_plain(node: CallToolsNode[Any, Any]) -> bool:
    response = node.model_response
    return (
        bool(response.tool_calls)
        and response.state == "complete"
        and node.tool_call_results is None
        and node.user_prompt is None
    )


def earlier(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return messages of earlier generations as Pydantic AI takes them: as those of another run."""
    return [replace(message, run_id=f"{message.run_id}#") for message in messages]
