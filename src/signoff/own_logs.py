"""Signoff's own loggers: a handler or a filter that fails loses its line, and ends neither a run nor its worker."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from functools import cache
from typing import Any, cast


class _Contained:
    """Mixed into the class of a logger."""

    def handle(self, record: logging.LogRecord) -> None:
        """Hand a record to the handlers. What one of them raises is printed, as ``logging`` itself does it."""
        try:
            super().handle(record)  # type: ignore[misc]
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError):
            if logging.raiseExceptions and cast("object", sys.stderr) is not None:
                print(
                    f"--- A logging handler failed, of {record.name}: {record.msg!r:.200} ---",
                    file=sys.stderr,
                )
                traceback.print_exc()


def own_logger(name: str) -> logging.Logger:
    """Return one of Signoff's own loggers.

    Args:
        name: Its name, such as ``signoff.worker``.
    """
    logger = logging.getLogger(name)
    if not isinstance(logger, _Contained):
        logger.__class__ = _contained(type(logger))
    return logger


@cache
def _contained(kind: type[logging.Logger]) -> Any:
    """Derive from the class that loggers have here: a program may have set another one."""
    return type(kind.__name__, (_Contained, kind), {"__module__": kind.__module__})
