"""Reads journal entries from rows, which are the same in SQLite and Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from signoff.records import CallKind, Entry, EntryKind

# Journals can be long, and calling an enum takes as long as everything else.
_KINDS = {kind.value: kind for kind in EntryKind}
_CALLS: dict[str | None, CallKind | None] = {None: None, **{kind.value: kind for kind in CallKind}}


def to_entry(row: Sequence[Any]) -> Entry:
    """Return an entry from its ``ENTRY_COLUMNS``."""
    seq, at, kind, n, call, name, value, error, details = row
    return Entry(seq, at, _KINDS[kind], n, _CALLS[call], name, value, error, details)
