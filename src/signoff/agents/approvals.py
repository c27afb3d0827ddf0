"""Who must agree to a tool call, and how they are asked."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict, cast

from signoff.errors import InvalidValue, RegistrationError
from signoff.people.responders import check_names
from signoff.start_options import check_seconds


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a policy decides about.

    Attributes:
        tool: The tool's name.
        arguments: Its very arguments, as JSON has them.
        id: The model's id for the call.
        agent: The agent's name.
        run_id: The run.
        session_id: The conversation, if the run belongs to one.
        deps: What ``agent.run(deps=...)`` was given.
        requires_approval: Whether the tool was made with ``requires_approval=True``.
    """

    tool: str
    arguments: Mapping[str, Any]
    id: str
    agent: str
    run_id: str
    session_id: str | None
    deps: Any
    requires_approval: bool


class Decision(TypedDict, total=False):
    """What a policy says of a tool call; made by ``approve``, ``deny`` and ``ask``."""

    verdict: Literal["approve", "deny", "ask"]
    reason: str
    prompt: str | None
    details: dict[str, Any]
    assignees: list[str]
    timeout: float | None
    approvers: int


def approve() -> Decision:
    """Let the call happen without asking anybody."""
    return {"verdict": "approve"}


def deny(reason: str) -> Decision:
    """Refuse the call. The model reads the reason."""
    return {"verdict": "deny", "reason": reason}


def ask(
    prompt: str | None = None,
    *,
    details: Mapping[str, Any] | None = None,
    assignees: Sequence[str] = (),
    timeout: float | None = None,
    approvers: int = 1,
) -> Decision:
    """Ask people first.

    Args:
        prompt: What they read; by default the agent's and the tool's names.
        details: What else to show to them.
        assignees: Who may answer: ``user:ana``, ``group:finance``, ``role:approver``; by default anybody.
        timeout: After how many seconds nobody's answer is a refusal.
        approvers: How many different people must approve.

    Raises:
        InvalidValue: An assignee, a time or a number is none.

    Example::

        def approvals(call: ToolCall) -> Decision:
            if call.tool == "refund" and call.arguments["cents"] > 10_000:
                return ask(f"Refund {call.arguments['cents']} cents?", assignees=["group:finance"])
            return approve()
    """
    given = cast("object", approvers)
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InvalidValue("approvers", f"{approvers!r} is no number of people")
    return {
        "verdict": "ask",
        "prompt": prompt,
        "details": dict(details or {}),
        "assignees": list(check_names("assignees", assignees)),
        "timeout": check_timeout(timeout),
        "approvers": approvers,
    }


def check_timeout(seconds: float | None) -> float | None:
    """Return how long somebody has to answer. Raises InvalidValue."""
    checked = check_seconds("timeout", seconds)
    if checked is not None and checked <= 0:
        raise InvalidValue("timeout", f"{checked:g} s is no time in which somebody could answer")
    return checked


Verdict = Decision | bool | None
"""True: ask; False and None: the tool itself says whether it requires approval."""

Rule = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
Policy = Rule | Collection[str] | Mapping[str, "Decision | bool | Rule"]
"""A function of the call, the names of tools to ask about, or what to do by the tool's name."""

ASK: Final = ask()


def check_policy(policy: object) -> None:
    """Raise RegistrationError for what is no policy."""
    if policy is None or callable(policy):
        return
    if isinstance(policy, str):
        raise RegistrationError(
            f"approvals={policy!r} is one text: give a list of tools' names, or a function"
        )
    if not isinstance(policy, Collection):
        raise RegistrationError(
            f"approvals={policy!r}: give a list of tools' names, a mapping, or a function"
        )
    for name in cast("Collection[object]", policy):
        if not isinstance(name, str):
            raise RegistrationError(f"approvals: {name!r} is no name of a tool")
    if not isinstance(policy, Mapping):
        return
    for name, entry in cast("Mapping[str, object]", policy).items():
        if not (isinstance(entry, bool) or callable(entry) or _is_decision(entry)):
            raise RegistrationError(f"approvals: {entry!r} for {name!r} is nothing {_KNOWN}")


def _is_decision(value: object) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get("verdict") in _VERDICTS


_VERDICTS: Final = ("approve", "deny", "ask")
_KNOWN: Final = (
    "that is known: give approve(), deny(reason), ask(...), a bool, or a function that returns one"
)


async def decide(policy: Policy | None, call: ToolCall) -> Decision:
    """Say what happens to a call.

    Raises:
        RegistrationError: The policy returned something else than it may.
    """
    verdict = await _verdict(policy, call)
    if verdict is True:
        return ASK
    if not verdict:
        return ASK if call.requires_approval else approve()
    if not _is_decision(verdict):
        raise RegistrationError(
            f"the approvals policy of agent {call.agent!r} returned {verdict!r} for {call.tool!r}: return approve(), "
            "deny(reason), ask(...), a bool or None"
        )
    return verdict


async def _verdict(policy: Policy | None, call: ToolCall) -> Verdict:
    if policy is None:
        return None
    if isinstance(policy, str):
        raise RegistrationError(
            f"approvals={policy!r} is one text: give a list of tools' names, or a function"
        )
    if isinstance(policy, Mapping):
        entry = cast("Mapping[str, Decision | bool | Rule]", policy).get(call.tool)
        if not callable(entry):
            return entry
        found = entry(call)
    elif callable(policy):
        found = policy(call)
    else:
        return call.tool in policy
    return await found if inspect.isawaitable(found) else found


def names_in(policy: Policy | None) -> Collection[str]:
    """Return the names of tools that a policy has something to say of, if it says it by name."""
    return () if policy is None or callable(policy) else cast("Collection[str]", policy)


def may_ask(policy: Policy | None, tool: str) -> bool:
    """Whether a policy may have something to say of a tool."""
    if policy is None:
        return False
    return callable(policy) or tool in cast("Collection[str]", policy)


def plain(arguments: object) -> dict[str, Any]:
    """Return a call's arguments as JSON has them; ``{}`` for none."""
    if isinstance(arguments, str):
        arguments = json.loads(arguments or "{}")
    return cast("dict[str, Any]", arguments or {})
