"""The Dockerfile's build, replayed here: the wheel and the pins of uv.lock, in a new environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import ROOT, stages

pytestmark = pytest.mark.long  # it builds the wheel and installs all that is pinned

PLACES = ("/src", "/wheels", "/requirements.txt", "/opt/signoff")


def moved(command: str, root: Path) -> str:
    """A command of the image, with its places under another root."""
    return re.sub(
        "|".join(rf"(?<!\S){place}(?=/|\s|$)" for place in PLACES), lambda m: f"{root}{m[0]}", command
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the build stage's instructions were carried out; the pinned packages come from where uv finds them."""
    root = tmp_path_factory.mktemp("image")
    (root / "src").mkdir()
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for word, rest in stages()["build"].instructions:
        if word == "COPY":
            *sources, target = shlex.split(rest)
            for source in sources:
                _copy(ROOT / source, root / "src" / target / (source if (ROOT / source).is_file() else ""))
        elif word == "RUN" and "pip install --no-cache-dir uv" not in rest:
            done = subprocess.run(
                ["sh", "-c", moved(rest, root)],
                cwd=root / "src",
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{rest}: {done.stderr}"
    return root


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def run(image: Path, *command: str, cwd: Path) -> str:
    path = f"{image}/opt/signoff/bin:/usr/bin:/bin"
    done = subprocess.run(
        command, cwd=cwd, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_build_has_all_that_a_server_and_a_worker_need(image: Path, tmp_path: Path) -> None:
    program = f"{image}/opt/signoff/bin/signoff"
    assert "version" in run(image, program, "--version", cwd=tmp_path)
    assert "schema 0 to" in run(image, program, "migrate", cwd=tmp_path)
    python = f"{image}/opt/signoff/bin/python"
    program = "import psycopg, signoff.server; print(signoff.__file__, psycopg.pq.__impl__)"
    file, libpq = run(image, python, "-c", program, cwd=tmp_path).split()
    assert file.startswith(str(image))
    assert libpq == "binary"


def test_the_build_has_nothing_of_the_development(image: Path) -> None:
    packages = {path.name for path in (image / "opt/signoff").glob("lib/*/site-packages/*")}
    assert {"signoff", "uvicorn", "psycopg"} <= packages
    assert packages.isdisjoint({"pytest", "ruff", "hypothesis", "tests", "examples", "sumy"})


def test_uv_is_the_one_that_is_pinned() -> None:
    pinned = re.search(r"uv==([\d.]+)", (ROOT / "pyproject.toml").read_text())
    assert pinned is not None
    assert f"pip install --no-cache-dir {pinned[0]}" in (ROOT / "Dockerfile").read_text()
