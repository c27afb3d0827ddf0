"""Telling the register of workflows what a worker runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

from signoff.errors import SignoffError, StoreUnavailable
from signoff.records import WorkflowInfo
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.store import Store

log = own_logger("signoff.worker")

ANNOUNCE_EVERY_SECONDS = 3600.0
AT_ONCE = 10  # in one transaction


class Described(Protocol):
    """The registry of workflows, as it is announced."""

    @property
    def changes(self) -> int: ...

    def describe(self, group: str) -> Iterator[WorkflowInfo]: ...


class Announcer:
    """Announces what a worker runs: when it begins, soon after that has changed, and every hour.

    It never stops a worker: what cannot be described is left out, and what is refused is said in the log.

    Args:
        store: An open store.
        programs: The registry of workflows.
        group: The group whose runs are driven here.
        look_seconds: How often to look whether the registry has changed.
    """

    def __init__(self, store: Store, programs: Described, group: str, *, look_seconds: float) -> None:
        self._store = store
        self._programs = programs
        self._group = group
        self._look_seconds = look_seconds
        self._workflows: list[WorkflowInfo] = []
        self._described = -1

    async def run(self) -> None:
        """Announce until cancelled."""
        loop = asyncio.get_running_loop()
        again_at = 0.0
        while True:
            if self._described != self._programs.changes or loop.time() >= again_at:
                again_at = loop.time() + ANNOUNCE_EVERY_SECONDS
                try:
                    await self._announce()
                except StoreUnavailable as trouble:
                    log.error("the register of workflows waits: %s", trouble)
                    again_at = 0.0
                except SignoffError as refusal:
                    log.warning("the register of workflows is not told what runs here: %s", refusal)
            await asyncio.sleep(self._look_seconds)

    async def _announce(self) -> None:
        if self._described != self._programs.changes:
            self._described = self._programs.changes
            self._workflows = []
            for each in self._programs.describe(self._group):
                self._workflows.append(each)
                await asyncio.sleep(0)  # a form of many models may take milliseconds
        for begin in range(0, len(self._workflows), AT_ONCE):
            await self._store.announce(self._workflows[begin : begin + AT_ONCE])
