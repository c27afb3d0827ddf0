"""Pydantic AI's telemetry of an agent is emitted once, however often its run is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import Agent, durable_exec
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.models.instrumented import InstrumentationSettings

from signoff import Context, Signoff
from signoff.agents import Durable
from signoff.testing import MemoryStore, environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def read() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def settings(exported: InMemorySpanExporter, read: InMemoryMetricReader) -> InstrumentationSettings:
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exported))
    return InstrumentationSettings(tracer_provider=tracers, meter_provider=MeterProvider([read]))


@pytest.fixture(params=["by itself", "as all are"])
def instrumented(
    request: pytest.FixtureRequest, settings: InstrumentationSettings
) -> Iterator[list[AbstractCapability[None]]]:
    """What an agent needs besides, to be instrumented."""
    if request.param == "by itself":
        yield [Instrumentation(settings)]
        return
    Agent.instrument_all(settings)
    yield []
    Agent.instrument_all(False)


def requests_counted(read: InMemoryMetricReader) -> int:
    """How many requests the counts of tokens are of."""
    found = read.get_metrics_data()
    assert found is not None
    points: list[Any] = [
        point
        for resource in found.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "gen_ai.client.token.usage"
        for point in metric.data.data_points
        if (point.attributes or {}).get("gen_ai.token.type") == "output"
    ]
    return sum(point.count for point in points)


@pytest.mark.skipif(
    not hasattr(durable_exec, "replay_scope"), reason="before 2.68, Pydantic AI repeats spans at each replay"
)
@in_asyncio
async def test_spans_and_token_counts_are_made_once_despite_replays(
    instrumented: list[AbstractCapability[None]], exported: InMemorySpanExporter, read: InMemoryMetricReader
) -> None:
    app, script = Signoff(MemoryStore()), Script(calls(("look", {})), calls(("pay", {})), says("paid"))
    agent = Agent(script.model, name="a", capabilities=[Durable[None](), *instrumented])
    seen: list[bool] = []

    @agent.tool_plain
    def look() -> str:
        return "seen"

    @agent.tool_plain(requires_approval=True)
    def pay() -> str:
        return "paid"

    @app.workflow
    async def work(ctx: Context) -> str:
        seen.append(ctx.is_replaying)
        output = (await agent.run("Pay them back")).output
        for _ in range(3):
            await ctx.wait_for_signal("next")
        return output

    async with environment(app, hot_runs=0) as env:
        env.people.answer("a wants to call pay", approved=True)
        run = await env.start(work, id="r")
        for _ in range(3):
            await env.idle()
            await run.signal("next")
        assert await run.result() == "paid"
    told = Counter(span.name.partition(" ")[0] for span in exported.get_finished_spans())
    # The approved call is two: one that asks, and in it the one that runs.
    assert told == {"invoke_agent": 1, "chat": 3, "execute_tool": 3}
    assert requests_counted(read) == 3
    assert (seen[0], set(seen[1:])) == (False, {True})
