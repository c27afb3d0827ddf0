"""The operations ``debug.*``, on a server whose store has a ``DebugClock``. They are for tests only.

While the clock stands still, nothing falls due by itself: no deadline, lease, message or schedule. ``debug.tick`` sets
it, and replies once everything has fired that is due then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from signoff.errors import InvalidValue
from signoff.server.resonate import debug_reset
from signoff.server.resonate.call import Call
from signoff.server.resonate.debug_clock import DebugClock
from signoff.server.resonate.protocol import Refusal, Reply, Request
from signoff.server.resonate.requests import Nothing, Tick
from signoff.server.resonate.schedules import ScheduledPromises
from signoff.server.services import Services
from signoff.stores.contract.store import Store
from signoff.wire.http import is_loopback

LEASE_SECONDS: Final = 0.5
"""The lease of a store that is debugged. A server that has just started frees none for so long; a tick waits for it."""

MOST_SECONDS: Final = 60.0
"""How long a tick may take."""

PAUSE_SECONDS: Final = 0.02

PREFIX: Final = "debug."

_HOW: Final = "start the server with --resonate-debug, on a database for tests"

_MISSING: Final = {
    "debug.snap": "use promise.search, task.search and schedule.search",
}


async def start(call: Call, _: Nothing) -> Reply:
    """Stop the clock."""
    _clock_of(call).stop()
    return Reply({})


async def stop(call: Call, _: Nothing) -> Reply:
    """Show the machine's time again."""
    _clock_of(call).run()
    return Reply({})


async def tick(call: Call, data: Tick) -> Reply:
    """Set the clock, and fire what is due at that time."""
    _clock_of(call).set(data.time / 1000)
    store = call.services.store
    try:
        async with asyncio.timeout(MOST_SECONDS):
            await _fire_leases(store)
            await _fire(store, ScheduledPromises(store).create_due)
            await _fire(store, store.due)  # the promises of schedules
    except TimeoutError:
        seconds = f"{MOST_SECONDS:.0f} s"
        raise Refusal(
            500, f"some due items have not fired within {seconds}; the server's log says more"
        ) from None
    return Reply([])


async def reset(call: Call, _: Nothing) -> Reply:
    """Delete all promises, tasks and schedules of the namespace."""
    await debug_reset.reset(call.store, call.services.backend)
    return Reply({})


async def check_debugged(services: Services, host: str) -> None:
    """Check that a store with a ``DebugClock`` is served to programs on this machine only.

    Raises:
        InvalidValue: The server listens elsewhere, or callers are authenticated: it is no server for tests.
    """
    if not isinstance(services.store.clock, DebugClock):
        return
    if not is_loopback(host):
        raise InvalidValue(
            "--resonate-debug", f"the server listens on {host}: anyone there could stop its clock"
        )
    if await services.authenticators.look():
        raise InvalidValue("--resonate-debug", "callers need API keys, so this is no database for tests")


async def check_request(services: Services, request: Request) -> None:
    """Check that a request may be one for tests, if it is.

    Raises:
        Refusal: It may not, or the operation is not there.
    """
    is_debugged = isinstance(services.store.clock, DebugClock)
    if request.has_debug_time and is_debugged:
        raise Refusal(501, "resonate:debug_time is not implemented: debug.tick sets the clock")
    if not request.kind.startswith(PREFIX):
        return
    if not is_debugged:
        raise Refusal(501, f"{request.kind}: this server has no debug operations: {_HOW}")
    if request.kind in _MISSING:
        raise Refusal(501, f"{request.kind} is not implemented: {_MISSING[request.kind]}")
    if await services.authenticators.look():
        raise Refusal(403, f"{request.kind}: the database has API keys now: {_HOW}")


def _clock_of(call: Call) -> DebugClock:
    clock = call.store.clock
    assert isinstance(clock, DebugClock)  # see check_request
    return clock


async def _fire(store: Store, fire: Callable[[], Awaitable[float | None]]) -> float | None:
    """Repeat until nothing is due. ``fire`` returns when the next is, in unix seconds; so does this."""
    while True:
        next_at = await fire()
        if next_at is None or next_at > store.clock.now():
            return next_at
        await asyncio.sleep(PAUSE_SECONDS)


async def _fire_leases(store: Store) -> None:
    """Fire deadlines and leases. Leases may be held for a moment, see ``LEASE_SECONDS``: then they are next."""
    next_at = await _fire(store, store.due)
    while next_at is not None and (left := next_at - store.clock.now()) <= store.lease_seconds:
        await asyncio.sleep(left)
        before, next_at = next_at, await _fire(store, store.due)
        if next_at == before:
            break  # it is a deadline soon after this time
