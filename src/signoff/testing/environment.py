"""A test environment for workflows: time that skips, scripted people, and crashes at chosen places."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from signoff.app import Signoff
from signoff.client.async_client import AsyncClient, AsyncHandle, Workflow
from signoff.client.promises import AsyncPromises
from signoff.engine.worker import process_identity
from signoff.engine.worker.worker import Worker
from signoff.engine.worker.worker_options import check_options
from signoff.errors import SignoffError
from signoff.records import PromiseState, Run, RunState, WorkerInfo
from signoff.records.origins import of_program
from signoff.service.service import LocalBackend
from signoff.stores.contract.store import Store
from signoff.testing.clock import VirtualClock
from signoff.testing.crashes import CrashPoint, Mortal, MortalStore, Place
from signoff.testing.inline_leases import LoopKeeper
from signoff.testing.memory_store import MemoryStore
from signoff.testing.people import Delay, People, seconds_in
from signoff.workflow.registry import Registry

T = TypeVar("T")

SETTLED_AFTER = 5  # turns of the event loop without activity
PATIENT_AFTER = 100  # turns, after which a step must be doing real I/O
PATIENCE_SECONDS = 0.001


class NothingHappens(SignoffError):
    """A test waits forever: everything is paused, no script answers, and no timer is running."""

    def __init__(self, waiting: Sequence[str], refused: Sequence[str] = ()) -> None:
        what = "; ".join(waiting) or "no run is in progress"
        answers = f" Answers of env.people were refused: {'; '.join(refused)}." if refused else ""
        super().__init__(
            f"nothing will ever happen here: {what}.{answers} Answer it (env.people.answer), or send the "
            "missing signal"
        )


@dataclass
class _Target:
    store: Store
    group: str
    registry: Registry


PUBLIC_URL: Final = "https://signoff.test"
"""The base URL of callbacks, unless the app sets one."""


class _Store(MemoryStore):
    """The environment's store, as the test sees it. Workers have views of it.

    Attributes:
        context: The context variables of the last write.
    """

    def __init__(self, *, clock: VirtualClock) -> None:
        super().__init__(clock=clock)
        self.context = contextvars.copy_context()

    def _do(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.context = contextvars.copy_context()
        return super()._do(operation, *args, **kwargs)


class _Backend(LocalBackend):
    """A backend whose callers skip time while they wait for a run's end."""

    def __init__(self, store: MemoryStore, environment: Environment) -> None:
        super().__init__(store)
        self._environment = environment

    async def wait(self, run_id: str) -> Run:
        return await self._environment.let_pass(run_id, super().wait(run_id))


class Environment:
    """The handle of a test environment, made by ``environment``.

    Attributes:
        client: Starts, watches and answers runs. Waiting for a result skips time.
        clock: The time of the workflows.
        people: Answers questions by a script.
        store: The store, in memory.
        places: The places that workers have reached, in order: possible arguments of ``crash``.
    """

    def __init__(self, app: Signoff, groups: Sequence[str], options: dict[str, Any]) -> None:
        check_options(options)
        self.clock = VirtualClock()
        self.store = _Store(clock=self.clock)
        self.client = AsyncClient(_Target(self.store, app.group, app.registry))
        self.client.backend = _Backend(self.store, self).with_origin(of_program())
        self.client.promises = AsyncPromises(self.client.backend)
        self.people = People(self.client, self.store)
        self.places: list[Place] = []
        self._app = app
        self._public_url = app.public_url
        self._app_store = app.store
        self._options = options
        self._points: list[tuple[CrashPoint, int]] = []
        self._seats = {group: _Seat(self, group) for group in (app.group, *groups)}
        self._pumping = asyncio.Lock()

    # Used by tests

    async def run(self, workflow: Workflow, /, *args: Any, id: str | None = None, **kwargs: Any) -> Any:
        """Start a run and return its result, skipping the time it takes. See ``AsyncClient.start``.

        Args:
            workflow: The workflow or its name.
            args: Its positional arguments, without the context.
            id: A chosen id.
            kwargs: Its keyword arguments.

        Returns:
            The run's result.

        Raises:
            NothingHappens: The run waits for something that cannot happen.
        """
        return await (await self.start(workflow, *args, id=id, **kwargs)).result()

    async def start(
        self, workflow: Workflow, /, *args: Any, id: str | None = None, **kwargs: Any
    ) -> AsyncHandle:
        """Start a run. See ``AsyncClient.start``."""
        return await self.client.start(workflow, *args, id=id, **kwargs)

    async def idle(self) -> None:
        """Wait until everything waits for people, time or signals. Time does not pass.

        Running steps finish, and people whose answers are due give them.
        """
        await self._pump(until=self.clock.now())

    async def sleep(self, duration: Delay) -> None:
        """Let time pass. Everything that becomes due happens, in order.

        Args:
            duration: Seconds, or a ``timedelta``.
        """
        await self._pump(until=self.clock.now() + seconds_in("duration", duration))

    def now(self) -> datetime:
        """Return the environment's time (UTC)."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def crash(self, *, at: CrashPoint) -> None:
        """Kill the worker when it reaches a place. Another one continues there.

        Nothing that the worker does afterwards reaches the store. Running async steps get a ``CancelledError``.

        Args:
            at: The result of ``before_step``, ``after_step``, ``at_pause``, ``before_entry`` or ``after_entry``.

        Example::

            env.crash(at=after_step("charge"))  # the card is charged, but the journal does not say so
        """
        self._points.append((at, at.nth))

    @property
    def pending_crashes(self) -> list[CrashPoint]:
        """The crashes whose place no worker has reached yet."""
        return [point for point, _ in self._points]

    # Used by its parts

    def reaches(self, place: Place) -> bool:
        """Record a place. Returns whether the worker dies there."""
        self.places.append(place)
        for index, (point, left) in enumerate(self._points):
            if point.matches(place):
                if left == 1:
                    del self._points[index]
                    return True
                self._points[index] = (point, left - 1)
        return False

    def context(self) -> contextvars.Context:
        """Return the test's current context variables, with which runs begin."""
        return self.store.context.copy()

    async def let_pass(self, run_id: str, awaited: Awaitable[T]) -> T:
        """Wait for an event that follows a run's end, skipping time until then."""
        waiting = asyncio.ensure_future(awaited)
        pumping = asyncio.ensure_future(self._pump(until=math.inf, run_id=run_id))
        try:
            await asyncio.wait({waiting, pumping}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                pumping.result()  # raises its error
            return await waiting
        finally:
            for task in (waiting, pumping):
                task.cancel()
            await asyncio.gather(waiting, pumping, return_exceptions=True)

    # Time

    async def _pump(self, *, until: float, run_id: str | None = None) -> None:
        """Let time pass until a moment, or until a run has ended."""
        self.store.context = contextvars.copy_context()
        async with self._pumping:
            while True:
                await self._settle()
                if self._has_ended(run_id):
                    return
                next_at = self._next_at()
                if next_at < math.inf or until < math.inf:  # schedules alone do not keep a run from ending
                    next_at = min(next_at, self._next_schedule())
                if next_at > until or (next_at == math.inf and until < math.inf):
                    self.clock.set(max(until, self.clock.now()))
                    await self._settle()
                    return
                if next_at == math.inf:
                    refused = [
                        f"{each.by} to {each.question!r}: {each.error}"
                        for each in self.people.answers
                        if each.error
                    ]
                    raise NothingHappens(self._waiting(), refused[-3:])
                self.clock.set(max(next_at, self.clock.now()))

    async def _settle(self) -> None:
        """Wait until nothing happens any more without time passing."""
        turns = quiet = 0
        while quiet < SETTLED_AFTER:
            self.people.see(list(self.store.model.tables.promises.values()))
            if await self.people.act(self.clock.now()) or not self._is_quiet():
                quiet = 0
            else:
                quiet += 1
            turns += 1
            await asyncio.sleep(0 if turns < PATIENT_AFTER else PATIENCE_SECONDS)

    def _is_quiet(self) -> bool:
        if any(seat.next_at <= self.clock.now() for seat in self._seats.values()):
            return False
        next_deadline = self._next_deadline()
        if next_deadline is not None and next_deadline <= self.clock.now():
            return False
        if self._next_schedule() <= self.clock.now():
            return False
        tables = self.store.model.tables
        known = set(self._app.registry.names())
        for key, run in tables.runs.items():
            if run.group not in self._seats or run.workflow not in known:
                continue
            if run.state is RunState.READY and self.store.model.groups.may_lease(run):
                return False
            if run.state is RunState.RUNNING and tables.messages[key]:
                return False
            if run.state is RunState.RUNNING and not self._seats[run.group].holds(run.id):
                return False
        return True

    def _has_ended(self, run_id: str | None) -> bool:
        run = self.store.model.tables.runs.get((self.store.namespace, run_id or ""))
        return run is not None and run.state.is_final

    def _next_at(self) -> float:
        times = [seat.next_at for seat in self._seats.values()]
        others = (self._next_deadline(), self.people.next_at)
        return min([*times, *(time for time in others if time is not None)])

    def _next_deadline(self) -> float | None:
        _, act_at = self.store.model.promises.due_questions(0)
        times = (self.store.model.timers.next_deadline(), act_at)
        return min((time for time in times if time is not None), default=None)

    def _next_schedule(self) -> float:
        """Return when a schedule fires next. Each of its times is visited, so that none is missed."""
        schedules = self.store.model.tables.schedules.values()
        return min((each.next_at for each in schedules if not each.is_paused), default=math.inf)

    def _waiting(self) -> list[str]:
        tables = self.store.model.tables
        open_ = [promise for promise in tables.promises.values() if promise.state is PromiseState.PENDING]
        promises = [f"run {promise.run_id!r} waits for {promise.kind} {promise.id!r}" for promise in open_]
        listed = {promise.run_id for promise in open_}
        rest = [run for run in tables.runs.values() if not run.state.is_final and run.id not in listed]
        return [*promises, *(f"run {run.id!r} is {run.state}" for run in rest)]

    # Workers

    async def begin(self) -> None:
        """Start the workers."""
        self._app.registry.public_url = self._public_url or PUBLIC_URL
        self._app.store = self.store  # in which the turns of conversations read earlier messages
        self._app.client_in_tests = self.client  # with which flows start their executions
        for seat in self._seats.values():
            seat.begin(self._app, self._options)

    async def end(self) -> None:
        """Stop the workers and the client."""
        await self.client.close()
        for seat in self._seats.values():
            await seat.end()
        self._app.registry.public_url = self._public_url
        self._app.store = self._app_store
        self._app.client_in_tests = None


class _Seat:
    """The place of one worker, and of its successors after crashes."""

    def __init__(self, environment: Environment, group: str) -> None:
        self._environment = environment
        self._group = group
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._buried: list[asyncio.Task[None]] = []
        self._dead: set[str] = set()
        self._again: Callable[[], None] = lambda: None

    @property
    def next_at(self) -> float:
        """When its worker has work to do on its own; 0 for now."""
        if self._worker is None:
            return 0.0
        if self._task is not None and self._task.done():
            self._task.result()  # raises the error it ended with
        return self._worker.next_at

    def holds(self, run_id: str) -> bool:
        """Return whether its worker holds a run."""
        return self._worker is not None and run_id in self._worker.held

    def begin(self, app: Signoff, options: dict[str, Any]) -> None:
        """Start a worker."""
        self._again = lambda: self.begin(app, options)
        mortal = Mortal(self._environment.reaches, self._die)
        info = process_identity.new_worker(self._group, self._environment.store.namespace)
        self._worker = Worker(
            MortalStore.view(self._environment.store, mortal),
            app.registry,
            group=self._group,
            info=info,
            is_dead=self._is_dead,
            keeper=LoopKeeper,
            attempt=mortal.attempt,
            context=self._environment.context,
            **options,
        )
        self._task = asyncio.create_task(self._worker.run(), name="signoff worker")
        self._task.add_done_callback(self._ended)

    async def end(self) -> None:
        """Stop its worker."""
        self._again = lambda: None
        if self._task is not None:
            self._task.cancel()
            self._buried.append(self._task)
        await asyncio.gather(*self._buried, return_exceptions=True)

    def _is_dead(self, worker: WorkerInfo) -> bool:
        return worker.id in self._dead

    def _die(self) -> None:
        assert self._worker is not None
        assert self._task is not None
        self._dead.add(self._worker.info.id)
        self._buried.append(self._task)
        self._worker = None
        self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._worker is None:
            self._again()


@asynccontextmanager
async def environment(
    app: Signoff, *, groups: Sequence[str] = (), **options: Any
) -> AsyncGenerator[Environment]:
    """Run an app's workflows in memory, with workers and a virtual time of their own.

    The app's store is not used. Time stands still, except while the test waits for a result or calls ``sleep``: it then
    skips from one due event to the next, so that weeks pass at once.

    Args:
        app: The app with the workflows.
        groups: Further groups that get a worker, for child runs in other groups.
        options: Options of ``signoff.engine.worker.worker.Worker``.

    Example::

        async def test_a_refund_waits_for_a_person():
            async with environment(app) as env:
                env.people.answer("Refund*", approved=True, after=timedelta(days=2))
                env.crash(at=after_step("charge"))
                assert await env.run(refund_flow, "o-1", 7000) == "refunded"
    """
    made = Environment(app, groups, options)
    await made.begin()
    try:
        yield made
    finally:
        await made.end()


async def crash_everywhere(
    app: Signoff, scenario: Callable[[Environment], Awaitable[Any]], **options: Any
) -> int:
    """Run a scenario without a crash, and once for each place where its worker can die. The results must be equal.

    Args:
        app: The app with the workflows.
        scenario: Receives an environment and returns the values to compare: a result, and the effects outside. It
            creates its own outside world each time.
        options: Options of ``environment``.

    Returns:
        The number of places at which it crashed.

    Raises:
        AssertionError: A result differs. The error names the crash.

    Example::

        async def scenario(env):
            bank = Bank()  # counts charges by idempotency key
            result = await env.run(checkout, "o-1")
            return result, bank.charges

        await crash_everywhere(app, scenario)
    """
    async with environment(app, **options) as env:
        expected = await scenario(env)
        places = list(env.places)
    for number, place in enumerate(places, 1):
        async with environment(app, **options) as env:
            env.crash(at=CrashPoint(lambda _: True, number, "anywhere"))
            try:
                found = await scenario(env)
            except Exception as error:
                error.add_note(f"after a crash at place {number} of {len(places)}: {place}")
                raise
            crashed_at = env.places[number - 1] if len(env.places) >= number else place
            assert found == expected, (
                f"after a crash at place {number} of {len(places)}, {crashed_at}, it came to {found!r}, "
                f"and without a crash to {expected!r}"
            )
    return len(places)
