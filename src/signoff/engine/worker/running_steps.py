"""The steps of a run that are running on a worker, each attempt in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from signoff.engine.run.execution import Execution
from signoff.engine.run.fatal_exceptions import as_failure, ends_task
from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.attempt import Attempt, create_step_task
from signoff.engine.steps.live_stream import LiveStream
from signoff.engine.worker.journal_write import PendingWrite
from signoff.engine.worker.memory_load import RunLoad
from signoff.engine.worker.open_calls import OpenCalls
from signoff.errors import BeyondStep


class RunningSteps:
    """Starts and stops the attempts of one run's steps.

    Args:
        run_id: The run.
        pending: The next write, which also deletes the live text of ended attempts.
        open_calls: The run's open calls.
        load: The run's share of the worker's memory, given back while it waits.
        attempt: Runs an attempt of a step.

    Attributes:
        running: The tasks of the attempts whose ends are not journaled yet, by the numbers of their calls.
    """

    def __init__(
        self,
        run_id: str,
        pending: PendingWrite,
        open_calls: OpenCalls,
        load: RunLoad,
        attempt: Callable[[StepCall, str, int], Coroutine[Any, Any, Attempt]],
    ) -> None:
        self._run_id = run_id
        self._pending = pending
        self._open_calls = open_calls
        self._load = load
        self._run_attempt = attempt
        self._loop = asyncio.get_running_loop()
        self.running: dict[int, asyncio.Task[None]] = {}

    def start(
        self,
        execution: Execution,
        now: float,
        confirm: Callable[[], Awaitable[None] | None],
        ended: Callable[[Attempt], None],
    ) -> None:
        """Start the steps that are ready.

        Args:
            execution: The run in memory.
            now: The time, in Unix seconds.
            confirm: Returns None if the lease surely holds, otherwise what to await until it does.
            ended: Called with each attempt that has ended.
        """
        for call in self._open_calls.to_start:
            n = call.n
            if n not in execution.open:
                continue
            before, _ = execution.past.attempts.get(n, (0, 0.0))
            attempt = self._attempt(call, before + 1, now, confirm, ended)
            self.running[n] = create_step_task(call, attempt, self._loop)
        self._open_calls.to_start.clear()

    def stop(self) -> None:
        """Cancel the steps that the run's code has cancelled."""
        if not self._open_calls.to_stop:
            return
        for n in self._open_calls.to_stop:
            task = self.running.pop(n, None)
            if task is not None:
                task.cancel()
        self._open_calls.to_stop.clear()

    def stop_all(self) -> None:
        """Cancel all steps."""
        tasks, self.running = self.running, {}
        for task in tasks.values():
            task.cancel()

    def fail_blamed(self, execution: Execution, now: float) -> list[Attempt]:
        """Cancel the steps that have ended their worker, and return their attempts as failed.

        Args:
            execution: The run in memory.
            now: The time of the failure, in Unix seconds.
        """
        failed: list[Attempt] = []
        for n, task in list(self.running.items()):
            call = execution.open.get(n)
            blamed: BeyondStep | None = getattr(call, "blamed", None)
            if isinstance(call, StepCall) and blamed is not None:
                del self.running[n]
                task.cancel()
                failed.append(Attempt(call, call.attempt, error=blamed, started_at=now))
        return failed

    async def rerun(self, call: StepCall) -> Attempt:
        """Run a ``durable=False`` step again during replay, since the journal does not hold its value."""
        number = 0
        while True:
            number += 1
            running = self._run_attempt(call, self._run_id, number)
            with self._load:
                attempt = await create_step_task(call, running, self._loop)
            if (live_stream := call.close_live()) is not None:
                await self._end_live(call, live_stream)
            wait = attempt.retry_after
            if wait is None:
                return attempt
            with self._load:
                await asyncio.sleep(wait)

    async def _attempt(
        self,
        call: StepCall,
        number: int,
        started_at: float,
        confirm: Callable[[], Awaitable[None] | None],
        ended: Callable[[Attempt], None],
    ) -> None:
        if (unsure := confirm()) is not None:
            await unsure
        try:
            attempt = await self._run_attempt(call, self._run_id, number)
        except GeneratorExit as error:  # of a task that the step awaited, which closes its awaiter
            if ends_task(error, asyncio.current_task()):
                raise
            attempt = Attempt(call, number, error=as_failure(f"step {call.name!r}", error))
        except asyncio.CancelledError as error:
            if self.running.get(call.n) is not asyncio.current_task():
                if call.close_live() is not None:
                    self._pending.unpublishes.append(call.n)
                raise
            # Not cancelled by the driver, but by code of the step or the app, through the step's task.
            failure = call.refused or RuntimeError(f"step {call.name!r} was cancelled: {error}")
            attempt = Attempt(call, number, error=failure)
        if (live_stream := call.close_live()) is not None:
            try:
                await self._end_live(call, live_stream)
            except asyncio.CancelledError:  # the step has cancelled itself, or the driver has cancelled it
                if self.running.get(call.n) is not asyncio.current_task():
                    raise
                self._pending.unpublishes.append(call.n)
        attempt.started_at = started_at + call.thread_wait
        ended(attempt)

    async def _end_live(self, call: StepCall, live_stream: LiveStream) -> None:
        """Delete the attempt's live text, with the write of its outcome."""
        if await live_stream.was_published():
            self._pending.unpublishes.append(call.n)
