"""A Postgres server of a test's own, to restart, kill and replace."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self

import psutil

from tests.postgres.cluster import new_cluster, password
from tests.postgres.daemon import PATIENCE_SECONDS, Daemon
from tests.postgres.folder import HeldFolder, in_memory, on_disk
from tests.postgres.installations import Installation, newest
from tests.postgres.processes import wait_for_end

StopMode = Literal["smart", "fast", "immediate"]

# As in production: what was acknowledged is on the disk. For tests of loss.
DURABLE: Mapping[str, str] = MappingProxyType({})
# In memory: kill -9 still loses nothing, though a power cut would lose everything. For every other test.
FAST: Mapping[str, str] = MappingProxyType({"fsync": "off", "full_page_writes": "off"})

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "300",
    "dynamic_shared_memory_type": "mmap",  # in the data folder, so that kill -9 leaves nothing elsewhere
    "max_wal_size": "1GB",
}
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class PostgresServer:
    """A server that keeps its data and its port from start to start.

    Both are gone after ``remove``, at the end of a ``with`` block, and when this process has ended in any way.

        with PostgresServer() as server:
            connect(server.url())
            server.kill()
            server.start()

    Args:
        installation: The version; the newest one if None.
        settings: ``DURABLE`` or ``FAST``, or any of Postgres' settings.
        held: The folder that it makes its own in; a new one if None.
    """

    def __init__(
        self,
        installation: Installation | None = None,
        *,
        settings: Mapping[str, str] = DURABLE,
        held: HeldFolder | None = None,
    ) -> None:
        self.installation = (installation or newest()).reachable()
        self.settings = settings
        self._password = password()
        root = in_memory() if settings.get("fsync") == "off" else on_disk()
        self._daemon = Daemon("postgres", held or HeldFolder.hold_new(root))
        self._data = self.folder / "data"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def port(self) -> int:
        return self._daemon.port

    @property
    def folder(self) -> Path:
        return self._daemon.folder

    @property
    def log(self) -> str:
        """What all its starts have logged."""
        return self._daemon.log

    @property
    def pid(self) -> int:
        """The process that started all the others."""
        return self._daemon.pid

    def url(self, database: str = "postgres") -> str:
        """Where a superuser connects."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, on the same port with the same data as before; returns when it takes connections.

        Raises:
            RuntimeError: It ended at once; the error has its log.
        """
        if not self._data.exists():
            new_cluster(self._data, self.installation)
        settings = {**SETTINGS, "port": str(self.port), **self.settings}
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [self.installation.bin / "postgres", "-D", self._data, *options]
        self._daemon.start(command, is_ready=self._takes_connections)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop: ``smart`` waits for the clients to leave, ``fast`` cuts them off, ``immediate`` is a crash."""
        self._daemon.stop(SIGNALS[mode])

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start."""
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """Kill all its processes (-9), as when a machine fails. The next start recovers what was committed."""
        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # so that it starts no further ones
        backends = postmaster.children(recursive=True)
        for backend in backends:
            backend.kill()
        self._daemon.stop(signal.SIGKILL)
        # As long as one of them lives, the data folder counts as in use.
        alive = wait_for_end(backends, seconds=PATIENCE_SECONDS)
        assert not alive, alive

    def remove(self) -> None:
        """Stop if it runs, and remove the folder."""
        self._daemon.remove(SIGNALS["immediate"])

    def _takes_connections(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and int(lines[0]) == self.pid and lines[7].strip() == "ready"
