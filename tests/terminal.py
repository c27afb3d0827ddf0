"""A program on a terminal of its own, with scripted input."""

from __future__ import annotations

import os
import pty
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.forks import Program
from tests.support import PATIENCE_SECONDS

TO_PRESS_SECONDS = 0.5
"""What a person takes to press a key. Python notices no signal between its last look and the system call that reads."""


class Terminal:
    """A program on a terminal of its own, which is killed when this is left.

    Args:
        command: The module and its arguments.
        cwd: Where it runs.
        env: Its environment.
    """

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._shown = ""
        self._master, slave = pty.openpty()
        with open(slave, "r+b", buffering=0) as shown:
            self._process = Program(command, cwd=cwd, env=env, stdin=shown, stdout=shown, stderr=shown)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        os.close(self._master)

    def expect(self, text: str) -> None:
        """Read on until the text has come."""
        while text not in self._shown:
            read = self._read()
            assert read, f"it ended without {text!r}: {self._shown}"
            self._shown += read
        self._shown = self._shown.partition(text)[2]

    def type(self, prompt: str, text: str) -> None:
        """Wait for a prompt and type a line."""
        self.expect(prompt)
        os.write(self._master, f"{text}\n".encode())

    def interrupt(self, prompt: str) -> None:
        """Wait for a prompt and press Ctrl-C once: the terminal sends SIGINT."""
        self.expect(prompt)
        time.sleep(TO_PRESS_SECONDS)
        os.write(self._master, b"\x03")

    def ends(self) -> int:
        """Wait for its end, and return its exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    def rest(self) -> str:
        """Return its unexpected output until its end."""
        while read := self._read():
            self._shown += read
        return self._shown

    def _read(self) -> str:
        try:
            return os.read(self._master, 4096).decode()
        except OSError:  # it has ended
            return ""
