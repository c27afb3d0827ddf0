"""Where payloads are hidden, logs and spans of the process contain error types, but no error texts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from signoff import AsyncClient, Context, RetryPolicy
from signoff.engine.steps.retry import NO_RETRY
from signoff.errors import StoreUnavailable
from signoff.observability.tracing import trace_runs
from signoff.runtime.loggers import hiding_texts, own_logger
from signoff.server import Server
from tests.cli.commands import Running, until
from tests.support import in_asyncio, new_app

SECRET = "QUOKKA-0044-XYZW"


def refuses(iban: str) -> None:
    error = ValueError(f"no account {iban}")
    error.add_note(f"of {iban}")
    raise error from KeyError(iban)


def exits(iban: str) -> None:
    sys.exit(f"no account {iban}")


def never(error: BaseException) -> bool:
    raise RuntimeError(str(error))


async def fails(ctx: Context, iban: str, how: str) -> None:
    match how:
        case "step":
            await ctx.step("refuses", refuses, iban, retry=NO_RETRY)
        case "exit":
            await ctx.step("exits", exits, iban, retry=NO_RETRY)
        case "policy":
            await ctx.step("refuses", refuses, iban, retry=RetryPolicy(max_attempts=2, retried=never))
        case "not awaited":
            ctx.step(iban, refuses, iban)
        case _:
            asyncio.get_running_loop().call_soon(refuses, iban)
            await ctx.sleep(0)


async def told(tmp_path: Path, redact: list[str]) -> str:
    """What spans say of failing runs."""
    app = new_app(tmp_path)
    app.workflow(fails)
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    end = trace_runs(provider)
    try:
        async with Server(app, port=0, redact=redact), app.worker(), AsyncClient(app) as client:
            for how in ("step", "exit", "policy", "not awaited", "callback"):
                await client.start(fails, SECRET, how, id=how)
                async with asyncio.timeout(60):
                    while not (await client.backend.get_run(how)).state.is_final:
                        await asyncio.sleep(0.01)
    finally:
        end()
        await app.store.close()
    return "\n".join(span.to_json() for span in exported.get_finished_spans())


@in_asyncio
async def test_a_server_that_hides_payloads_hides_error_texts_in_logs_and_spans(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spans = await told(tmp_path, ["iban"])
    assert SECRET not in spans
    assert '"exception.type": "ValueError"' in spans
    assert SECRET not in caplog.text
    assert "failed in attempt 1: ValueError (its text is hidden)" in caplog.text


@in_asyncio
async def test_elsewhere_logs_and_spans_have_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert f"no account {SECRET}" in await told(tmp_path, [])
    assert f"no account {SECRET}" in caplog.text


def test_a_worker_hides_them_if_the_environment_says_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        f"""
from signoff import Context, RetryPolicy, Signoff

app = Signoff("sqlite:///signoff.db")

@app.workflow
async def flow(ctx: Context) -> None:
    await ctx.step("refuses", refuses, retry=RetryPolicy(max_attempts=1))

def refuses() -> None:
    raise ValueError("no account {SECRET}")

app.start(flow)
"""
    )
    with Running("worker", "shop:app", cwd=tmp_path, SIGNOFF_REDACT="iban") as worker:
        until(lambda: "failed in attempt 1: ValueError (its text is hidden)" in worker.err or None)
        assert SECRET not in worker.err


def test_lines_with_tracebacks_and_errors_of_stores(caplog: pytest.LogCaptureFixture) -> None:
    log = own_logger("signoff.worker")
    trouble = StoreUnavailable("sqlite:///x.db", "it is full")
    with hiding_texts():
        log.error("100 %% of %s failed", "it", exc_info=ValueError(SECRET))
        log.error("it waits: %s", trouble)
        log.error("timers failed", exc_info=trouble)
    assert SECRET not in caplog.text
    assert "100 % of it failed: ValueError (its text is hidden)" in caplog.text
    assert caplog.text.count("it is full") >= 2
