"""Rule: a promise that is shown as timed out stays so, whatever the clock of the server says."""

from __future__ import annotations

import pytest

from signoff.server.resonate.call import Call
from tests.server.resonate.speaker import START, Speaker


def test_a_server_whose_clock_is_ahead_times_nothing_out(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store decides: until it has timed the promise out, another request may still settle it."""
    speaker.create("p", timeoutAt=START + 1000)
    monkeypatch.setattr(Call, "now", property(lambda _: START + 2000))
    assert speaker.ask("promise.get", {"id": "p"})["promise"]["state"] == "pending"
    found = speaker.ask("promise.search", {})["promises"]
    assert [promise["state"] for promise in found] == ["pending"]
    assert speaker.settle("p")["state"] == "resolved"


def test_a_promise_past_its_timeout_is_shown_as_timed_out_at_once(speaker: Speaker) -> None:
    speaker.create("p", timeoutAt=START + 1000)
    speaker.clock.advance(1)
    assert speaker.ask("promise.get", {"id": "p"})["promise"]["state"] == "rejected_timedout"
    assert speaker.settle("p")["state"] == "rejected_timedout"
