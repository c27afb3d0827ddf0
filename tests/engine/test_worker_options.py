"""Options with which a worker could hold no run, or lose its leases, are refused on creation."""

from __future__ import annotations

import math
from typing import Any

import pytest

from signoff import Signoff
from signoff.errors import InvalidValue
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

WRONG: dict[str, list[Any]] = {
    "group": ["", " ", 5],
    "concurrency": [0, -1, 1.5, "3", None, True, math.nan],
    "threads": [0, -1, 1.5, "3", None, True],
    "hot_runs": [-1, 1.5, "3", None],
    "max_takeovers": [0, -1, 1.5, "3", None],
    "beat_seconds": [0, -1, "3", None, math.nan, math.inf],
    "busy_seconds": [0, -1, "3", None, math.nan],
    "stalled_seconds": [0, -1, "3", None, math.nan],
    "look_seconds": [0, -1, "3", None, math.nan],
    "grace_seconds": [-1, "3", None, math.nan],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, each) for name, values in WRONG.items() for each in values]
)
def test_a_wrong_option_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=name):
        Signoff(MemoryStore()).worker(**{name: value})


@in_asyncio
async def test_a_wrong_option_of_an_environment_is_refused_by_name() -> None:
    with pytest.raises(InvalidValue, match="concurrency"):
        async with environment(Signoff(MemoryStore()), concurrency=0):
            pass


@in_asyncio
async def test_the_least_options_are_taken() -> None:
    least = {"concurrency": 1, "threads": 1, "hot_runs": 0, "max_takeovers": 1, "grace_seconds": 0}
    async with Signoff(MemoryStore()).worker(**least, beat_seconds=0.05, look_seconds=0.5):
        pass
