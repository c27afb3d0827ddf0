"""The SDKs of Resonate as their registries have them, each in an environment of its own that is made once and kept.

The Python SDKs need Python 3.12, whichever Python runs the tests. The TypeScript SDK needs Node 22, which a wheel
brings.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.node_programs import Locked, node_command

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
    with Locked(folder):
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
    return node_command(TYPESCRIPT, file, *arguments)


def _python(pins: str, folder: str) -> Path:
    """Return the Python of an environment with these packages. It is made if it is missing or has others."""
    path, wanted = ROOT / folder, (PINS / pins).read_text()
    python = path / "bin/python"
    with Locked(path):
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
