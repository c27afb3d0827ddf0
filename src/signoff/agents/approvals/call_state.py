"""The state of an agent's tool calls in this process, between validation and execution."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai.models import Model
from pydantic_ai.tool_manager import ToolManager

from signoff.agents.approvals.approval_policy import Decision
from signoff.agents.approvals.tool_arguments import Arguments
from signoff.agents.approvals.tool_changes import Known

GIVEN_MODEL: Final = "signoff:given:"
"""The prefix of the ids of model objects that workflow code has passed."""


@dataclass(slots=True)
class Held:
    """The state of one run of an agent. All but ``known``, ``models`` and ``dynamic`` is by call id.

    Attributes:
        known: The facts about tools when the model called them, by name.
        validated: The validated arguments.
        agreed: The approved arguments, which run without being validated again.
        decided: The arguments of a decision, as they were shown, and the decision.
        edits: The edits that are being validated.
        models: The model objects that workflow code has passed, by id.
        dynamic: The arguments of dynamic toolsets' tools, by call id and validated input.
        listed: The parameters of MCP servers' tools, by the server's id and the tool's name.
        managers: The tools among which a call's tool was found: a tool may call others through a manager of its own.
    """

    known: dict[str, Known] = field(default_factory=dict[str, Known])
    validated: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    agreed: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    decided: dict[str, tuple[dict[str, Any], Decision]] = field(
        default_factory=dict[str, tuple[dict[str, Any], Decision]]
    )
    edits: dict[str, Edited] = field(default_factory=dict[str, "Edited"])
    dynamic: dict[tuple[str, str], Arguments] = field(default_factory=dict[tuple[str, str], "Arguments"])
    models: dict[str, Model] = field(default_factory=dict[str, Model])
    listed: dict[tuple[str, str], dict[str, Any]] = field(
        default_factory=dict[tuple[str, str], dict[str, Any]]
    )
    managers: dict[str, ToolManager[Any] | None] = field(default_factory=dict[str, "ToolManager[Any] | None"])

    def key_of(self, model: Model) -> str:
        """Return the id of a model object, the same at every replay."""
        for key, each in self.models.items():
            if each is model:
                return key
        key = f"{GIVEN_MODEL}{len(self.models)}"
        self.models[key] = model
        return key


@dataclass(slots=True)
class Edited:
    """An edit that is being validated.

    Attributes:
        sent: The arguments in the place of the model's.
        is_changed: Whether a hook has replaced it before validation.
        validated: The result of the tool's validators alone, as it is shown.
    """

    sent: dict[str, Any]
    is_changed: bool = False
    validated: dict[str, Any] | None = None


_held: ContextVar[Held] = ContextVar("signoff_agent_held")


def held() -> Held:
    """Return the state of the agent's run that is current here."""
    return _held.get()


def hold() -> Token[Held]:
    """Begin the state of a run of an agent."""
    return _held.set(Held())


def let_go(token: Token[Held]) -> None:
    """Undo ``hold``."""
    _held.reset(token)
