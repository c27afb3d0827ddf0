"""Logs failed attempts, so that a slow run shows its retries."""

from __future__ import annotations

from signoff.engine.run.fatal_exceptions import text_of
from signoff.observability.current_run import fields_of
from signoff.records import Run
from signoff.runtime.loggers import own_logger, texts_are_hidden

log = own_logger("signoff.worker")


def log_failed_attempt(what: str, run: Run, attempt: int, error: BaseException, wait: float | None) -> None:
    """Log a failed attempt.

    Args:
        what: The subject, such as ``step 'pay'``.
        run: The run.
        attempt: The attempt's number, from 1.
        error: The error.
        wait: Seconds until the next attempt; None for no further attempt.
    """
    log.warning(
        "%s of run %s failed in attempt %d: %.500s; %s",
        what,
        run.id,
        attempt,
        error if texts_are_hidden() else f"{type(error).__name__}: {text_of(error)}",
        "no further attempt" if wait is None else f"next attempt in {wait:.1f} s",
        extra=fields_of(run),
    )
