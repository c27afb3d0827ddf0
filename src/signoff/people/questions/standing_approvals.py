"""Rules: what a person has approved in their name for some time, "all like this".

A rule is made by who approves a question, with that very answer. It says nothing but what that question's action
says: its tool, what it is about, and what of its arguments must be the same. A question that it fits is answered as if
its maker did, so whatever keeps them from answering keeps it, too.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from signoff.errors import InvalidValue, NotAllowed, NotFound, QuestionClaimed
from signoff.people.questions.actions import found_at, is_same
from signoff.people.questions.answer_checks import check_texts, to_keep
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import QuestionState
from signoff.records import Amendment, AuditKind, NewAuditEvent, NewRule, Promise, Rule
from signoff.records.paging import RuleFilter
from signoff.records.responders import SERVICE, Responder
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.people")

LONGEST_SECONDS: Final = 24 * 3600.0
"""How long a rule is in force at most."""

MOST_POINTERS: Final = 100

ABOUT: Final = "/~0about"
"""Under which pointer a rule has what an action is about, which is no argument. An older version finds nothing there,
so that such a rule approves nothing for it."""

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Alike:
    """Has all questions like the one that is approved be approved, for some time.

    Attributes:
        seconds: How long, up to a day. May be left out with ``session``: it is then approved until the rule is revoked
            or was used ``max_uses`` times.
        same: What of the arguments must be the same, as JSON Pointers, such as ``["/to"]``. None: all of them. What is
            not named may be anything.
        any_arguments: Whether nothing of the arguments need be the same; ``same`` must then be left out.
        everywhere: Whether it is for all runs of the namespace, instead of the one that asks.
        max_uses: How often at most.
        session: Whether it is for all runs of the session of the run that asks, later ones too.

    Raises:
        InvalidValue: A part is none.

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
            raise InvalidValue("session", "it is either for a session or for all runs (everywhere)")
        if self.seconds is None:
            if not self.session:
                raise InvalidValue("seconds", "say for how long; only what is for a session may go without")
        elif not math.isfinite(self.seconds) or not 0 < self.seconds <= LONGEST_SECONDS:
            raise InvalidValue("seconds", f"{self.seconds} is no time up to {LONGEST_SECONDS:g} seconds")
        if self.max_uses is not None and not 0 < self.max_uses < 2**31:
            raise InvalidValue("max_uses", f"{self.max_uses} is no number of times")
        if self.any_arguments and self.same is not None:
            raise InvalidValue("any_arguments", "nothing need be the same, and same says what must be")
        if isinstance(self.same, str) or (self.same is not None and not 0 < len(self.same) <= MOST_POINTERS):
            raise InvalidValue(
                "same", f"name 1 to {MOST_POINTERS} JSON Pointers; any_arguments=True is for none"
            )

    def pattern(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what must be where in the arguments of a question like this one.

        Raises:
            InvalidValue: A pointer is none, or points to nothing.
        """
        if self.any_arguments:
            return {}
        try:
            return {pointer: found_at(arguments, pointer) for pointer in self.same or [""]}
        except LookupError as error:
            raise InvalidValue("same", f"there is nothing of that name in the arguments: {error}") from None


def new_rule(
    question: Promise,
    asked: Question,
    value: Any,
    responder: Responder,
    alike: Alike,
    now: float,
    session_id: str | None,
) -> NewRule:
    """Return the rule that is made with an answer.

    Args:
        question: What is answered.
        asked: What it says.
        value: The answer, as ``read_value`` returned it; it fits the question.
        responder: Who answers.
        alike: What else they approve.
        now: When, in unix seconds.
        session_id: The session of the run that asks.

    Raises:
        InvalidValue: The question has no action, is not approved as it is, several decide on it, or it is of no run or
            session while the rule is to be for that.
        NotAllowed: Nobody says who answers.
    """
    if asked.action is None:
        raise InvalidValue("alike", f"question {question.id!r} has no action that others could be like")
    if value is None or value.get("approved") is not True or "edited" in value:
        raise InvalidValue("alike", "it goes with an approval of what is asked, as it is")
    if QuestionState.of(question, now).policy.quorum is not None:
        raise InvalidValue("alike", "several decide on it: nobody approves others like it alone")
    if responder.user_id is None:
        raise NotAllowed(question.id, None, "say who answers: a rule is somebody's")
    if alike.session and session_id is None:
        raise InvalidValue("alike", f"question {question.id!r} is of no run that belongs to a session")
    if not alike.everywhere and question.run_id is None:
        raise InvalidValue("alike", "the question is of no run; say that it is for all (everywhere)")
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
    """Return the session of the run that asks a question, if it belongs to one."""
    if question.run_id is None:
        return None
    try:
        return (await store.get_run(question.run_id)).session_id
    except NotFound:  # retention has deleted it
        return None


async def look_for_rules(store: Store, state: QuestionState) -> Amendment:
    """Return what a question's rules have to say: an answer in the name of one's maker, or that none fits."""
    asked = Question.of(state.question)
    assert asked.action is not None
    session_id = await session_of(store, state.question)
    for session in ("",) if session_id is None else (session_id, ""):
        async for rule in _in_force(store, asked.action["tool"], session):
            if _is_for(rule, state, asked.action):
                kept = {**to_keep(asked, {"approved": True}), "rule": rule.id}
                return state.answer_by(rule, json.dumps(kept))
    return state.without_rules()


async def _in_force(store: Store, tool: str, session_id: str) -> AsyncIterator[Rule]:
    """The rules about a tool that are for a session, or for none if it is empty."""
    which, after = RuleFilter(tool=tool, in_force=True, session_id=session_id), None
    while True:
        page = await store.list_rules(which, after=after, limit=_AT_ONCE)
        for rule in page.items:
            yield rule
        after = page.next
        if after is None:
            return


def _is_for(rule: Rule, state: QuestionState, action: dict[str, Any]) -> bool:
    """Whether a rule fits; one that cannot be read fits nothing, and keeps no other from it."""
    try:
        return _fits(rule, state, action)
    except Exception as error:
        log.warning(
            "rule %s of namespace %s cannot be read, and approves nothing: %s", rule.id, rule.namespace, error
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
            is_same(found_at(action["arguments"], pointer), value) for pointer, value in pattern.items()
        )
    except LookupError:
        return False


async def revoke(store: Store, rule_id: str, by: str | None = None, reason: str | None = None) -> Rule:
    """Have a rule approve nothing more; what it has approved stays.

    Args:
        store: Where it is.
        rule_id: The rule.
        by: Who revokes it.
        reason: Why.

    Raises:
        NotFound: There is no such rule.
        InvalidValue: A name or a text is none.
    """
    check_texts(reason=reason)
    rule = await store.get_rule(rule_id)
    told = {"rule": rule.id} if reason is None else {"rule": rule.id, "reason": reason}
    event = NewAuditEvent(
        uuid.uuid4().hex,
        AuditKind.RULE_REVOKED,
        rule.question_id,
        rule.run_id,
        Responder(by).user_id,
        json.dumps(told),
    )
    return await store.revoke_rule(rule_id, event)
