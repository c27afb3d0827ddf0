"""How a step is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from signoff import codec
from signoff.engine.retry import RetryPolicy
from signoff.errors import CannotRunHere, RegistrationError
from signoff.names import check_assignee
from signoff.start_options import check_seconds

Effect = Literal["repeatable", "once"]

UNSAID: Final = object()
"""Stands for a step's own arguments, where nothing else is to be compared."""


@dataclass(slots=True)
class StepOptions:
    """How a step is run. See ``Context.step`` for what each means."""

    retry: RetryPolicy | None = None
    timeout: float | None = None
    durable: bool = True
    non_retryable: tuple[type[BaseException], ...] = ()
    effect: Effect = "repeatable"
    key: str | None = None
    returns: Any = Any
    operators: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    compare: Any = UNSAID
    on_failure: Callable[[Exception], CannotRunHere] | None = None

    def check(self, name: str) -> None:
        """Refuse options that contradict each other."""
        if self.metadata is not None:
            self._check_metadata(name)
        if self.key is not None and not self.key.strip():
            raise RegistrationError(f"step {name!r}: key= is empty; leave it out for the step's own")
        for operator in self.operators:
            check_assignee("operators", operator)
        if self.operators and self.effect != "once":
            raise RegistrationError(
                f"step {name!r}: operators= are asked about a step of effect='once', and no other"
            )
        if self.effect not in ("repeatable", "once"):
            raise RegistrationError(f"step {name!r}: effect is 'repeatable' or 'once', not {self.effect!r}")
        if self.effect == "once" and self.retry is not None and self.retry.max_attempts > 1:
            raise RegistrationError(
                f"step {name!r}: effect='once' is never retried without a person; drop retry="
            )
        if self.effect == "once" and not self.durable:
            raise RegistrationError(
                f"step {name!r}: durable=False runs again at replay, effect='once' must not"
            )
        seconds = check_seconds("timeout", self.timeout)
        if seconds is not None and seconds <= 0:
            raise RegistrationError(f"step {name!r}: timeout is {self.timeout}, it must be over 0 seconds")

    def _check_metadata(self, name: str) -> None:
        codec.encode(self.metadata, path="metadata")
        if self.effect != "once":
            raise RegistrationError(
                f"step {name!r}: metadata= is shown with the question about a step of effect='once', and no other"
            )
