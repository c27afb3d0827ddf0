"""The durable promise protocol: single requests, and programs on the newest Python SDK of Resonate."""

from __future__ import annotations

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.http_load import rate, request
from benchmarks.processes import command, facts_of
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import BATCHES, COMMIT, Yardstick
from tests.resonate_sdks import python_of_2026

CLIENTS = 32
TURNS = 5
PROGRAM = Path(__file__).parents[1] / "resonate_program.py"

STEPS = 10
TARGET = 355
"""Five times 71 steps per second, the best of an earlier measurement, 51 to 71."""


async def requests(place: Place) -> Figures:
    """Requests per second at 32 clients, by turns with ``GET /health`` of the same port."""
    count = place.sizes.promises
    figures: Figures = {}
    async with _server(place) as (url, server):
        health = [request(url, "GET", "/health")] * count
        await rate(url, CLIENTS, health)
        with place.measured():
            for turn in range(TURNS):
                sent = {
                    "health": health,
                    "create": [_create(url, f"{turn}-{number}") for number in range(count)],
                    "settle": [_settle(url, f"{turn}-{number}") for number in range(count)],
                }
                for name, each in sent.items():
                    used = _cpu_seconds(server)
                    figures.setdefault(name, []).append(await rate(url, CLIENTS, each))
                    cpu = 1_000 * (_cpu_seconds(server) - used) / count
                    figures.setdefault(f"{name} cpu", []).append(cpu)
                for name in ("create", "settle"):
                    share = figures[name][-1] / figures["health"][-1]
                    figures.setdefault(f"{name} share", []).append(share)
    return figures


def steps(processes: int) -> Callable[[Place], Coroutine[Any, Any, Figures]]:
    """Return the measurement of 100 invocations of 10 remote steps, by this number of processes."""

    async def measure(place: Place) -> Figures:
        count = place.sizes.invocations * STEPS
        async with _server(place) as (url, server):
            used = _cpu_seconds(server)
            with place.measured():
                seconds, sdk = await _run(place, url, processes)
            used = _cpu_seconds(server) - used
        figures = {
            "steps": [count / seconds],
            "sdk cpu": [1_000 * sdk / count],
            "server cpu": [1_000 * used / count],
        }
        if processes == 1:
            seconds, sdk = await _run(place, "-", 1)
            figures |= {"local": [count / seconds], "local cpu": [1_000 * sdk / count]}
        return figures

    return measure


async def _run(place: Place, url: str, processes: int) -> tuple[float, float]:
    """Return the seconds until all invocations have ended, and the CPU seconds of the SDK's processes."""
    python = await asyncio.to_thread(python_of_2026)
    each = place.sizes.invocations // processes
    programs = [
        await asyncio.create_subprocess_exec(
            python,
            PROGRAM,
            url,
            f"program-{number}",
            str(each),
            str(STEPS),
            stdin=PIPE,
            stdout=PIPE,
            env=_ENV,
        )
        for number in range(processes)
    ]
    try:
        for program in programs:
            await _line_of(program)
        for program in programs:
            assert program.stdin is not None
            program.stdin.write(b"\n")
        measured = [json.loads(await _line_of(program)) for program in programs]
        return max(each["seconds"] for each in measured), sum(each["cpu_seconds"] for each in measured)
    finally:
        await asyncio.gather(*(program.communicate(b"") for program in programs))  # closes their input


async def _line_of(program: Process) -> bytes:
    assert program.stdout is not None
    line = await program.stdout.readline()
    if not line:
        raise RuntimeError("the program on the SDK ended")
    return line


@asynccontextmanager
async def _server(place: Place) -> AsyncGenerator[tuple[str, psutil.Process]]:
    """Run a server. Yields the protocol's URL, and the process."""
    store = place.new_store()
    arguments = ("server", "--store", store, "--port", "0", "--resonate", "--resonate-port", "0", "--json")
    async with command(place, *arguments) as server:
        yield (await facts_of(server))["resonate_url"], psutil.Process(server.pid)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _create(url: str, id: str) -> bytes:
    return _post(
        url, "promise.create", {"id": id, "timeoutAt": 2**53 - 1, "param": {"data": "NDI="}, "tags": {}}
    )


def _settle(url: str, id: str) -> bytes:
    return _post(url, "promise.settle", {"id": id, "state": "resolved", "value": {"data": "NDI="}})


def _post(url: str, kind: str, data: dict[str, Any]) -> bytes:
    head = {"corrId": "bench", "version": "2026-04-01"}
    return request(url, "POST", "/", json.dumps({"kind": kind, "head": head, "data": data}).encode())


_ENV = {name: value for name, value in os.environ.items() if not name.startswith("RESONATE_")}


def rows(commit: Yardstick, batches: Yardstick) -> tuple[Row, ...]:
    """The rows, with raw commits of the database as their yardsticks."""
    beside = {"has_ratio": False}
    return (
        Row(
            "promises",
            requests,
            commit,
            (
                Line("health", f"GET /health of the protocol's port, {CLIENTS} clients", "/s", **beside),
                Line("create", "... promise.create", "/s", **beside),
                Line("create share", "... ... to GET /health, by turns", "x", target=0.5, **beside),
                Line("settle", "... promise.settle", "/s", **beside),
                Line("settle share", "... ... to GET /health, by turns", "x", target=0.5, **beside),
                *(
                    Line(f"{name} cpu", f"... {what}: the server's CPU", "ms", less_is_better=True, **beside)
                    for name, what in (
                        ("health", "GET /health"),
                        ("create", "promise.create"),
                        ("settle", "promise.settle"),
                    )
                ),
            ),
            lambda sizes: 3 * TURNS * sizes.promises,
        ),
        Row(
            "remote-steps",
            steps(1),
            batches,
            (
                Line(
                    "steps", "100 invocations of 10 remote steps, one SDK process", "steps/s", target=TARGET
                ),
                Line("sdk cpu", "... the SDK's CPU per step", "ms", less_is_better=True, **beside),
                Line("server cpu", "... the server's CPU per step", "ms", less_is_better=True, **beside),
                Line("local", "... the SDK's own local server, in its process", "steps/s", **beside),
                Line("local cpu", "... ... CPU per step", "ms", less_is_better=True, **beside),
            ),
            lambda sizes: sizes.invocations * STEPS,
        ),
        Row(
            "remote-steps-2",
            steps(2),
            batches,
            (
                Line("steps", "... two SDK processes", "steps/s", target=TARGET),
                Line("sdk cpu", "... the SDK's CPU per step", "ms", less_is_better=True, **beside),
                Line("server cpu", "... the server's CPU per step", "ms", less_is_better=True, **beside),
            ),
            lambda sizes: sizes.invocations * STEPS,
        ),
    )


ROWS = rows(COMMIT, BATCHES)
