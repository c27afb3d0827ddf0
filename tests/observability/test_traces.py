"""A run is one trace, whoever drives it and however long it waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from signoff import AsyncClient, Context, RetryPolicy, RunState, Signoff
from signoff.observability.tracing import Instrumentor
from signoff.server import Server
from signoff.stores.contract.store import Store
from tests.observability.places import PLACES
from tests.support import doomed_worker, in_asyncio, new_app, opened, pauses, reaches, running, until

SECRET = "hunter2-is-my-password"


def app_on(store: Store) -> Signoff:
    app = Signoff(store)

    @app.workflow
    async def child(ctx: Context) -> int:
        return await ctx.step("in_child", lambda: 1)

    @app.workflow
    async def refund(ctx: Context, order: str) -> str:
        await ctx.step("fetch_order", lambda: order)
        answer = await ctx.wait_for_user(f"Refund {order}?", input_type="text")
        await ctx.step("pay", lambda: None, effect="once")
        await ctx.rfc("child")
        return answer.value

    return app


def named(exported: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exported.get_finished_spans() if span.name == name]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("signoff."): value for name, value in (span.attributes or {}).items()}


def parents(spans: Sequence[ReadableSpan]) -> set[int]:
    return {span.parent.span_id for span in spans if span.parent is not None}


@pytest.fixture
def caller(provider: TracerProvider) -> trace.Tracer:
    return provider.get_tracer("caller")


@pytest.mark.parametrize("place", sorted(PLACES))
@in_asyncio
async def test_a_run_is_one_trace_over_a_pause_two_workers_and_a_child(
    place: str, tmp_path: Path, exported: InMemorySpanExporter, caller: trace.Tracer
) -> None:
    async with PLACES[place](tmp_path) as new_store:
        first, second = app_on(new_store()), app_on(new_store())
        async with opened(first) as client:
            with caller.start_as_current_span("request") as request:
                await client.start("refund", SECRET, id="r")
            async with first.worker():
                await pauses(first, "r")
        async with running(second) as client:
            [question] = (await client.questions(run_id="r")).items
            with caller.start_as_current_span("request to answer") as answering:
                await client.answer(question.id, SECRET, user_id="user:ana")
            assert await (await client.get("r")).result() == SECRET

    spans = [span for span in exported.get_finished_spans() if not span.name.startswith("request")]
    assert {span.context.trace_id for span in spans if span.context} == {request.get_span_context().trace_id}
    segments = named(exported, "run refund")
    assert attributes(segments[0])["run.left"] == "paused"
    assert attributes(segments[-1])["run.left"] == "succeeded"
    assert len({attributes(span)["worker.id"] for span in segments}) == 2
    top = [
        *segments,
        *named(exported, "run child"),
        *named(exported, "wait question"),
        *named(exported, "answer"),
    ]
    assert parents(top) == {request.get_span_context().span_id}
    assert attributes(named(exported, "run child")[0])["run.parent_id"] == "r"
    for step in ("fetch_order", "pay", "in_child"):
        [span] = named(exported, f"step {step}")
        owners = [*segments, *named(exported, "run child")]
        assert span.parent is not None
        assert span.parent.span_id in {owner.context.span_id for owner in owners if owner.context}
    [pay] = named(exported, "step pay")
    assert attributes(pay)["step.effect"] == "once"
    assert attributes(pay)["step.idempotency_key"] == "r.3"
    [wait] = named(exported, "wait question")
    assert (attributes(wait)["wait.state"], attributes(wait)["wait.by"]) == ("resolved", "user:ana")
    [fetched] = named(exported, "step fetch_order")
    assert wait.start_time is not None
    assert wait.end_time is not None
    assert fetched.end_time is not None
    assert pay.start_time is not None
    assert fetched.end_time - 10**9 < wait.start_time < wait.end_time < pay.start_time + 10**9
    [answer] = named(exported, "answer")
    assert attributes(answer)["answer.by"] == "user:ana"
    assert [link.context.span_id for link in answer.links] == [answering.get_span_context().span_id]
    assert SECRET not in "".join(span.to_json() for span in spans)
    assert "Refund" not in "".join(span.to_json() for span in spans)  # a question's text may name anything


@in_asyncio
async def test_an_untraced_run_has_a_trace_of_its_own(tmp_path: Path, exported: InMemorySpanExporter) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        app = app_on(new_app(tmp_path / folder).store)
        async with running(app) as client:
            await client.start("child", id="same")
            await (await client.start("child", id=f"another-{folder}")).result()
            await (await client.get("same")).result()
    traces: dict[str, set[int]] = {}
    for span in named(exported, "run child"):
        assert span.context is not None
        traces.setdefault(attributes(span)["run.id"], set()).add(span.context.trace_id)
    assert [len(ids) for ids in traces.values()] == [1, 1, 1]
    assert len(set.union(*traces.values())) == 3


@in_asyncio
async def test_a_step_sees_its_span_on_the_loop_and_in_a_thread(
    tmp_path: Path, exported: InMemorySpanExporter, caller: trace.Tracer
) -> None:
    app = new_app(tmp_path)

    async def on_loop() -> None:
        with caller.start_as_current_span("call bank"):
            await asyncio.sleep(0)

    def in_thread() -> None:
        with caller.start_as_current_span("write file"):
            pass

    seen: list[trace.Span] = []

    @app.workflow
    async def pay(ctx: Context) -> None:
        seen.append(trace.get_current_span())
        await asyncio.gather(ctx.step("bank", on_loop), ctx.step("file", in_thread))
        seen.append(trace.get_current_span())

    async with running(app) as client:
        await (await client.start(pay)).result()
    for inner, outer in (("call bank", "step bank"), ("write file", "step file")):
        [span], [step] = named(exported, inner), named(exported, outer)
        assert step.context is not None
        assert parents([span]) == {step.context.span_id}
    assert seen == [trace.INVALID_SPAN, trace.INVALID_SPAN]  # workflow code runs again and again


@in_asyncio
async def test_a_failed_attempt_is_an_error_and_each_attempt_a_span(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    app = new_app(tmp_path)
    tries: list[int] = []

    def shaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("the bank is closed")
        return "paid"

    @app.workflow
    async def pay(ctx: Context) -> str:
        return await ctx.step("pay", shaky, retry=RetryPolicy(initial_seconds=0.01))

    async with running(app) as client:
        await (await client.start(pay)).result()
    spans = named(exported, "step pay")
    assert [attributes(span)["step.attempt"] for span in spans] == [1, 2, 3]
    assert [span.status.is_ok for span in spans] == [False, False, True]
    assert [attributes(span).get("step.retried") for span in spans] == [True, True, None]
    [failure] = spans[0].events
    assert (failure.attributes or {})["exception.message"] == "the bank is closed"


async def driven_again(app: Signoff) -> None:
    """Have a run rebuilt from its journal, because of something that it does not wait for."""
    async with opened(app) as client, doomed_worker(app, hot_runs=0):
        await client.start("refund", "o-1", id="r")
        await pauses(app, "r")
        await client.signal("r", "unexpected")

        async def has_taken_it() -> bool:
            return len(await app.store.read_messages(["r"])) == 0

        await until(app, has_taken_it)
        await pauses(app, "r")


@in_asyncio
async def test_what_the_journal_knows_makes_no_spans_at_a_replay(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    for _ in range(2):
        await driven_again(app_on(new_app(tmp_path).store))
    assert len(named(exported, "run refund")) >= 3
    assert len(named(exported, "step fetch_order")) == 1
    async with running(app_on(new_app(tmp_path).store)) as client:
        await client.answer("r.2", "yes")
        await (await client.get("r")).result()
    assert len(named(exported, "step fetch_order")) == 1
    assert len(named(exported, "wait question")) == 1


@in_asyncio
async def test_continuing_as_new_goes_on_with_the_trace(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def count(ctx: Context, n: int) -> int:
        await ctx.step(f"count_{n}", lambda: None)
        await ctx.rfc("leaf", n)
        if n:
            ctx.continue_as_new(n - 1)
        return n

    @app.workflow
    async def leaf(ctx: Context, n: int) -> None:
        await ctx.step("leaf", lambda: None)

    async with running(app) as client:
        await (await client.start(count, 2)).result()
    spans = exported.get_finished_spans()
    assert {"step count_0", "step count_1", "step count_2"} < {span.name for span in spans}
    assert len({span.context.trace_id for span in spans if span.context}) == 1


@in_asyncio
async def test_the_header_of_a_request_is_the_trace_of_the_run(tmp_path: Path) -> None:
    app = app_on(new_app(tmp_path).store)
    good = f"00-{'a' * 32}-{'b' * 16}-01"
    kept = {
        good: good,
        f"01{good[2:]}-what-comes-later": good,
        f"ff{good[2:]}": None,
        good.upper(): None,
        f"00-{'0' * 32}-{'b' * 16}-01": None,
        "nonsense": None,
    }
    async with (
        opened(app),
        Server(app, port=0) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        for header, expected in kept.items():
            response = await http.post(
                "/v1/runs", json={"workflow": "child"}, headers={"traceparent": header}
            )
            assert response.status_code == 201
            assert response.json().get("traceparent") == expected, header


@in_asyncio
async def test_a_client_sends_the_current_trace_to_a_server(tmp_path: Path, caller: trace.Tracer) -> None:
    app = app_on(new_app(tmp_path).store)
    async with opened(app), Server(app, port=0) as server, AsyncClient(server.url) as client:
        with caller.start_as_current_span("request") as request:
            run = await client.start("child")
        context = request.get_span_context()
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert (await app.store.get_run(run.id)).traceparent == expected
        assert (await app.store.get_run((await client.start("child")).id)).traceparent is None


def test_a_blocking_client_has_the_trace_of_its_caller(tmp_path: Path, caller: trace.Tracer) -> None:
    app = app_on(new_app(tmp_path).store)
    try:
        with caller.start_as_current_span("request") as request:
            run = app.start("child")
        assert app.get(run.id) is not None
        traceparent = asyncio.run(app.store.get_run(run.id)).traceparent or ""
        assert f"{request.get_span_context().trace_id:032x}" in traceparent
    finally:
        app.close()


@pytest.fixture
def instrumentor() -> Iterator[Instrumentor]:
    instrumentor = Instrumentor()
    yield instrumentor
    instrumentor.uninstrument()


@in_asyncio
async def test_a_refused_answer_is_an_error(tmp_path: Path, exported: InMemorySpanExporter) -> None:
    app = app_on(new_app(tmp_path).store)
    async with running(app) as client:
        await client.start("refund", "o-1", id="r")
        await pauses(app, "r")
        with pytest.raises(ValueError, match="r.2"):
            await client.answer("r.2", {"wrong": SECRET})
        await client.cancel("r")
        await reaches(app, "r", RunState.CANCELLED)
    [answer] = named(exported, "answer")
    assert attributes(answer)["answer.outcome"] == "WrongAnswer"
    assert not answer.status.is_ok
    assert SECRET not in json.dumps(answer.to_json())


def test_instrumenting_twice_makes_each_span_once(
    tmp_path: Path, provider: TracerProvider, instrumentor: Instrumentor
) -> None:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)
    Instrumentor().instrument(tracer_provider=provider, skip_dep_check=True)
    app = app_on(new_app(tmp_path).store)
    with app.worker():
        app.start("child").result()
    app.close()
    assert len(named(exporter, "step in_child")) == 1
