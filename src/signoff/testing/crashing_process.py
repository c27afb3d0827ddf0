"""A store that kills its process at a chosen journal entry."""

from __future__ import annotations

import os
import signal
from typing import Any, Final, Literal

from signoff.stores.contract.leases import Write
from signoff.stores.contract.operations import Operation
from signoff.stores.contract.store import Store
from signoff.stores.wrappers.store_wrapper import StoreWrapper

_WRITES: Final = ("append", "pause", "complete")


class DoomedStore(StoreWrapper):
    """A store that kills its process with SIGKILL at one entry of one run's journal.

    Pass it to a ``Signoff`` in a separate process, then start another process to check what is left.

    Args:
        store: The store to use until then.
        run_id: The run.
        seq: The entry.
        when: ``before`` it is written, when its cause has happened but is not durable; or ``after``, when it is durable
            but nothing follows yet.

    Example:
        app = Signoff(DoomedStore(SqliteStore("test.db"), "refund-1", 3, when="before"))
    """

    def __init__(self, store: Store, run_id: str, seq: int, *, when: Literal["before", "after"]) -> None:
        super().__init__(store)
        self._run_id = run_id
        self._seq = seq
        self._when = when

    async def perform(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        is_the_one = operation.name in _WRITES and self._is_the_one(arguments["write"])
        if is_the_one and self._when == "before":
            _die()
        result = await operation.call(self.inner, arguments)
        if is_the_one:
            _die()
        return result

    def _is_the_one(self, write: Write) -> bool:
        return write.run_id == self._run_id and any(entry.seq == self._seq for entry in write.entries)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
