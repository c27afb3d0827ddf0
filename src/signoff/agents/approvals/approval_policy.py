"""Approval policies: which tool calls need approval, and how people are asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypedDict, cast

from signoff import codec
from signoff.agents.steps.deps import copies_of_deps
from signoff.engine.run.fatal_exceptions import as_failure, ends_task
from signoff.errors import InvalidValue, OutsideWorkflow, RegistrationError
from signoff.observability.current_run import current_attempt, refused
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import UNSET, Escalation, Quorum
from signoff.people.questions.policy_options import (
    PolicyOptions,
    check_policy_options,
    plain_options,
    read_options,
)
from signoff.people.schemas.shown_values import show
from signoff.people.schemas.validation import shorten
from signoff.records.responders import check_names
from signoff.records.start_options import check_seconds
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a policy decides about.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments as people see them: in the tool's schema, with its names and defaults. The tool gets
            these arguments, whatever the model sent.
        id: The model's id for the call.
        agent: The agent's name.
        run_id: The run.
        session_id: The conversation, if the run belongs to one.
        deps: A copy of the ``deps`` given to ``agent.run``.
        requires_approval: Whether the tool was made with ``requires_approval=True``.
        unseen: JSON Pointers to values that JSON cannot express: there, ``arguments`` has the model's value. People
            are asked about such a call, whatever a function returns, unless it refuses the call.
    """

    tool: str
    arguments: Mapping[str, Any]
    id: str
    agent: str
    run_id: str
    session_id: str | None
    deps: Any
    requires_approval: bool
    unseen: Sequence[str] = ()


class Decision(TypedDict, total=False):
    """A policy's decision about a tool call, made by ``approve``, ``deny`` and ``ask``.

    ``policy`` has the rest of what the question follows, as plain data.
    """

    verdict: Literal["approve", "deny", "ask"]
    reason: str
    prompt: str | None
    details: dict[str, Any]
    assignees: list[str]
    timeout: float | None
    approvers: int
    policy: dict[str, Any]


def approve() -> Decision:
    """Allow the call without a question."""
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
    approvers: int | None = None,
    quorum: Quorum | int = 1,
    exclude_requester: bool = False,
    requester: str | None = None,
    remind_every: float | None = None,
    escalations: Sequence[Escalation] = (),
    hours: BusinessHours | None = None,
    timeout_answer: Any = UNSET,
) -> Decision:
    """Ask people first. The options are those of ``Context.wait_for_user``.

    Args:
        prompt: The question's text; by default it names the agent and the tool.
        details: Further data to show.
        assignees: The people who may answer: ``user:ana``, ``group:finance``, ``role:approver``; by default any user.
        timeout: Seconds until a missing answer counts as a refusal.
        approvers: The number of people who must approve: the same as ``quorum`` as a number.
        quorum: The number of people who must approve; ``Quorum(2, of=3)`` limits the number of voters.
        exclude_requester: Whether the requester must not answer (four eyes).
        requester: The requester, such as ``user:ana``; by default the user who started the run.
        remind_every: Seconds between reminders.
        escalations: The people who may also answer if the question stays open.
        hours: The working time in which all these seconds count.
        timeout_answer: The decision if there is no answer in time: ``True`` approves, ``False`` denies. For a call that
            runs elsewhere, its result.

    Raises:
        InvalidValue: An assignee, a time or a number is invalid.
        RegistrationError: The options do not fit together, or too few people could answer.

    Example::

        def approvals(call: ToolCall) -> Decision:
            if call.tool == "refund" and call.arguments["cents"] > 10_000:
                cents = call.arguments["cents"]
                return ask(f"Refund {cents} cents?", assignees=["group:finance"], exclude_requester=True)
            return approve()
    """
    if approvers is not None:
        if (
            isinstance(cast("object", approvers), bool)
            or not isinstance(cast("object", approvers), int)
            or approvers < 1
        ):
            raise InvalidValue("approvers", f"expected a number of people of at least 1, not {approvers!r}")
        if quorum != 1:
            raise RegistrationError("ask: approvers and quorum say the same; give one of them")
        quorum = approvers
    rules: PolicyOptions = {
        "quorum": quorum,
        "exclude_requester": exclude_requester,
        "requester": requester,
        "remind_every": remind_every,
        "escalations": escalations,
        "hours": hours,
    }
    if timeout_answer is not UNSET:
        rules["timeout_answer"] = timeout_answer
    seconds, names = check_timeout(timeout), check_names("assignees", assignees)
    check_prompt("ask", prompt)
    check_policy_options(
        prompt or "ask(...)", "approval", {**rules, "assignees": names, "timeout_seconds": seconds}
    )
    return {
        "verdict": "ask",
        "prompt": prompt,
        "details": dict(details or {}),
        "assignees": list(names),
        "timeout": seconds,
        "policy": plain_options(rules),
    }


def rules_of(decision: Decision) -> PolicyOptions:
    """Return the policy options of the question that a decision asks."""
    rules = read_options(decision.get("policy", {}))
    rules["assignees"] = decision.get("assignees", ())
    rules["timeout_seconds"] = decision.get("timeout")
    return rules


def check_prompt(function: str, prompt: object) -> None:
    """Raise RegistrationError for a blank prompt, or one that is not a string. None means the default."""
    if prompt is not None and (not isinstance(prompt, str) or not prompt.strip()):
        raise RegistrationError(
            f"{function}: prompt must be a text that is not blank, not {prompt!r}; leave it out for the default"
        )


def check_timeout(seconds: float | None) -> float | None:
    """Return a checked time limit for the answer, in seconds. Raises InvalidValue."""
    checked = check_seconds("timeout", seconds)
    if checked is not None and checked <= 0:
        raise InvalidValue("timeout", f"{checked:g} s leaves no time to answer")
    return checked


Verdict = Decision | bool | None
"""True: ask; False and None: use the tool's own setting."""

Rule = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
Policy = Rule | Collection[str] | Mapping[str, "Decision | bool | Rule"]
"""A function of the call, the names of tools to ask about, or decisions by tool name."""

ASK: Final = ask()


def check_policy(policy: object) -> None:
    """Raise RegistrationError for an invalid policy."""
    if policy is None or callable(policy):
        return
    if isinstance(policy, str):
        raise RegistrationError(
            f"approvals={policy!r} is a single text: give a list of tool names, or a function"
        )
    if not isinstance(policy, Collection):
        raise RegistrationError(f"approvals={policy!r}: give a list of tool names, a mapping, or a function")
    for name in cast("Collection[object]", policy):
        if not isinstance(name, str):
            raise RegistrationError(f"approvals: {name!r} is not a tool name")
    if not isinstance(policy, Mapping):
        return
    for name, entry in cast("Mapping[str, object]", policy).items():
        if not (isinstance(entry, bool) or callable(entry) or _is_decision(entry)):
            raise RegistrationError(f"approvals: {entry!r} for {name!r} {_KNOWN}")


def _is_decision(value: object) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get("verdict") in _VERDICTS


_VERDICTS: Final = ("approve", "deny", "ask")
_KNOWN: Final = (
    "is not a decision: give approve(), deny(reason), ask(...), a bool, or a function that returns one"
)


async def decide(policy: Policy | None, call: ToolCall, operators: Sequence[str] = ()) -> Decision:
    """Decide about a call. If a policy fails, or returns an invalid value, people are asked.

    Args:
        policy: The agent's policy.
        call: The call.
        operators: The people who are asked if the policy names none; empty: any user.
    """
    try:
        verdict, has_looked = await _verdict(policy, call)
        decision = _decision_of(verdict, call)
    except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        if ends_task(error, asyncio.current_task()):
            raise
        return failed(as_failure("the policy", error), call.agent, call.tool, operators)
    if decision is None:
        given = f"it returned {verdict!r}: return approve(), deny(reason), ask(...), a bool or None"
        log.error("agent %r: the approvals policy for a call of %r: %s", call.agent, call.tool, given)
        return _ask_instead(operators, policy_failed=given)
    if has_looked and call.unseen and decision.get("verdict") == "approve":
        return _ask_instead(operators, policy_could_not_see=list(call.unseen))
    return decision


def failed(error: Exception, agent: str, tool: str, operators: Sequence[str]) -> Decision:
    """Log that a policy has failed, and ask people.

    Args:
        error: The error.
        agent: The agent's name.
        tool: The tool's name.
        operators: The people who are asked; empty: any user.
    """
    text = "agent %r: the approvals policy failed for a call of %r, so people are asked"
    log.error(text, agent, tool, exc_info=error)
    return _ask_instead(operators, policy_failed=f"{type(error).__name__}: {error}")


def _ask_instead(operators: Sequence[str], **details: Any) -> Decision:
    return ask(
        details={name: shorten(each) if isinstance(each, str) else each for name, each in details.items()},
        assignees=operators,
    )


def _decision_of(verdict: object, call: ToolCall) -> Decision | None:
    """Return the decision of a policy's result; None: the result is invalid."""
    if verdict is True:
        return ASK
    if verdict is False or verdict is None:
        return ASK if call.requires_approval else approve()
    if not _is_decision(verdict):
        return None
    decision = cast("Decision", verdict)
    if decision.get("verdict") == "ask":
        decision = ask(
            decision.get("prompt"),
            details=decision.get("details"),
            assignees=decision.get("assignees", ()),
            timeout=decision.get("timeout"),
            approvers=decision.get("approvers"),
            **_rest_of(decision),
        )
    codec.encode(decision, path="decision")
    return decision


def _rest_of(decision: Decision) -> dict[str, Any]:
    """Return the arguments of ``ask`` that a decision keeps as policy options."""
    return dict(read_options(decision.get("policy") or {}))


async def _verdict(policy: Policy | None, call: ToolCall) -> tuple[object, bool]:
    """Return a policy's result for a call, and whether a function has seen the call."""
    rule: object = policy
    if isinstance(policy, Mapping):
        rule = cast("Mapping[str, object]", policy).get(call.tool)
    elif policy is not None and not callable(policy):
        return call.tool in policy, False
    if not callable(rule):
        return rule, False
    found: object = rule(replace(call, deps=copies_of_deps()()))
    return await found if inspect.isawaitable(found) else found, True


def names_in(policy: Policy | None) -> Collection[str]:
    """Return the tool names that a policy lists."""
    return () if policy is None or callable(policy) else cast("Collection[str]", policy)


def may_ask(policy: Policy | None, tool: str) -> bool:
    """Whether a policy may decide about a tool."""
    if policy is None:
        return False
    return callable(policy) or tool in cast("Collection[str]", policy)


def check_has_no_policy(policy: Policy | None, agent: str, tool: str | None = None) -> None:
    """Check that an agent has no policy where it cannot ask people: its tools would run without approval.

    Args:
        policy: The agent's policy.
        agent: The agent's name.
        tool: The called tool; None: the agent is about to run.

    Raises:
        OutsideWorkflow: It has one. The step then fails, even if its code catches the error.
    """
    if not policy or (tool is not None and not may_ask(policy, tool)):
        return
    attempt = current_attempt.get(None)
    here = "outside of any workflow" if attempt is None else f"inside step {attempt[0].name!r}"
    why = (
        f"its approvals= may ask people, which is not possible {here}. Run it in workflow code: in a workflow, in a "
        "tool made with @in_workflow, or as a run of its own (agent_tool, ctx.rfc)"
    )
    raise refused(OutsideWorkflow(f"agent {agent!r}", why=why))


def asked_by_tool(metadata: Mapping[str, Any] | None) -> Decision:
    """Return the decision for a tool that asks by itself, with ``ApprovalRequired(metadata=...)``."""
    if metadata is not None and "decision" in metadata:
        return cast("Decision", metadata["decision"])
    return {**ASK, "details": show(dict(metadata or {})).value}
