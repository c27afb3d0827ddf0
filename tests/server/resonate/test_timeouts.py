"""Rule: a promise that is shown as timed out stays so, whatever the clock of the server says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import patch

import pytest

from signoff.server.auth.actors import UNAUTHENTICATED
from signoff.server.resonate.access import Sender
from signoff.server.resonate.call import Call
from signoff.server.resonate.durable_promises import Details, to_new
from signoff.server.resonate.requests import SearchPromises
from signoff.server.resonate.searches import search_promises
from signoff.testing import VirtualClock
from tests.server.resonate.speaker import START, Speaker, open_store
from tests.support import in_asyncio

SENDER: Final = Sender(UNAUTHENTICATED)


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


@in_asyncio
async def test_a_search_settles_all_late_promises_at_once(store: str) -> None:
    clock = VirtualClock(START / 1000)
    opened = open_store(store, clock=clock)
    await opened.open()
    try:
        for number in range(5):
            details = Details({"data": "x" * 50_000 * (number % 2)}, timeout_at=START + 1000)
            await opened.create_promise(to_new(f"p{number}", details))
        await opened.create_promise(to_new("later", Details(timeout_at=START + 9000)))
        clock.advance(2)
        with patch.object(opened, "due", wraps=opened.due) as due:
            call = cast("Call", SimpleNamespace(store=opened, now=START + 2000, sender=SENDER))
            reply = await search_promises(call, SearchPromises())
        found = cast("Any", reply.data)["promises"]
        assert [each["state"] for each in found] == ["rejected_timedout"] * 5 + ["pending"]
        assert due.await_count == 1
    finally:
        await opened.close()


def test_a_promise_past_its_timeout_is_shown_as_timed_out_at_once(speaker: Speaker) -> None:
    speaker.create("p", timeoutAt=START + 1000)
    speaker.clock.advance(1)
    assert speaker.ask("promise.get", {"id": "p"})["promise"]["state"] == "rejected_timedout"
    assert speaker.settle("p")["state"] == "rejected_timedout"
