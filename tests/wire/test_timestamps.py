"""Times beyond Python's calendar are shown in words, never with a traceback."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from signoff.wire import timestamps

FORM = "%Y-%m-%d %H:%M"


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(
    ("at", "spelled"),
    [
        (1e12, "after the year 9999"),
        (1e300, "after the year 9999"),
        (float("inf"), "after the year 9999"),
        (-1e12, "before the year 1"),
        (float("-inf"), "before the year 1"),
        (float("nan"), "after the year 9999"),
    ],
)
def test_a_time_far_away_is_spelled_in_words(at: float, spelled: str, local: bool) -> None:
    assert timestamps.spell(at, FORM, local=local) == spelled
    assert timestamps.is_far(at)
    assert timestamps.utc(at).tzinfo is UTC


def test_other_times_are_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC).timestamp()
    assert timestamps.spell(at, FORM) == "2026-01-02 03:04"
    last = datetime(9999, 12, 31, 23, 59, tzinfo=UTC).timestamp()
    assert timestamps.spell(last, FORM, local=True).startswith("9999-12-31")
