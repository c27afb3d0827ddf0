"""Checks the answers with which workers settle questions, as strictly as clients' answers.

A worker writes an answer in its stored form: decided, with its edits and votes. It vouches for the user who answered,
and for the user's groups. It does not decide which values a question accepts, which votes it needs, or which users are
excluded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from signoff import codec
from signoff.codec.strict_json import read_kept
from signoff.errors import (
    InvalidValue,
    NotAllowed,
    NotFound,
    QuestionTooNew,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.audit.refusals import RefusalRecorder
from signoff.people.questions.answer_checks import check_received, settlement_value
from signoff.people.questions.edits import is_same
from signoff.people.questions.progress import Progress
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import TIMEOUT, QuestionState
from signoff.people.schemas.promise_returns import check_value
from signoff.records import Amendment, Promise, PromiseKind, PromiseState, Settlement
from signoff.records.names import person_key, user_name
from signoff.stores.contract.store import Store
from signoff.stores.contract.tokens import CALLBACK

CLOCK_SECONDS: Final = 5.0
"""How far a worker's clock may be ahead of the server's when it settles a question with its default."""


async def check_settled(store: Store, operation: str, arguments: Mapping[str, Any]) -> None:
    """Check the answer of an operation that settles an open question, or the value of one that settles a promise.

    Refusals of answers are recorded in the audit trail.

    Args:
        store: The store of the namespace, which stamps writes with the operation's origin.
        operation: Its name.
        arguments: Its arguments, of their declared types.

    Raises:
        WrongAnswer: The question does not accept the value. It stays open.
        NotAllowed: The user may not answer it, or is not named.
        InvalidValue: A question cannot end in this state, or the value does not fit the promise's return type.
        UnreadableRecord: The stored question cannot be read, so it accepts no answer.
    """
    amendment: Amendment | None = None
    settlement: Settlement | None
    if operation in ("settle", "settle_held"):
        id, settlement = arguments["promise_id"], cast("Settlement", arguments["settlement"])
    elif operation == "amend":
        id, amendment = arguments["question_id"], cast("Amendment", arguments["amendment"])
        settlement = amendment.settlement
    else:
        return
    if settlement is not None and settlement.state is PromiseState.CANCELLED:
        return
    try:
        question = await store.get_promise(id)
    except NotFound:
        return  # the operation itself raises it
    if question.state is not PromiseState.PENDING:
        return  # nothing will be settled: the operation itself reports why
    if operation == "settle" and arguments["kind"] is not question.kind:
        return  # likewise
    if question.kind is not PromiseKind.QUESTION:
        if settlement is not None:
            await check_value(question, settlement)
        return
    by, request_id = (None, None) if settlement is None else (settlement.by, settlement.request_id)
    async with RefusalRecorder(store, question, by, request_id=request_id):
        if amendment is not None:
            _check_votes(question, amendment, store.clock.now())
        if settlement is not None:
            by_rule = None if amendment is None else amendment.by_rule
            await check_settlement(question, settlement, store.clock.now(), by_rule)


def _check_votes(question: Promise, amendment: Amendment, now: float) -> None:
    """Refuse votes of excluded users before they are counted: the next answer, of any user, may decide with them."""
    try:
        state, progress = QuestionState.of(question, now), Progress.from_json(question.id, amendment.progress)
    except (QuestionTooNew, UnreadableRecord):
        return  # the code that reads it refuses it
    for vote in progress.votes:
        _check_not_excluded(state, user_name(vote.user_id))


async def check_settlement(
    question: Promise, settlement: Settlement, now: float, by_rule: str | None = None
) -> None:
    """Check a worker's settlement of an open question.

    Args:
        question: The question.
        settlement: Its settlement.
        now: Business time, in unix seconds.
        by_rule: The rule that settles it. The store checks that the rule is in force.

    Raises:
        WrongAnswer, NotAllowed, InvalidValue, UnreadableRecord: As ``check_settled``.
    """
    if settlement.state is PromiseState.TIMED_OUT:
        return
    if settlement.state is not PromiseState.RESOLVED:
        raise InvalidValue("settlement.state", f"a question cannot end as {settlement.state.value}")
    try:
        asked, state = Question.of(question), QuestionState.of(question, now)
    except QuestionTooNew:
        return  # written by a worker of a newer version, whose readers check it
    value = None if settlement.value is None else read_kept(settlement.value)
    if settlement.by == TIMEOUT:
        _check_default(state, value)
        return
    if settlement.by == CALLBACK:
        if asked.callback is None:
            raise NotAllowed(question.id, None, "it does not accept callbacks")
    else:
        _check_user(state, settlement.by)
    await _check_value(state, asked, value if by_rule is None else _without_rule(state, value, by_rule))


def _check_default(state: QuestionState, value: Any) -> None:
    """Check that a settlement by timeout has the question's default, and that the deadline has passed."""
    deadline, default = state.deadline_at, state.policy.timeout_answer
    if default is None or deadline is None or state.now + CLOCK_SECONDS < deadline:
        raise WrongAnswer(state.question.id, [("", "its deadline has not passed, or it has no default")])
    if read_kept(default) != value:
        raise WrongAnswer(state.question.id, [("", "it is not the default of the question")])


def _check_user(state: QuestionState, by: str | None) -> None:
    id, name = state.question.id, None if by is None else user_name(by)
    is_open_to_all = (
        not state.question.assignees and not state.policy.excluded and state.policy.quorum is None
    )
    if name is None and not is_open_to_all:
        raise NotAllowed(id, None, "the settlement names no user")
    _check_not_excluded(state, name)


def _check_not_excluded(state: QuestionState, name: str | None) -> None:
    if state.is_excluded(name):
        raise NotAllowed(state.question.id, name, "a user may not approve their own request (four eyes)")


def _without_rule(state: QuestionState, value: Any, by_rule: str) -> Any:
    """Return a decision without the rule that settled it."""
    decision = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    if decision.pop("rule", None) != by_rule:
        raise WrongAnswer(state.question.id, [("rule", "is not the rule that settles it")])
    return decision


async def _check_value(state: QuestionState, asked: Question, value: Any) -> None:
    id = state.question.id
    if state.policy.quorum is not None:
        value = _without_votes(state, value)
    if asked.proposal is None or not isinstance(value, dict):
        await check_received(id, asked, value)
        return
    decision = cast("dict[str, Any]", value)
    if decision.get("approved") is not True:
        await check_received(id, asked, decision)
        return
    if "proposal" not in decision:
        raise WrongAnswer(id, [("proposal", "is missing: an approval records what was approved")])
    approved = decision["proposal"]
    is_as_proposed = is_same(approved, asked.proposal)
    given = {"approved": True} if is_as_proposed else {"approved": True, "edited": approved}
    await check_received(id, asked, given)
    if not is_same(json.loads(codec.encode(settlement_value(asked, given), path="value")), decision):
        raise WrongAnswer(id, [("edits", "are not those between the proposal and what was approved")])


def _without_votes(state: QuestionState, value: Any) -> Any:
    """Return a decision without its votes, after a check that an approval has enough of them."""
    quorum, id = state.policy.quorum, state.question.id
    decision = dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}
    votes = decision.pop("votes", None)
    if quorum is None or not isinstance(votes, list):
        raise WrongAnswer(id, [("votes", "are missing: several users decide on it")])
    approving: set[str] = set()
    for number, each in enumerate(cast("list[object]", votes)):
        vote = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        user_id = vote.get("user_id")
        if not isinstance(user_id, str):
            raise WrongAnswer(id, [(f"votes.{number}.user_id", "is missing")])
        name = user_name(user_id)
        _check_not_excluded(state, name)
        if vote.get("approved") is True:
            approving.add(person_key(name))
    if decision.get("approved") is True and len(approving) < quorum.approvals:
        raise WrongAnswer(id, [("votes", f"{len(approving)} users approve it, {quorum.approvals} must")])
    return decision
