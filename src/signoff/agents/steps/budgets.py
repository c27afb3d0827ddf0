"""Budgets of turns: requests, tool calls, tokens, money, time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import cast

from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.usage import UsageLimits

from signoff.errors import InvalidValue

REQUESTS = 50
"""The default limit of model requests per turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The budget of each turn of a conversation. A turn that exceeds it fails, and its history stays valid.

    Attributes:
        requests: Model requests.
        tool_calls: Successful tool calls.
        tokens: Tokens of all requests and responses together.
        cost: US dollars, as far as Pydantic AI knows the model's prices.
        seconds: Time in which attempts at model requests and tool calls ran, checked before each model request.
            Waiting does not count: neither for people (including questions about interrupted calls) nor for the
            next attempt.

    Raises:
        InvalidValue: A limit is not a number of at least 0.

    Example::

        app.register(agent, budget=Budget(requests=20, cost=Decimal("0.50"), seconds=120))
    """

    requests: int | None = REQUESTS
    tool_calls: int | None = None
    tokens: int | None = None
    cost: Decimal | float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("requests", "tool_calls", "tokens"):
            _check(name, getattr(self, name), int)
        _check("cost", self.cost, int, float, Decimal)
        _check("seconds", self.seconds, int, float)

    @property
    def limits(self) -> UsageLimits:
        """The limits that Pydantic AI checks."""
        return UsageLimits(
            request_limit=self.requests,
            tool_calls_limit=self.tool_calls,
            total_tokens_limit=self.tokens,
            cost_limit=None if self.cost is None else Decimal(str(self.cost)),
        )


def _check(name: str, limit: object, *types: type) -> None:
    """Raise InvalidValue for an invalid limit."""
    if limit is None:
        return
    is_number = isinstance(limit, types) and not isinstance(limit, bool)
    if not is_number or not 0 <= cast("float | Decimal", limit) < math.inf:
        kind = "a whole number" if types == (int,) else "a number"
        raise InvalidValue(name, f"expected {kind} of at least 0, or None for no limit, not {limit!r}")


class Stopwatch:
    """Counts the time in which at least one step was at work.

    Args:
        seconds: The initial value.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._times: list[tuple[datetime, datetime]] = []  # sorted, with gaps between them

    @property
    def seconds(self) -> float:
        """The counted seconds."""
        return self._before + sum((end - begin).total_seconds() for begin, end in self._times)

    def add(self, times: Sequence[tuple[datetime, datetime]]) -> None:
        """Count periods, each from its start to its end. Overlaps count once."""
        merged: list[tuple[datetime, datetime]] = []
        for begin, end in sorted([*self._times, *times]):
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        self._times = merged

    def check(self, limit: float | None) -> None:
        """Raise UsageLimitExceeded if no time is left for another request."""
        if limit is not None and self.seconds >= limit:
            raise UsageLimitExceeded(
                f"The turn was at work for {self.seconds:.1f} s, and its budget is {limit:g} s"
            )
