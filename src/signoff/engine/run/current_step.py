"""The step whose attempt is running, as the engine uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from signoff.observability import current_run

if TYPE_CHECKING:
    import contextvars

    from signoff.engine.run.step_call import StepCall

current_attempt: Final = cast(
    "contextvars.ContextVar[tuple[StepCall, int]]", cast("object", current_run.current_attempt)
)
"""The same variable as ``current_run.current_attempt``, whose type has only what log lines need."""
