"""Signal handlers that raise: those of steps end the worker like a crash, those that stop the app do not."""

from __future__ import annotations

import asyncio
import functools
import selectors
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from signoff import Context, RunState, Signoff
from signoff.engine.run.fatal_exceptions import is_asked_for, is_stop, signal_of
from signoff.errors import StoreUnavailable
from tests.places import NewStore
from tests.support import opened

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR2"), reason="there are no such signals")


class Own(Exception):
    pass


class Late(BaseException):
    pass


@contextmanager
def handled(number: int, handler: Any) -> Generator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


class Interrupted(selectors.DefaultSelector):
    """Waits for a loop. When the test says so, a signal arrives meanwhile."""

    number: int | None = None

    def select(self, timeout: float | None = None) -> Any:
        number, self.number = self.number, None
        if number is not None:
            signal.raise_signal(number)
        return super().select(timeout)


def run(main: Callable[[Interrupted], Coroutine[Any, Any, None]]) -> None:
    selector = Interrupted()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main(selector))


def new_app(new_store: NewStore, step: Callable[[], Any]) -> Signoff:
    app = Signoff(new_store())

    async def awaited() -> None:
        await step()

    @app.workflow
    async def guilty(ctx: Context) -> None:
        await ctx.step("s", awaited)

    @app.workflow
    async def beside(ctx: Context) -> None:
        await ctx.step("waits", asyncio.sleep, 3600)

    return app


async def end_by(new_store: NewStore, step: Callable[[Interrupted], Any], selector: Interrupted) -> None:
    app = new_app(new_store, lambda: step(selector))
    async with opened(app) as client:
        await client.start("beside", id="beside")
        await client.start("guilty", id="guilty")
        async with app.worker(grace_seconds=0.1):
            await asyncio.Event().wait()


async def runs_of(new_store: NewStore) -> list[tuple[RunState, int]]:
    app = Signoff(new_store())
    async with opened(app):
        runs = [await app.store.get_run(id) for id in ("guilty", "beside")]
    return [(run.state, run.takeovers) for run in runs]


@pytest.mark.parametrize("kind", [Own, Late, SystemExit, TimeoutError])
def test_a_worker_that_ends_by_a_steps_signal_handler_counts_as_lost(
    new_store: NewStore, kind: type[BaseException]
) -> None:
    def handler(number: int, frame: object) -> None:
        raise kind("out of time")

    async def step(selector: Interrupted) -> None:
        signal.signal(signal.SIGUSR2, handler)
        selector.number = signal.SIGUSR2
        await asyncio.sleep(3600)

    with handled(signal.SIGUSR2, signal.SIG_IGN), pytest.raises(kind, match="out of time"):
        run(functools.partial(end_by, new_store, step))
    assert asyncio.run(runs_of(new_store)) == [(RunState.READY, 1), (RunState.READY, 1)]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, Own])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_that_ends_by_the_apps_own_stop_handler_does_not(
    new_store: NewStore, kind: type[BaseException], number: int
) -> None:
    def handler(number: int, frame: object) -> None:
        raise kind("asked to stop")

    async def step(selector: Interrupted) -> None:
        selector.number = number
        await asyncio.sleep(3600)

    with handled(number, handler), pytest.raises(kind, match="asked to stop"):
        run(functools.partial(end_by, new_store, step))
    assert asyncio.run(runs_of(new_store)) == [(RunState.READY, 0), (RunState.READY, 0)]


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_stop_handler_that_interrupts_user_code_ends_the_process(
    new_store: NewStore, kind: type[BaseException]
) -> None:
    def handler(number: int, frame: object) -> None:
        raise kind("asked to stop")

    async def step(selector: Interrupted) -> None:
        signal.raise_signal(signal.SIGTERM)

    with handled(signal.SIGTERM, handler), pytest.raises(kind, match="asked to stop"):
        run(functools.partial(end_by, new_store, step))
    assert asyncio.run(runs_of(new_store)) == [(RunState.READY, 0), (RunState.READY, 0)]


def test_a_stop_handler_cancels_every_task_also_while_a_steps_code_runs(new_store: NewStore) -> None:
    def handler(number: int, frame: object) -> None:
        for task in asyncio.all_tasks(asyncio.get_running_loop()):
            task.cancel()

    async def step(selector: Interrupted) -> None:
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(3600)

    with handled(signal.SIGTERM, handler), pytest.raises(asyncio.CancelledError):
        run(functools.partial(end_by, new_store, step))
    assert asyncio.run(runs_of(new_store)) == [(RunState.READY, 0), (RunState.READY, 0)]


def test_handlers_of_every_form_are_found() -> None:
    class Object:
        def __call__(self, number: int, frame: object) -> None:
            raise Own

        def method(self, number: int, frame: object) -> None:
            raise Own

    def function(more: str, number: int, frame: object) -> None:
        raise Own

    def raised_by(handler: Any) -> tuple[int | None, bool]:
        with handled(signal.SIGUSR2, handler):
            try:
                signal.raise_signal(signal.SIGUSR2)
            except Own as error:
                return signal_of(error), is_asked_for(error)
        raise AssertionError

    for handler in (Object(), Object().method, functools.partial(function, "more")):
        assert raised_by(handler) == (signal.SIGUSR2, False)
    assert signal_of(Own()) is None


def test_errors_of_a_worker_are_blamed_on_its_runs_unless_they_are_its_own() -> None:
    assert is_asked_for(StoreUnavailable("a", "b"))
    assert is_asked_for(asyncio.CancelledError())
    assert is_asked_for(SystemExit())
    assert not is_asked_for(Own())
    assert not is_asked_for(ExceptionGroup("two", [StoreUnavailable("a", "b"), Own()]))
    assert not is_stop(SystemExit())
