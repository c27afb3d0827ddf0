"""A replay in a process with another set order: the effects are the same, or the run stops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("permuting_program.py")


def process(seed: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONHASHSEED": str(seed)}
    return subprocess.run(
        [sys.executable, *arguments], env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def order_with(seed: int) -> str:
    return process(seed, "-c", "print(*{'a', 'b', 'c', 'd', 'e'})").stdout


def test_a_process_with_another_order_of_sets_pays_nothing_twice(tmp_path: Path) -> None:
    database = str(tmp_path / "runs.db")
    other = next(seed for seed in range(2, 20) if order_with(seed) != order_with(1))
    begun = process(1, str(PROGRAM), "begin", database)
    assert begun.returncode == 9, begun.stderr
    done = process(other, str(PROGRAM), "end", database)
    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout)
    for name, result in ended.items():
        assert result == (list("abcde") if name.endswith("in order") else "NonDeterminism"), name
    paid = Path(f"{database}.paid").read_text().splitlines()
    assert sorted(paid) == sorted({*paid})
    assert len(paid) == 5 * len(ended)
