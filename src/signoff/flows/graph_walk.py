"""Runs an execution: walks the graph, in workflow code."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal

from signoff.errors import PayloadTooLarge
from signoff.flows.interrupt_ids import InterruptIds
from signoff.flows.recorded_graph import Recorded
from signoff.flows.scope import LineEnded, Memory, Scope
from signoff.records.flow_records import CLOSE_REFUSED, EVENT_UNHEARD
from signoff.runtime.event_waits import wait_at_most
from signoff.workflow.context import Context, own_signal

SIGNAL: Final = "signoff.flow"
"""The signal to an execution: ``{"emit": name, "value": ...}`` or ``{"close": "refuse" | "cancel", "id": ...}``."""

COMPACT_AFTER: Final = 1_000
"""Signals and chunks after which an idle execution continues as new, with its data."""


class Machine:
    """One execution.

    Args:
        ctx: The run's context.
        parts: The flow's graph, chunks and conditions.
        resources: The resources that this worker provides.
        auto_close_seconds: Seconds of inactivity after which it closes; None: never.

    Attributes:
        interrupts: The open interrupts by id, with the tasks that wait for them.
        ids: The chosen ids among them, including those of running chunks.
        journaled: The number of signals and chunks in the journal of this generation.
        closing: Whether it accepts no more events, and what happens to open interrupts.
    """

    def __init__(
        self,
        ctx: Context,
        parts: Recorded,
        resources: Mapping[str, Any],
        auto_close_seconds: float | None,
    ) -> None:
        self.ctx = ctx
        self.resources = resources
        self.interrupts: dict[str, asyncio.Task[Any]] = {}
        self.ids = InterruptIds()
        self.journaled = 0
        self.closing: Literal["refuse", "cancel"] | None = None
        self._compact_at = COMPACT_AFTER
        self._auto_close_seconds = auto_close_seconds
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._held: deque[Any] = deque()
        self._closers: list[str] = []
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._unheard: set[str] = set()
        self._top = Scope(self, parts, "")

    async def run(self, input: Any, memory: Memory | None) -> dict[str, Any]:
        """Run until the execution is closed. Returns its state."""
        listener = self._loop.create_task(self._listen())
        listener.add_done_callback(self._is_done)
        try:
            if memory is None:
                self._top.begin(input)
            else:
                self._top.remember(memory)
            await self._serve(input)
        finally:
            listener.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(listener, *self._tasks, return_exceptions=True)
        return self._top.state

    def spawn(self, line: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task. If it fails, the execution fails."""
        task = self._loop.create_task(_ended(line))
        self._tasks.add(task)
        task.add_done_callback(self._is_done)
        return task

    def _is_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
        if not self._tasks or self._failure is not None:
            self._news.set()

    async def _listen(self) -> None:
        call = own_signal(self.ctx, SIGNAL)
        while True:
            signal = await call
            call = own_signal(self.ctx, SIGNAL)
            call.begin()
            self.journaled += 1
            was_idle = not self._tasks
            await self._take(signal)
            if was_idle or self.closing is not None:
                self._news.set()

    async def _serve(self, input: Any) -> None:
        while True:
            self._news.clear()
            while self._held and self.closing is None:
                await self._take(self._held.popleft())
            if self._failure is not None:
                raise self._failure
            if not self._tasks:
                if self.closing is not None:
                    return
                if self.journaled >= self._compact_at:
                    self._compact(input)
            if self._tasks:
                await self._news.wait()
                continue
            await wait_at_most(self._auto_close_seconds, self._news)
            if not self._news.is_set():
                return

    def _compact(self, input: Any) -> None:
        """Continue as new, unless too much data is pending, such as events that wait for a join."""
        try:
            self.ctx.continue_as_new(input, self._top.memory())
        except PayloadTooLarge as error:
            self._compact_at = 2 * self.journaled
            self.ctx.logger.warning("the journal keeps growing: %s", error)

    async def _take(self, signal: Any) -> None:
        match signal:
            case {"close": "refuse" | "cancel" as how, "id": str(request)}:
                await self._close(how, request)
            case {"emit": str()} if self.closing is not None:
                self._held.append(signal)
            case {"emit": str(event)}:
                self._top.dispatch("event", event, signal.get("value"))
            case _:
                pass  # a user may send any signal by hand

    async def _close(self, how: Literal["refuse", "cancel"], request: str) -> None:
        if how == "refuse" and self.interrupts:
            await self._refuse([request])
            return
        self.closing = "cancel" if self.closing == "cancel" else how
        self._closers.append(request)
        for task in list(self.interrupts.values()):
            task.cancel()

    async def reopen(self) -> None:
        """Withdraw a close because an interrupt is open. Events that arrived in between are processed now."""
        self.closing = None
        self._news.set()
        requests, self._closers = self._closers, []
        await self._refuse(requests)

    async def _refuse(self, requests: Sequence[str]) -> None:
        await self.ctx.progress(CLOSE_REFUSED, requests=requests, interrupts=list(self.interrupts))

    def note_unheard(self, event: str, listened: Collection[str]) -> None:
        """Log, once per event, that an event has started no line: its name may be a typo."""
        if event in self._unheard:
            return
        self._unheard.add(event)
        there = ", ".join(sorted(listened)) or "no event"
        self.ctx.logger.warning("event %r starts no line of the flow; lines start with %s", event, there)
        self.spawn(self._note_unheard(event, sorted(listened)))

    async def _note_unheard(self, event: str, listened: Sequence[str]) -> None:
        await self.ctx.progress(EVENT_UNHEARD, event=event, lines_begin_with=list(listened))


async def _ended(line: Coroutine[Any, Any, Any]) -> Any:
    try:
        return await line
    except LineEnded as end:
        return end.value
