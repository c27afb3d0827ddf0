"""When a failed step is tried again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from signoff.errors import (
    NotSerializable,
    OutsideWorkflow,
    PayloadTooLarge,
    RegistrationError,
    WorkflowError,
)

NEVER_RETRIED: tuple[type[BaseException], ...] = (
    NotSerializable,
    OutsideWorkflow,
    PayloadTooLarge,
    RegistrationError,
    WorkflowError,
)
"""Errors in how Signoff is used: another attempt meets them again."""

LONGEST_ASKED_SECONDS: Final = 24 * 3600.0

_random = random.Random()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off for a step.

    Args:
        initial_seconds: The wait after the first failure, in seconds.
        factor: By what each further wait is longer.
        max_seconds: The longest wait, in seconds.
        max_attempts: How often to try in all; 1 means no retry.
        jitter: Whether each wait is a random part (between half and all) of what it would be.
        retried: Says of an error whether it is worth another attempt; None: each is.
        retry_after: Says how many seconds an error asks to wait, or None if it does not say. The wait is then at
            least as long, also past ``max_seconds``, but at most a day.

    Raises:
        RegistrationError: A number makes no sense.

    Example::

        await ctx.step("charge", charge, order, retry=RetryPolicy(max_attempts=3))
    """

    initial_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 60.0
    max_attempts: int = 8
    jitter: bool = True
    retried: Callable[[Exception], bool] | None = None
    retry_after: Callable[[Exception], float | None] | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise RegistrationError(f"RetryPolicy.max_attempts is {self.max_attempts}; at least 1 is needed")
        if self.initial_seconds < 0 or self.max_seconds < 0 or self.factor < 1:
            raise RegistrationError(
                "RetryPolicy needs initial_seconds >= 0, max_seconds >= 0 and factor >= 1"
            )

    def allows(self, error: Exception) -> bool:
        """Whether an error is worth another attempt."""
        return self.retried is None or self.retried(error)

    def wait_after(self, attempt: int, source: random.Random = _random) -> float | None:
        """Return the seconds to wait after failed attempt number ``attempt`` (from 1), or None to give up.

        Args:
            attempt: The attempt that failed.
            source: Where the jitter comes from.
        """
        if attempt >= self.max_attempts:
            return None
        exponent = min(attempt - 1, 64)
        wait = min(self.initial_seconds * self.factor**exponent, self.max_seconds)
        return wait * source.uniform(0.5, 1.0) if self.jitter else wait

    def wait_after_error(
        self, error: Exception, attempt: int, source: random.Random = _random
    ) -> float | None:
        """Return the seconds to wait after an attempt failed with an error, or None to give up.

        Args:
            error: What the attempt raised.
            attempt: The attempt that failed, from 1.
            source: Where the jitter comes from.
        """
        wait = self.wait_after(attempt, source)
        if wait is None or not self.allows(error):
            return None
        asked = None if self.retry_after is None else self.retry_after(error)
        return wait if asked is None else max(wait, min(asked, LONGEST_ASKED_SECONDS))


NO_RETRY = RetryPolicy(max_attempts=1)
