"""The log line of an attempt that failed: a slow run should show its retries."""

from __future__ import annotations

from signoff.engine.run.fatal_exceptions import text_of
from signoff.observability.current_run import fields_of
from signoff.records import Run
from signoff.runtime.loggers import own_logger, texts_are_hidden

log = own_logger("signoff.worker")


def log_failed_attempt(what: str, run: Run, attempt: int, error: BaseException, wait: float | None) -> None:
    """Log an attempt that failed.

    Args:
        what: What was tried, such as ``step 'pay'``.
        run: The run that it belongs to.
        attempt: Its number, from 1.
        error: What it failed with.
        wait: Seconds until the next attempt; None: there is none.
    """
    log.warning(
        "%s of run %s failed in attempt %d: %.500s; %s",
        what,
        run.id,
        attempt,
        error if texts_are_hidden() else f"{type(error).__name__}: {text_of(error)}",
        "it is not tried again" if wait is None else f"next attempt in {wait:.1f} s",
        extra=fields_of(run),
    )
