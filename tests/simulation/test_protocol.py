"""Worlds of the durable promise protocol have faults, and detect each broken rule of tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from signoff.testing.model.task_states import TaskStates
from signoff.testing.model.tasks import Tasks
from tests.simulation.protocol import mutants
from tests.simulation.protocol.play import play_protocol

MUTANT_SEEDS = 400  # within so many each mutant is found; most within 30


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_can_go_wrong_with_tasks_does() -> None:
    """A simulation in which no lease is ever lost would pass as well."""
    signs = (
        "server0#2    crashes",
        "sdk0#",
        "is cut off",
        "has lost",
        "settle_held",
        "TaskConflict",
        "-> False",
        "suspend_task",
        "register_callback",
        "halt_task",
        "continue_task",
        "hear by Polling of r0",
        "hear by Posts of r0",
        "hear by Subscriptions of r0",
        "by Subscriptions of nightly",
        "http://functions/run is posted {",
        "release_task [TaskRef",
        "POST /tasks/complete is refused",
        "workflow='program'",
        "resonate:server0",
        "timed_out",
        "is a question: a person answers it",
        "AlreadySettled",
        "create_run [NewRun(id='r0",
        "cancel_requested",
        "step         r0.0 begins in sdk1",
    )
    missing = list(signs)
    for seed in range(150):
        if not missing:
            break
        text = "\n".join(play_protocol(seed).trace)
        missing = [sign for sign in missing if sign not in text]
    assert missing == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutant", mutants.STORES)
def test_a_store_that_breaks_a_rule_of_tasks_is_found(mutant: type[Tasks | TaskStates]) -> None:
    faults, store = mutants.STORES[mutant], mutants.store_of(mutant)
    assert any(play_protocol(seed, faults=faults, store=store).problems for seed in range(MUTANT_SEEDS))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("mutate", mutants.SERVERS)
def test_a_server_that_breaks_a_rule_of_tasks_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    faults = mutants.SERVERS[mutate]
    assert any(play_protocol(seed, faults=faults).problems for seed in range(MUTANT_SEEDS))
