"""Forbidden actions of workflow code are refused or detected, and named with their line."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RunState, Signoff
from signoff.engine.run import blocking_guard
from signoff.errors import BusyLoop, NotInStep, WaitsForNothing
from signoff.records import EntryKind
from tests import forks
from tests.engine.stubborn import LAYOUTS
from tests.halves import sample
from tests.support import fails, in_asyncio, journal, journaled, new_app, rebuilt, running, until

Code = Callable[[Context], Awaitable[Any]]


async def _open_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def _to_thread() -> None:
    await asyncio.to_thread(print)


async def _run_in_executor() -> None:
    await asyncio.get_running_loop().run_in_executor(None, print)


async def _subprocess_exec() -> None:
    await asyncio.create_subprocess_exec(sys.executable, "-V")


async def _subprocess_run() -> None:
    subprocess.run([sys.executable, "-V"], check=True)


async def _os_system() -> None:
    os.system("true")


async def _http_client() -> None:
    http.client.HTTPConnection("127.0.0.1", 9).request("GET", "/")


async def _urllib() -> None:
    urllib.request.urlopen("http://127.0.0.1:9/")  # noqa: ASYNC210


async def _getaddrinfo() -> None:
    socket.getaddrinfo("localhost", 80)


async def _start_thread() -> None:
    threading.Thread(target=print).start()


async def _time_sleep() -> None:
    time.sleep(0.001)


async def _sqlite() -> None:
    sqlite3.connect(":memory:").close()


async def _bind() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))


async def _sendto() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as free:
        free.sendto(b"", ("127.0.0.1", 9))


async def _gethostbyname() -> None:
    socket.gethostbyname("localhost")


async def _posix_spawn() -> None:
    os.posix_spawn(sys.executable, [sys.executable, "-V"], {})


async def _fork() -> None:
    os.fork() or os._exit(0)  # a child, should there be one, runs no tests


IO = [
    *(_open_connection, _to_thread, _run_in_executor, _subprocess_exec, _subprocess_run, _os_system),
    *(_http_client, _urllib, _getaddrinfo, _sqlite, _bind, _sendto, _gethostbyname, _posix_spawn, _fork),
    # Before these versions the interpreter raises no audit event for them.
    pytest.param(
        _start_thread, marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="no audit event")
    ),
    pytest.param(_time_sleep, marks=pytest.mark.skipif(sys.version_info < (3, 13), reason="no audit event")),
]


@pytest.mark.parametrize("io", IO, ids=lambda io: io.__name__.strip("_"))
@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed"])
@in_asyncio
async def test_io_outside_a_step_is_refused_by_line_even_if_swallowed(
    tmp_path: Path, io: Callable[[], Awaitable[None]], swallowed: bool
) -> None:
    app = new_app(tmp_path)
    after: list[int] = []

    @app.workflow
    async def flow(ctx: Context) -> None:
        try:
            await io()
        except Exception:
            if not swallowed:
                raise
        await ctx.step("after", lambda: after.append(1))

    async with running(app) as client:
        run = await client.start(flow, id="r")
        assert (await fails(app, "r")).retryable
        with pytest.raises(NotInStep) as caught:
            await run.result(60)
        lines, begin = inspect.getsourcelines(io)
        line = begin + len(lines) - 1
        assert caught.value.where == f"{__file__}:{line} in {io.__name__}"
        assert "ctx.step" in str(caught.value)
        assert after == []


@in_asyncio
async def test_the_same_io_is_free_in_a_step(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> list[Any]:
        return [
            await ctx.step(_to_thread),
            await ctx.step("sleep", time.sleep, 0.001),
            await ctx.step("sqlite", _sqlite),
            await ctx.step("thread", lambda: threading.Thread(target=str).start()),
        ]

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == [None] * 4


async def _yields_for_ever(ctx: Context) -> None:
    while True:
        await asyncio.sleep(0)


async def _never_yields(ctx: Context) -> None:
    while True:
        pass


@pytest.mark.parametrize(("busy", "busy_seconds"), [(_yields_for_ever, 20.0), (_never_yields, 3.0)])
@in_asyncio
async def test_endless_code_is_stopped_and_named_and_the_worker_survives(
    tmp_path: Path, busy: Code, busy_seconds: float
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("first", lambda: None)
        await busy(ctx)

    @app.workflow
    async def fine(ctx: Context) -> str:
        return await ctx.step("fine", lambda: "fine")

    async with running(app, busy_seconds=busy_seconds, beat_seconds=0.1) as client:
        run = await client.start(flow, id="r")
        assert (await fails(app, "r")).retryable
        with pytest.raises(BusyLoop) as caught:
            await run.result(60)
        begin = inspect.getsourcelines(busy)[1]
        assert caught.value.where in [f"{__file__}:{begin + n} in {busy.__name__}" for n in (1, 2)]
        assert await (await client.start(fine)).result(60) == "fine"
        assert [entry.name for entry in await journaled(app, "r", EntryKind.COMPLETED)] == ["first"]


def _in_process(folder: Path, *program: str) -> None:
    """Run a program of tests/engine/stubborn.py to its end, or kill it."""
    root = str(Path(__file__).parents[2])
    done = forks.run(["tests.engine.stubborn", *program], cwd=folder, env={**os.environ, "PYTHONPATH": root})
    assert done.returncode == 0, done.stderr


# C code swallows the exceptions of these. There Python 3.11 interrupts by chance alone (docs/workflows.md).
_FOR_C = {"frees_again_and_again", "catches_for_weak_references"}


@pytest.mark.every_version
@pytest.mark.parametrize("lines", ["drive", "drive_on_one_line"])
@pytest.mark.parametrize(
    "layout", sample(LAYOUTS if sys.version_info >= (3, 12) else sorted({*LAYOUTS} - _FOR_C), every=6)
)
def test_code_that_catches_its_interruption_is_left_in_whatever_layout(
    tmp_path: Path, layout: str, lines: str
) -> None:
    _in_process(tmp_path, lines, layout)


@pytest.mark.every_version
@pytest.mark.parametrize(
    "layout",
    sample(
        (
            *("catches_all", "suppresses_all", "goes_on_in_finally", "catches_at_each_level"),
            *("catches_in_an_iterator", "logs_its_errors"),
            # Its branches free objects again and again, see _FOR_C.
            *(("never_frees",) if sys.version_info >= (3, 12) else ()),
        )
    ),
)
def test_code_that_catches_its_interruption_and_goes_on_is_stopped_as_well(
    tmp_path: Path, layout: str
) -> None:
    _in_process(tmp_path, "work", layout, str(tmp_path))


@pytest.mark.parametrize(
    "program", ["several", "nested", "without_tools", "beside_tools", "leaves_at_once", "forks_meanwhile"]
)
def test_code_that_catches_its_interruption_is_abandoned(tmp_path: Path, program: str) -> None:
    _in_process(tmp_path, program)


def test_a_child_forked_during_an_interruption_has_its_parents_interval(tmp_path: Path) -> None:
    _in_process(tmp_path, "forks_within_an_interruption")


Look = Callable[[float], None]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """``interrupt_busy`` for one test alone: workers that other tests left in the process would look by its clock."""
    looks = blocking_guard.interrupt_busy
    monkeypatch.setattr(blocking_guard, "interrupt_busy", lambda _: None)
    return looks


class _Watched:
    def __init__(self) -> None:
        self.made = 0
        self.busy: list[float] = []

    def refuse_io(self, what: str) -> None:
        raise AssertionError(what)

    def declare_busy(self, seconds: float, where: str) -> None:
        self.busy.append(seconds)


def test_code_starved_of_cpu_is_warned_of_and_stopped_only_at_the_end(
    look: Look, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watched, begun, goes_on, clock = _Watched(), threading.Event(), threading.Event(), [1000.0]

    def compute_nothing() -> None:
        begun.set()
        goes_on.wait()

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    thread = threading.Thread(target=blocking_guard.drive, args=(watched, compute_nothing))
    thread.start()
    begun.wait()
    for clock[0] in (1000.0, 1004.0, 1006.0, *range(1010, 1030, 4), 1029.0):
        look(5.0)
    assert watched.busy == []
    [warned] = caplog.messages
    assert "has blocked its worker for 6.0 s, of which it computed for 0.0 s" in warned
    clock[0] = 1031.0
    look(5.0)
    goes_on.set()
    thread.join()
    assert watched.busy == [31.0]


class _Stops(threading.Event):
    """Never set. Each wait takes as long as it was asked to, and is followed by a stop of the process."""

    def __init__(self, clock: list[float], stop_seconds: float) -> None:
        super().__init__()
        self._clock = clock
        self._stop_seconds = stop_seconds

    def wait(self, timeout: float | None = None) -> bool:
        self._clock[0] += (timeout or 0.0) + self._stop_seconds
        return False


@pytest.mark.parametrize(
    ("times", "stop", "computed", "is_busy"),
    [
        *((1, 35.0, 0.0, False), (1, 35.0, 35.0, True)),  # the second is in C, which holds the interpreter
        *((30, 4.0, 4.8, False), (30, 4.0, 5.2, True)),
        *((310, 0.9, 0.0, True), (290, 0.9, 0.0, False)),  # code that blocks has an end all the same
        *((1000, 0.0, 4.9, True), (950, 0.0, 4.9, False)),  # a processor's twentieth, as containers get
    ],
)
def test_time_in_which_the_process_is_stopped_is_not_computing(
    look: Look, monkeypatch: pytest.MonkeyPatch, times: int, stop: float, computed: float, is_busy: bool
) -> None:
    watched, begun, goes_on, clock, used = _Watched(), threading.Event(), threading.Event(), [1000.0], [0.0]

    def compute() -> None:
        begun.set()
        goes_on.wait()

    monkeypatch.setattr(blocking_guard, "_watch", blocking_guard._Watch())  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(blocking_guard, "_processor_time", lambda thread: used[0])
    thread = threading.Thread(target=blocking_guard.drive, args=(watched, compute))
    thread.start()
    begun.wait()
    look(5.0)
    stops = _Stops(clock, stop)
    for _ in range(times):
        blocking_guard.wait(stops, 0.1)
        used[0] += computed / times
        look(5.0)
        if watched.busy:
            break  # it is interrupted each time from now on, which takes a second
    goes_on.set()
    thread.join()
    assert bool(watched.busy) is is_busy


def test_a_thread_that_is_gone_is_not_asked_what_it_has_computed(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pthread_getcpuclockid`` may end the process for such a thread."""

    def refuse(thread: int) -> float:
        raise AssertionError(thread)

    monkeypatch.setattr(blocking_guard, "_processor_time", refuse)
    watched, numbers = _Watched(), list[int]()
    thread = threading.Thread(target=lambda: numbers.append(threading.get_ident()))
    thread.start()
    thread.join()
    drives = blocking_guard._drives  # pyright: ignore[reportPrivateUsage]
    drives[numbers[0]] = blocking_guard._Drive(watched, numbers[0], 0.0)  # pyright: ignore[reportPrivateUsage]
    look(5.0)
    assert numbers[0] not in drives


@pytest.mark.parametrize(
    ("made", "computed", "is_busy"),
    [
        *((0, 4.9, False), (0, 5.1, True)),
        *((110_000, 15.0, False), (110_000, 16.5, True)),
        *((10**9, 29.0, False), (10**9, 30.5, True)),
    ],
)
def test_code_with_many_calls_at_once_gets_time_for_each_up_to_a_limit(
    look: Look, monkeypatch: pytest.MonkeyPatch, made: int, computed: float, is_busy: bool
) -> None:
    watched, begun, goes_on, times = _Watched(), threading.Event(), threading.Event(), [0.0]

    def make() -> None:
        begun.set()
        goes_on.wait()

    monkeypatch.setattr(blocking_guard, "_processor_time", lambda thread: times[0])
    thread = threading.Thread(target=blocking_guard.drive, args=(watched, make))
    thread.start()
    begun.wait()
    look(5.0)
    watched.made, times[0] = made, computed
    look(5.0)
    goes_on.set()
    thread.join()
    assert bool(watched.busy) is is_busy


@pytest.mark.parametrize(("seconds", "is_busy"), [(2.0, False), (6.0, True)])
@in_asyncio
async def test_a_replay_may_take_long_but_each_stretch_of_code_has_the_limit(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, is_busy: bool
) -> None:
    app, clock, stretches = new_app(tmp_path), [1000.0], [0.0] * 10

    @app.workflow
    async def flow(ctx: Context) -> None:
        for stretch in range(10):
            await ctx.step("next", int)
            if stretches[stretch]:
                _compute(look, clock, stretches[stretch])
        await ctx.wait_for_signal("go on")

    async with running(app) as client:
        await client.start(flow, id="r")
        await until(app, lambda: _is_paused(app))
        run, entries = await app.store.get_run("r"), await journal(app, "r")
    stretches[:] = [2.0] * 10
    stretches[4] = seconds
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(blocking_guard, "_processor_time", lambda thread: clock[0])
    async with rebuilt(app, run, entries) as execution:
        assert isinstance(execution.failure, BusyLoop) is is_busy


async def _is_paused(app: Signoff) -> bool:
    return (await app.store.get_run("r")).state is RunState.PAUSED


def _compute(look: Look, clock: list[float], seconds: float) -> None:
    """Compute for some seconds, while the process is looked at twice."""
    look(5.0)
    clock[0] += seconds
    look(5.0)


@in_asyncio
async def test_code_that_waits_for_what_nothing_will_bring_is_named(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    async def stuck() -> None:
        await asyncio.Event().wait()

    @app.workflow
    async def flow(ctx: Context) -> None:
        await ctx.step("first", lambda: None)
        await stuck()

    async with running(app) as client:
        run = await client.start(flow, id="r")
        assert (await fails(app, "r")).retryable
        with pytest.raises(WaitsForNothing) as caught:
            await run.result(60)
        assert caught.value.where == f"{__file__}:{inspect.getsourcelines(stuck)[1] + 1} in stuck"
