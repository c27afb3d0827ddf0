"""Working time: weekends, holidays and clock changes; and questions that count it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff import BusinessHours, Context, Escalation, SignalTimeout, Signoff
from signoff.errors import InvalidValue, QuestionTooNew, RegistrationError
from signoff.people.questions.policies import MOST_REMINDERS, Policy
from signoff.records import AuditKind
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

HOUR = 3600.0
BERLIN = BusinessHours("Europe/Berlin")


def moment(text: str, zone: str = "Europe/Berlin") -> float:
    """``2026-03-27 16:00`` there, in unix seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def local(at: float, zone: str = "Europe/Berlin") -> str:
    return datetime.fromtimestamp(at, ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("start", "hours", "end"),
    [
        ("2026-03-25 09:00", 1, "2026-03-25 10:00"),
        ("2026-03-25 09:00", 8, "2026-03-25 17:00"),  # not the next morning
        ("2026-03-25 16:00", 1.5, "2026-03-26 09:30"),
        ("2026-03-25 20:00", 1, "2026-03-26 10:00"),
        ("2026-03-27 16:00", 2, "2026-03-30 10:00"),  # a weekend on which clocks are put forward
        ("2026-10-23 16:00", 2, "2026-10-26 10:00"),  # and back
        ("2026-03-28 12:00", 0, "2026-03-28 12:00"),
        ("2026-03-25 09:00", 80, "2026-04-07 17:00"),
    ],
)
def test_only_working_time_counts(start: str, hours: float, end: str) -> None:
    assert local(BERLIN.after(moment(start), hours * HOUR)) == end


def test_on_days_on_which_clocks_change_what_the_wall_clock_shows_counts() -> None:
    nights = BusinessHours("Europe/Berlin", "sun", ("02:00", "04:00"))
    assert (
        local(nights.after(moment("2026-03-29 00:00"), HOUR)) == "2026-03-29 04:00"
    )  # 2:00 to 3:00 is not there
    assert nights.after(moment("2026-10-25 00:00"), 3 * HOUR) == moment("2026-10-25 04:00")  # and here twice


def test_a_day_may_have_several_times_and_end_at_midnight() -> None:
    shifts = BusinessHours("UTC", "sat-mon", [("22:00", "24:00"), ("00:00", "02:00"), ("12:00", "13:00")])
    start = moment("2026-03-28 12:30", "UTC")
    assert local(shifts.after(start, 4.5 * HOUR), "UTC") == "2026-03-29 02:00"
    assert local(shifts.after(start, 4.75 * HOUR), "UTC") == "2026-03-29 12:15"


def test_holidays_do_not_count() -> None:
    good_friday = moment("2026-04-02 16:00")
    assert local(BERLIN.after(good_friday, 2 * HOUR)) == "2026-04-03 10:00"
    german = BusinessHours("Europe/Berlin", holidays="DE")
    assert local(german.after(good_friday, 2 * HOUR)) == "2026-04-07 10:00"  # nor Easter Monday
    epiphany = moment("2026-01-05 16:00")
    assert local(german.after(epiphany, 2 * HOUR)) == "2026-01-06 10:00"
    assert (
        local(BusinessHours("Europe/Berlin", holidays="DE-BY").after(epiphany, 2 * HOUR))
        == "2026-01-07 10:00"
    )
    own = BusinessHours("Europe/Berlin", holidays=[date(2026, 1, 6), date(2026, 1, 7)])
    assert local(own.after(epiphany, 2 * HOUR)) == "2026-01-08 10:00"


WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def minutes_of(time: str) -> int:
    hour, minute = time.split(":")
    return 60 * int(hour) + int(minute)


@st.composite
def calendars(draw: st.DrawFn) -> dict[str, Any]:
    days = draw(st.lists(st.sampled_from(WEEK), min_size=1))
    edges = sorted(draw(st.sets(st.integers(0, 96), min_size=2, max_size=6)))
    texts = [f"{edge // 4:02}:{edge % 4 * 15:02}" for edge in edges]
    return {
        "timezone": draw(
            st.sampled_from(
                ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
            )
        ),
        "days": days,
        "hours": list(zip(texts[::2], texts[1::2], strict=False)),
        "holidays": draw(st.sets(st.dates(date(2026, 3, 1), date(2026, 4, 20)), max_size=4)),
    }


def minute_by_minute(
    start: float,
    seconds: float,
    *,
    timezone: str,
    days: Sequence[str],
    hours: Sequence[tuple[str, str]],
    holidays: Collection[date],
) -> float:
    """Look at the clock each minute; nothing opens or closes within one."""
    at, left, zone = start, seconds, ZoneInfo(timezone)
    weekdays = {WEEK.index(day) for day in days}
    times = [(minutes_of(opens), minutes_of(closes)) for opens, closes in hours]
    while True:
        next_minute = (math.floor(at / 60) + 1) * 60.0
        clock = datetime.fromtimestamp(at, zone)
        shown = 60 * clock.hour + clock.minute
        is_open = clock.weekday() in weekdays and clock.date() not in holidays
        if is_open and any(opens <= shown < closes for opens, closes in times):
            if left <= next_minute - at:
                return at + left
            left -= next_minute - at
        at = next_minute


@settings(max_examples=60, deadline=None)
@given(
    calendars(),
    st.sampled_from(["2026-03-06 12:00", "2026-03-27 20:00", "2026-04-03 15:00", "2026-10-31 23:00"]),
    st.integers(0, 86_400),
    st.integers(1, 90_000),
)
def test_it_matches_a_search_minute_by_minute(
    calendar: dict[str, Any], start: str, later: int, seconds: int
) -> None:
    at = moment(start, "UTC") + later
    expected = minute_by_minute(at, seconds, **calendar)
    assert BusinessHours(**calendar).after(at, seconds) == expected


@settings(max_examples=60, deadline=None)
@given(calendars(), st.integers(0, 200_000), st.integers(0, 200_000))
def test_what_is_counted_in_two_parts_is_counted_as_in_one(
    calendar: dict[str, Any], first: int, second: int
) -> None:
    hours, start = BusinessHours(**calendar), moment("2026-03-20 00:00", "UTC")
    assert hours.after(hours.after(start, first), second) == hours.after(start, first + second)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hours": "09:00-17:00"},
        {"hours": 5},
        {"hours": [5]},
        {"days": 5},
        {"days": [0]},
        {"holidays": 5},
        {"timezone": "Europe/Bonn"},
        {"timezone": ""},
        {"timezone": "../etc"},
        {"days": "mo-fr"},
        {"days": ""},
        {"days": []},
        {"hours": ("9:00", "17:00")},
        {"hours": ("09:00", "25:00")},
        {"hours": ("22:00", "06:00")},
        {"hours": ("09:00", "09:00")},
        {"hours": ()},
        {"hours": ["09:00-17:00"]},
        {"hours": [("09:00", "12:00"), ("11:00", "17:00")]},
        {"holidays": "XX"},
        {"holidays": "DE-XX"},
        {"holidays": ""},
        {"holidays": [datetime(2026, 1, 1, tzinfo=UTC)]},
        {"holidays": ["2026-01-01"]},
    ],
    ids=repr,
)
def test_what_is_no_working_time_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        BusinessHours(**{"timezone": "UTC", **wrong})


def test_a_country_needs_the_package_and_dates_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(RegistrationError, match=r"signoff\[calendar\]"):
        BusinessHours("UTC", holidays="AT")
    assert BusinessHours("UTC", holidays=[date(2026, 1, 1)])


def test_the_search_for_working_time_is_bounded() -> None:
    with pytest.raises(InvalidValue, match="ten years"):
        BERLIN.after(0, 1e9)


# Questions


@in_asyncio
async def test_what_time_brings_for_a_question_counts_working_time_only() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> str:
        try:
            await ctx.wait_for_user(
                "Pay?",
                assignees=["user:ana"],
                hours=BERLIN,
                remind_every=4 * HOUR,
                escalations=[Escalation(9 * HOUR, ["user:bob"])],
                timeout_seconds=16 * HOUR,
            )
        except SignalTimeout as timeout:
            return str(timeout)
        return "answered"

    async with environment(app) as env:
        env.people.stay_silent("*")
        env.clock.advance(moment("2026-03-27 13:00") - env.clock.now())  # a Friday
        handle = await env.client.start(ask, id="r")
        assert "57600" in await handle.result()
        history = (await env.client.inbox.history(run_id="r")).items
        assert [(event.kind, local(event.at)) for event in history] == [
            (AuditKind.ASKED, "2026-03-27 13:00"),
            (AuditKind.REMINDED, "2026-03-27 17:00"),
            (AuditKind.REMINDED, "2026-03-30 13:00"),
            (AuditKind.ESCALATED, "2026-03-30 14:00"),
            (AuditKind.REMINDED, "2026-03-30 17:00"),
            (AuditKind.TIMED_OUT, "2026-03-31 13:00"),
        ]


@in_asyncio
async def test_the_answer_that_a_deadline_brings_waits_for_working_time() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> float:
        question = ctx.wait_for_user("Pay?", hours=BERLIN, timeout_seconds=HOUR, timeout_answer=False)
        answer = await question.options(timeout_seconds=2 * HOUR)
        assert answer.timed_out
        return ctx.now().timestamp()

    async with environment(app) as env:
        env.people.stay_silent("*")
        env.clock.advance(moment("2026-03-27 16:00") - env.clock.now())
        assert local(await env.run(ask)) == "2026-03-30 10:00"


@in_asyncio
async def test_more_working_time_than_there_is_is_refused_where_it_is_asked() -> None:
    app = Signoff(MemoryStore())

    @app.workflow
    async def ask(ctx: Context) -> str:
        try:
            ctx.wait_for_user("Pay?", hours=BERLIN, timeout_seconds=1e9)
        except InvalidValue:
            return "refused"
        return "asked"

    async with environment(app) as env:
        assert await env.run(ask) == "refused"


def test_reminders_are_computed_up_to_the_deadline_and_at_most_a_hundred() -> None:
    policy = Policy.make("Pay?", input_type="approval", remind_every=HOUR)
    start = moment("2026-03-25 09:00")
    assert len(policy.in_hours(BERLIN, start, None).reminders) == MOST_REMINDERS
    counted = policy.in_hours(BERLIN, start, 3 * HOUR)
    assert counted.reminders == (HOUR, 2 * HOUR)  # the third would come with the end
    assert Policy.from_data("q", json.loads(counted.to_json())) == counted


def test_a_question_with_computed_reminders_is_refused_by_older_versions() -> None:
    with pytest.raises(QuestionTooNew):
        Policy.from_data("q", {"reminders": [1.0], "unheard_of": 1})
