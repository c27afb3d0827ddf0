"""The arguments of an agent's tool calls between their validation and their tools: each is validated once."""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai.models import Model

from signoff.agents.approvals.approval_policy import Decision
from signoff.agents.approvals.tool_arguments import Arguments
from signoff.agents.approvals.tool_changes import Known

GIVEN_MODEL: Final = "signoff:given:"
"""How the ids begin under which steps look for models that workflow code has given by itself."""


@dataclass(slots=True)
class Held:
    """What one run of an agent holds in this process: of its tool calls, by their ids but for ``known``, and models.

    Attributes:
        known: What was known of tools when the model called them, by their names.
        validated: What the tools' validators made of the arguments.
        agreed: What people have agreed to, and is run without being validated again.
        decided: What was decided on, as it was shown, and how.
        edits: What is being made of an edit.
        models: Models that workflow code has given by itself, by the ids under which steps look for them.
        dynamic: What tools of dynamic toolsets make of arguments, by the calls' ids and what is validated.
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

    def key_of(self, model: Model) -> str:
        """Return the id under which steps find a model: the same at every replay."""
        for key, each in self.models.items():
            if each is model:
                return key
        key = f"{GIVEN_MODEL}{len(self.models)}"
        self.models[key] = model
        return key


@dataclass(slots=True)
class Edited:
    """An edit that is validated.

    Attributes:
        sent: What stands for what the model sent.
        is_changed: Whether a hook has put something else in its place before it was validated.
        validated: What the tool's validators alone made of it, as it is shown.
    """

    sent: dict[str, Any]
    is_changed: bool = False
    validated: dict[str, Any] | None = None


_held: ContextVar[Held] = ContextVar("signoff_agent_held")


def held() -> Held:
    """Return what the run of an agent that is current here holds."""
    return _held.get()


def hold() -> Token[Held]:
    """Begin to hold what a run of an agent does."""
    return _held.set(Held())


def let_go(token: Token[Held]) -> None:
    """Undo ``hold``."""
    _held.reset(token)
