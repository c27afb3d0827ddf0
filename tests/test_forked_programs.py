"""A forked program of a test reports an early end, even if it could not print anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forks


def _run(folder: Path, program: str) -> tuple[int, str]:
    (folder / "ends.py").write_text(program)
    done = forks.run(["ends", "now"], cwd=folder, env=os.environ)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("program", "came_to"),
    [
        ("import os; os._exit(1)", "begun"),
        ("import atexit, os; atexit.register(os._exit, 1)", "returned 0"),
        ("import sys; sys.stdout = None", "returned 0"),
    ],
)
def test_a_program_with_an_unexpected_exit_code_is_explained(
    tmp_path: Path, program: str, came_to: str
) -> None:
    code, printed = _run(tmp_path, program)
    assert code == 1
    assert f"ends now ended with 1 after it had {came_to}: os._exit was called, or" in printed


@pytest.mark.parametrize(("program", "code"), [("", 0), ("raise SystemExit(7)", 7), ("exit(0)", 0)])
def test_a_program_that_ends_as_it_returned_is_not(tmp_path: Path, program: str, code: int) -> None:
    assert _run(tmp_path, program) == (code, "")
