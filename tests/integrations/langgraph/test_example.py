"""The example: an agent of LangChain that asks at a terminal before it refunds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY
from tests.forks import run


@pytest.mark.parametrize(
    ("said", "ledger", "reply"),
    [
        ("y\n", "o-7 7000\n", "7000 cents of order o-7 are refunded"),
        pytest.param("500\n", "o-7 500\n", "500 cents of order o-7 are refunded", marks=pytest.mark.long),
        pytest.param("banana\n", "", "with reason: banana", marks=pytest.mark.long),
    ],
)
def test_an_order_is_refunded_as_a_person_decides(tmp_path: Path, said: str, ledger: str, reply: str) -> None:
    kept = tmp_path / "refunds.txt"
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "LEDGER": str(kept)}
    environ["SIGNOFF_STORE"] = f"sqlite:///{tmp_path / 'signoff.db'}"
    done = run(["examples.langgraph_refund", "o-7"], cwd=tmp_path, env=environ, said=said)
    assert done.returncode == 0, done.stderr
    assert '"cents": 7000' in done.stdout
    assert reply in done.stdout
    assert (kept.read_text() if kept.exists() else "") == ledger
