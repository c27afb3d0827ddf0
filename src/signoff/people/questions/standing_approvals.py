"""Standing approvals ("all like this"), stored as rules.

A user makes a rule with an approval. The rule copies the question's action: its tool, its ``about``, and those
arguments that must be equal. A matching question is answered in the user's name, so anything that would keep the user
from answering applies to the rule, too.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signoff.errors import InvalidValue, NotAllowed, NotFound, QuestionClaimed
from signoff.people.questions.actions import at_pointer, is_same
from signoff.people.questions.answer_checks import check_texts, settlement_value
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.records import Amendment, AuditKind, NewAuditEvent, NewRule, Promise, Rule
from signoff.records.paging import RuleFilter
from signoff.records.responders import SERVICE, Responder
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.people")

LONGEST_SECONDS: Final = 24 * 3600.0
"""Maximum lifetime of a rule."""

MOST_POINTERS: Final = 100

ABOUT: Final = "/~0about"
"""Pointer under which a rule stores an action's ``about``, which is not an argument. An older version finds nothing
there, so such a rule approves nothing for it."""

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Alike:
    """Approves all similar questions for some time.

    Attributes:
        seconds: Lifetime, up to a day. May be left out with ``session``: the rule then stays until it is revoked or was
            used ``max_uses`` times.
        same: JSON Pointers to the arguments that must be equal, such as ``["/to"]``; None: all of them. Other arguments
            may have any value.
        any_arguments: Whether the arguments may have any values; ``same`` must then be left out.
        everywhere: Whether it applies to all runs of the namespace instead of the run that asks.
        max_uses: Maximum number of uses.
        session: Whether it applies to all runs of the asking run's session, including later ones.

    Raises:
        InvalidValue: A part is invalid.

    Example::

        client.answer(id, True, user_id="ana", alike=Alike(3600, same=["/to"]))
    """

    seconds: float | None = None
    same: Sequence[str] | None = None
    any_arguments: bool = False
    everywhere: bool = False
    max_uses: int | None = None
    session: bool = False

    def __post_init__(self) -> None:
        if self.session and self.everywhere:
            raise InvalidValue("session", "pass either session or everywhere")
        if self.seconds is None:
            if not self.session:
                raise InvalidValue("seconds", "seconds is required unless session is set")
        elif not math.isfinite(self.seconds) or not 0 < self.seconds <= LONGEST_SECONDS:
            raise InvalidValue(
                "seconds", f"{self.seconds} is not a lifetime up to {LONGEST_SECONDS:g} seconds"
            )
        if self.max_uses is not None and not 0 < self.max_uses < 2**31:
            raise InvalidValue("max_uses", f"{self.max_uses} is not a number of uses")
        if self.any_arguments and self.same is not None:
            raise InvalidValue("any_arguments", "pass either any_arguments or same")
        if isinstance(self.same, str) or (self.same is not None and not 0 < len(self.same) <= MOST_POINTERS):
            raise InvalidValue(
                "same", f"name 1 to {MOST_POINTERS} JSON Pointers; use any_arguments=True for none"
            )

    def pattern(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the values that a similar question's arguments must have, by JSON Pointer.

        Raises:
            InvalidValue: A pointer is invalid, or points to nothing.
        """
        if self.any_arguments:
            return {}
        try:
            return {pointer: at_pointer(arguments, pointer) for pointer in self.same or [""]}
        except LookupError as error:
            raise InvalidValue("same", f"the arguments have no such value: {error}") from None


def new_rule(
    question: Promise,
    asked: Question,
    value: Any,
    responder: Responder,
    alike: Alike,
    now: float,
    session_id: str | None,
) -> NewRule:
    """Return the rule that is created with an answer.

    Args:
        question: The question's promise.
        asked: The question.
        value: A valid answer, as returned by ``read_value``.
        responder: The user who answers.
        alike: The other questions to approve.
        now: The time, in unix seconds.
        session_id: The session of the run that asks.

    Raises:
        InvalidValue: The question has no action, is not approved unchanged, has a quorum, or has no run or session
            although the rule would be limited to it.
        NotAllowed: The user is unknown.
    """
    if asked.action is None:
        raise InvalidValue("alike", f"question {question.id!r} has no action that a rule could match")
    if value is None or value.get("approved") is not True or "edited" in value:
        raise InvalidValue("alike", "a rule is made only with an approval without edits")
    if QuestionState.of(question, now).policy.quorum is not None:
        raise InvalidValue("alike", "a question with a quorum cannot be approved by a rule")
    if responder.user_id is None:
        raise NotAllowed(question.id, None, "the user is unknown: a rule needs an owner")
    if alike.session and session_id is None:
        raise InvalidValue("alike", f"question {question.id!r} has no run in a session")
    if not alike.everywhere and question.run_id is None:
        raise InvalidValue("alike", "the question has no run; pass everywhere=True")
    return NewRule(
        id=uuid.uuid4().hex,
        by=responder.user_id.removeprefix("user:"),
        tool=asked.action["tool"],
        arguments=json.dumps(_pattern(asked.action, alike)),
        expires_at=None if alike.seconds is None else now + alike.seconds,
        question_id=question.id,
        run_id=None if alike.everywhere or alike.session else question.run_id,
        groups=tuple(sorted(responder.groups)),
        roles=tuple(sorted(responder.roles)),
        max_uses=alike.max_uses,
        session_id=session_id if alike.session else None,
    )


def _pattern(action: dict[str, Any], alike: Alike) -> dict[str, Any]:
    pattern = alike.pattern(action["arguments"])
    about = action.get("about")
    return pattern if about is None else {**pattern, ABOUT: about}


async def session_of(store: Store, question: Promise) -> str | None:
    """Return the session of the run that asks a question, if it has one."""
    if question.run_id is None:
        return None
    try:
        return (await store.get_run(question.run_id)).session_id
    except NotFound:  # retention has deleted it
        return None


async def search_rules(store: Store, state: QuestionState) -> Amendment:
    """Search the standing approvals. Return the answer in the name of a matching rule's owner, or that none matches."""
    asked = Question.of(state.question)
    assert asked.action is not None
    session_id = await session_of(store, state.question)
    for session in ("",) if session_id is None else (session_id, ""):
        async for rule in _in_force(store, asked.action["tool"], session):
            if _is_for(rule, state, asked.action):
                kept = {**settlement_value(asked, {"approved": True}), "rule": rule.id}
                return state.answer_by(rule, json.dumps(kept))
    return state.without_rules()


async def _in_force(store: Store, tool: str, session_id: str) -> AsyncIterator[Rule]:
    """Yield the rules in force for a tool and a session; with an empty session, those without one."""
    which, after = RuleFilter(tool=tool, in_force=True, session_id=session_id), None
    while True:
        page = await store.list_rules(which, after=after, limit=_AT_ONCE)
        for rule in page.items:
            yield rule
        after = page.next
        if after is None:
            return


def _is_for(rule: Rule, state: QuestionState, action: dict[str, Any]) -> bool:
    """Whether a rule matches. An unreadable rule matches nothing, and does not block the others."""
    try:
        return _fits(rule, state, action)
    except Exception as error:
        log.warning(
            "rule %s of namespace %s cannot be read and is ignored: %s", rule.id, rule.namespace, error
        )
        return False


def _fits(rule: Rule, state: QuestionState, action: dict[str, Any]) -> bool:
    if rule.run_id not in (None, state.question.run_id):
        return False
    if rule.by.startswith(SERVICE) and f"user:{rule.by}" not in state.question.assignees:
        return False  # a service answers only what is assigned to it by name
    maker = Responder(rule.by, frozenset(rule.groups), frozenset(rule.roles))
    try:
        state.check_responder(maker)
    except (NotAllowed, QuestionClaimed):
        return False
    pattern: dict[str, Any] = json.loads(rule.arguments)
    if pattern.pop(ABOUT, None) != action.get("about"):
        return False
    try:
        return all(
            is_same(at_pointer(action["arguments"], pointer), value) for pointer, value in pattern.items()
        )
    except LookupError:
        return False


async def revoke(store: Store, rule_id: str, by: str | None = None, reason: str | None = None) -> Rule:
    """Revoke a rule. Questions that it has approved stay approved.

    Args:
        store: The rule's store.
        rule_id: The rule's id.
        by: The user who revokes it.
        reason: The reason.

    Raises:
        NotFound: There is no such rule.
        InvalidValue: A name or a text is invalid.
    """
    check_texts(reason=reason)
    rule = await store.get_rule(rule_id)
    details = {"rule": rule.id} if reason is None else {"rule": rule.id, "reason": reason}
    event = NewAuditEvent(
        uuid.uuid4().hex,
        AuditKind.RULE_REVOKED,
        rule.question_id,
        rule.run_id,
        Responder(by).user_id,
        json.dumps(details),
    )
    return await store.revoke_rule(rule_id, event)
