"""A question's policy: who may answer, how many must agree, and what happens while nobody does."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from signoff.errors import InvalidValue, QuestionTooNew, RegistrationError, UnreadableRecord
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.question_schema import wrong_in_policy
from signoff.records.names import person_key
from signoff.records.responders import check_names
from signoff.records.start_options import check_flag

UNSET: Final[Any] = object()
"""Where None is an answer."""

SHORTEST_REMINDER_SECONDS: Final = 1.0

MOST_REMINDERS: Final = 100
"""How many reminders there are where only working time counts: each is worked out when the question is asked."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of those who are asked must approve.

    Attributes:
        approvals: So many different people must approve.
        of: How many vote at most. As soon as the approvals cannot be reached any more, it is rejected.

    Example::

        await ctx.wait_for_user("Deploy?", quorum=Quorum(2, of=3))
    """

    approvals: int
    of: int

    def __post_init__(self) -> None:
        for number in (self.approvals, self.of):
            if type(number) is not int:
                raise InvalidValue("quorum", f"{number!r} is no whole number")
        if not 1 <= self.approvals <= self.of:
            raise InvalidValue("quorum", f"{self.approvals} of {self.of} is no quorum")


@dataclass(frozen=True, slots=True)
class Escalation:
    """Others who are asked, too, when nobody has answered for some time.

    Attributes:
        after_seconds: How long after the question was asked.
        to: Who may answer from then on, such as ``["group:leads"]``.
        replace: Whether those who were asked before may not answer any more.

    Example::

        await ctx.wait_for_user("Refund?", assignees=["group:desk"], escalations=[Escalation(3600, ["group:leads"])])
    """

    after_seconds: float
    to: Sequence[str]
    replace: bool = False

    def __post_init__(self) -> None:
        _check_seconds("after_seconds", self.after_seconds)
        check_flag("replace", self.replace)
        object.__setattr__(self, "to", check_names("to", self.to))
        if not self.to:
            raise InvalidValue("to", "an escalation needs at least one assignee")

    def asked_with(self, assignees: tuple[str, ...]) -> tuple[str, ...]:
        """Return who may answer once it has happened to a question for ``assignees``."""
        if self.replace:
            return tuple(self.to)
        return tuple(dict.fromkeys((*assignees, *self.to))) if assignees else ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds of a question beside its form. Seconds count from when it was asked.

    Attributes:
        assignees: Who may answer at first; empty: anybody.
        excluded: Users who may not, whatever groups they are in.
        quorum: How many must approve, if it is more than one.
        remind_every: After how many seconds to remind them, again and again.
        reminders: After how many seconds to remind them instead, where only working time counts.
        escalations: Who is asked later, the earliest first.
        deadline: After how many seconds ``timeout_answer`` is taken; None: it is not taken.
        timeout_answer: JSON of the answer that stands if nobody has given one by the deadline.
        asked_at: From when seconds count, in unix seconds; None: from when the store created the question.
    """

    assignees: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    quorum: Quorum | None = None
    remind_every: float | None = None
    reminders: tuple[float, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    deadline: float | None = None
    timeout_answer: str | None = None
    asked_at: float | None = None

    @property
    def is_plain(self) -> bool:
        """Whether anybody may answer, once, and nothing happens meanwhile."""
        return self == _PLAIN

    @property
    def first_act(self) -> float | None:
        """After how many seconds there is something to do; None: never."""
        return self.next_act(reminded=0, escalated=0)

    def next_act(self, *, reminded: int, escalated: int) -> float | None:
        """After how many seconds there is something to do, once so many reminders and escalations were; None: never."""
        times = [self.deadline, self.reminder_after(reminded + 1)]
        times += [each.after_seconds for each in self.escalations[escalated : escalated + 1]]
        return min((time for time in times if time is not None), default=None)

    def reminder_after(self, number: int) -> float | None:
        """After how many seconds people are reminded for the ``number``-th time; None: never."""
        if self.remind_every is not None:
            return self.remind_every * number
        return self.reminders[number - 1] if number <= len(self.reminders) else None

    def in_hours(self, hours: BusinessHours, asked_at: float, timeout_seconds: float | None) -> Policy:
        """Return the same policy in seconds of any time, whose own seconds are those of working time.

        Args:
            hours: When it is working time.
            asked_at: When the question is asked, in unix seconds.
            timeout_seconds: After how much working time it is closed, if it is: there are no reminders then.

        Raises:
            InvalidValue: They are not ``BusinessHours``, or there is not so much working time within ten years.
        """
        if not isinstance(cast("object", hours), BusinessHours):
            raise InvalidValue("hours", f"pass BusinessHours(...), not {hours!r}")
        reminders: list[float] = []
        end = None if timeout_seconds is None else hours.after(asked_at, timeout_seconds)
        if self.remind_every is not None:
            at = hours.after(asked_at, self.remind_every)
            while len(reminders) < MOST_REMINDERS and (end is None or at < end):
                reminders.append(at - asked_at)
                at = hours.after(at, self.remind_every)
        return replace(
            self,
            remind_every=None,
            reminders=tuple(reminders),
            escalations=tuple(
                replace(each, after_seconds=hours.after(asked_at, each.after_seconds) - asked_at)
                for each in self.escalations
            ),
            deadline=None if self.deadline is None else hours.after(asked_at, self.deadline) - asked_at,
        )

    def to_json(self) -> str:
        """Write it, without the assignees: those are the question's own and may change."""
        written: dict[str, Any] = {}
        if self.excluded:
            written["excluded"] = self.excluded
        if self.quorum is not None:
            written["quorum"] = {"approvals": self.quorum.approvals, "of": self.quorum.of}
        if self.remind_every is not None:
            written["remind_every"] = self.remind_every
        if self.reminders:
            written["reminders"] = self.reminders
        if self.escalations:
            written["escalations"] = [
                {"after_seconds": each.after_seconds, "to": each.to, "replace": each.replace}
                for each in self.escalations
            ]
        if self.deadline is not None:
            written["deadline"] = self.deadline
            written["timeout_answer"] = json.loads(self.timeout_answer or "null")
        if self.asked_at is not None:
            written["asked_at"] = self.asked_at
        return json.dumps(written)

    @classmethod
    def from_data(cls, question_id: str, data: Any) -> Policy:
        """Read what ``to_json`` wrote.

        Raises:
            UnreadableRecord: No version has written it.
            QuestionTooNew: It has rules that are not known here: nobody may answer past them.
        """
        wrong = wrong_in_policy(data)
        if wrong is not None:
            raise UnreadableRecord("question", question_id, f"data.policy: {wrong}")
        rest = dict(data)
        quorum = rest.pop("quorum", None)
        timeout_answer = json.dumps(rest.pop("timeout_answer")) if "timeout_answer" in rest else None
        try:
            return cls(
                excluded=tuple(rest.pop("excluded", ())),
                quorum=None if quorum is None else Quorum(**quorum),
                escalations=tuple(Escalation(**each) for each in rest.pop("escalations", ())),
                reminders=tuple(rest.pop("reminders", ())),
                timeout_answer=timeout_answer,
                **rest,
            )
        except InvalidValue as error:
            raise UnreadableRecord("question", question_id, f"data.policy: {error}") from None
        except TypeError as error:
            raise QuestionTooNew(question_id, f"a policy with an {_unknown(error)}") from None

    @classmethod
    def make(
        cls,
        text: str,
        *,
        input_type: str,
        skippable: bool = False,
        assignees: Sequence[str] = (),
        quorum: Quorum | int = 1,
        excluded: Sequence[str] = (),
        remind_every: float | None = None,
        escalations: Sequence[Escalation] = (),
        timeout_seconds: float | None = None,
        timeout_answer: str | None = None,
    ) -> Policy:
        """Check and complete what a workflow says.

        Args:
            text: The question's, for messages.
            input_type: The question's.
            skippable: The question's.
            timeout_answer: JSON of an answer that fits the question, if there is one.

        Raises:
            RegistrationError: The parts do not fit together.
            InvalidValue: A name, a number or a time is none.
        """
        if timeout_answer is not None and timeout_seconds is None:
            raise RegistrationError(f"question {text!r}: a timeout_answer needs timeout_seconds")
        agreed = Quorum(quorum, quorum) if type(quorum) is int else quorum
        if not isinstance(agreed, Quorum):
            raise InvalidValue("quorum", f"{quorum!r} is neither a number nor a Quorum")
        if agreed.of > 1 and input_type != "approval":
            raise RegistrationError(f"question {text!r}: a quorum is for approvals, not for {input_type}")
        if agreed.of > 1 and skippable:
            raise RegistrationError(f"question {text!r}: a vote is a yes or a no; drop skippable or quorum")
        is_list = isinstance(cast("object", escalations), Sequence)
        if not is_list or not all(
            isinstance(each, Escalation) for each in cast("Sequence[object]", escalations)
        ):
            raise InvalidValue("escalations", "pass a list, such as [Escalation(3600, ['group:heads'])]")
        if remind_every is not None:
            _check_seconds("remind_every", remind_every, at_least=SHORTEST_REMINDER_SECONDS)
        if timeout_answer is not None and timeout_seconds is not None:
            check_deadline(timeout_seconds)
        names = check_names("assignees", assignees)
        levels = tuple(sorted(escalations, key=lambda each: each.after_seconds))
        _check_reachable(text, names, excluded, agreed.approvals, levels)
        check_in_time(text, levels, timeout_seconds)
        return cls(
            assignees=names,
            excluded=tuple(excluded),
            quorum=agreed if agreed.of > 1 else None,
            remind_every=remind_every,
            escalations=levels,
            deadline=timeout_seconds if timeout_answer is not None else None,
            timeout_answer=timeout_answer,
        )


_PLAIN: Final = Policy()


def most_voters(assignees: Iterable[str], without: Iterable[str] = ()) -> int | None:
    """Return how many people can answer what is asked of these; None where groups or roles make that unknown.

    Names that may be spellings of one name count as one person.

    Args:
        assignees: Who is asked; empty: anybody.
        without: Users who do not count: they may not answer, or have voted.
    """
    names = tuple(assignees)
    if not names or not all(name.startswith("user:") for name in names):
        return None
    return len({person_key(name) for name in names} - {person_key(name) for name in without})


def _check_reachable(
    text: str,
    assignees: tuple[str, ...],
    excluded: Sequence[str],
    approvals: int,
    escalations: tuple[Escalation, ...],
) -> None:
    """Refuse a question that too few people could answer once all escalations have happened.

    Raises:
        RegistrationError: Too few people are asked in the end.
    """
    asked, replaced_by = assignees, None
    for each in escalations:
        asked = each.asked_with(asked)
        replaced_by = each if each.replace else replaced_by
    able = most_voters(asked, excluded)
    if able is None or able >= approvals:
        return
    people = "1 person" if able == 1 else f"{able} people"
    needed = "1 approval" if approvals == 1 else f"{approvals} approvals"
    when = (
        "" if replaced_by is None else f" once Escalation({replaced_by.after_seconds:g}, replace=True) is due"
    )
    requester = f" ({', '.join(excluded)} may not: four eyes)" if excluded else ""
    raise RegistrationError(
        f"question {text!r}: {people} cannot give {needed}{when}{requester}: ask more people, or lower the quorum"
    )


def check_in_time(text: str, escalations: Sequence[Escalation], timeout_seconds: object) -> None:
    """Refuse an escalation of a question that is closed by then. Raises RegistrationError."""
    if not isinstance(timeout_seconds, int | float):
        return  # what is not a number of seconds is refused where the question waits
    for each in escalations:
        if each.after_seconds >= timeout_seconds:
            raise RegistrationError(
                f"question {text!r}: it closes after {timeout_seconds:g} s, so it never escalates after "
                f"{each.after_seconds:g} s: escalate earlier, or give it more time"
            )


def _unknown(error: TypeError) -> str:
    """Name what a newer version has written, by what Python says of an argument that it does not know."""
    name = re.search("unexpected keyword argument '([^']*)'", str(error))
    return "unknown part" if name is None else f"unknown {name[1]!r}"


def check_deadline(seconds: float) -> float:
    """Return after how long a ``timeout_answer`` is taken. Raises InvalidValue."""
    _check_seconds("timeout_seconds", seconds)
    return seconds


def _check_seconds(path: str, seconds: object, *, at_least: float = 0.0) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidValue(path, f"{seconds!r} is no number of seconds")
    if not math.isfinite(seconds) or seconds < at_least:
        raise InvalidValue(path, f"{seconds!r} is no number of seconds from {at_least:g} on")
