"""Cron in every time zone around clock changes, compared with an independent reading of the zone database."""

from __future__ import annotations

import random
import struct
import zoneinfo
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from signoff.engine.timers import cron
from tests.halves import sample

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
MINUTE = 60
AROUND = 30 * 3600


class Change(NamedTuple):
    """A change of a zone's offset, in unix seconds and seconds east of UTC."""

    at: int
    before: int
    after: int


def read_zone(data: bytes) -> list[Change]:
    """Read the changes that a TZif file lists (RFC 9636), without those that its footer gives by rule."""
    first = struct.unpack(">6l", data[20:44])
    isutc, isstd, leaps, times, types, chars = first
    start = 44 + times * 5 + types * 6 + chars + leaps * 8 + isstd + isutc
    isutc, isstd, leaps, times, types, chars = struct.unpack(">6l", data[start + 20 : start + 44])
    at = start + 44
    moments = struct.unpack(f">{times}q", data[at : at + times * 8])
    kinds = data[at + times * 8 : at + times * 9]
    at += times * 9
    offsets = [struct.unpack(">l", data[at + 6 * n : at + 6 * n + 4])[0] for n in range(types)]
    known = [(moment, offsets[kind]) for moment, kind in zip(moments, kinds, strict=True)]
    return [Change(later, one, other) for (_, one), (later, other) in pairwise(known) if one != other]


def zone_file(name: str) -> bytes:
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, name)).is_file():
            return path.read_bytes()
    return (resources.files("tzdata.zoneinfo") / name).read_bytes()


def changes_of(name: str) -> list[Change]:
    """Those since 1900 at which all clocks show whole minutes."""
    found = read_zone(zone_file(name))
    whole = [each for each in found if each.at % 60 == each.before % 60 == each.after % 60 == 0]
    apart = [each for each in whole if not any(0 < abs(each.at - other.at) < 2 * AROUND for other in found)]
    return [each for each in apart if each.at > -2_208_988_800]


Fields = Callable[[datetime], bool]
EXPRESSIONS: dict[str, Fields] = {
    "30 2 * * *": lambda at: (at.hour, at.minute) == (2, 30),
    "0 0 * * *": lambda at: (at.hour, at.minute) == (0, 0),
    "15,45 0-3 * * *": lambda at: at.minute in (15, 45) and at.hour <= 3,
    "7 1,23 * * *": lambda at: at.minute == 7 and at.hour in (1, 23),
    "0 * * * *": lambda at: at.minute == 0,
    "*/20 * * * *": lambda at: at.minute % 20 == 0,
    "* 5 * * *": lambda at: at.hour == 5,
    "10 */3 * * *": lambda at: at.minute == 10 and at.hour % 3 == 0,
}


def expected(change: Change, expression: str) -> list[int]:
    """Say when an expression fires around a change, by looking at the clock on the wall in each minute."""
    fits, is_fixed = EXPRESSIONS[expression], not any(each[0] == "*" for each in expression.split()[:2])
    found: list[int] = []
    seen: set[datetime] = set()
    for moment, wall in minutes(change):
        if moment == change.at and is_fixed:
            left_out = range(change.before, change.after, MINUTE)
            if any(fits(wall_at(change.at + offset)) for offset in left_out) and moment not in found:
                found.append(moment)
        if fits(wall) and not (is_fixed and (wall in seen or moment in found)):
            found.append(moment)
        seen.add(wall)
    return found


def minutes(change: Change) -> Iterator[tuple[int, datetime]]:
    one = timedelta(minutes=1)
    for begin, end, offset in (
        (change.at - AROUND, change.at, change.before),
        (change.at, change.at + AROUND, change.after),
    ):
        wall = wall_at(begin + offset)
        for moment in range(begin, end, MINUTE):
            yield moment, wall
            wall += one


def wall_at(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def fired(name: str, change: Change, expression: str) -> list[int]:
    found: list[int] = []
    time = float(change.at - AROUND - 1)
    while (time := cron.next_time(expression, name, time)) < change.at + AROUND:
        found.append(int(time))
    return found


def explain(name: str, change: Change, expression: str) -> Any:
    return name, expression, datetime.fromtimestamp(change.at, UTC).isoformat(), change


ZONES = sorted({zone_file(name): name for name in sorted(zoneinfo.available_timezones())}.values())
"""Each zone once, whatever its names."""


@pytest.mark.parametrize("part", sample(range(4)))
def test_every_zone_fires_as_its_clocks_show(part: int) -> None:
    chosen = random.Random(part)
    for name in ZONES[part::4]:
        changes = changes_of(name)
        if changes:
            change = chosen.choice(changes)
            expression = chosen.choice(sorted(EXPRESSIONS))
            told = explain(name, change, expression)
            assert fired(name, change, expression) == expected(change, expression), told


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize(
    "name",
    [
        "Australia/Lord_Howe",  # by half an hour
        "America/Havana",  # at midnight
        "Africa/Cairo",  # at midnight, on Fridays
        "Pacific/Apia",  # left out a day
        "Asia/Kathmandu",  # by a quarter of an hour
        "Antarctica/Troll",  # by two hours
    ],
)
def test_zones_with_unusual_changes(name: str, expression: str) -> None:
    changes = changes_of(name)
    for change in changes[-2:]:
        assert fired(name, change, expression) == expected(change, expression), explain(
            name, change, expression
        )


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_next_time_is_after_the_moment_it_is_asked_at(expression: str) -> None:
    """In the hour that comes twice, too: a time in the past would fire at once, again and again."""
    change = datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()
    for minute in range(-120, 120, 7):
        after = change + minute * MINUTE
        following = cron.next_time(expression, "Europe/Berlin", after)
        assert following > after
        assert following <= after + 86_400 + 3600
