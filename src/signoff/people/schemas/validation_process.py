"""Validates costly values in a process of its own: the validator holds Python's global lock while it works.

Ordinary answers take less than a millisecond, and are checked where they are. For all others the estimate of their cost
(``validation_cost``) is no guarantee, so the process has hard limits of processor time and memory. If a check exceeds
them, the system ends the process, and the value is refused.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

from signoff.people.schemas.validation import is_light, problems, problems_if_light, schema_problem
from signoff.runtime import forks
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.validation")

PROCESSES: Final = 2
"""How many values are checked at once. Others wait."""

MOST_CPU_SECONDS: Final = 3.0
"""The processor time of one check. The estimate allows some 0.3 s."""

MOST_BYTES: Final = 256 * 1024 * 1024
"""By how much a check may raise the address space of the process."""

START_SECONDS: Final = 60.0
REPLY_SECONDS: Final = 60.0
"""Real time, for a process that the machine gives no processor."""

IDLE_SECONDS: Final = 60.0
"""A process that was idle for longer is replaced at the next check. It ends by itself after five times as long."""

TOO_LONG: Final = "it takes too long to check; make it smaller, or its form simpler"
SCHEMA_TOO_LONG: Final = "it takes too long to check"

_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from signoff.people.schemas.validation_process import serve; serve()"
)
MOST_KEPT_BYTES: Final = 64 * 1024 * 1024
"""A process that has grown by this much is replaced: freed memory may stay with it."""


async def find_problems(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    """Return what ``validation.problems`` returns. The event loop continues meanwhile."""
    found = problems_if_light(schema, value)
    return await _pool.run(problems_apart, schema, value) if found is None else found


def problems_apart(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    """Return the problems of a value, found in the other process. Blocks the calling thread."""
    try:
        found = _pool.ask([schema, value])
    except _NotStarted:
        return problems(schema, value)
    if found is None:
        return [("", TOO_LONG)]
    return [(field, message) for field, message in cast("list[tuple[str, str]]", found[0])]


def schema_problem_apart(schema: Mapping[str, Any]) -> str | None:
    """Return the problem of a schema; a light one is checked here. Blocks the calling thread."""
    if is_light(schema):
        return schema_problem(schema)
    try:
        found = _pool.ask([schema])
    except _NotStarted:
        return schema_problem(schema)
    return SCHEMA_TOO_LONG if found is None else cast("str | None", found[0])


class _NotStarted(Exception):
    """No process can be started here: no Python at ``sys.executable``, no file handles, no processes left."""


class _Process:
    """A process that checks values, one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _CHILD, json.dumps(sys.path)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise _NotStarted(str(error)) from error
        self.used_at = time.monotonic()
        if self._reply(START_SECONDS) is None:
            self.end()
            raise _NotStarted(f"{sys.executable} has ended with {self._process.returncode}")

    def ask(self, request: bytes) -> list[Any] | None:
        """Return the reply; None if the process has ended over it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError:
            return None
        self.used_at = time.monotonic()
        return self._reply(REPLY_SECONDS)

    def _reply(self, seconds: float) -> list[Any] | None:
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        return json.loads(line) if line.endswith(b"\n") else None

    @property
    def is_usable(self) -> bool:
        return self._process.poll() is None and time.monotonic() - self.used_at < IDLE_SECONDS

    def end(self) -> None:
        """End the process, and wait until it has ended."""
        self._process.kill()
        self._process.communicate()


class _Pool:
    """The processes of this one, started when they are needed."""

    def __init__(self) -> None:
        self.forked()
        forks.in_child(self)

    def forked(self) -> None:
        """Begin anew: the parent's processes and threads are not this one's."""
        self._threads = ThreadPoolExecutor(PROCESSES, "signoff validation")
        self._free = threading.BoundedSemaphore(PROCESSES)
        self._idle: list[_Process] = []
        self._is_reported = False

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what blocking work returns, done in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)

    def ask(self, request: list[Any]) -> list[Any] | None:
        """Return a process's reply to a request; None if it took too much. Raises _NotStarted."""
        written = json.dumps(request).encode() + b"\n"
        with self._free:
            process = self._take()
            reply = process.ask(written)
            if reply is None or reply.pop():
                process.end()
            else:
                self._idle.append(process)
        return reply

    def _take(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            process.end()
        try:
            return _Process()
        except _NotStarted as error:
            if not self._is_reported:
                log.warning("costly answers are checked in this process, no other can be started: %s", error)
                self._is_reported = True
            raise

    def close(self) -> None:
        """End the processes."""
        while self._idle:
            self._idle.pop().end()


_pool: Final = _Pool()
atexit.register(_pool.close)


# In the other process


def serve() -> None:
    """Validate the requests on standard input, one per line, until it is closed or the process has been idle."""
    import jsonschema_rs  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before memory is limited

    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    size, resident = _memory_bytes()
    _limit_memory(size + MOST_BYTES)
    replies.write(b"[]\n")
    replies.flush()
    while True:
        _end_after(5 * IDLE_SECONDS)
        line = requests.readline()
        if not line:
            return
        _limit_cpu(MOST_CPU_SECONDS)
        request = json.loads(line)
        found = problems(*request) if len(request) == 2 else schema_problem(*request)
        has_grown = _memory_bytes()[1] > resident + MOST_KEPT_BYTES
        replies.write(json.dumps([found, has_grown]).encode() + b"\n")
        replies.flush()
        _limit_cpu(0.0)


def _memory_bytes() -> tuple[int, int]:
    """Return the address space and the memory of this process; zeros if the system does not report them."""
    try:
        size, resident = Path("/proc/self/statm").read_text().split()[:2]
    except OSError:
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    return int(size) * page, int(resident) * page


# The default action of both signals ends the process at once, also within the validator.


def _end_after(seconds: float) -> None:
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _limit_cpu(seconds: float) -> None:
    """End the process once it has used this much processor time, in seconds; 0: remove the limit."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory(most_bytes: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
