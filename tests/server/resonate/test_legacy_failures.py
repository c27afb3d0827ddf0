"""Programs with resonate-sdk 0.6.7 whose processes and server die: each effect is counted."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from signoff import Signoff
from signoff.errors import NotFound
from signoff.records import PromiseKind, PromiseState, Settlement
from tests.cli.commands import Running, until
from tests.server.resonate.legacy_servers import legacy_server, ports_of, program

PROGRAM = Path(__file__).with_name("legacy_program.py")

pytestmark = pytest.mark.long

Start = Callable[..., subprocess.Popen[str]]


@contextmanager
def programs(server: Running, folder: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def start(*arguments: str) -> subprocess.Popen[str]:
            process = stack.enter_context(program(server, PROGRAM, *arguments, cwd=folder))
            stack.callback(process.kill)  # before its pipes are closed
            return process

        yield start


def marks(folder: Path) -> Counter[str]:
    file = folder / "marks"
    return Counter(file.read_text().split() if file.exists() else [])


async def until_promise(app: Signoff, id: str) -> None:
    async with asyncio.timeout(60):
        while True:
            with suppress(NotFound):
                await app.store.get_promise(id)
                return
            await asyncio.sleep(0.05)


def result_of(caller: subprocess.Popen[str]) -> str:
    said = caller.communicate(timeout=90)[0]  # with the SDK's log
    return said.rpartition("result=")[2].split()[0]


def test_killed_workers_steps_are_not_repeated_but_the_one_it_was_in(store: str, tmp_path: Path) -> None:
    with legacy_server(tmp_path, store) as server, programs(server, tmp_path) as start:
        worker = start("w1", "work")
        caller = start("c1", "call", "workflow", "run")
        until(lambda: marks(tmp_path)["slow"])
        worker.send_signal(signal.SIGKILL)
        (tmp_path / "go").touch()
        start("w2", "work")
        assert result_of(caller) == "6"
    assert marks(tmp_path) == {"begin": 1, "slow": 2, "end": 1}


def test_killed_server_loses_nothing(store: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(legacy_server(tmp_path, store))
        start = stack.enter_context(programs(first, tmp_path))
        start("w1", "work")
        caller = start("c1", "call", "workflow", "run")
        until(lambda: marks(tmp_path)["slow"])
        ports = ports_of(first)
        first.signal(signal.SIGKILL)
        first.ends()
        (tmp_path / "go").touch()
        stack.enter_context(legacy_server(tmp_path, store, ports))
        assert result_of(caller) == "6"
    assert marks(tmp_path) == {"begin": 1, "slow": 1, "end": 1}


def test_repeated_invocation_runs_once_on_one_of_two_workers(store: str, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with legacy_server(tmp_path, store) as server, programs(server, tmp_path) as start:
        for worker in ("w1", "w2"):
            start(worker, "work")
        callers = [start(f"c{number}", "call", "workflow", "run") for number in range(3)]
        assert [result_of(caller) for caller in callers] == ["6"] * 3
    assert marks(tmp_path) == {"begin": 1, "slow": 1, "end": 1}


def test_promise_settled_through_signoff_resumes_a_function_on_another_worker(
    store: str, tmp_path: Path
) -> None:
    async def kill_and_settle(worker: subprocess.Popen[str], start: Start) -> None:
        app = Signoff(store)
        await app.store.open()
        await until_promise(app, "run.answer")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        start("w2", "work")
        settlement = Settlement(PromiseState.RESOLVED, "7")
        await app.store.settle("run.answer", PromiseKind.PROMISE, settlement)
        await app.store.close()

    with legacy_server(tmp_path, store) as server, programs(server, tmp_path) as start:
        worker = start("w1", "work")
        caller = start("c1", "call", "waits", "run")
        asyncio.run(kill_and_settle(worker, start))
        assert result_of(caller) == "7"
    assert marks(tmp_path)["answered"] == 1
