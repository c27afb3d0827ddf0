"""Journal entries from rows, as SQLite and Postgres keep them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from signoff.records import CallKind, Entry, EntryKind

# Journals may be long, and to call an enum takes as long as all the rest.
_KINDS = {kind.value: kind for kind in EntryKind}
_CALLS: dict[str | None, CallKind | None] = {None: None, **{kind.value: kind for kind in CallKind}}


def to_entry(row: Sequence[Any]) -> Entry:
    """Make an entry of its ``ENTRY_COLUMNS``."""
    seq, at, kind, n, call, name, value, error, details = row
    return Entry(seq, at, _KINDS[kind], n, _CALLS[call], name, value, error, details)
