"""Ports for servers, each kept across restarts."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.postgres.folder import held_folders, locked, on_disk

# Below the ports that the kernel gives to outgoing connections: one of those could take a stopped server's port.
PORTS = range(15_000, 32_000)


def reserve(folder: Path) -> int:
    """A free port of the loopback address that no other server of tests gets as long as this one's folder exists.

    Args:
        folder: The server's folder, in a held folder.
    """
    with locked(on_disk() / "lock"):
        taken = set(_reserved())
        candidates = random.SystemRandom().sample(PORTS, len(PORTS))
        port = next(port for port in candidates if port not in taken and is_free(port))
        (folder / "port").write_text(str(port))
        return port


def _reserved() -> Iterator[int]:
    for held in held_folders():
        # A keeper removes unheld folders meanwhile: their servers have ended then, and their ports are free.
        with suppress(FileNotFoundError):
            for file in held.glob("*/port"):
                yield int(file.read_text())


def is_free(port: int) -> bool:
    """Whether the port is free."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
