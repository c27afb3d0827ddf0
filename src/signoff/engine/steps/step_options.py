"""Options of a step."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast

from signoff import codec
from signoff.engine.steps.retry import RetryPolicy
from signoff.errors import CannotRunHere, RegistrationError
from signoff.records.names import check_text
from signoff.records.responders import check_names
from signoff.records.start_options import check_seconds

Effect = Literal["repeatable", "once"]

UNSAID: Final = object()
"""The default of ``compare``: the step's own arguments are compared."""


_MOST_CHECKED: Final = 256

# Checked tuples of exception classes, by identity: most steps pass the same tuple.
_checked: dict[int, tuple[type[BaseException], ...]] = {}


@dataclass(slots=True)
class StepOptions:
    """Options of a step; see ``Context.step``."""

    retry: RetryPolicy | None = None
    timeout: float | None = None
    durable: bool = True
    non_retryable: tuple[type[BaseException], ...] = ()
    effect: Effect = "repeatable"
    key: str | None = None
    returns: Any = Any
    operators: Sequence[str] = ()
    metadata: Mapping[str, Any] | None = None
    compare: Any = UNSAID
    on_failure: Callable[[Exception], CannotRunHere] | None = None

    def check(self, subject: str) -> None:
        """Check the types of options, and that they do not contradict each other.

        Args:
            subject: The step, for errors, such as ``step 'charge'``.

        Raises:
            RegistrationError: An option is wrong. The error names it.
            InvalidValue: The timeout is not a number of seconds, or an operator is not a valid assignee.
        """
        check_retry(subject, self.retry)
        if self.non_retryable != ():
            self.non_retryable = exceptions_of(subject, self.non_retryable)
        if self.operators != ():
            self.operators = check_names("operators", self.operators)
        if not isinstance(cast("object", self.durable), bool):
            raise RegistrationError(f"{subject}: durable is True or False, not {self.durable!r}")
        if self.on_failure is not None and not callable(cast("object", self.on_failure)):
            raise RegistrationError(f"{subject}: on_failure is a function, not {self.on_failure!r}")
        if self.metadata is not None:
            self._check_metadata(subject)
        if self.key is not None and not check_text("key", self.key).strip():
            raise RegistrationError(f"{subject}: key= is empty; leave it out for the step's own")
        if self.operators and self.effect != "once":
            raise RegistrationError(f"{subject}: operators= applies only to steps with effect='once'")
        if self.effect not in ("repeatable", "once"):
            raise RegistrationError(f"{subject}: effect is 'repeatable' or 'once', not {self.effect!r}")
        if self.effect == "once" and self.retry is not None and self.retry.max_attempts > 1:
            raise RegistrationError(f"{subject}: effect='once' is never retried automatically; remove retry=")
        if self.effect == "once" and not self.durable:
            raise RegistrationError(f"{subject}: durable=False runs again at replay, effect='once' must not")
        seconds = check_seconds("timeout", self.timeout)
        if seconds is not None and seconds <= 0:
            raise RegistrationError(f"{subject}: timeout is {self.timeout}, it must be over 0 seconds")

    def _check_metadata(self, subject: str) -> None:
        if not isinstance(cast("object", self.metadata), Mapping):
            raise RegistrationError(f"{subject}: metadata is a dict, not {self.metadata!r}")
        codec.encode(self.metadata, path="metadata")
        if self.effect != "once":
            raise RegistrationError(f"{subject}: metadata= applies only to steps with effect='once'")


def unknown_option(name: object, function: object, unknown: Sequence[str]) -> RegistrationError:
    """Return the error for unknown keywords of ``ctx.step``: misspelt options, or arguments of the function."""
    called: Any = name if callable(name) else function
    shown = getattr(called, "__name__", "function")
    step = shown if callable(name) else name
    options = [each.name for each in fields(StepOptions)]
    first = unknown[0]
    near = _OTHER_SPELLINGS.get(first) or next(iter(difflib.get_close_matches(first, options, 1, 0.75)), None)
    if near is not None:
        return RegistrationError(
            f"step {step!r}: {first}= is not an option of ctx.step; did you mean {near}=?"
        )
    return RegistrationError(
        f"step {step!r}: {first}= is not an option of ctx.step; pass arguments of the function by position, "
        f"or by name with functools.partial({shown}, {first}=...)"
    )


_OTHER_SPELLINGS: Final = {
    "retries": "retry",
    "retry_policy": "retry",
    "max_attempts": "retry",
    "attempts": "retry",
    "timeout_seconds": "timeout",
    "idempotency_key": "key",
    "result_type": "returns",
    "non_retryable_exceptions": "non_retryable",
}


def check_retry(subject: str, retry: object) -> None:
    """Check that a value is a ``RetryPolicy``, and not a number of attempts, for example.

    Raises:
        RegistrationError: It is not.
    """
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise RegistrationError(
            f"{subject}: retry is a RetryPolicy, such as RetryPolicy(max_attempts=3), not {retry!r}"
        )


def exceptions_of(subject: str, given: object) -> tuple[type[BaseException], ...]:
    """Return exception classes as a tuple; one class may be given alone.

    Raises:
        RegistrationError: It is neither a class nor a tuple of classes.
    """
    known = _checked.get(id(given))
    if known is not None and known is given:
        return known
    classes: tuple[object, ...] = (given,)
    if isinstance(given, Iterable) and not isinstance(given, str):
        classes = tuple(cast("Iterable[object]", given))
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise RegistrationError(
                f"{subject}: non_retryable is a tuple of exception classes, such as (ValueError,), not {given!r}"
            )
    checked = cast("tuple[type[BaseException], ...]", classes)
    if checked is given:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked[id(checked)] = checked
    return checked
