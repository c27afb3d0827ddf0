"""Options of tools: their side effects, and whether a call may be repeated after a crash."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from pydantic_ai.tools import ToolDefinition

from signoff.engine.steps.retry import RetryPolicy
from signoff.engine.steps.step_options import Effect
from signoff.errors import OutsideWorkflow, RegistrationError
from signoff.observability.current_run import refused

SideEffects = Literal["none", "read", "write", "external", "stateful"]

KEY: Final = "signoff"
"""The key of the options in a tool's metadata."""

_WRITES = ("write", "external", "stateful")
_ALL: tuple[str, ...] = ("none", "read", *_WRITES)


def tool_options(
    *,
    side_effects: SideEffects | None = None,
    effect: Effect | None = None,
    retry: RetryPolicy | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Return metadata for a tool, with options of its calls.

    Args:
        side_effects: ``none`` and ``read`` may be repeated after a crash. ``write``, ``external`` (mail, payments) and
            ``stateful`` may not: if the worker dies inside the tool, a person is asked. By default ``write`` if a
            person has allowed the call, else ``read``.
        effect: ``"once"`` or ``"repeatable"``; overrides ``side_effects``.
        retry: The retry policy; a tool that must not be repeated is never retried.
        timeout: The time limit of one attempt, in seconds.

    Raises:
        RegistrationError: ``side_effects`` is not one of these.

    Example::

        @agent.tool_plain(metadata=tool_options(side_effects="external"))
        async def send_mail(to: str, text: str) -> str: ...
    """
    if side_effects is not None and side_effects not in _ALL:
        raise RegistrationError(f"side_effects is one of {', '.join(_ALL)}, not {side_effects!r}")
    given = {"side_effects": side_effects, "effect": effect, "retry": retry, "timeout": timeout}
    return {KEY: {name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class Calling:
    """A tool call that runs.

    Attributes:
        is_allowed: Whether a person has allowed it.
        about: Returns the metadata of the question about an interrupted call.
        assignees: The people who could allow it, asked about its outcome if there are no operators; empty: any user.
    """

    is_allowed: bool = False
    about: Callable[[], Mapping[str, Any]] | None = None
    assignees: tuple[str, ...] = ()


_calling: ContextVar[Calling] = ContextVar("signoff_tool_call", default=Calling())  # noqa: B039 - it is frozen


@contextmanager
def calling(call: Calling) -> Generator[None]:
    """Run a tool call here."""
    token = _calling.set(call)
    try:
        yield
    finally:
        _calling.reset(token)


def step_options_of(
    options: Mapping[str, Any], definition: ToolDefinition | None, operators: Sequence[str]
) -> dict[str, Any]:
    """Return the options of a tool's step.

    Args:
        options: The tool's own options.
        definition: The tool's definition; None: unknown.
        operators: The people who are asked about interrupted calls.
    """
    chosen = {name: options[name] for name in ("retry", "timeout", "effect") if name in options}
    if "effect" not in chosen and _writes(options, definition):
        chosen["effect"] = "once"
    if chosen.get("effect") == "once":
        chosen.pop("retry", None)
        call = _calling.get()
        chosen |= {"metadata": call.about and call.about(), "operators": outcome_operators(operators)}
    return chosen


def outcome_operators(operators: Sequence[str]) -> tuple[str, ...]:
    """Return the people to ask about the outcome of the current tool call; empty: the app's operators.

    Args:
        operators: The agent's operators.
    """
    return tuple(operators) or _calling.get().assignees


def _writes(options: Mapping[str, Any], definition: ToolDefinition | None) -> bool:
    declared = options.get("side_effects")
    if declared is not None:
        return declared in _WRITES
    if definition is None:
        return False
    metadata = cast("Mapping[str, Any]", definition.metadata or {})
    hints = metadata.get("annotations")  # set by an MCP server
    if isinstance(hints, Mapping) and cast("Mapping[str, Any]", hints).get("readOnlyHint") is False:
        return True
    return _calling.get().is_allowed or requires_approval(definition)


NEEDS_APPROVAL: Final = "signoff_requires_approval"
"""The key that marks a tool's definition which Pydantic AI would defer."""


def asked_here(definition: ToolDefinition) -> ToolDefinition:
    """Return the definition of a tool that Pydantic AI would defer, as one that its gate asks about."""
    metadata = {**(definition.metadata or {}), NEEDS_APPROVAL: definition.kind}
    return replace(definition, kind="function", metadata=metadata)


def requires_approval(definition: ToolDefinition) -> bool:
    """Whether a tool was made with ``requires_approval=True``."""
    marked = cast("Mapping[str, Any]", definition.metadata or {}).get(NEEDS_APPROVAL)
    return definition.kind == "unapproved" or marked == "unapproved"


def is_external(definition: ToolDefinition) -> bool:
    """Whether a tool runs elsewhere, and its result is asked for."""
    marked = cast("Mapping[str, Any]", definition.metadata or {}).get(NEEDS_APPROVAL)
    return definition.kind == "external" or marked == "external"


def check_may_run(definition: ToolDefinition) -> None:
    """Check that a call from inside a plain tool, in that tool's own step, needs no answer from people.

    Raises:
        OutsideWorkflow: Pydantic AI would defer the call.
    """
    if NEEDS_APPROVAL in (definition.metadata or {}):
        why = (
            "people answer its calls, which is not possible inside the step of the tool that calls it. Make that "
            "tool workflow code: @in_workflow"
        )
        raise refused(OutsideWorkflow(f"tool {definition.name!r}", why=why))
