"""Whatever goes wrong, the guarantees hold: thousands of seeds, each played to its end.

    SIGNOFF_SIMULATION_SEEDS    how many seeds to play (200)
    SIGNOFF_SIMULATION_FIRST    the first of them (0)
    SIGNOFF_SIMULATION_SECONDS  stop after so long, however many were played (no limit)

``make simulation`` plays 10,000. A seed that fails is played again, exactly, by ``python -m tests.simulation SEED``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from signoff.testing.simulation import Faults
from tests.halves import sample
from tests.simulation import mutants
from tests.simulation.play import play, play_workflows
from tests.simulation.played import Played

SEEDS = int(os.environ.get("SIGNOFF_SIMULATION_SEEDS", "200"))
FIRST = int(os.environ.get("SIGNOFF_SIMULATION_FIRST", "0"))
SECONDS = float(os.environ.get("SIGNOFF_SIMULATION_SECONDS", "inf"))
SHARES = 4  # for pytest's processes
MUTANT_SEEDS = 400  # within so many each mutant is found; most within ten


def _report(played: Played) -> str:
    return f"{played}\nplay it again: {sys.executable} -m tests.simulation {played.seed}"


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("share", sample(range(SHARES)))
def test_every_promise_holds_whatever_goes_wrong(
    share: int, record_property: Callable[[str, Any], None]
) -> None:
    give_up_at = time.monotonic() + SECONDS
    count = 0
    for seed in range(FIRST + share, FIRST + SEEDS, SHARES):
        if time.monotonic() > give_up_at:
            break
        played = play(seed)
        count += 1
        assert not played.problems, _report(played)
    record_property("seeds", count)
    assert count > 0


def test_without_faults_nothing_goes_wrong_and_nothing_is_late() -> None:
    for seed in range(60):
        played = play(seed, faults=Faults())
        assert not played.problems, _report(played)


@pytest.mark.long
def test_the_same_seed_does_the_same_in_any_process() -> None:
    """Sets of texts are in another order in each process: nothing may depend on that."""
    program = "from tests.simulation.play import play\nprint([play(seed).digest for seed in range(200, 212)])"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in (1, 2)
    }
    assert outputs == {f"{[play(seed).digest for seed in range(200, 212)]}\n"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_can_go_wrong_does() -> None:
    """A simulation in which nothing is ever lost, frozen or raced for would pass as well."""
    signs = (
        "crashes",
        "freezes",
        "thaws",
        "stops",
        "goes down",
        "its reply is lost",
        "it refuses connections",
        "LeaseLost",
        "AlreadySettled",
        "RequestConflict",
        "is refused with WrongAnswer",
        "timed_out",
        "step_started",
        "attempt_failed",
        "continued",
        "patched",
        "cancel_requested",
        "deadline_passed",
        ":cancelled:",
        "pause r0/1",
        '{"action":"retry"}',
        '{"action":"done"',
        "suspend [",
        "resume [",
    )
    missing = list(signs)
    for seed in range(150):
        if not missing:
            break
        text = "\n".join(play_workflows(seed).trace)
        missing = [sign for sign in missing if sign not in text]
    assert missing == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", mutants.STORES)
def test_a_store_that_breaks_a_rule_is_found(mutant: type[Any]) -> None:
    assert any(play_workflows(seed, store=mutants.store_of(mutant)).problems for seed in range(MUTANT_SEEDS))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutate", mutants.ENGINES)
def test_an_engine_that_breaks_a_rule_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    faults = mutants.ENGINES[mutate]
    assert any(play_workflows(seed, faults=faults).problems for seed in range(MUTANT_SEEDS))
