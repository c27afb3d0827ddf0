"""Large values of runs in SQLite: each in a row of its own, compressed where that pays."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final

from signoff.errors import UnreadableRecord
from signoff.stores.sqlite.transaction import Transaction

LARGE_CHARACTERS: Final = 16 * 1024
"""Longer texts are stored by themselves."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""No value is larger: what claims to be is not unpacked."""

APART: Final = ""
"""What stands in the column of a value that is stored by itself. No JSON is so."""

ARGUMENTS: Final = -1
RESULT: Final = -2

_PLAIN: Final = b"t"
_COMPRESSED: Final = b"z"
_LEVEL: Final = 1
_SAMPLE: Final = 8 * 1024
_PAYS: Final = 0.7
"""Of a sample, what compressing must leave at most: of encrypted and other random texts it leaves three quarters."""

PUT: Final = """
INSERT INTO large_values (namespace, run_id, seq, bytes, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, run_id, seq) DO UPDATE SET bytes = excluded.bytes, value = excluded.value
"""

Large = tuple[int, str]
"""The ``seq`` of a value, and its text."""


def is_large(text: str | None) -> bool:
    """Whether a value is stored by itself."""
    return text is not None and (len(text) > LARGE_CHARACTERS or text == APART)


def column_text(text: str | None) -> str | None:
    """Return what stands in the column of a value."""
    return APART if is_large(text) else text


def put(tx: Transaction, namespace: str, run_id: str, values: Iterable[Large]) -> None:
    """Store values by themselves."""
    for seq, text in values:
        size, packed = pack(text)
        tx.db.execute(PUT, (namespace, run_id, seq, size, packed))


def of_run(column: str, seq: int) -> str:
    """Return the SQL that reads a column of ``runs``: a text, or what ``unpacked`` takes."""
    return _or_apart(column, column, "value, x''", "runs", "id", str(seq))


def size_of_run(column: str, seq: int, size: str) -> str:
    """Return the SQL of how many bytes a value of ``runs`` has, where ``size`` is that of the column."""
    return _or_apart(column, size, "bytes, 0", "runs", "id", str(seq))


def of_entry(column: str) -> str:
    """Return the SQL that reads a column of ``journal``: a text, or what ``unpacked`` takes."""
    return _or_apart(column, column, "value, x''", "journal", "run_id", "journal.seq")


def _or_apart(column: str, here: str, there: str, table: str, run_id: str, seq: str) -> str:
    wanted, missing = there.split(", ")
    # The casts: without them SQLite uses no index in what a statement returns.
    whose = (
        f"large.namespace = CAST({table}.namespace AS TEXT) AND large.run_id = CAST({table}.{run_id} AS TEXT)"
    )
    return f"""
    CASE WHEN {column} = '{APART}' THEN coalesce((
        SELECT large.{wanted} FROM large_values AS large
        WHERE {whose} AND large.seq = {seq}
    ), {missing}) ELSE {here} END
    """


def pack(text: str) -> tuple[int, bytes]:
    """Return how many bytes a text has, and how it is stored."""
    raw = text.encode()
    middle = max(0, len(raw) - _SAMPLE) // 2
    sample = raw[middle : middle + _SAMPLE]
    if len(zlib.compress(sample, _LEVEL)) > _PAYS * len(sample):
        return len(raw), _PLAIN + raw
    return len(raw), _COMPRESSED + zlib.compress(raw, _LEVEL)


def unpacked(stored: Any, what: str, id: str) -> Any:
    """Return the text of a value that was read, which may have been stored by itself.

    Args:
        stored: What a column has, or the bytes of a row of its own.
        what: What it belongs to, for the error.
        id: The id of that.

    Raises:
        UnreadableRecord: It is damaged, or larger than any value may be.
    """
    if type(stored) is not bytes:
        return stored
    try:
        return _unpack(stored)
    except (zlib.error, ValueError) as error:
        raise UnreadableRecord(what, id, f"a value that is stored by itself is damaged: {error}") from error


def readable(stored: Any) -> Any:
    """Return as ``unpacked`` does; of a damaged value a text that is no JSON, so that only its run fails."""
    if type(stored) is not bytes:
        return stored
    try:
        return _unpack(stored)
    except (zlib.error, ValueError) as error:
        return f"unreadable, its row is damaged: {error}"


def _unpack(stored: bytes) -> str:
    how, rest = stored[:1], stored[1:]
    if how == _PLAIN:
        return rest.decode()
    if how != _COMPRESSED:
        raise ValueError("it is missing, or of a later version")
    opened = zlib.decompressobj()
    raw = opened.decompress(rest, MOST_BYTES)
    if not opened.eof:
        raise ValueError(f"it is cut off, or over {MOST_BYTES} bytes")
    return raw.decode()
