"""Detects steps that wait for a run that cannot start, because such steps hold every slot that it could take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from signoff.errors import CircularWait, SignoffError
from signoff.observability.current_run import CurrentStep, current_attempt
from signoff.records import Group, Run, RunState, WorkerInfo
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.worker")

LOOK_SECONDS: Final = 2.0
"""The time between two checks. Two must find the same, since the first may come before a claim."""
WARN_SECONDS: Final = 30.0
MOST_HELD: Final = 50
"""The most held runs to check. If a worker holds more, a warning is logged and no wait is refused."""

_waits: Counter[tuple[str, str]] = Counter()
"""The number of waiting steps of this process, by waiting run and awaited run."""


class SlotBackend(Protocol):
    """Operations of the backend: a store in this process, or a server."""

    async def get_run(self, run_id: str) -> Run: ...
    async def wait(self, run_id: str) -> Run: ...
    async def list_workers(self) -> Sequence[WorkerInfo]: ...
    async def list_groups(self) -> Sequence[Group]: ...


async def wait_for_slot(backend: SlotBackend, run_id: str) -> Run:
    """Wait for the end of a run, in a step.

    Raises:
        NotFound: The run does not exist.
        CircularWait: It cannot begin before the waiting step ends.
    """
    step = current_attempt.get()[0]
    place = (step.run.id, run_id)
    ending = asyncio.ensure_future(backend.wait(run_id))
    began, was_stuck, has_warned = asyncio.get_running_loop().time(), None, False
    _waits[place] += 1
    try:
        while not (await asyncio.wait([ending], timeout=LOOK_SECONDS))[0]:
            stuck = None
            with suppress(SignoffError):  # such as a client that may not list workers
                stuck = await _Look(backend, step).why_stuck(run_id)
            if stuck is not None and stuck == was_stuck:
                raise CircularWait([step.run.id, run_id, step.run.id], stuck)
            was_stuck = stuck
            seconds = asyncio.get_running_loop().time() - began
            if not has_warned and seconds >= WARN_SECONDS:
                has_warned = await _warn(backend, step, run_id, seconds)
        return ending.result()
    finally:
        ending.cancel()
        _waits[place] -= 1
        if not _waits[place]:
            del _waits[place]


async def _warn(backend: SlotBackend, step: CurrentStep, run_id: str, seconds: float) -> bool:
    """Warn if no worker has taken the run yet. Returns whether it did."""
    with suppress(SignoffError):
        if (await backend.get_run(run_id)).state is RunState.READY:
            log.warning(
                "step %r of run %s has waited for %.0f s for run %s, which no worker has taken yet. The step holds "
                "its run's slot meanwhile. Await a child run in workflow code (ctx.rfc), which holds none",
                step.name,
                step.run.id,
                seconds,
                run_id,
            )
            return True
    return False


class _Look:
    """Checks whether waiting steps hold every slot that a run could take.

    Args:
        backend: The run's backend.
        step: The step that waits.
    """

    def __init__(self, backend: SlotBackend, step: CurrentStep) -> None:
        self._backend = backend
        self._step = step
        self._runs: dict[str, Run] = {}

    async def why_stuck(self, run_id: str) -> str | None:
        """Return why an awaited run cannot begin; None if it can, or may soon."""
        own, awaited = await self._run(self._step.run.id), await self._run(run_id)
        if awaited.state is not RunState.READY or awaited.group != own.group:
            return None
        key = _key_of(awaited)
        if key is not None and key == _key_of(own) and awaited.concurrency_limit == 1:
            return f"both have concurrency key {awaited.concurrency_key!r}, of which one may run"
        if await self._fills_worker(own.group):
            return f"the only worker of group {own.group!r} has no other slot"
        if await self._fills_group(own.group):
            return f"group {own.group!r} has no other slot"
        return None

    async def _fills_worker(self, group: str) -> bool:
        worker = self._step.worker
        if worker is None or not worker.is_full or not await self._all_wait(worker.held, group):
            return False
        return sum(each.group == group for each in await self._backend.list_workers()) == 1

    async def _fills_group(self, name: str) -> bool:
        found = next((each for each in await self._backend.list_groups() if each.name == name), None)
        if found is None or found.max_running is None or found.running < found.max_running:
            return False
        held = [id for id in {waiting for waiting, _ in _waits} if (await self._run(id)).group == name]
        return len(held) >= found.running and await self._all_wait(held, name)

    async def _all_wait(self, held: Sequence[str], group: str) -> bool:
        """Whether all of these runs wait in steps for runs of the group that have not been taken."""
        if len(held) > MOST_HELD:
            return False
        for id in held:
            awaited = [await self._run(run_id) for waiting, run_id in list(_waits) if waiting == id]
            if not any(each.state is RunState.READY and each.group == group for each in awaited):
                return False
        return True

    async def _run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            self._runs[run_id] = await self._backend.get_run(run_id)
        return self._runs[run_id]


def _key_of(run: Run) -> Any:
    return None if run.concurrency_key is None else (run.workflow, run.group, run.concurrency_key)
