"""``make test`` and ``make test-long`` together are the whole suite, each test in one of them, and CI runs both."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.grouping import ROOT
from tests.studio.conftest import WALKS

CONFTEST = "from tests.conftest import *\n"
TESTS = """
import pytest

def test_quick(): ...

@pytest.mark.long
def test_long(): ...

@pytest.mark.parametrize("place", ["first", pytest.param("second", marks=pytest.mark.long)])
def test_of(place): ...
"""
MAKES = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ARGS", "VENV", "PYTHON")
"""Variables that a make which runs this test would hand on to the one that it asks."""
QUICK = {"test_quick", "test_of[first]"}
LONG = {"test_long", "test_of[second]"}


def commands_of(target: str) -> list[str]:
    """What make would run of pytest."""
    made = subprocess.run(
        ["make", "--dry-run", "--silent", "VENV=.none", target],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in MAKES},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in made.stdout.splitlines() if line.startswith(".none/bin/pytest")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "tried", "left_out"),
    [("test", QUICK, len(LONG)), ("test-long", LONG, 0), ("pytest", QUICK | LONG, 0)],
)
def test_each_test_is_in_one_half_and_what_is_left_out_is_said(
    tmp_path: Path, target: str, tried: set[str], left_out: int
) -> None:
    [command] = commands_of(target)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    processes = "-n1" if left_out else "-n0"  # which leaves tests out, and another one says so
    places = [f"--config-file={ROOT / 'pyproject.toml'}", f"--rootdir={tmp_path}", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *shlex.split(command)[1:], "-rp", processes, *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert set(re.findall(r"PASSED \S*::(\S+)", ran.stdout)) == tried
    assert re.findall(r"(\d+) long tests are left out", ran.stdout) == [str(left_out)] * bool(left_out)


def test_ci_runs_both_halves_and_leaves_tests_out_on_other_versions_alone() -> None:
    steps = [
        line for line in (ROOT / ".ci/run").read_text().splitlines() if not line.lstrip().startswith("#")
    ]
    halves = [re.findall(r"^attempt .* (make test\S*)$", line) for line in steps]
    assert sorted(each for found in halves for each in found) == ["make test-long", "make test-quick"]
    # on the other versions of Python
    chosen = "ARGS=\"-m 'not long"
    assert not [
        line for line in steps if chosen not in line and re.search(r"-m\b.*long|--deselect|--ignore", line)
    ]


@pytest.mark.long  # to collect takes seconds
def test_every_walk_through_studio_is_found_by_make_test() -> None:
    options = ["-n0", "-q", "--collect-only", "-m", "not long", "tests/studio"]
    command = [sys.executable, "-m", "pytest", *options]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found = {line.rpartition("/")[2] for line in ran.stdout.splitlines() if "::" in line}
    found |= {test.partition("[")[0] for test in found}
    assert [
        f"{file}.py::{name}"
        for file, names in WALKS.items()
        for name in names or ()
        if f"{file}.py::{name}" not in found
    ] == []
