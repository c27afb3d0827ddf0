"""The options of one ``run_agent``, and the decisions of people that its calls run with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from agents import RunConfig

from signoff import RetryPolicy
from signoff.integrations.openai_agents.shared_context import SharedContext


@dataclass(slots=True)
class Options:
    """The options of one ``run_agent``.

    Attributes:
        context: The context object.
        config: The run configuration of the SDK.
        retry: The policy for model requests.
        repeatable: The names of tools that may run again after a crash without a question.
        operators: The people to ask about interrupted calls.
        is_streamed: Whether model requests are streamed.
        edited: Edited arguments by call id, each with the tool's name and the arguments that they replace.
    """

    context: SharedContext
    config: RunConfig
    retry: RetryPolicy
    repeatable: Collection[str]
    operators: Sequence[str]
    is_streamed: bool
    edited: dict[str, tuple[str, str, str]] = field(default_factory=dict[str, tuple[str, str, str]])

    def edited_arguments(self, call_id: str, tool: str, arguments: str) -> str | None:
        """Return the arguments that an approver has put in the place of a call's own; None if there are none."""
        name, replaced, edited = self.edited.get(call_id, ("", "", ""))
        return edited if (name, replaced) == (tool, arguments) else None
