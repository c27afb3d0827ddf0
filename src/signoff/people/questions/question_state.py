"""The state of a question: policy, votes, claim, escalations. Every change by people or time is computed here.

This module does no I/O. It returns an ``Amendment``, which the store applies only if the question has not changed
meanwhile. Otherwise the caller reads the question again and retries.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from signoff.codec.strict_json import read_kept, why_unreadable_json
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
from signoff.people.questions.progress import Progress, Vote
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
"""The user id of an answer that the deadline gave. It cannot be the name of a user."""


@dataclass(frozen=True, slots=True)
class QuestionState:
    """A question as read at a certain time.

    Attributes:
        question: The question, pending or not.
        policy: Its policy.
        progress: Its progress.
        now: The time, in unix seconds.
        has_action: Whether the question has an action.
    """

    question: Promise
    policy: Policy
    progress: Progress
    now: float
    has_action: bool = False

    @classmethod
    def of(cls, question: Promise, now: float) -> QuestionState:
        """Read the state from a question's row.

        Raises:
            QuestionTooNew: A newer version wrote it.
            UnreadableRecord: It is not a known format.
        """
        try:
            data: Any = read_kept(question.data or "{}")
        except ValueError as error:
            raise UnreadableRecord("question", question.id, f"data: {why_unreadable_json(error)}") from None
        if not isinstance(data, dict):
            raise UnreadableRecord("question", question.id, "data: must be an object")
        policy = Policy.from_data(question.id, cast("dict[str, Any]", data).get("policy", {}))
        has_action = cast("dict[str, Any]", data).get("action") is not None
        del data  # it may take twenty times the memory of its text, and so may the progress
        return cls(question, policy, Progress.from_json(question.id, question.progress), now, has_action)

    @classmethod
    def readable(cls, question: Promise, now: float) -> QuestionState | None:
        """Read the state from a question's row; None if this version cannot: one row must not block the others."""
        try:
            return cls.of(question, now)
        except (QuestionTooNew, UnreadableRecord):
            return None

    @property
    def awaits_rules(self) -> bool:
        """Whether a standing approval may answer it, and they have not been searched yet."""
        return self.has_action and self.policy.quorum is None and not self.progress.looked

    @property
    def may_be_answered_any_moment(self) -> bool:
        """Whether the search for standing approvals is imminent. If that search has failed, people answer meanwhile."""
        return self.awaits_rules and self.question.act_at == self._asked_at

    @property
    def deadline_at(self) -> float | None:
        """When it closes without an answer, in unix seconds."""
        deadline = self._deadline
        return self.question.due_at if deadline is None else self._asked_at + deadline

    @property
    def _deadline(self) -> float | None:
        """Seconds until the ``timeout_answer`` applies, if there is one."""
        return self.policy.deadline if self.progress.deadline is None else self.progress.deadline

    @property
    def _asked_at(self) -> float:
        asked_at = self.policy.asked_at
        return self.question.created_at if asked_at is None else asked_at

    # Effects of time

    def overdue(self) -> Amendment | None:
        """Return what is due by now: escalations, a reminder, the timeout answer.

        Several missed reminders become one.
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
            details = {
                "level": level + 1,
                "to": escalation.to,
                "assignees": assignees,
                "from": old,
            }
            events.append(self._event(AuditKind.ESCALATED, None, details, TIMER))
        if events and state.progress.votes and state._has_too_few_voters():
            return state._lose(events)
        due = self._reminders_due()
        if due > state.progress.reminders:
            state = replace(state, progress=replace(state.progress, reminders=due))
            details = {"number": due, "to": state.still_asked()}
            events.append(self._event(AuditKind.REMINDED, None, details, TIMER))
        if self.awaits_rules and not events:
            return None  # the search for rules is what is due
        return state._amend(*events)

    def _lose(self, events: Sequence[NewAuditEvent]) -> Amendment:
        """Return the rejection of a vote that can no longer reach its quorum, in the last voter's name."""
        votes = self.progress.votes
        decided = {"approved": False, "votes": [asdict(each) for each in votes]}
        settlement = Settlement(
            PromiseState.RESOLVED, json.dumps(decided), votes[-1].user_id, votes[-1].note, origin=TIMER
        )
        return self._amend(*events, settlement=settlement)

    def answer_by(self, rule: Rule, value: str) -> Amendment:
        """Return the answer given by a standing approval, in its creator's name."""
        origin = Origin(OriginWay.RULE, rule.id)
        settlement = Settlement(PromiseState.RESOLVED, value, rule.by, origin=origin)
        used = self._event(AuditKind.RULE_USED, rule.by, {"rule": rule.id}, origin)
        return replace(self._with_looked()._amend(used, settlement=settlement), by_rule=rule.id)

    def without_rules(self) -> Amendment:
        """Return the change after a search that found no standing approval: people are asked."""
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
        """Whether this many seconds have passed since it was asked (same arithmetic as ``act_at``)."""
        return self._asked_at + seconds <= self.now

    # Who may answer

    def still_asked(self) -> tuple[str, ...]:
        """Return the assignees who may answer now: of a claimed question, only the claimant."""
        claimed_by = self.progress.claimed_by
        if claimed_by is not None:
            return (claimed_by,)
        return tuple(each for each in self.question.assignees if self.why_not_asked(each) is None)

    def why_not_asked(self, assignee: str) -> str | None:
        """Return why an assignee may not answer now; None if they may.

        A group or a role may as long as the question is unclaimed: its members are not known here.
        """
        claimed_by = self.progress.claimed_by
        if self.is_excluded(assignee):
            return "they requested it and may not answer it (four eyes)"
        if self.question.assignees and assignee not in (*self.question.assignees, claimed_by):
            return "it is assigned to others now"
        if claimed_by is not None and claimed_by != assignee:
            return f"{claimed_by} has claimed it"
        if any(is_same_user(vote.user_id, assignee) for vote in self.progress.votes):
            return "they have voted"
        return None

    def is_excluded(self, assignee: str | None) -> bool:
        """Whether a user may not answer, regardless of their groups."""
        return assignee is not None and any(is_same_user(each, assignee) for each in self.policy.excluded)

    # Changes by people

    def check_responder(self, responder: Responder) -> None:
        """Raise NotAllowed or QuestionClaimed unless the user may answer."""
        self.check_asked(responder)
        claimed_by = self.progress.claimed_by
        if claimed_by is not None and claimed_by != responder.user:
            raise QuestionClaimed(self.question.id, claimed_by)

    def check_asked(self, responder: Responder) -> None:
        """Raise NotAllowed unless the user is, or was, asked."""
        id, user = self.question.id, responder.user
        is_anybodys = not self.question.assignees and not self.policy.excluded and self.policy.quorum is None
        if is_anybodys:
            return
        self._check_known(responder)
        if self.is_excluded(user):
            raise NotAllowed(id, user, "the requester may not approve their own request (four eyes)")
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
        """Return the change made by an answer that fits the question's form: a vote, or the settlement.

        Args:
            responder: The user who answers.
            value: The answer as JSON.
            note: The user's note.
            request_id: Identifies a repeated request.
            rule: Standing approval to create with it; never with a quorum.
            signal: Signal to leave for a run with it.

        Returns:
            None if the same vote was counted before.

        Raises:
            NotAllowed: The user is not an assignee, is excluded, or is unknown.
            QuestionClaimed: Another user has claimed it.
            AlreadyVoted: The user has voted differently.
            RequestConflict: The user has voted differently with the same request id.
            WrongAnswer: The user edited the proposal of a question with a quorum.
        """
        self.check_responder(responder)
        if self.policy.quorum is None:
            settlement = Settlement(PromiseState.RESOLVED, value, responder.user_id, note, request_id)
            if rule is None:
                return replace(self._amend(settlement=settlement), signal=signal)
            details = asdict(rule) | {"arguments": json.loads(rule.arguments)}
            made = self._event(AuditKind.RULE_MADE, rule.by, details)
            return replace(self._amend(made, settlement=settlement), rule=rule, signal=signal)
        assert responder.user_id is not None
        assert responder.user is not None
        decision: dict[str, Any] = json.loads(value)
        if decision.get("edits"):
            raise WrongAnswer(self.question.id, [("edited", "with a quorum the proposal cannot be edited")])
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
        """Return the user's earlier vote."""
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
        details = {"approved": vote.approved, "note": vote.note, "request_id": vote.request_id}
        event = self._event(AuditKind.VOTED, vote.user_id, details)
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
        """Whether the remaining voters cannot reach the quorum, and no escalation will add any."""
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
        """Make the user the only one who can answer; None if they are already. Raises NotAllowed, QuestionClaimed."""
        self._check_known(responder)
        self.check_responder(responder)
        if self.policy.quorum is not None:
            raise NotAllowed(self.question.id, responder.user, "a question with a quorum cannot be claimed")
        if self.progress.claimed_by == responder.user:
            return None
        state = replace(self, progress=replace(self.progress, claimed_by=responder.user))
        return state._amend(self._event(AuditKind.CLAIMED, responder.user_id, {}))

    def release(self, responder: Responder) -> Amendment | None:
        """End the claim; None if it is not claimed. Raises NotAllowed."""
        self._check_known(responder)
        if self.progress.claimed_by is None:
            return None
        if self.progress.claimed_by != responder.user:
            raise NotAllowed(self.question.id, responder.user, f"{self.progress.claimed_by} has claimed it")
        state = replace(self, progress=replace(self.progress, claimed_by=None))
        return state._amend(self._event(AuditKind.RELEASED, responder.user_id, {}))

    def delegate(self, responder: Responder, to: tuple[str, ...], note: str | None) -> Amendment | None:
        """Replace the assignees; None if they stay the same.

        With a quorum, a user who is assigned by name hands over their own vote only.

        Raises:
            NotAllowed, QuestionClaimed: The user may not answer, or has no vote to hand over.
            InvalidValue: ``to`` is empty, or a name is invalid or excluded.
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
        details = {"to": names, "from": self.question.assignees, "note": note}
        return state._amend(self._event(AuditKind.DELEGATED, responder.user_id, details))

    def reassign(self, by: str | None, to: tuple[str, ...], reason: str | None) -> Amendment | None:
        """Replace the assignees; None if they stay the same. A claim ends, votes stay.

        Raises:
            InvalidValue: ``to`` is empty, a name is invalid or excluded, or there are too few users for the quorum.
        """
        names = self._check_successors(to)
        votes = self.progress.votes
        needed = 1 if self.policy.quorum is None else self.policy.quorum.approvals
        needed -= sum(vote.approved for vote in votes)
        able = most_voters(names, (user_name(vote.user_id) for vote in votes))
        if able is not None and able < needed:
            people = "1 person" if able == 1 else f"{able} people"
            missing = "1 approval" if needed == 1 else f"{needed} approvals"
            raise InvalidValue("to", f"{people} who may still vote cannot give the {missing} needed")
        if names == self.question.assignees:
            return None
        question = replace(self.question, assignees=names)
        state = replace(self, question=question, progress=replace(self.progress, claimed_by=None))
        details = {"to": names, "from": self.question.assignees, "reason": reason}
        return state._amend(self._event(AuditKind.REASSIGNED, by, details))

    def move_deadline(self, by: str | None, seconds: float, reason: str | None) -> Amendment:
        """Set the deadline to this many seconds from now.

        Raises:
            InvalidValue: The question has no deadline, so its workflow does not expect one.
        """
        before, at = self.deadline_at, self.now + seconds
        if before is None:
            raise InvalidValue("timeout_seconds", f"question {self.question.id!r} has no deadline")
        moved = self._event(AuditKind.DEADLINE_MOVED, by, {"to": at, "from": before, "reason": reason})
        if self._deadline is None:
            return replace(self._amend(moved), due_at=at)
        return replace(self, progress=replace(self.progress, deadline=at - self._asked_at))._amend(moved)

    def _check_successors(self, to: tuple[str, ...]) -> tuple[str, ...]:
        """Return the new assignees, checked. Raises InvalidValue."""
        names = check_names("to", to)
        if not names:
            raise InvalidValue("to", "name at least one assignee")
        for name in names:
            if self.is_excluded(name):
                raise InvalidValue("to", f"{name} may not answer this question: they requested it")
        return names

    def _with_vote_given_away(self, responder: Responder, names: tuple[str, ...]) -> tuple[str, ...]:
        id, user, assignees = self.question.id, responder.user, self.question.assignees
        if self.vote_of(responder) is not None:
            raise NotAllowed(id, user, "they have voted, so they have no vote to delegate")
        if user not in assignees:
            raise NotAllowed(id, user, "with a quorum only users assigned by name can delegate their vote")
        if len(names) != 1 or not names[0].startswith("user:") or names[0] in assignees:
            raise InvalidValue(
                "to", "with a quorum a vote goes to exactly one user who is not yet an assignee"
            )
        if any(is_same_user(vote.user_id, names[0]) for vote in self.progress.votes):
            raise InvalidValue("to", f"{names[0]} has voted, and cannot vote twice")
        return tuple(names[0] if name == user else name for name in assignees)

    def _check_known(self, responder: Responder) -> None:
        if responder.user is None:
            raise NotAllowed(self.question.id, None, "the user is unknown; pass for example user_id='ana'")

    # Amendments

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
        written = json.dumps({name: value for name, value in details.items() if value is not None})
        return NewAuditEvent(
            uuid.uuid4().hex, kind, self.question.id, self.question.run_id, by, written, origin
        )


def is_same_user(one: str, other: str) -> bool:
    """Whether two names may be the same person. Another spelling must not get around four eyes or vote twice."""
    return person_key(one) == person_key(other)


def excluded_users(requester: str | None) -> tuple[str, ...]:
    """Return the users who may not answer a question requested by ``requester``."""
    return () if requester is None else (user_name(requester),)
