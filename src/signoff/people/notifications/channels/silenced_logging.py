"""Silences the request logs of libraries: they contain URLs, which may contain secrets."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_LOGGERS: Final = ("httpx", "apprise", "urllib3.connectionpool", "urllib3.util.retry")

_is_quiet: ContextVar[bool] = ContextVar("signoff_is_quiet", default=False)


@contextmanager
def silenced() -> Generator[None]:
    """Silence the libraries' logs of requests made in this block. Other code's requests are logged as usual."""
    token = _is_quiet.set(True)
    try:
        yield
    finally:
        _is_quiet.reset(token)


def _is_heard(_: logging.LogRecord) -> bool:
    return not _is_quiet.get()


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_is_heard)
