"""When a failed step is retried."""

from __future__ import annotations

import contextlib
import inspect
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from signoff.errors import (
    BeyondStep,
    InvalidValue,
    NotSerializable,
    OutsideWorkflow,
    PayloadTooLarge,
    RegistrationError,
    WorkflowError,
)
from signoff.runtime.loggers import own_logger, texts_are_hidden

NEVER_RETRIED: tuple[type[BaseException], ...] = (
    BeyondStep,
    InvalidValue,
    NotSerializable,
    OutsideWorkflow,
    PayloadTooLarge,
    RegistrationError,
    WorkflowError,
)
"""Errors of wrong use of Signoff: another attempt would raise them again."""

LONGEST_ASKED_SECONDS: Final = 24 * 3600.0

log = own_logger("signoff.engine")

_random = random.Random()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off for a step.

    Args:
        initial_seconds: The wait after the first failure, in seconds.
        factor: The factor between consecutive waits.
        max_seconds: The longest wait, in seconds.
        max_attempts: The total number of attempts; 1 means no retry.
        jitter: Whether each wait is a random part (between half and all) of its full length.
        retried: Returns whether to retry after an error; None retries after every error.
        retry_after: Returns the wait that an error asks for, in seconds or as a ``timedelta``, or None. The wait is
            then at least as long, even beyond ``max_seconds``, but at most a day.

    If ``retried`` raises or does not return a bool, the error is not retried. If ``retry_after`` raises or returns
    anything else, it is ignored. In both cases the step's own error is kept, with a note.

    Raises:
        RegistrationError: A number is out of range, or a function is async.

    Example::

        await ctx.step("charge", charge, order, retry=RetryPolicy(max_attempts=3))
    """

    initial_seconds: float = 1.0
    factor: float = 2.0
    max_seconds: float = 60.0
    max_attempts: int = 8
    jitter: bool = True
    retried: Callable[[Exception], bool] | None = None
    retry_after: Callable[[Exception], float | timedelta | None] | None = None

    def __post_init__(self) -> None:
        self._check_numbers()
        if self.max_attempts < 1:
            raise RegistrationError(f"RetryPolicy.max_attempts is {self.max_attempts}; at least 1 is needed")
        if self.initial_seconds < 0 or self.max_seconds < 0 or self.factor < 1:
            raise RegistrationError(
                "RetryPolicy needs initial_seconds >= 0, max_seconds >= 0 and factor >= 1"
            )
        for name, function in (("retried", self.retried), ("retry_after", self.retry_after)):
            if function is not None and not callable(cast("object", function)):
                raise RegistrationError(f"RetryPolicy.{name} is {function!r}; it must be a function")
            if inspect.iscoroutinefunction(function):
                raise RegistrationError(f"RetryPolicy.{name} is async; it must be a plain function")

    def _check_numbers(self) -> None:
        for name in ("initial_seconds", "factor", "max_seconds", "max_attempts"):
            value = getattr(self, name)
            kind = int if name == "max_attempts" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
                wanted = "a whole number" if kind is int else "a finite number"
                raise RegistrationError(f"RetryPolicy.{name} is {value!r}; it must be {wanted}")

    def allows(self, error: Exception) -> bool:
        """Return whether an error is worth another attempt."""
        if self.retried is None:
            return True
        answered, is_worth_it = _ask("retried", self.retried, error)
        if answered and inspect.isawaitable(is_worth_it):
            _note(error, f"RetryPolicy.retried returned a {type(is_worth_it).__name__}: not retried")
            return False
        try:
            return answered and bool(is_worth_it)
        except Exception as problem:
            _note(
                error, f"RetryPolicy.retried returned a value that is not a bool ({problem!r}): not retried"
            )
            return False

    def asked_wait(self, error: Exception) -> float:
        """Return the wait in seconds that an error asks for, or 0."""
        if self.retry_after is None:
            return 0.0
        answered, asked = _ask("retry_after", self.retry_after, error)
        if not answered or asked is None:
            return 0.0
        seconds: Any = asked.total_seconds() if isinstance(asked, timedelta) else asked
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
            _note(
                error,
                f"RetryPolicy.retry_after returned {seconds!r:.100}, which is not a number of seconds: ignored",
            )
            return 0.0
        return float(min(max(seconds, 0.0), LONGEST_ASKED_SECONDS))

    def wait_after(self, attempt: int, source: random.Random = _random) -> float | None:
        """Return the seconds to wait after failed attempt number ``attempt`` (from 1), or None to give up.

        Args:
            attempt: The failed attempt's number.
            source: The random number generator for the jitter.
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
            error: The error.
            attempt: The failed attempt's number, from 1.
            source: The random number generator for the jitter.
        """
        wait = self.wait_after(attempt, source)
        if wait is None or not self.allows(error):
            return None
        return max(wait, self.asked_wait(error))


def _ask(name: str, function: Callable[[Exception], Any], error: Exception) -> tuple[bool, Any]:
    """Call a user's function with an error. Returns whether it succeeded, and its result."""
    try:
        return True, function(error)
    except BaseException as problem:  # SystemExit, too: it ends only its step
        _note(error, f"RetryPolicy.{name} raised {type(problem).__name__}: {_text(problem)}")
        return False, None


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception:
        return "(its __str__ raised)"


def _note(error: Exception, text: str) -> None:
    log.warning("%s: %s", type(error).__name__, "its RetryPolicy failed" if texts_are_hidden() else text)
    with contextlib.suppress(Exception):  # its class may not accept notes
        error.add_note(text)


NO_RETRY = RetryPolicy(max_attempts=1)
