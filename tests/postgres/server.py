"""A Postgres server of a test's own, to restart, kill and replace."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self

import psutil

from tests.postgres import port
from tests.postgres.account import unprivileged
from tests.postgres.cluster import new_cluster, password
from tests.postgres.folder import HeldFolder
from tests.postgres.installations import Installation, newest
from tests.postgres.processes import wait_for_end

StopMode = Literal["smart", "fast", "immediate"]

# As in production: what was acknowledged is on the disk. For tests of loss.
DURABLE: Mapping[str, str] = MappingProxyType({})
# Nothing is forced to the disk; kill -9 still loses nothing, a power cut would lose all. For every other test.
FAST: Mapping[str, str] = MappingProxyType(
    {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
)

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "dynamic_shared_memory_type": "mmap",  # in the data folder, so that kill -9 leaves nothing elsewhere
    "max_wal_size": "1GB",
}
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
PATIENCE_SECONDS = 60.0


class PostgresServer:
    """A server with a folder and a port of its own, which it keeps from start to start.

    Both are gone after ``remove``, at the end of a ``with`` block, and when this process has ended in any way.

        with PostgresServer() as server:
            connect(server.url())
            server.kill()
            server.start()

    Args:
        installation: The version; the newest one if None.
        settings: ``DURABLE`` or ``FAST``, or any of Postgres' settings.
        folder: Where, in a folder that somebody else holds; in one of its own if None.
    """

    def __init__(
        self,
        installation: Installation | None = None,
        *,
        settings: Mapping[str, str] = DURABLE,
        folder: Path | None = None,
    ) -> None:
        self.installation = (installation or newest()).reachable()
        self.settings = settings
        self._held: HeldFolder | None = None
        if folder is None:
            self._held = HeldFolder.hold_new()
            folder = self._held.path / "server"
        self.folder = folder
        self.folder.mkdir()
        self.port = port.reserve(self.folder)
        self._password = password()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, database: str = "postgres") -> str:
        """Where a superuser connects."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What all its starts have logged."""
        return (self.folder / "log").read_text()

    def start(self) -> None:
        """Start, on the same port with the same data as before; returns when it takes connections."""
        assert not self.running
        data = self.folder / "data"
        if not data.exists():
            new_cluster(data, self.installation)
        settings = {**SETTINGS, "port": str(self.port), **self.settings}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self.installation.bin / "postgres",
                    "-D",
                    data,
                    *(f"--{name}={settings[name]}" for name in settings),
                ],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is not meant for it
                **unprivileged(),
            )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._takes_connections():
            if time.monotonic() > deadline:
                raise TimeoutError(f"Postgres in {self.folder} does not get ready:\n{self.log[-2000:]}")
            time.sleep(0.005)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop: ``smart`` waits for the clients to leave, ``fast`` cuts them off, ``immediate`` is a crash."""
        assert self._process is not None
        self._process.send_signal(SIGNALS[mode])
        self._process.wait(PATIENCE_SECONDS)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill all its processes (-9), as when a machine fails. The next start recovers what was committed."""
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        postmaster.suspend()  # so that it starts no further ones
        backends = postmaster.children(recursive=True)
        for process in (postmaster, *backends):
            process.kill()
        self._process.wait()
        # As long as one of them lives, the data folder counts as in use.
        alive = wait_for_end(backends, seconds=PATIENCE_SECONDS)
        assert not alive, alive

    def remove(self) -> None:
        """Stop if it runs, and remove the folder."""
        if self.running:
            self.stop("immediate")
        if self._held:
            self._held.release()

    def _takes_connections(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"Postgres in {self.folder} ended as it started:\n{self.log[-2000:]}")
        try:
            lines = (self.folder / "data/postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and int(lines[0]) == self._process.pid and lines[7].strip() == "ready"
