"""Signoff's loggers. A failing handler or filter loses its line, but does not end a run or its worker.

With redaction (docs/redaction.md), lines have the types of errors from user code, not their texts: a text may quote
any payload, and a worker does not search it for hidden values.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

from signoff.errors import StoreError

_hiding: list[object] = []
"""One object for each active ``hiding_texts``."""


@contextmanager
def hiding_texts(hides: bool = True) -> Generator[None]:
    """Reduce errors in logs and spans of this process to their types while in the block.

    Args:
        hides: False changes nothing.
    """
    if not hides:
        yield
        return
    one = object()
    _hiding.append(one)
    try:
        yield
    finally:
        _hiding.remove(one)


def texts_are_hidden() -> bool:
    """Whether the texts of errors are hidden in this process."""
    return bool(_hiding)


class _Contained:
    """Mixin for the class of a logger."""

    def handle(self, record: logging.LogRecord) -> None:
        """Pass a record to the handlers. An exception of theirs is printed, as ``logging`` itself does."""
        if _hiding:
            _hide(record)
        try:
            super().handle(record)  # type: ignore[misc]
        except (Exception, SystemExit, GeneratorExit, asyncio.CancelledError):
            if logging.raiseExceptions and cast("object", sys.stderr) is not None:
                print(
                    f"--- A logging handler failed, of {record.name}: {record.msg!r:.200} ---",
                    file=sys.stderr,
                )
                traceback.print_exc()


def _hide(record: logging.LogRecord) -> None:
    if isinstance(record.args, tuple):
        record.args = tuple(
            _hidden(each) if isinstance(each, BaseException) else each for each in record.args
        )
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and not isinstance(error, StoreError):
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {_hidden(error)}", None, None


def _hidden(error: BaseException) -> object:
    """Return the text to log for an error. Errors of a store contain no payloads."""
    if isinstance(error, StoreError):
        return error
    return f"{type(error).__name__} (its text is hidden)"


def own_logger(name: str) -> logging.Logger:
    """Return one of Signoff's loggers.

    Args:
        name: Its name, such as ``signoff.worker``.
    """
    logger = logging.getLogger(name)
    if not isinstance(logger, _Contained):
        logger.__class__ = _contained(type(logger))
    return logger


@cache
def _contained(kind: type[logging.Logger]) -> Any:
    """Derive from the class of the program's loggers, which ``logging.setLoggerClass`` may have changed."""
    return type(kind.__name__, (_Contained, kind), {"__module__": kind.__module__})
