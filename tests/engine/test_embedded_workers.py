"""Workers and clients in real environments: threads, signal handlers, processes that end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from signoff import AsyncClient, Client, Context, Signoff
from signoff.records import EntryKind
from signoff.stores.sqlite.store import SqliteStore
from tests.support import in_asyncio

WAITS_SECONDS = 60.0


def new_app(folder: Path) -> Signoff:
    app = Signoff(SqliteStore(folder / "signoff.db"))

    @app.workflow
    async def flow(ctx: Context) -> int:
        return await ctx.step("one", lambda: 1)

    return app


def test_a_signal_handler_may_start_a_run_at_any_line_of_a_call(tmp_path: Path) -> None:
    """It interrupts the calling thread, which may hold the client's locks. A trace function does so at each line."""
    app = new_app(tmp_path)
    interrupted: list[str] = []

    def handler(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename.endswith(("signoff/background.py", "threading.py", "futures/_base.py")):
            if event == "line":
                interrupted.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
                app.start("flow", id=f"by-handler-{len(interrupted)}")
            return handler
        return handler if event == "call" else None

    def call() -> None:
        sys.settrace(handler)
        try:
            app.start("flow", id="interrupted")
        finally:
            sys.settrace(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(WAITS_SECONDS)
    assert not thread.is_alive(), f"it hangs after {interrupted[-1]}"
    assert len(interrupted) > 5
    with Client(app) as client:
        runs = {run.id for run in client.list(limit=1000).items}
    assert {"interrupted", f"by-handler-{len(interrupted)}"} <= runs
    app.close()


def test_a_worker_may_be_entered_again_after_it_was_left(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    worker = app.worker()
    for _ in range(2):
        with worker:
            assert app.start("flow").result() == 1

    async def on_a_loop() -> None:
        async with worker, AsyncClient(app) as client:
            assert await (await client.start("flow")).result() == 1

    asyncio.run(on_a_loop())
    asyncio.run(on_a_loop())
    app.close()


@in_asyncio
async def test_a_worker_is_not_entered_twice_at_once(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    worker = app.worker()
    async with worker:
        with pytest.raises(RuntimeError, match=r"entered already; app\.worker\(\) creates another"):
            await worker.__aenter__()
        with pytest.raises(RuntimeError, match="entered already"):
            worker.__enter__()
        async with AsyncClient(app) as client:
            assert await (await client.start("flow")).result() == 1
    await app.store.close()


def test_a_worker_on_another_threads_loop_stops_when_the_main_thread_ends(tmp_path: Path) -> None:
    """Python gives plain steps no threads from then on: each attempt failed, and after eight of them the run."""
    (tmp_path / "program.py").write_text(
        """
import asyncio, threading
from pathlib import Path
from signoff import AsyncClient, Client, Context, Signoff

app = Signoff("sqlite:///signoff.db")
begun = threading.Event()

@app.workflow
async def flow(ctx: Context) -> None:
    await ctx.step("begun", begun.set)
    await ctx.wait_for_signal("go")
    await ctx.step("late", int)

async def serve() -> None:
    async with app.worker():
        async with AsyncClient(app) as client:
            run = await client.start(flow, id="r")
            while threading.main_thread().is_alive():
                await asyncio.sleep(0.01)
            await run.signal("go")
            await asyncio.sleep(0.5)  # a worker would begin the step within milliseconds

threading.Thread(target=lambda: asyncio.run(serve())).start()
begun.wait()
"""
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "the main thread has ended, so the worker of group default stops" in done.stderr
    assert "failed in attempt" not in done.stderr
    app = Signoff(SqliteStore(tmp_path / "signoff.db"))
    names = [entry.name for entry in app.get("r").journal() if entry.kind is EntryKind.COMPLETED]
    assert names == ["begun"]
    app.close()


def test_a_worker_that_begins_after_the_main_thread_says_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        """
import asyncio, threading
from signoff import Signoff

app = Signoff("sqlite:///signoff.db")

async def serve() -> None:
    async with app.worker():
        pass

def late() -> None:
    threading.main_thread().join()
    for enter in (lambda: asyncio.run(serve()), lambda: app.worker().__enter__()):
        try:
            enter()
        except RuntimeError as error:
            print(error)

threading.Thread(target=late).start()
"""
    )
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.count("a worker cannot start after the main thread has ended") == 2
