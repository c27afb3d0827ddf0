"""From an answer to a flow's next chunk on a newly started worker, after 20,000 events in its execution."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT
from signoff import RunState, Signoff
from signoff.flows import Data, Flow

EVENTS = 20_000
AT_ONCE = 100
TIMES = 3


def _new_flow(began: dict[str, float]) -> Flow:
    flow = Flow("bench", auto_close_timeout=None)

    @flow.chunk
    def count(data: Data[Any]) -> None:  # pyright: ignore[reportUnusedFunction]
        data.add_state("count")

    @flow.chunk
    async def ask(data: Data[Any]) -> Any:  # pyright: ignore[reportUnusedFunction]
        return await data.pause_for("approval", "go on?")

    @flow.chunk
    def go_on(data: Data[Any]) -> None:  # pyright: ignore[reportUnusedFunction]
        began["at"] = time.time()

    flow.when("tick").to(count)
    flow.when("question").to(ask).to(go_on)
    return flow


async def _answered(place: Place, *, always_asked: bool) -> float:
    """Return milliseconds from the answer to the chunk after it.

    Args:
        place: The place of the round.
        always_asked: Whether a question is open all the time, so that the execution is never idle.
    """
    store, began = place.new_store(), dict[str, float]()
    app, flow = Signoff(store), _new_flow(began)
    app.register(flow)
    async with app.worker():
        execution = await flow.start(id="bench")
        if always_asked:
            await execution.emit("question")
        for _ in range(EVENTS // AT_ONCE):
            await asyncio.gather(*(execution.emit("tick") for _ in range(AT_ONCE)))
        if not always_asked:
            await execution.emit("question")
        while not (pending := await execution.get_pending_interrupts(wait_seconds=60)):
            await asyncio.sleep(0.01)
        while await execution.status() is not RunState.PAUSED:
            await asyncio.sleep(0.01)
    await app.store.close()
    again, flow = Signoff(store), _new_flow(began)
    again.register(flow)
    async with again.worker():
        execution = await flow.attach("bench")
        with place.measured():
            asked_at = time.time()
            await execution.continue_with(next(iter(pending)), {"approved": True})
            while "at" not in began:
                await asyncio.sleep(0.001)
        state = await execution.close()
    await again.store.close()
    assert state == {"count": EVENTS}, state
    return 1_000 * (began["at"] - asked_at)


async def flow_resumed(place: Place) -> Figures:
    idle = [await _answered(place, always_asked=False) for _ in range(TIMES)]
    return {"idle": idle, "asked": [await _answered(place, always_asked=True) for _ in range(TIMES)]}


ROWS = (
    Row(
        "flow-resumed",
        flow_resumed,
        COMMIT,
        (
            Line(
                "idle",
                "answer to next chunk, 20,000 events in the execution",
                "ms",
                target=1_000,
                less_is_better=True,
            ),
            Line(
                "asked",
                "... of one with an open question all the time",
                "ms",
                target=1_000,
                less_is_better=True,
            ),
        ),
        lambda sizes: TIMES,
    ),
)
