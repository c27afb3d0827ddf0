"""Rule: the blocking client has every operation of the async one, with the same signature."""

from __future__ import annotations

from tools.blocking_client import TARGET, generated


def test_the_blocking_client_is_generated_from_the_async_one() -> None:
    assert TARGET.read_text() == generated(), "run `make blocking-client`"
