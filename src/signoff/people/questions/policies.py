"""A question's policy: who may answer, the quorum, reminders, escalations and the deadline."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from signoff.errors import InvalidValue, QuestionTooNew, RegistrationError, UnreadableRecord
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.question_schema import problem_in_policy
from signoff.records.names import person_key
from signoff.records.responders import check_names
from signoff.records.start_options import check_flag

UNSET: Final[Any] = object()
"""Default for parameters where None is a valid value."""

SHORTEST_REMINDER_SECONDS: Final = 1.0

MOST_REMINDERS: Final = 100
"""Maximum number of reminders in working time. Each is computed when the question is asked."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """How many of the voters must approve.

    Attributes:
        approvals: Number of different people who must approve.
        of: Maximum number of voters. The question is rejected as soon as the approvals can no longer be reached.

    Example::

        await ctx.wait_for_user("Deploy?", quorum=Quorum(2, of=3))
    """

    approvals: int
    of: int

    def __post_init__(self) -> None:
        for number in (self.approvals, self.of):
            if type(number) is not int:
                raise InvalidValue("quorum", f"{number!r} is not a whole number")
        if not 1 <= self.approvals <= self.of:
            raise InvalidValue("quorum", f"{self.approvals} of {self.of} is not a quorum")


@dataclass(frozen=True, slots=True)
class _EscalationFields:
    after_seconds: float
    to: tuple[str, ...]
    replace: bool = False

    def __post_init__(self) -> None:
        _check_seconds("after_seconds", self.after_seconds)
        check_flag("replace", self.replace)
        if not check_names("to", self.to):
            raise InvalidValue("to", "an escalation needs at least one assignee")


@dataclass(frozen=True, init=False)
class Escalation(_EscalationFields):
    """Additional assignees if the question stays unanswered for some time.

    Attributes:
        after_seconds: Time since the question was asked.
        to: The assignees from then on, such as ``["group:leads"]``.
        replace: Whether the former assignees may no longer answer.

    Example::

        await ctx.wait_for_user("Refund?", assignees=["group:desk"], escalations=[Escalation(3600, ["group:leads"])])
    """

    __slots__ = ()

    def __init__(self, after_seconds: float, to: Sequence[str], replace: bool = False) -> None:
        super().__init__(after_seconds, check_names("to", to), replace)

    def asked_with(self, assignees: tuple[str, ...]) -> tuple[str, ...]:
        """Return the assignees after the escalation of a question for ``assignees``."""
        if self.replace:
            return tuple(dict.fromkeys(self.to))
        return tuple(dict.fromkeys((*assignees, *self.to))) if assignees else ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of a question beside its form. Seconds count from when it was asked.

    Attributes:
        assignees: The first assignees; empty: any user.
        excluded: Users who may not answer, regardless of their groups.
        quorum: The quorum, if more than one approval is needed.
        remind_every: Interval between reminders in seconds.
        reminders: Times of the reminders in seconds, used instead of ``remind_every`` with working hours.
        escalations: Escalations, the earliest first.
        deadline: Seconds until the ``timeout_answer`` applies; None: it never does.
        timeout_answer: JSON of the answer that applies at the deadline.
        asked_at: Start of the seconds, in unix seconds; None: when the store created the question.
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
        """Whether any user may answer, once, and nothing is due in the meantime."""
        return self == _PLAIN

    @property
    def everybody_named(self) -> tuple[str, ...]:
        """The first assignees, and those of the escalations."""
        return (*self.assignees, *(name for each in self.escalations for name in each.to))

    @property
    def first_act(self) -> float | None:
        """Seconds until something is due first; None: never."""
        return self.next_act(reminded=0, escalated=0)

    def next_act(self, *, reminded: int, escalated: int) -> float | None:
        """Seconds until something is due next, after this many reminders and escalations; None: never."""
        times = [self.deadline, self.reminder_after(reminded + 1)]
        times += [each.after_seconds for each in self.escalations[escalated : escalated + 1]]
        return min((time for time in times if time is not None), default=None)

    def reminder_after(self, number: int) -> float | None:
        """Seconds until the ``number``-th reminder; None: there is none."""
        if self.remind_every is not None:
            return self.remind_every * number
        return self.reminders[number - 1] if number <= len(self.reminders) else None

    def in_hours(self, hours: BusinessHours, asked_at: float, timeout_seconds: float | None) -> Policy:
        """Convert a policy from seconds of working time to seconds of any time.

        Args:
            hours: The working hours.
            asked_at: When the question is asked, in unix seconds.
            timeout_seconds: Working time until it closes, after which there are no reminders; None: it stays open.

        Raises:
            InvalidValue: ``hours`` is not a ``BusinessHours``, or has too little working time within ten years.
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
        """Write the policy without the assignees: the question stores those itself, and they may change."""
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
        """Read the result of ``to_json``.

        Raises:
            UnreadableRecord: It is not a known format.
            QuestionTooNew: It has rules of a newer version, which must not be bypassed.
        """
        if data == {}:
            return _PLAIN
        wrong = problem_in_policy(data)
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
        """Check and complete the policy given by a workflow.

        Args:
            text: The question's text, for error messages.
            input_type: The question's input type.
            skippable: Whether the question is skippable.
            timeout_answer: JSON of an answer that fits the question, if there is one.

        Raises:
            RegistrationError: The parts do not fit together.
            InvalidValue: A name, a number or a time is invalid.
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
    """Return how many people can answer for these assignees; None if groups or roles make that unknown.

    Names that may be different spellings of one name count as one person.

    Args:
        assignees: The assignees; empty: any user.
        without: Users who do not count because they may not answer or have voted.
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
    """Refuse a question that too few people can answer after all escalations.

    Raises:
        RegistrationError: The final assignees are too few.
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
    """Refuse an escalation after the question has closed. Raises RegistrationError."""
    if not isinstance(timeout_seconds, int | float):
        return  # an invalid timeout is refused where the question waits
    for each in escalations:
        if each.after_seconds >= timeout_seconds:
            raise RegistrationError(
                f"question {text!r}: it closes after {timeout_seconds:g} s, so it never escalates after "
                f"{each.after_seconds:g} s: escalate earlier, or give it more time"
            )


def _unknown(error: TypeError) -> str:
    """Name the unknown part of a newer version's policy, taken from Python's error message."""
    name = re.search("unexpected keyword argument '([^']*)'", str(error))
    return "unknown part" if name is None else f"unknown {name[1]!r}"


def check_deadline(seconds: float) -> float:
    """Return the deadline of a ``timeout_answer``, checked. Raises InvalidValue."""
    _check_seconds("timeout_seconds", seconds)
    return seconds


def _check_seconds(path: str, seconds: object, *, at_least: float = 0.0) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidValue(path, f"{seconds!r} is not a number of seconds")
    if not math.isfinite(seconds) or seconds < at_least:
        raise InvalidValue(path, f"{seconds!r} is not a number of seconds, {at_least:g} or more")
