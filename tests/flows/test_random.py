"""Random graphs with random pauses end as a plain interpreter says, wherever their worker dies."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff import Signoff
from signoff.flows import Executions
from signoff.testing import after_entry, before_entry, environment
from signoff.testing.memory_store import MemoryStore
from tests.flows.random_graphs import Built, Spec, answer_to, build, specs


async def run(built: Built, seed: int, kills: int) -> None:
    rng = random.Random(seed)
    app = Signoff(MemoryStore())
    app.register(built.flow)
    async with environment(app) as env:
        for _ in range(kills):
            point = rng.choice([before_entry, after_entry])
            env.crash(at=point(rng.randrange(1, 40)))
        execution = await Executions(env.client, "random").start(7, id="random")
        asked: list[str] = []
        while True:
            await env.idle()
            pending = list((await execution.get_pending_interrupts(wait_seconds=0)).values())
            if not pending:
                break
            chosen = rng.sample(pending, rng.randint(1, len(pending)))
            asked += [each.question for each in chosen]
            await asyncio.gather(
                *(execution.continue_with(each.id, answer_to(each.question)) for each in chosen)
            )
        state = await execution.result()
        assert sorted(asked) == sorted(built.asked)
        ended = {key: sorted(value) if isinstance(value, list) else value for key, value in state.items()}
        assert {"total": 0, "joined": 0, **ended} == built.expected


@given(spec=specs(), seed=st.integers(0, 2**32), kills=st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_a_random_graph_matches_the_interpreter_wherever_its_worker_dies(
    spec: Spec, seed: int, kills: int
) -> None:
    asyncio.run(run(build(spec), seed, kills))
