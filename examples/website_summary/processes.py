"""The example's processes, for the demo and the tests: real ones, on free ports of this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

import httpx

REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 60.0
STOP_SECONDS = 5.0


class DidNotStart(Exception):
    """A process ended, or did not answer, instead of starting."""


class Process(Protocol):
    """The interface of a process that is needed here: ``subprocess.Popen`` has it."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Site:
    """``signoff server``, the gateway and the workers. Their data is in one folder, so they can be started again.

    Args:
        folder: The folder for the database, the pages, the mails and the logs.
        environment: Additional environment variables, such as ``OPENAI_BASE_URL``.
    """

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.server_url = f"http://127.0.0.1:{free_port()}"
        self.gateway_url = f"http://127.0.0.1:{free_port()}"
        self.store = f"sqlite:///{folder}/signoff.db"
        self.environment = environment
        self._running: dict[str, Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> frozenset[str]:
        """The names of the processes that were started and not stopped."""
        return frozenset(self._running)

    def start(self, *names: str) -> None:
        """Start ``server``, ``gateway``, ``worker`` or ``shop``, together. Waits until those with an address answer.

        Raises:
            DidNotStart: A process ended or does not answer.
        """
        for name in names:
            self._running[name] = self._spawn(name)
        for name in names:
            self._await(name)

    def kill(self, *names: str) -> None:
        """End processes as a power cut would."""
        for name in names:
            process = self._running.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """End all processes in order, the last one first."""
        running, self._running = self._running, {}
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def check(self) -> None:
        """Raise DidNotStart if a process has ended unexpectedly."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise DidNotStart(f"the {name} ended: {self._last_words(name)}")

    def log(self, name: str) -> Path:
        """Return a process's log file."""
        return self.folder / f"{name}.log"

    def _spawn(self, name: str) -> Process:
        command, environment = self.command(name)
        loopback = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"]))
        with self.log(name).open("ab") as log:
            return self.start_process(
                command,
                os.environ
                | {"NO_PROXY": loopback, "no_proxy": loopback}
                | {"SUMMARY_FOLDER": str(self.folder), "SUMMARY_GATEWAY_URL": self.gateway_url}
                | self.environment
                | environment,
                log,
            )

    def start_process(self, command: list[str], environment: dict[str, str], log: IO[bytes]) -> Process:
        """Start a module with its arguments. Tests replace this with a fork, which is faster."""
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C on the terminal goes to the parent, which then stops us
        )

    def command(self, name: str) -> tuple[list[str], dict[str, str]]:
        """Return a process's module with its arguments, and its own environment variables."""
        match name:
            case "server":
                port = str(httpx.URL(self.server_url).port)
                return ["signoff", "server", "--store", self.store, "--port", port], {}
            case "gateway":
                gateway = "examples.website_summary.gateway:app"
                port = str(httpx.URL(self.gateway_url).port)
                return ["uvicorn", gateway, "--port", port], {"SIGNOFF_URL": self.server_url}
            case _:
                package = {"worker": "website_summary", "shop": "shop"}[name]
                return ["signoff", "worker", f"examples.{package}.worker:app"], {
                    "SIGNOFF_STORE": self.store,
                    "SIGNOFF_PUBLIC_URL": self.server_url,
                }

    def _await(self, name: str) -> None:
        urls = {"server": self.server_url, "gateway": self.gateway_url}
        process = self._running[name]
        give_up_at = time.monotonic() + START_SECONDS
        while name in urls and not is_up(urls[name]):
            if process.poll() is not None:
                raise DidNotStart(f"the {name} did not start: {self._last_words(name)}")
            if time.monotonic() > give_up_at:
                raise DidNotStart(f"the {name} does not answer at {urls[name]}; see {self.log(name)}")
            time.sleep(0.05)

    def _last_words(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


def is_up(url: str) -> bool:
    """Whether an HTTP server answers there."""
    try:
        httpx.get(url, timeout=2, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def free_port() -> int:
    """Return a free port of the loopback interface, outside the range that systems assign automatically."""
    while True:
        port = secrets.choice(range(20_000, 30_000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
