"""Converts rows of the SQLite store to records. Columns are in the order of the records' fields."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from signoff.records import (
    Entry,
    Promise,
    PromiseKind,
    PromiseState,
    Run,
    RunState,
)
from signoff.records.origins import from_text
from signoff.records.question_text import unpacked
from signoff.stores.shared.listed_payloads import size_in_sqlite
from signoff.stores.shared.rows import PROMISE_WIDTH, RUN_COLUMNS, RUN_WIDTH
from signoff.stores.sqlite import large_values as large

Row = tuple[Any, ...]

_STORED_APART = {"arguments": large.ARGUMENTS, "result": large.RESULT}


def run_column(name: str) -> str:
    """Return the SQL that reads a column of ``runs``."""
    return large.of_run(name, _STORED_APART[name]) if name in _STORED_APART else name


def run_size(name: str) -> str:
    """Return the SQL of the size of a column of ``runs`` in bytes."""
    size = size_in_sqlite(name)
    return large.size_of_run(name, _STORED_APART[name], size) if name in _STORED_APART else size


READ_RUN_COLUMNS = ", ".join(run_column(name.strip()) for name in RUN_COLUMNS.split(","))
"""The same columns, as SQL that reads large values. Takes twice as long where there are none."""

# RETURNING gives a whole number of seconds as an int, regardless of the column's type.
RUN_TIMES = (6, 9, 10, 16, 18, 21, 29)
PROMISE_TIMES = (4, 7, 10, 15)


def to_run(row: Row) -> Run:
    fields = list(row[:RUN_WIDTH])
    fields[4], fields[11] = large.readable(row[4]), large.readable(row[11])
    fields[5] = RunState(row[5])
    fields[13] = bool(row[13])
    _read_times(fields, RUN_TIMES)
    return Run(*fields)


def has_large(row: Row) -> bool:
    """Whether a row of ``RUN_COLUMNS`` has values that are stored separately: read it as ``READ_RUN_COLUMNS``."""
    return row[4] == large.APART or row[11] == large.APART


def from_run(run: Run) -> Row:
    """Return the ``RUN_COLUMNS`` of a run."""
    fields = [getattr(run, field) for field in Run.__dataclass_fields__ if field != "left_out"]
    fields[4], fields[11] = large.column_text(run.arguments), large.column_text(run.result)
    fields[5] = run.state.value
    fields[13] = int(run.retryable)
    return tuple(fields)


def to_promise(row: Row) -> Promise:
    fields = list(row[:PROMISE_WIDTH])
    fields[2] = PromiseKind(row[2])
    fields[3] = PromiseState(row[3])
    fields[8] = unpacked(row[8])
    fields[14] = () if row[14] == "[]" else tuple(json.loads(row[14]))
    fields[18] = from_text(row[18])
    _read_times(fields, PROMISE_TIMES)
    return Promise(*fields)


def assignees_text(assignees: Sequence[str]) -> str:
    """Return the stored form of assignees."""
    return json.dumps(assignees) if assignees else "[]"


def _read_times(fields: list[Any], places: Iterable[int]) -> None:
    """Turn whole seconds into floats; SQLite stores them as integers."""
    for place in places:
        if type(fields[place]) is int:
            fields[place] = float(fields[place])


def from_entry(entry: Entry) -> Row:
    return (
        entry.seq,
        entry.at,
        entry.kind._value_,  # like .value, without the cost of the enum's property
        entry.n,
        None if entry.call is None else entry.call._value_,
        entry.name,
        large.column_text(entry.value),
        entry.error,
        entry.details,
    )
