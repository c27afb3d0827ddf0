"""A PgBouncer in front of a Postgres: clients share its few connections, one transaction each at a time."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Self

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.postgres.account import give
from tests.postgres.daemon import Daemon
from tests.postgres.folder import HeldFolder, in_memory

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not installed (Debian: apt-get install pgbouncer)"
)


class PgBouncer:
    """A PgBouncer in transaction mode, on a port that it keeps from start to start.

    It is gone after ``remove``, at the end of a ``with`` block, and when this process has ended in any way.

        with PostgresServer() as server, PgBouncer(server.url()) as bouncer:
            connect(bouncer.url())

    Args:
        server_url: The server, as a superuser connects to it.
        pool_size: How many connections the clients of one database share.
        settings: Any more of PgBouncer's settings.
    """

    def __init__(
        self,
        server_url: str,
        *,
        pool_size: int = 3,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._server = conninfo_to_dict(server_url)
        self._daemon = Daemon("pgbouncer", HeldFolder.hold_new(in_memory()))
        self._settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self._daemon.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self._users),
            "pool_mode": "transaction",
            "default_pool_size": str(pool_size),
            **settings,
        }

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
    def folder(self) -> Path:
        return self._daemon.folder

    @property
    def pid(self) -> int:
        return self._daemon.pid

    @property
    def log(self) -> str:
        """What all its starts have logged."""
        return self._daemon.log

    def url(self, database: str | None = None) -> str:
        """Where a client connects; to the database of the server's URL if None."""
        user, password = self._server["user"], self._server["password"]
        return f"postgresql://{user}:{password}@127.0.0.1:{self._daemon.port}/{database or self._server['dbname']}"

    def start(self) -> None:
        """Start; returns when it takes connections."""
        assert PROGRAM is not None
        self._users.write_text('"{user}" "{password}"\n'.format(**self._server))
        lines = [
            "[databases]",
            "* = host={host} port={port}".format(**self._server),
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in self._settings.items()),
        ]
        self._configuration.write_text("\n".join(lines) + "\n")
        give(self._users)
        give(self._configuration)
        self._daemon.start([PROGRAM, self._configuration], is_ready=self._takes_connections)

    def stop(self) -> None:
        """Stop at once; clients are cut off."""
        self._daemon.stop(signal.SIGTERM)

    def remove(self) -> None:
        """Stop if it runs, and remove its folder."""
        self._daemon.remove(signal.SIGTERM)

    @property
    def _configuration(self) -> Path:
        return self.folder / "pgbouncer.ini"

    @property
    def _users(self) -> Path:
        return self.folder / "users.txt"

    def _takes_connections(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._daemon.port)) == 0
