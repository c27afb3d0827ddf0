"""Clock changes of a database and of a server are detected, and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from signoff.observability import events
from signoff.observability.events import ClockJumped
from signoff.stores.postgres.clock import DatabaseClock
from signoff.stores.remote.clock import RemoteClock
from signoff.stores.shared import clock_changes

Learn = Callable[[float, float, float], None]


def of_database() -> Learn:
    return DatabaseClock().learn


def of_server() -> Learn:
    clock = RemoteClock()
    return lambda sent, said, received: clock.learn(said, sent, received)


CLOCKS = [pytest.param("postgres", of_database), pytest.param("remote", of_server)]


@pytest.fixture
def jumps() -> Iterator[list[ClockJumped]]:
    heard: list[ClockJumped] = []
    end = events.subscribe(lambda event: heard.append(event) if isinstance(event, ClockJumped) else None)
    try:
        yield heard
    finally:
        end()


@pytest.mark.parametrize(("store", "new"), CLOCKS)
def test_a_clock_that_is_set_is_logged_and_announced(
    store: str, new: Callable[[], Learn], jumps: list[ClockJumped], caplog: pytest.LogCaptureFixture
) -> None:
    learn = new()
    with caplog.at_level(logging.WARNING, "signoff.store"):
        learn(100.0, 5_000.0, 100.0)  # the first time that it is asked it is not set, whatever it says
        learn(101.0, 5_001.0, 101.0)
        assert jumps == []
        learn(102.0, 8_602.0, 102.0)
        learn(103.0, 8_603.0, 103.0)
        learn(104.0, 5_004.0, 104.0)
    assert [(jump.store, round(jump.seconds)) for jump in jumps] == [(store, 3_600), (store, -3_600)]
    assert ["forward by 3600.0 s" in text or "back by 3600.0 s" in text for text in caplog.messages] == [
        True
    ] * 2


@pytest.mark.parametrize(("store", "new"), CLOCKS)
def test_slow_replies_drift_and_a_suspended_machine_are_no_jump(
    store: str, new: Callable[[], Learn], jumps: list[ClockJumped], monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = [0.0]
    monkeypatch.setattr(clock_changes, "awake", lambda: 0.0)
    monkeypatch.setattr(clock_changes, "since_boot", lambda: slept[0])
    learn = new()
    learn(100.0, 5_000.0, 100.0)
    learn(100.0, 5_005.0, 130.0)  # somewhen in these thirty seconds
    learn(200.0, 5_100.5, 200.0)
    slept[0] = 7_200.0  # time.monotonic stands still meanwhile, the other clock does not
    learn(201.0, 12_301.5, 201.0)
    assert jumps == []
