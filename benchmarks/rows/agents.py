"""From an approval to the tool's first line, in a turn of an agent that has made twenty tool calls before."""

from __future__ import annotations

import asyncio
import time

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from benchmarks.programs import evict_all
from benchmarks.row import Figures, Line, Place, Row
from benchmarks.yardsticks import COMMIT
from signoff import AsyncClient, Context, Signoff
from signoff.agents import Durable

CALLS = 20


def _model(at_once: int) -> FunctionModel:
    """Call a tool twenty times, ``at_once`` in each response, and then the one that needs approval."""

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        done = (len(messages) // 2) * at_once
        if done < CALLS:
            return ModelResponse([ToolCallPart("look", {"number": done + each}) for each in range(at_once)])
        return ModelResponse([ToolCallPart("send", {})] if done == CALLS else [TextPart("done")])

    return FunctionModel(respond)


def _new_app(store: str, began: dict[str, float], at_once: int) -> Signoff:
    app = Signoff(store)
    agent = Agent(_model(at_once), name="bench", capabilities=[Durable(approvals=["send"])])

    @agent.tool_plain
    async def look(number: int) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"seen {number}"

    @agent.tool_plain
    async def send() -> None:  # pyright: ignore[reportUnusedFunction]
        began["at"] = time.time()

    app.register(agent)

    @app.workflow
    async def own(ctx: Context) -> str:  # pyright: ignore[reportUnusedFunction]
        return (await agent.run("look around, then send")).output

    return app


async def _resumed(place: Place, at_once: int, *, replayed: bool, workflow: str = "bench") -> list[float]:
    began: dict[str, float] = {}
    app = _new_app(place.new_store(), began, at_once)
    waits: list[float] = []
    async with app.worker() as worker, AsyncClient(app) as client:
        for number in range(place.sizes.answers):
            arguments = [{"prompt": "look around, then send"}] if workflow == "bench" else []
            await client.start(workflow, *arguments, id=f"turn-{number}", session_id=f"chat-{number}")
        while len((await client.questions(limit=1_000)).items) < place.sizes.answers:
            await asyncio.sleep(0.01)
        if replayed:
            await evict_all(worker)
        questions = (await client.questions(limit=1_000)).items
        with place.measured():
            for question in questions:
                asked_at = time.time()
                await client.answer(question.id, True)
                await (await client.get(question.run_id or "")).result()
                waits.append(1_000 * (began["at"] - asked_at))
    await app.store.close()
    return waits


async def agent_hot(place: Place) -> Figures:
    return {"wait": await _resumed(place, 5, replayed=False)}


async def agent_replayed(place: Place) -> Figures:
    return {
        "wait": await _resumed(place, 5, replayed=True),
        "one by one": await _resumed(place, 1, replayed=True),
        "own": await _resumed(place, 1, replayed=True, workflow="own"),
    }


ROWS = (
    Row(
        "agent-hot",
        agent_hot,
        COMMIT,
        (Line("wait", "approval to tool, turn still in memory", "ms", target=20, less_is_better=True),),
        lambda sizes: sizes.answers,
    ),
    Row(
        "agent-replayed",
        agent_replayed,
        COMMIT,
        (
            Line(
                "wait",
                "approval to tool, 20 calls of 4 responses replayed",
                "ms",
                target=20,
                less_is_better=True,
            ),
            Line("one by one", "... of 20 responses", "ms", target=20, less_is_better=True),
            Line(
                "own",
                "... of 20 responses, in a workflow that runs the agent itself",
                "ms",
                less_is_better=True,
            ),
        ),
        lambda sizes: sizes.answers,
    ),
)
