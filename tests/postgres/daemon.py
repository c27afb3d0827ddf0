"""A server process that keeps its folder, port and log across restarts."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.postgres import port
from tests.postgres.account import unprivileged
from tests.postgres.folder import HeldFolder

PATIENCE_SECONDS = 60.0


class Daemon:
    """A server in a folder. It ends, and the folder is removed, at the latest when this process has ended.

    Args:
        program: The name of what runs, which ``keeper.SERVERS`` has too.
        held: The folder that it makes its own in.
    """

    def __init__(self, program: str, held: HeldFolder) -> None:
        self.program = program
        self.folder = held.path / f"{program}-{secrets.token_hex(4)}"
        self.folder.mkdir()
        self._held = held
        self.port = port.reserve(self.folder)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What all its starts have logged."""
        return (self.folder / "log").read_text()

    def start(self, command: Sequence[str | Path], *, is_ready: Callable[[], bool]) -> None:
        """Start as the unprivileged account; returns when it is ready.

        Raises:
            RuntimeError: It ended at once.
        """
        assert not self.running
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is not meant for it
                **unprivileged(),
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_ready():
            if not self.running:
                raise RuntimeError(f"{self.program} ended as it started:\n{self.log[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.program} does not get ready:\n{self.log[-2000:]}")
            time.sleep(0.005)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal that ends it, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE_SECONDS)

    def remove(self, number: signal.Signals) -> None:
        """Stop if it runs, and hold the folder no longer."""
        if self.running:
            self.stop(number)
        self._held.release()
