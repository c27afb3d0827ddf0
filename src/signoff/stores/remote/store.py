"""The remote store: the contract over HTTP. A ``signoff server`` performs the operations on its store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final

from signoff.records import CallKind, Entry, EntryKind, LiveText, NewAuditEvent
from signoff.records.names import check_namespace
from signoff.runtime.clock import Clock
from signoff.stores.contract.leases import Outcome, Write
from signoff.stores.contract.operations import OPERATIONS, Operation
from signoff.stores.contract.store import PROBE, Change, Store
from signoff.stores.contract.validation import (
    check_arguments,
    check_events,
    check_live,
)
from signoff.stores.remote.connection import RemoteServer
from signoff.stores.shared.listed_payloads import bytes_of, may_be_cut

ENTRIES_AT_ONCE: Final = 1000
RECORDS_AT_ONCE: Final = 1_000
"""Events in one operation. Servers refuse more."""
PIECES_AT_ONCE: Final = 1_000
"""Pieces of live text in one operation. Servers refuse ten times as many."""

PART_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of the entries in one request, if they can be split. Escaping them within JSON doubles them at worst."""
SHORT_PATIENCE_SECONDS: Final = 5.0  # for operations that the caller repeats soon with newer arguments


class RemoteStore(Store):
    """Store client of a ``signoff server``. ``signoff.stores.contract.store.Store`` documents its methods.

    It needs no database credentials and no inbound port. Operations wait while the server cannot be reached.

    Args:
        url: The server, such as ``https://signoff.example.com``.
        key: A worker key, from ``signoff keys create``. Servers require one.
        namespace: The tenant.
        patience_seconds: How long operations wait for an unreachable server before they raise StoreUnavailable.

    Raises:
        InvalidValue: ``url`` is not a valid server URL, or ``key`` is not a valid key.

    Example:
        store = RemoteStore("https://signoff.example.com", key=os.environ["SIGNOFF_WORKER_KEY"])
        await store.open()
    """

    def __init__(
        self, url: str, *, key: str | None = None, namespace: str = "default", patience_seconds: float = 120.0
    ) -> None:
        self.namespace = check_namespace(namespace)
        self._owner = True
        self._server = RemoteServer(url, key, patience_seconds)
        self.clock: Clock = self._server.clock
        self.lease_seconds = 0.0  # set by ``open``, from the server

    @property
    def location(self) -> str:
        return self._server.url

    async def open(self) -> None:
        await self._server.open(self.namespace)
        self.lease_seconds = self._server.lease_seconds

    async def close(self) -> None:
        if self._owner:
            await asyncio.to_thread(self._server.close)

    def within(self, namespace: str) -> RemoteStore:
        view = copy(self)
        view.namespace = check_namespace(namespace)
        view._owner = False
        return view

    def listen(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As in the contract. At first, and after a gap, it reports that anything may have changed."""
        return self._server.connection.changes.listen(self.namespace, callback)

    # Operations that are sent in parts, or need more checks than ``check_arguments``

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Check an operation's arguments and have the server perform it."""
        check_arguments(arguments)
        if operation.takes_token and arguments["token"] is None:
            arguments["token"] = uuid.uuid4().hex
        patience_seconds = self._server.patience_seconds
        if not operation.is_patient:
            patience_seconds = min(patience_seconds, SHORT_PATIENCE_SECONDS)
        lane = operation.lane_of(arguments)
        return await self._server.connection.batches.ask(
            operation,
            self.namespace,
            arguments,
            key=None if lane is None else (self.namespace, *lane),
            patience_seconds=patience_seconds,
        )

    async def _ask(self, operation: str, /, **arguments: Any) -> Any:
        return await self.perform(OPERATIONS[operation], arguments)

    async def read_journal(
        self, run_id: str, *, after: int = -1, limit: int | None = None
    ) -> Sequence[Entry]:
        if limit is not None:
            return await self._ask("read_journal", run_id=run_id, after=after, limit=limit)
        entries: list[Entry] = []
        while page := await self._ask("read_journal", run_id=run_id, after=after, limit=ENTRIES_AT_ONCE):
            entries += page
            after = entries[-1].seq
            if not may_be_cut(page, ENTRIES_AT_ONCE):
                break
        return entries

    async def append(self, write: Write) -> None:
        await self._ask("append", write=await self._append_first(write))

    async def pause(self, write: Write, *, wakes: int, wake_at: float | None) -> bool:
        return await self._ask("pause", write=await self._append_first(write), wakes=wakes, wake_at=wake_at)

    async def complete(self, write: Write, outcome: Outcome) -> None:
        await self._ask("complete", write=await self._append_first(write), outcome=outcome)

    async def _append_first(self, write: Write) -> Write:
        """Append the step outcomes that a large write begins with, in parts. Returns the rest of the write.

        A request holds a few mebibytes. Each outcome counts by itself, so those are kept if the rest is refused.
        """
        entries = list(write.entries)
        if len(entries) < 2 or sum(len(each.value or "") for each in entries) <= PART_BYTES // 4:
            return write
        while len(entries) > 1 and bytes_of(entries) > PART_BYTES:
            part, size = 0, 0
            while part < len(entries) - 1 and _is_outcome(entries[part]):
                size += bytes_of(entries[part])
                if part and size > PART_BYTES:
                    break
                part += 1
            if part == 0:
                break
            await self._ask("append", write=Write(write.run_id, write.epoch, tuple(entries[:part])))
            del entries[:part]
        return write if len(entries) == len(write.entries) else replace(write, entries=tuple(entries))

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        check_live(pieces)
        for begin in range(0, len(pieces), PIECES_AT_ONCE):
            await self._ask("publish", pieces=pieces[begin : begin + PIECES_AT_ONCE])

    async def record(self, events: Sequence[NewAuditEvent]) -> None:
        check_events(events)
        for begin in range(0, len(events), RECORDS_AT_ONCE):
            await self._ask("record", events=events[begin : begin + RECORDS_AT_ONCE])

    async def check_writable(self) -> None:
        """Perform an operation that changes nothing, but fails if the server's store cannot be written."""
        await self.release(PROBE)

    def hold_leases(self) -> None:
        """Do nothing: the server manages leases."""


def _is_outcome(entry: Entry) -> bool:
    """Whether an entry records an outcome of a step, which stands whatever else happens."""
    kinds = (EntryKind.STEP_STARTED, EntryKind.ATTEMPT_FAILED, EntryKind.COMPLETED)
    return entry.kind in kinds and entry.call is CallKind.STEP
