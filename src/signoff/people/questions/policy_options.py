"""The policy options of ``Context.wait_for_user`` as plain data, for questions declared before they are asked."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final, NotRequired, cast

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from signoff import codec
from signoff.errors import InvalidValue
from signoff.people.questions.answer_checks import checked_default
from signoff.people.questions.business_hours import BusinessHours
from signoff.people.questions.policies import Escalation, Policy, Quorum
from signoff.people.questions.question import Question
from signoff.people.questions.question_state import excluded_users
from signoff.records.start_options import check_flag

TYPES: Final[Mapping[str, Any]] = {
    "assignees": list[str],
    "quorum": Quorum | int,
    "exclude_requester": bool,
    "requester": str,
    "timeout_seconds": float,
    "timeout_answer": Any,
    "remind_every": float,
    "escalations": list[Escalation],
    "hours": BusinessHours,
}
"""The options and their types."""


@with_config(ConfigDict(extra="forbid"))
class _PlainHours(TypedDict):
    """``BusinessHours`` as plain data."""

    timezone: str
    days: NotRequired[str | list[str]]
    hours: NotRequired[list[str] | list[list[str]]]
    holidays: NotRequired[str | list[str]]


class PolicyOptions(TypedDict, total=False):
    """The policy options of ``Context.wait_for_user``."""

    assignees: Sequence[str]
    quorum: Quorum | int
    exclude_requester: bool
    requester: str | None
    timeout_seconds: float | None
    timeout_answer: Any
    remind_every: float | None
    escalations: Sequence[Escalation]
    hours: BusinessHours | None


def check_policy_options(
    text: str, input_type: str, options: Mapping[str, Any], *, question: Question | None = None
) -> None:
    """Refuse options that do not fit together, before there is a run that asks.

    Args:
        text: The question's text, for error messages.
        input_type: The question's input type.
        options: Policy options.
        question: The question, if its form is known; ``timeout_answer`` must fit it.

    Raises:
        RegistrationError: The options do not fit together, or too few people could answer.
        InvalidValue: A name, a number or a time is invalid.
        NotSerializable: ``timeout_answer`` is not JSON.
    """
    given = dict(options)
    hours = given.pop("hours", None)
    requester = given.pop("requester", None)
    is_excluded = check_flag("exclude_requester", given.pop("exclude_requester", False))
    excluded = excluded_users(requester) if is_excluded else ()
    if "timeout_answer" in given:
        answer = given["timeout_answer"]
        given["timeout_answer"] = (
            codec.encode(answer, path="timeout_answer")
            if question is None
            else checked_default(question, answer)
        )
    skippable = question is not None and question.skippable
    policy = Policy.make(text, input_type=input_type, skippable=skippable, excluded=excluded, **given)
    if hours is not None:
        policy.in_hours(hours, time.time(), given.get("timeout_seconds"))


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return policy options as plain data, without unset ones.

    Raises:
        NotSerializable: An option is not JSON.
    """
    return {
        name: plain_option(name, value)
        for name, value in options.items()
        if name == "timeout_answer" or value not in (None, (), [], False)
    }


def read_options(plain: Mapping[str, Any]) -> PolicyOptions:
    """Return the options written by ``plain_options``."""
    return cast("PolicyOptions", {name: read_option(name, value) for name, value in plain.items()})


def plain_option(name: str, value: Any) -> Any:
    """Return one option as plain data. Raises NotSerializable, InvalidValue."""
    if name == "hours" and not isinstance(value, BusinessHours | None):
        raise InvalidValue("hours", f"pass BusinessHours(...), not {value!r}")
    if name == "exclude_requester":
        check_flag(name, value)
    if not isinstance(value, BusinessHours):
        return json.loads(codec.encode(value, path=name))
    dates, days = value.holidays, value.days
    return {
        "timezone": value.timezone,
        "days": days if isinstance(days, str) else sorted(days) if isinstance(days, set) else list(days),
        "hours": json.loads(codec.encode(value.hours, path=name)),
        "holidays": dates if isinstance(dates, str) else sorted(each.isoformat() for each in dates),
    }


def read_option(name: str, value: Any) -> Any:
    """Return the option written by ``plain_option``."""
    if name != "hours" or value is None:
        return codec.decode(codec.encode(value), TYPES[name])
    given = codec.decode(codec.encode(value), _PlainHours, path="hours")
    if isinstance(given.get("holidays"), list):
        given["holidays"] = [_date(each) for each in given["holidays"]]
    if "hours" in given:
        given["hours"] = _times(given["hours"])
    return BusinessHours(**given)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue("hours.holidays", f"{text[:40]!r} is not a date: {error}") from None


def _times(hours: list[Any]) -> Any:
    """Return one pair of times, or several, as tuples."""
    is_pair = bool(hours) and isinstance(hours[0], str)
    return tuple(hours) if is_pair else [tuple(pair) for pair in hours]
