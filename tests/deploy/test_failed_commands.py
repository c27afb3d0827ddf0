"""CI ends with its failures, since viewers of its output may omit the middle."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.deploy.files import ROOT

PYTEST = """\
................Fatal Python error: Segmentation fault

Thread 0x00007f8bd51ff6c0 (most recent call first):
  File "/code/src/signoff/leases.py", line 12 in extend

Current thread 0x00007f8bd665bb80 (most recent call first):
  File "/code/src/signoff/guard.py", line 56 in look
  File "/code/tests/test_guard.py", line 6 in test_look
  File "/code/.venv/lib/python3.13/site-packages/_pytest/python.py", line 187 in pytest_pyfunc_call

Extension modules: psutil._psutil_linux (total: 1)
.[gw0] node down: Not properly terminated
=================================== FAILURES ===================================
____________________________ tests/test_guard.py _______________________________
worker 'gw0' crashed while running 'tests/test_guard.py::test_look'
____________________________ test_answer[a :: b] _______________________________
>       assert 1 == 2
E       assert 1 == 2
E         more of it
ERROR    signoff.worker:driver.py:586 a line of the log
=========================== short test summary info ============================
SKIPPED [1] tests/codec/test_type_hints.py:138: from Python 3.14 on
FAILED tests/test_guard.py::test_look - worker 'gw0' crashed while runn...
FAILED tests/people/test_answers.py::test_answer[a :: b]
make: *** [Makefile:50: pytest] Error 1
"""
OF_PYTEST = """\
Fatal Python error: Segmentation fault
  File "/code/src/signoff/guard.py", line 56 in look
  File "/code/tests/test_guard.py", line 6 in test_look
worker 'gw0' crashed while running 'tests/test_guard.py::test_look'
FAILED tests/test_guard.py::test_look - worker 'gw0' crashed while runn...
FAILED tests/people/test_answers.py::test_answer[a :: b]
    E       assert 1 == 2
make: *** [Makefile:50: pytest] Error 1
"""


def failures(folder: Path, output: str) -> str:
    file = folder / "output"
    file.write_text(output)
    return subprocess.run([ROOT / ".ci/failures", file], capture_output=True, text=True, check=True).stdout


def test_of_tests_it_is_their_names_and_reasons_and_the_place_of_a_crash(tmp_path: Path) -> None:
    assert failures(tmp_path, PYTEST) == OF_PYTEST


def test_of_hundreds_it_is_the_first_and_their_number(tmp_path: Path) -> None:
    lines = [f"FAILED tests/test_some.py::test[{number}]" for number in range(200)]
    assert failures(tmp_path, "\n".join(lines)).splitlines() == [*lines[:30], "and 170 more lines like these"]


def test_of_anything_else_it_is_the_last_lines(tmp_path: Path) -> None:
    assert failures(tmp_path, "no such host\ngiven up\n") == "no such host\ngiven up\n"
    lines = [f"line {number}" for number in range(100)]
    assert failures(tmp_path, "\n".join(lines)).splitlines() == lines[-15:]
