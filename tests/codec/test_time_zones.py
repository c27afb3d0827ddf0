"""Datetimes and times come back with their zone and fold, wherever they are."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, ConfigDict, RootModel, field_serializer

from signoff import codec
from signoff.errors import InvalidValue, NotSerializable

BERLIN = ZoneInfo("Europe/Berlin")
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)  # the hour that comes twice
NEVER = datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN)  # the hour that does not come


class Meeting(BaseModel):
    model_config = ConfigDict(frozen=True)

    at: datetime
    daily: time | None = None
    others: dict[str, list[datetime]] = {}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class When(RootModel[datetime]):
    pass


class Wrapped(RootModel[list[Meeting]]):
    pass


@dataclass(frozen=True, slots=True)
class Slot:
    at: datetime


class Span(NamedTuple):
    start: datetime
    note: str


class Aware(BaseModel):
    at: AwareDatetime
    others: list[AwareDatetime] = []


LATER = TWICE.replace(fold=1)
SHAPES: dict[str, tuple[Any, Any]] = {
    "datetime": (LATER, datetime),
    "optional": (LATER, datetime | None),
    "aware": (LATER, AwareDatetime),
    "a model of aware ones": (Aware(at=LATER, others=[TWICE]), Aware),
    "list": ([TWICE, LATER], list[datetime]),
    "nested": ({"a": [(LATER, 1)]}, dict[str, list[tuple[datetime, int]]]),
    "deque": (deque([LATER]), deque[datetime]),
    "model": (Meeting(at=LATER, daily=time(9, tzinfo=BERLIN), others={"x": [TWICE]}), Meeting),
    "models": ([Meeting(at=LATER)], list[Meeting]),
    "root": (When(LATER), When),
    "root of models": (Wrapped([Meeting(at=LATER)]), Wrapped),
    "dataclass": (Slot(LATER), Slot),
    "named tuple": (Span(LATER, "x"), Span),
    "by number": ({1: LATER}, dict[int, datetime]),
    "time": (time(9, 30, tzinfo=BERLIN), time),
    "folded time": (time(2, 30, fold=1), time),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_zone_and_a_fold_come_back(shape: str) -> None:
    value, annotation = SHAPES[shape]
    text, again = codec.normalize(value, annotation)
    assert repr(again) == repr(value)
    assert repr(codec.decode(text, annotation)) == repr(value)
    assert codec.encode(again) == text


zones = st.sampled_from(sorted(available_timezones())).map(ZoneInfo)


ABIDJAN = ZoneInfo("Africa/Abidjan")  # 16 minutes and 8 seconds behind UTC, up to the first of January 1912


@settings(deadline=None, max_examples=200)
@given(st.datetimes(timezones=st.none() | zones | st.just(UTC), allow_imaginary=True))
@example(datetime(1911, 12, 31, 23, 44, tzinfo=ABIDJAN))  # UTC shows a time then that never came there:
@example(datetime(1912, 1, 1, 0, 0, 8, tzinfo=ABIDJAN))
@example(datetime(1912, 1, 1, 0, 0, 8, tzinfo=ABIDJAN, fold=1))
@example(datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo")))  # there is no such time in UTC
def test_any_datetime_comes_back(value: datetime) -> None:
    again = codec.normalize(value, datetime)[1]
    assert again == value
    assert (again.replace(tzinfo=None), again.utcoffset()) == (value.replace(tzinfo=None), value.utcoffset())
    assert getattr(again.tzinfo, "key", None) == getattr(value.tzinfo, "key", None)


def test_arithmetic_goes_on_in_the_zone() -> None:
    again = codec.normalize(NEVER - timedelta(days=1), datetime)[1]
    assert (again + timedelta(days=2)).utcoffset() == timedelta(hours=2)


def test_the_text_is_that_of_rfc_9557() -> None:
    assert json.loads(codec.encode(LATER)) == "2026-10-25T02:30:00+01:00[Europe/Berlin]"
    assert json.loads(codec.encode(datetime(2026, 1, 1, tzinfo=UTC))) == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("annotation", [str, Any, str | None, object])
def test_text_that_looks_like_it_stays_text(annotation: object) -> None:
    text = "2026-10-25T02:30:00+01:00[Europe/Berlin]"
    assert codec.normalize(text, annotation)[1] == text
    assert codec.normalize([Span(TWICE, text)], list[Span])[1] == [Span(TWICE, text)]


def test_an_unknown_zone_is_refused_when_it_is_read() -> None:
    with pytest.raises(InvalidValue, match="Mars/Olympus"):
        codec.decode('"2026-10-25T02:30:00+01:00[Mars/Olympus]"', datetime)


def test_an_offset_that_the_zone_does_not_have_keeps_the_instant() -> None:
    again = codec.decode('"2026-07-01T12:00:00+01:00[Europe/Berlin]"', datetime)
    assert again == datetime(2026, 7, 1, 11, tzinfo=UTC)
    assert (again.tzinfo, again.hour) == (BERLIN, 13)


class Rules(tzinfo):
    """As of pytz and dateutil: rules of its own, and no name."""

    def utcoffset(self, when: datetime | None, /) -> timedelta | None:
        return None if when is None else timedelta(hours=1)

    def dst(self, when: datetime | None, /) -> None:
        return None


class Styled(BaseModel):
    at: datetime

    @field_serializer("at")
    def as_date(self, at: datetime) -> str:
        return at.strftime("%Y-%m-%dT%H:%M%z")


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (datetime(2026, 1, 1, tzinfo=Rules()), datetime),
        (Meeting(at=datetime(2026, 1, 1, tzinfo=Rules())), Meeting),
        ({TWICE: 1}, dict[datetime, int]),
        ({TWICE}, set[datetime]),
        (Styled(at=TWICE), Styled),
        (Open(at=TWICE), Open),
    ],
)
def test_a_zone_that_would_be_lost_is_refused(value: object, annotation: object) -> None:
    with pytest.raises(NotSerializable):
        codec.normalize(value, annotation)


def test_errors_keep_the_zones_of_what_they_carry() -> None:
    again = codec.decode_error(codec.encode_error(ValueError(LATER, time(9, tzinfo=BERLIN))))
    assert repr(again.args) == repr((LATER, time(9, tzinfo=BERLIN)))
