"""Parameter values of a test for ``make test``, and those for ``make test-long`` alone."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pytest


def sample(values: Iterable[Any], every: int = sys.maxsize) -> list[Any]:
    """Return the values for ``parametrize`` or a fixture. The first, and each ``every``-th after it, are not long."""
    return [
        value if number % every == 0 else pytest.param(value, marks=pytest.mark.long)
        for number, value in enumerate(values)
    ]
