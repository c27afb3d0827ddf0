"""The state of a question: policy, votes, claim, escalations. Every change by people or time is computed here.

This module does no I/O. It returns an ``Amendment``, which the store applies only if the question has not changed
meanwhile. Otherwise the caller reads the question again and retries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Final, NotRequired, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from signoff.codec.strict_json import read_kept
from signoff.errors import (
    AlreadyVoted,
    InvalidValue,
    NotAllowed,
    QuestionClaimed,
    QuestionTooNew,
    RequestConflict,
    UnreadableRecord,
    WrongAnswer,
)
from signoff.people.questions.policies import Policy, most_voters
from signoff.people.questions.question_schema import Seconds
from signoff.records import (
    Amendment,
    AuditKind,
    NewAuditEvent,
    NewRule,
    NewSignal,
    Origin,
    OriginWay,
    Promise,
    PromiseState,
    Rule,
    Settlement,
)
from signoff.records.names import person_key, user_name
from signoff.records.origins import TIMER
from signoff.records.responders import Responder, check_names

TIMEOUT: Final = "signoff:timeout"
"""Who answers where nobody did until the deadline. No person is called so."""


@dataclass(frozen=True, slots=True)
class Vote:
    """What one of several people has said.

    Attributes:
        user_id: Who.
        approved: Whether they approve.
        note: What they added in words.
        at: When, in unix seconds.
        request_id: By which a repetition is known.
    """

    user_id: str
    approved: bool
    note: str | None
    at: float
    request_id: str | None = None

    @classmethod
    def of(cls, data: dict[str, Any]) -> Vote:
        """Make a vote of JSON; what a newer version has added to it is passed over."""
        return cls(**{name: value for name, value in data.items() if name in cls.__slots__})


@with_config(ConfigDict(extra="forbid"))
class _WrittenVote(TypedDict):
    user_id: str
    approved: bool
    note: NotRequired[str | None]
    at: Seconds
    request_id: NotRequired[str | None]


@with_config(ConfigDict(extra="forbid"))
class _WrittenProgress(TypedDict, total=False):
    votes: list[_WrittenVote]
    claimed_by: str | None
    escalated: int
    reminders: int
    looked: bool
    deadline: Seconds | None


@cache
def _progress() -> TypeAdapter[_WrittenProgress]:
    return TypeAdapter(_WrittenProgress)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a question has come.

    Attributes:
        votes: What was said so far, where several must agree.
        claimed_by: Who has said that they will answer; nobody else may meanwhile.
        escalated: How many of the policy's escalations have happened.
        reminders: How often people were reminded.
        looked: Whether it was looked for a rule that approves it.
        deadline: After how many seconds the ``timeout_answer`` is taken, if that was moved.
    """

    votes: tuple[Vote, ...] = ()
    claimed_by: str | None = None
    escalated: int = 0
    reminders: int = 0
    looked: bool = False
    deadline: float | None = None

    @classmethod
    def from_json(cls, question_id: str, text: str | None) -> Progress:
        """Read what ``to_json`` wrote.

        Raises:
            QuestionTooNew: A newer version has written it.
            UnreadableRecord: No version has written it.
        """
        if text is None:
            return cls()
        try:
            read = _progress().validate_python(read_kept(text), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            if first["type"] == "extra_forbidden":
                raise QuestionTooNew(question_id, "progress of an unknown kind") from None
            where = ".".join(map(str, ("progress", *first["loc"])))
            raise UnreadableRecord("question", question_id, f"{where}: {first['msg']}") from None
        except ValueError as error:
            raise UnreadableRecord("question", question_id, f"progress: it is no JSON: {error}") from None
        facts: dict[str, Any] = dict(read)
        votes: list[dict[str, Any]] = facts.pop("votes", [])
        return cls(tuple(Vote.of({"note": None, **vote}) for vote in votes), **facts)

    def to_json(self) -> str:
        """Write what there is to say, and nothing else: an older version reads it as long as it can."""
        known = {name: value for name, value in asdict(self).items() if value}
        return json.dumps(known)


@dataclass(frozen=True, slots=True)
class QuestionState:
    """A question as it was read at some moment.

    Attributes:
        question: The question, pending or not.
        policy: What holds of it.
        progress: How far it has come.
        now: The moment, in unix seconds.
        has_action: Whether it says what is done once it is approved.
    """

    question: Promise
    policy: Policy
    progress: Progress
    now: float
    has_action: bool = False

    @classmethod
    def of(cls, question: Promise, now: float) -> QuestionState:
        """Read what a question's row says.

        Raises:
            QuestionTooNew: A newer version has written it.
            UnreadableRecord: No version has written it.
        """
        try:
            data: Any = read_kept(question.data or "{}")
        except ValueError as error:
            raise UnreadableRecord("question", question.id, f"data: it is no JSON: {error}") from None
        if not isinstance(data, dict):
            raise UnreadableRecord("question", question.id, "data: it is not an object")
        policy = Policy.from_data(question.id, cast("dict[str, Any]", data).get("policy", {}))
        progress = Progress.from_json(question.id, question.progress)
        return cls(question, policy, progress, now, cast("dict[str, Any]", data).get("action") is not None)

    @classmethod
    def readable(cls, question: Promise, now: float) -> QuestionState | None:
        """Read what a question's row says; None if this Signoff cannot, so that it keeps nobody from the others."""
        try:
            return cls.of(question, now)
        except (QuestionTooNew, UnreadableRecord):
            return None

    @property
    def awaits_rules(self) -> bool:
        """Whether a rule may approve it, and nobody has looked for one yet."""
        return self.has_action and self.policy.quorum is None and not self.progress.looked

    @property
    def may_be_answered_any_moment(self) -> bool:
        """Whether rules are about to be looked through for it; where that has failed, people answer meanwhile."""
        return self.awaits_rules and self.question.act_at == self._asked_at

    @property
    def deadline_at(self) -> float | None:
        """When it is closed if nobody has answered, in unix seconds."""
        deadline = self._deadline
        return self.question.due_at if deadline is None else self._asked_at + deadline

    @property
    def _deadline(self) -> float | None:
        """After how many seconds the ``timeout_answer`` is taken, if there is one."""
        return self.policy.deadline if self.progress.deadline is None else self.progress.deadline

    @property
    def _asked_at(self) -> float:
        asked_at = self.policy.asked_at
        return self.question.created_at if asked_at is None else asked_at

    # What time brings

    def overdue(self) -> Amendment | None:
        """Return what should have happened by now: escalations, a reminder, the answer that the deadline brings.

        Several reminders that nobody was there to send are one.
        """
        if self.question.act_at is None or self.question.act_at > self.now:
            return None
        deadline = self._deadline
        if deadline is not None and self._has_come(deadline):
            return self._take_timeout_answer(self.policy.timeout_answer)
        state = self
        events: list[NewAuditEvent] = []
        for level in range(self.progress.escalated, len(self.policy.escalations)):
            escalation = self.policy.escalations[level]
            if not self._has_come(escalation.after_seconds):
                break
            old = state.question.assignees
            assignees = escalation.asked_with(old)
            state = replace(
                state,
                question=replace(state.question, assignees=assignees),
                progress=replace(state.progress, escalated=level + 1, claimed_by=None),
            )
            told = {
                "level": level + 1,
                "to": escalation.to,
                "assignees": assignees,
                "from": old,
            }
            events.append(self._event(AuditKind.ESCALATED, None, told, TIMER))
        if events and state.progress.votes and state._has_too_few_voters():
            return state._lose(events)
        due = self._reminders_due()
        if due > state.progress.reminders:
            state = replace(state, progress=replace(state.progress, reminders=due))
            told = {"number": due, "to": state.still_asked()}
            events.append(self._event(AuditKind.REMINDED, None, told, TIMER))
        if self.awaits_rules and not events:
            return None  # it is due for that
        return state._amend(*events)

    def _lose(self, events: Sequence[NewAuditEvent]) -> Amendment:
        """Return the end of a vote that nobody can win any more, in the name of the last voter."""
        votes = self.progress.votes
        decided = {"approved": False, "votes": [asdict(each) for each in votes]}
        settlement = Settlement(
            PromiseState.RESOLVED, json.dumps(decided), votes[-1].user_id, votes[-1].note, origin=TIMER
        )
        return self._amend(*events, settlement=settlement)

    def answer_by(self, rule: Rule, value: str) -> Amendment:
        """Return the end that a rule brings, in the name of who made it."""
        origin = Origin(OriginWay.RULE, rule.id)
        settlement = Settlement(PromiseState.RESOLVED, value, rule.by, origin=origin)
        used = self._event(AuditKind.RULE_USED, rule.by, {"rule": rule.id}, origin)
        return replace(self._with_looked()._amend(used, settlement=settlement), by_rule=rule.id)

    def without_rules(self) -> Amendment:
        """Return what follows from it that no rule approves it: people are asked."""
        state = self._with_looked()
        return state.overdue() or state._amend()

    def _with_looked(self) -> QuestionState:
        return replace(self, progress=replace(self.progress, looked=True))

    def _take_timeout_answer(self, value: str | None) -> Amendment:
        settlement = Settlement(PromiseState.RESOLVED, value, by=TIMEOUT, origin=TIMER)
        defaulted = self._event(AuditKind.DEFAULTED, TIMEOUT, {"value": value}, TIMER)
        return self._amend(defaulted, settlement=settlement)

    def _reminders_due(self) -> int:
        every = self.policy.remind_every
        if every is None:
            return sum(self._has_come(seconds) for seconds in self.policy.reminders)
        count = round((self.now - self._asked_at) / every)
        return count if self._has_come(every * count) else count - 1

    def _has_come(self, seconds: float) -> bool:
        """Whether it is so long ago that it was asked: by the very numbers that ``act_at`` is made of."""
        return self._asked_at + seconds <= self.now

    # Who may still answer

    def still_asked(self) -> tuple[str, ...]:
        """Return the assignees who may still answer: only the claimant of a claimed question."""
        claimed_by = self.progress.claimed_by
        if claimed_by is not None:
            return (claimed_by,)
        return tuple(each for each in self.question.assignees if self.why_not_asked(each) is None)

    def why_not_asked(self, assignee: str) -> str | None:
        """Return why an assignee may not answer any more; None if they may.

        A group or a role may as long as nobody has claimed the question: which people are in it is not known here.
        """
        claimed_by = self.progress.claimed_by
        if self.is_excluded(assignee):
            return "they requested it and may not answer it (four eyes)"
        if self.question.assignees and assignee not in (*self.question.assignees, claimed_by):
            return "others are asked meanwhile"
        if claimed_by is not None and claimed_by != assignee:
            return f"{claimed_by} has claimed it"
        if any(is_same_user(vote.user_id, assignee) for vote in self.progress.votes):
            return "they have voted"
        return None

    def is_excluded(self, assignee: str | None) -> bool:
        """Whether a user may not answer, whatever groups they are in."""
        return assignee is not None and any(is_same_user(each, assignee) for each in self.policy.excluded)

    # What people do

    def check_responder(self, responder: Responder) -> None:
        """Raise NotAllowed or QuestionClaimed unless a person may answer."""
        self.check_asked(responder)
        claimed_by = self.progress.claimed_by
        if claimed_by is not None and claimed_by != responder.user:
            raise QuestionClaimed(self.question.id, claimed_by)

    def check_asked(self, responder: Responder) -> None:
        """Raise NotAllowed unless a question is, or was, for a person to answer."""
        id, user = self.question.id, responder.user
        is_anybodys = not self.question.assignees and not self.policy.excluded and self.policy.quorum is None
        if is_anybodys:
            return
        self._check_known(responder)
        if self.is_excluded(user):
            raise NotAllowed(id, user, "whoever asks for something does not approve it (four eyes)")
        if self.question.assignees and responder.names.isdisjoint(self.question.assignees):
            raise NotAllowed(id, user, "it is assigned to others")

    def answer(
        self,
        responder: Responder,
        value: str,
        note: str | None,
        request_id: str | None,
        rule: NewRule | None = None,
        signal: NewSignal | None = None,
    ) -> Amendment | None:
        """Return what an answer changes, which fits the question's form: a vote, or the end.

        Args:
            responder: Who answers.
            value: JSON.
            note: What they add in words.
            request_id: By which a repetition is known.
            rule: What is made with it; never where several decide.
            signal: What is left for a run with it.

        Returns:
            None if this very vote was counted before.

        Raises:
            NotAllowed: They are not asked, or excluded, or nobody knows who they are.
            QuestionClaimed: Somebody else has claimed it.
            AlreadyVoted: They have voted otherwise.
            RequestConflict: They have, with this very request id.
            WrongAnswer: They have edited what several decide on.
        """
        self.check_responder(responder)
        if self.policy.quorum is None:
            settlement = Settlement(PromiseState.RESOLVED, value, responder.user_id, note, request_id)
            if rule is None:
                return replace(self._amend(settlement=settlement), signal=signal)
            told = asdict(rule) | {"arguments": json.loads(rule.arguments)}
            made = self._event(AuditKind.RULE_MADE, rule.by, told)
            return replace(self._amend(made, settlement=settlement), rule=rule, signal=signal)
        assert responder.user_id is not None
        assert responder.user is not None
        decision: dict[str, Any] = json.loads(value)
        if decision.get("edits"):
            raise WrongAnswer(self.question.id, [("edited", "several decide on what is proposed: as it is")])
        vote = Vote(responder.user_id, decision["approved"], note, self.now, request_id)
        known = self.vote_of(responder)
        if known is not None:
            if known.approved == vote.approved:
                return None
            if request_id is not None and known.request_id == request_id:
                raise RequestConflict(request_id, self.question.id)
            raise AlreadyVoted(self.question.id, responder.user)
        return replace(self._count(vote, decision), signal=signal)

    def vote_of(self, responder: Responder) -> Vote | None:
        """Return what a person has said already."""
        if responder.user is None:
            return None
        votes = self.progress.votes
        return next((vote for vote in votes if is_same_user(vote.user_id, responder.user)), None)

    def _count(self, vote: Vote, decision: dict[str, Any]) -> Amendment:
        assert self.policy.quorum is not None
        votes = (*self.progress.votes, vote)
        approvals = sum(each.approved for each in votes)
        rejections = len(votes) - approvals
        state = replace(self, progress=replace(self.progress, votes=votes, claimed_by=None))
        told = {"approved": vote.approved, "note": vote.note, "request_id": vote.request_id}
        event = self._event(AuditKind.VOTED, vote.user_id, told)
        is_approved = approvals >= self.policy.quorum.approvals
        is_open = rejections <= self.policy.quorum.of - self.policy.quorum.approvals
        if not is_approved and is_open and not state._has_too_few_voters():
            return replace(state._amend(event), request_id=vote.request_id)
        decided = {**decision, "votes": [asdict(each) for each in votes]}
        settlement = Settlement(
            PromiseState.RESOLVED, json.dumps(decided), vote.user_id, vote.note, vote.request_id
        )
        return state._amend(event, settlement=settlement)

    def _has_too_few_voters(self) -> bool:
        """Whether those who have not voted are too few to approve it, and nobody else will be asked."""
        if self.policy.quorum is None:
            return False
        votes = self.progress.votes
        left = most_voters(
            self.question.assignees, (*self.policy.excluded, *(user_name(each.user_id) for each in votes))
        )
        is_final = self.progress.escalated >= len(self.policy.escalations)
        approvals = sum(each.approved for each in votes)
        return is_final and left is not None and approvals + left < self.policy.quorum.approvals

    def claim(self, responder: Responder) -> Amendment | None:
        """Have a person be the one who answers; None if they are already. Raises NotAllowed, QuestionClaimed."""
        self._check_known(responder)
        self.check_responder(responder)
        if self.policy.quorum is not None:
            raise NotAllowed(self.question.id, responder.user, "several decide on it, so nobody can claim it")
        if self.progress.claimed_by == responder.user:
            return None
        state = replace(self, progress=replace(self.progress, claimed_by=responder.user))
        return state._amend(self._event(AuditKind.CLAIMED, responder.user_id, {}))

    def release(self, responder: Responder) -> Amendment | None:
        """Have everybody answer again who is asked; None if nobody has claimed it. Raises NotAllowed."""
        self._check_known(responder)
        if self.progress.claimed_by is None:
            return None
        if self.progress.claimed_by != responder.user:
            raise NotAllowed(
                self.question.id, responder.user, f"{self.progress.claimed_by} has claimed it, not they"
            )
        state = replace(self, progress=replace(self.progress, claimed_by=None))
        return state._amend(self._event(AuditKind.RELEASED, responder.user_id, {}))

    def delegate(self, responder: Responder, to: tuple[str, ...], note: str | None) -> Amendment | None:
        """Have others answer instead of those who are asked now; None if it is so already.

        Where several must agree, somebody who is asked by name gives their own vote away, and nobody else's.

        Raises:
            NotAllowed, QuestionClaimed: Who delegates may not answer, or has no vote of their own to give away.
            InvalidValue: There is nobody to delegate to, a name is none, or one is excluded.
        """
        self._check_known(responder)
        self.check_responder(responder)
        names = self._check_successors(to)
        if self.policy.quorum is not None:
            names = self._with_vote_given_away(responder, names)
        if names == self.question.assignees:
            return None
        question = replace(self.question, assignees=names)
        state = replace(self, question=question, progress=replace(self.progress, claimed_by=None))
        told = {"to": names, "from": self.question.assignees, "note": note}
        return state._amend(self._event(AuditKind.DELEGATED, responder.user_id, told))

    def reassign(self, by: str | None, to: tuple[str, ...], reason: str | None) -> Amendment | None:
        """Have others answer, whoever is asked now; None if it is so already. A claim ends, votes stay.

        Raises:
            InvalidValue: Nobody is named, a name is none or excluded, or they are too few to agree.
        """
        names = self._check_successors(to)
        votes = self.progress.votes
        needed = 1 if self.policy.quorum is None else self.policy.quorum.approvals
        needed -= sum(vote.approved for vote in votes)
        able = most_voters(names, (user_name(vote.user_id) for vote in votes))
        if able is not None and able < needed:
            people = "1 person" if able == 1 else f"{able} people"
            missing = "1 approval" if needed == 1 else f"{needed} approvals"
            raise InvalidValue("to", f"{people} who may still vote cannot give the {missing} that it needs")
        if names == self.question.assignees:
            return None
        question = replace(self.question, assignees=names)
        state = replace(self, question=question, progress=replace(self.progress, claimed_by=None))
        told = {"to": names, "from": self.question.assignees, "reason": reason}
        return state._amend(self._event(AuditKind.REASSIGNED, by, told))

    def move_deadline(self, by: str | None, seconds: float, reason: str | None) -> Amendment:
        """Have people answer until so many seconds from now, and no longer.

        Raises:
            InvalidValue: It has no deadline: its workflow does not reckon with one.
        """
        before, at = self.deadline_at, self.now + seconds
        if before is None:
            raise InvalidValue(
                "timeout_seconds", f"question {self.question.id!r} has no deadline to be moved"
            )
        moved = self._event(AuditKind.DEADLINE_MOVED, by, {"to": at, "from": before, "reason": reason})
        if self._deadline is None:
            return replace(self._amend(moved), due_at=at)
        return replace(self, progress=replace(self.progress, deadline=at - self._asked_at))._amend(moved)

    def _check_successors(self, to: tuple[str, ...]) -> tuple[str, ...]:
        """Return who may answer from now on. Raises InvalidValue."""
        names = check_names("to", to)
        if not names:
            raise InvalidValue("to", "name somebody who answers it")
        for name in names:
            if self.is_excluded(name):
                raise InvalidValue("to", f"{name} must not answer this question: they asked for it")
        return names

    def _with_vote_given_away(self, responder: Responder, names: tuple[str, ...]) -> tuple[str, ...]:
        id, user, assignees = self.question.id, responder.user, self.question.assignees
        if self.vote_of(responder) is not None:
            raise NotAllowed(id, user, "they have voted, so there is no vote to give away")
        if user not in assignees:
            raise NotAllowed(id, user, "several decide on it: only who is asked by name gives a vote away")
        if len(names) != 1 or not names[0].startswith("user:") or names[0] in assignees:
            raise InvalidValue("to", "several decide on it: name one user who is not asked yet")
        if any(is_same_user(vote.user_id, names[0]) for vote in self.progress.votes):
            raise InvalidValue("to", f"{names[0]} has voted, so a vote cannot be given to them")
        return tuple(names[0] if name == user else name for name in assignees)

    def _check_known(self, responder: Responder) -> None:
        if responder.user is None:
            raise NotAllowed(self.question.id, None, "say who they are, such as user_id='ana'")

    # Inside

    def _amend(self, *events: NewAuditEvent, settlement: Settlement | None = None) -> Amendment:
        return Amendment(
            version=self.question.version,
            progress=self.progress.to_json(),
            assignees=self.question.assignees,
            act_at=None if settlement is not None else self._next_act(),
            settlement=settlement,
            events=events,
        )

    def _next_act(self) -> float | None:
        if self.awaits_rules:
            return self._asked_at
        policy = replace(self.policy, deadline=self._deadline)
        seconds = policy.next_act(reminded=self.progress.reminders, escalated=self.progress.escalated)
        return None if seconds is None else self._asked_at + seconds

    def _event(
        self, kind: AuditKind, by: str | None, details: dict[str, Any], origin: Origin | None = None
    ) -> NewAuditEvent:
        told = json.dumps({name: value for name, value in details.items() if value is not None})
        return NewAuditEvent(uuid.uuid4().hex, kind, self.question.id, self.question.run_id, by, told, origin)


def is_same_user(one: str, other: str) -> bool:
    """Whether two names may be one person: nobody gets past four eyes, or votes twice, by another spelling."""
    return person_key(one) == person_key(other)


def excluded_users(requester: str | None) -> tuple[str, ...]:
    """Return who may not answer what ``requester`` has asked for."""
    return () if requester is None else (user_name(requester),)
