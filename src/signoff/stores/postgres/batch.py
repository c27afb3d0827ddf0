"""Batches of operations sent to Postgres in one statement, and the parsing of the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

from signoff.stores.postgres.pipelined_connection import Statement, Value
from signoff.stores.postgres.write_requests import Append, Request
from signoff.stores.shared.touched_runs import TouchedRuns

_NOTHING: Final[dict[str, Any]] = {}


class Batch:
    """Operations of one process that run in one transaction.

    The first append of each run goes first, in the global lock order of runs; then the rest, in order.

    Args:
        requests: At least one.
    """

    def __init__(self, requests: Sequence[Request[Any]]) -> None:
        self.requests = requests
        self._appends: list[Append] = []
        self._operations: list[Request[Any]] = []
        seen: set[tuple[str, str]] = set()
        for request in requests:
            if isinstance(request, Append) and (key := (request.write.run_id, request.namespace)) not in seen:
                seen.add(key)
                self._appends.append(request)
            else:
                self._operations.append(request)
        if len(self._appends) > 1:
            self._appends.sort(key=lambda append: (append.write.run_id, append.namespace))

    def statement(self, now: float | None, lease_now: float | None) -> tuple[Statement, Sequence[Value]]:
        """Return the statement to send and its values.

        Args:
            now: Business time; None uses the database's clock.
            lease_now: Lease time; None uses the database's clock.
        """
        appends = self._appends
        if not self._operations:
            if len(appends) == 1 and (values := appends[0].values) is not None:
                return Statement.APPEND_ENTRY, values
            entries = appends[0].list if len(appends) == 1 else b"".join((b"[", *_rows(appends), b"]"))
            return Statement.APPEND, [b"[%b]" % _heads(appends), entries]
        if now is None and lease_now is None and not appends and len(self._operations) == 1:
            return Statement.APPLY, [self._operations[0].alone]
        parts: list[bytes | memoryview] = [b"{"]
        if now is not None:
            parts.append(b'"now":%b,' % to_json(now))
        if lease_now is not None:
            parts.append(b'"lease_now":%b,' % to_json(lease_now))
        if appends:
            parts += [b'"appends":[%b],"entries":[' % _heads(appends), *_rows(appends), b"],"]
        parts.append(b'"operations":[')
        parts += _joined([request.text for request in self._operations])
        parts.append(b"]}")
        return Statement.APPLY, [b"".join(parts)]  # joined once, to copy the parts only once

    def take(self, reply: bytes, touched: TouchedRuns) -> None:
        """Give each operation its part of the reply."""
        parts = from_json(reply)
        appended = parts.get("appended") if self._operations else parts
        for place, append in enumerate(self._appends):
            append.take(appended[place] if appended else _NOTHING, touched)
        if self._operations:
            for request, result in zip(self._operations, parts["results"], strict=True):
                request.take(result, touched)


def _heads(appends: Sequence[Append]) -> bytes:
    return b",".join(append.head for append in appends)


def _rows(appends: Sequence[Append]) -> list[bytes | memoryview]:
    return _joined([append.rows for append in appends])


def _joined(texts: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Return the texts, separated by commas."""
    parts: list[bytes | memoryview] = [b","] * (2 * len(texts) - 1)
    parts[::2] = texts
    return parts
