"""Large values of runs in SQLite: each in its own row, compressed if that saves space."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final

from signoff.errors import UnreadableRecord
from signoff.stores.sqlite.transaction import Transaction

LARGE_CHARACTERS: Final = 16 * 1024
"""Longer texts are stored separately."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a value. Larger ones are not decompressed."""

APART: Final = ""
"""Placeholder in the column of a separately stored value. It is not valid JSON."""

ARGUMENTS: Final = -1
RESULT: Final = -2

_PLAIN: Final = b"t"
_COMPRESSED: Final = b"z"
_LEVEL: Final = 1
_SAMPLE: Final = 8 * 1024
_PAYS: Final = 0.7
"""Maximum compression ratio of a sample at which compression pays. Random text, such as ciphertext, reaches 0.75."""

PUT: Final = """
INSERT INTO large_values (namespace, run_id, seq, bytes, value) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, run_id, seq) DO UPDATE SET bytes = excluded.bytes, value = excluded.value
"""

Large = tuple[int, str]
"""The ``seq`` of a value, and its text."""


def is_large(text: str | None) -> bool:
    """Whether a value is stored separately."""
    return text is not None and (len(text) > LARGE_CHARACTERS or text == APART)


def column_text(text: str | None) -> str | None:
    """Return the column's content for a value."""
    # Inlined from ``is_large``: each entry passes here.
    return APART if text is not None and (len(text) > LARGE_CHARACTERS or text == APART) else text


def put(tx: Transaction, namespace: str, run_id: str, values: Iterable[Large]) -> None:
    """Store values separately."""
    for seq, text in values:
        size, packed = pack(text)
        tx.db.execute(PUT, (namespace, run_id, seq, size, packed))


def of_run(column: str, seq: int) -> str:
    """Return the SQL that reads a column of ``runs``: a text, or input for ``unpacked``."""
    return _or_apart(column, column, "value, x''", "runs", "id", str(seq))


def size_of_run(column: str, seq: int, size: str) -> str:
    """Return the SQL of a value's size in ``runs``, where ``size`` is that of its column."""
    return _or_apart(column, size, "bytes, 0", "runs", "id", str(seq))


def of_entry(column: str) -> str:
    """Return the SQL that reads a column of ``journal``: a text, or input for ``unpacked``."""
    return _or_apart(column, column, "value, x''", "journal", "run_id", "journal.seq")


def _or_apart(column: str, here: str, there: str, table: str, run_id: str, seq: str) -> str:
    wanted, missing = there.split(", ")
    # Without the casts SQLite uses no index in result columns.
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
    """Return a text's size in bytes, and its stored form."""
    raw = text.encode()
    middle = max(0, len(raw) - _SAMPLE) // 2
    sample = raw[middle : middle + _SAMPLE]
    if len(zlib.compress(sample, _LEVEL)) > _PAYS * len(sample):
        return len(raw), _PLAIN + raw
    return len(raw), _COMPRESSED + zlib.compress(raw, _LEVEL)


def unpacked(stored: Any, what: str, id: str) -> Any:
    """Return the text of a value as read, which may have been stored separately.

    Args:
        stored: The column's content, or the bytes of the value's own row.
        what: The kind of the value's owner, for the error.
        id: The owner's id.

    Raises:
        UnreadableRecord: It is damaged, or over the size limit.
    """
    if type(stored) is not bytes:
        return stored
    try:
        return _unpack(stored)
    except (zlib.error, ValueError) as error:
        raise UnreadableRecord(what, id, f"a separately stored value is damaged: {error}") from error


def readable(stored: Any) -> Any:
    """Return the same as ``unpacked``; for a damaged value, text that is not JSON, so that only its run fails."""
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
