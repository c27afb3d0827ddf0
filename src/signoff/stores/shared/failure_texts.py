"""Texts of failures that are safe to show: limited in length, and without data from rows."""

from __future__ import annotations

import re
import sqlite3
from typing import Final

from signoff.errors import SignoffError, StoreError
from signoff.runtime.loggers import texts_are_hidden

LONGEST: Final = 500
"""Maximum length of a text in characters."""

DATA_EXCEPTION: Final = "22"
"""The class of SQLSTATEs whose messages quote the refused value."""

_QUOTED: Final = re.compile(r"""["'].*["']|["'].*""", re.DOTALL)
"""From the first quotation mark to the last, because a value may contain some."""


def text_of(error: BaseException) -> str:
    """Return the reason of a failure, for an operator of its namespace.

    Errors of Signoff and of databases name the violated rule. Texts of other exceptions may quote data, so quoted parts
    are removed. Where payloads are hidden (docs/redaction.md), only store errors are shown in full.

    Args:
        error: The failure.

    Returns:
        One line of at most ``LONGEST`` characters.

    Example::

        text_of(sqlite3.IntegrityError("CHECK constraint failed: amount > 0"))
    """
    if texts_are_hidden() and not isinstance(error, StoreError):
        return f"{type(error).__name__} (its text is hidden)"
    text = _text_of_psycopg(error)
    if text is None:
        text = str(error)
        if not isinstance(error, SignoffError | sqlite3.Error):
            text = f"{type(error).__name__}: {_without_quotations(text)}"
    return first_line(text) or type(error).__name__


def first_line(text: str) -> str:
    """Return the first line of a text, cut to ``LONGEST`` characters."""
    return text.strip().partition("\n")[0][:LONGEST]


def text_of_postgres(sqlstate: str | None, message: str) -> str:
    """Return the primary message of a Postgres error without the value that it quotes.

    Args:
        sqlstate: Its code, such as ``22P02``.
        message: Its message, such as ``invalid input syntax for type bigint: "x"``, without detail, hint and context,
            which quote rows.
    """
    if sqlstate is not None and sqlstate.startswith(DATA_EXCEPTION):
        return _without_quotations(message)
    return message


def _without_quotations(text: str) -> str:
    return _QUOTED.sub('"..."', text, count=1)


def _text_of_psycopg(error: BaseException) -> str | None:
    """Return the text of a psycopg error, without importing psycopg; None for other errors."""
    diagnosis = getattr(error, "diag", None)
    primary = getattr(diagnosis, "message_primary", None)
    if not isinstance(primary, str):
        return None
    return text_of_postgres(getattr(error, "sqlstate", None), primary)
