"""Announces the workflows that a worker runs to the list of workflows."""

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
    """Announces a worker's workflows: at the start, soon after a change, and every hour.

    It never stops a worker: a workflow that cannot be described is left out, and a refusal is logged.

    Args:
        store: An open store.
        programs: The registry of workflows.
        group: The worker's group.
        look_seconds: Seconds between two checks for changes of the registry.
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
                    log.error("announcing workflows waits for the store: %s", trouble)
                    again_at = 0.0
                except SignoffError as refusal:
                    log.warning("the workflows of this worker are not announced: %s", refusal)
            await asyncio.sleep(self._look_seconds)

    async def _announce(self) -> None:
        if self._described != self._programs.changes:
            self._described = self._programs.changes
            self._workflows = []
            for each in self._programs.describe(self._group):
                self._workflows.append(each)
                await asyncio.sleep(0)  # describing a form with many models may take milliseconds
        for begin in range(0, len(self._workflows), AT_ONCE):
            await self._store.announce(self._workflows[begin : begin + AT_ONCE])
