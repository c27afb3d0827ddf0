"""How many wrong secrets a client may try."""

from __future__ import annotations

import pytest
from starlette.types import Scope

from signoff.errors import TooManyRequests
from signoff.records import Rate
from signoff.server import Forwarding
from signoff.server.limits.wrong_secrets import ALLOWED, MOST_CLIENTS, WrongSecretLimit


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def by(address: str, forwarded: str | None = None) -> Scope:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    return {"type": "http", "client": (address, 4711), "headers": headers}


def is_held_up(limit: WrongSecretLimit, scope: Scope) -> bool:
    try:
        limit.note(scope)
    except TooManyRequests:
        return True
    return False


def test_a_client_may_try_so_many_at_once_and_more_as_time_passes() -> None:
    time = Time()
    limit = WrongSecretLimit(time, allowed=Rate(3, 6.0))
    for _ in range(3):
        limit.note(by("203.0.113.9"))
    with pytest.raises(TooManyRequests) as refused:
        limit.note(by("203.0.113.9"))
    assert refused.value.retry_after_seconds == 2
    limit.note(by("203.0.113.10"))
    time.now += 2
    limit.note(by("203.0.113.9"))
    time.now += 1000
    assert [is_held_up(limit, by("203.0.113.9")) for _ in range(5)] == [False] * 3 + [True] * 2


def test_a_client_that_goes_on_while_it_is_held_up_waits_no_longer() -> None:
    time = Time()
    limit = WrongSecretLimit(time, allowed=Rate(1, 10.0))
    for _ in range(50):
        is_held_up(limit, by("203.0.113.9"))
    time.now += 10
    limit.note(by("203.0.113.9"))


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    time = Time()
    limit = WrongSecretLimit(time, allowed=Rate(2, 10.0))
    limit.note(by("203.0.113.9"))
    time.now -= 1000
    limit.note(by("203.0.113.9"))
    time.now += 5
    limit.note(by("203.0.113.9"))


def test_memory_is_bounded() -> None:
    limit = WrongSecretLimit(Time(), allowed=Rate(1, 1000.0))

    def client(number: int) -> Scope:
        return by(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    limit.note(client(0))
    for number in range(1, MOST_CLIENTS):
        limit.note(client(number))
    assert is_held_up(limit, client(0))
    for number in range(MOST_CLIENTS, 2 * MOST_CLIENTS):
        limit.note(client(number))
    assert not is_held_up(limit, client(0)), "it was idle longest, and is forgotten"


@pytest.mark.parametrize(
    ("address", "other", "are_one"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::7", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("203.0.113.9", "203.0.113.10", False),
        ("203.0.113.9", "::ffff:203.0.113.9", True),
        ("", "no address", True),
    ],
)
def test_which_addresses_are_one_client(address: str, other: str, are_one: bool) -> None:
    limit = WrongSecretLimit(Time(), allowed=Rate(1, 1000.0))
    limit.note(by(address))
    assert is_held_up(limit, by(other)) is are_one


def test_a_client_is_the_one_that_a_trusted_proxy_states() -> None:
    forwarding = Forwarding("X-Forwarded-For", addresses=["10.0.0.7"])
    limit = WrongSecretLimit(Time(), forwarding)
    for _ in range(ALLOWED.count):
        limit.note(by("10.0.0.7", "203.0.113.9"))
    assert is_held_up(limit, by("10.0.0.7", "198.51.100.1, 203.0.113.9")), "anybody can write what is before"
    assert not is_held_up(limit, by("10.0.0.7", "198.51.100.1"))
    for n in range(ALLOWED.count):
        limit.note(by("192.0.2.1", f"198.51.100.{n}"))
    assert is_held_up(limit, by("192.0.2.1", "198.51.100.200")), "this is no trusted proxy"
