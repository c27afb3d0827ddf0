"""A log line names its run and step, and workflow code writes each line once."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from signoff import Context, RetryPolicy, Signoff
from signoff.observability.logs import JsonFormatter, RunFilter, TextFormatter
from signoff.testing import at_pause, crash_everywhere, environment
from signoff.testing.environment import Environment
from tests.support import in_asyncio, new_app, running

log = logging.getLogger("shop")
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What goes to a handler of the root logger; give it a formatter."""
    handler = logging.StreamHandler(io.StringIO())
    root = logging.getLogger()
    root.addHandler(handler)
    before, level = root.level, logging.getLogger("signoff").level
    root.setLevel(logging.INFO)
    yield handler.stream
    root.removeHandler(handler)
    root.setLevel(before)
    logging.getLogger("signoff").setLevel(level)


def formatted_by(output: io.StringIO, formatter: logging.Formatter) -> None:
    [handler] = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is output
    ]
    handler.setFormatter(formatter)
    if not isinstance(formatter, JsonFormatter | TextFormatter):
        handler.addFilter(RunFilter())


def payments(folder: Path) -> Signoff:
    app = new_app(folder)
    tries: list[int] = []

    def deep() -> None:
        log.info("in a thread", extra={"cents": 7000})

    async def call_bank() -> None:
        log.info("on the loop")
        await asyncio.gather(*(in_a_task() for _ in range(2)))
        tries.append(1)
        if len(tries) < 2:
            try:
                raise ConnectionError("closed")
            except ConnectionError:
                log.exception("the bank is %s", "closed")
                raise

    async def in_a_task() -> None:
        await asyncio.sleep(0)
        log.info("in a task")

    @app.workflow
    async def pay(ctx: Context) -> None:
        ctx.logger.info("paying %s", "order", extra={"order": 1})
        await ctx.step("write", deep)
        await ctx.step("call_bank", call_bank, retry=RetryPolicy(initial_seconds=0.01))

    return app


async def paid(folder: Path) -> str:
    app = payments(folder)
    async with running(app) as client:
        log.info("outside of runs")
        await (await client.start("pay", id="r")).result()
        return (await app.store.list_workers())[0].id


@in_asyncio
async def test_json_lines_carry_the_run_and_the_step(tmp_path: Path, output: io.StringIO) -> None:
    formatted_by(output, JsonFormatter())
    worker_id = await paid(tmp_path)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    ours = [line for line in lines if line["logger"] in ("shop", "signoff.workflow")]
    said: dict[str, dict[str, Any]] = {line["message"]: line for line in ours}
    in_run = [line for line in ours if line["message"] != "outside of runs"]
    assert {line["run_id"] for line in in_run} == {"r"}
    assert {(line["workflow"], line["group"], line["namespace"]) for line in in_run} == {
        ("pay", "default", "default")
    }
    assert {line["worker_id"] for line in in_run} == {worker_id}
    assert len({line["trace_id"] for line in in_run}) == 1
    assert (said["in a thread"]["step"], said["in a thread"]["cents"]) == ("write", 7000)
    assert [line["attempt"] for line in ours if line["message"] == "on the loop"] == [1, 2]
    assert {line["step"] for line in ours if line["message"] == "in a task"} == {"call_bank"}
    assert "ConnectionError: closed" in said["the bank is closed"]["exception"]
    assert said["the bank is closed"]["level"] == "ERROR"
    assert (said["paying order"]["order"], "step" in said["paying order"]) == (1, False)
    assert "run_id" not in said["outside of runs"]
    assert all(line["time"].endswith("Z") for line in lines)


@in_asyncio
async def test_lines_for_people_carry_the_run(tmp_path: Path, output: io.StringIO) -> None:
    formatted_by(output, TextFormatter())
    await paid(tmp_path)
    lines = output.getvalue().splitlines()
    assert "INFO shop: in a thread [run=r step=write attempt=1]" in lines
    assert "INFO signoff.workflow: paying order [run=r]" in lines
    assert "INFO shop: outside of runs" in lines
    assert "ERROR shop: the bank is closed [run=r step=call_bank attempt=1]" in lines


@in_asyncio
async def test_a_formatter_of_ones_own_finds_the_run_by_the_filter(
    tmp_path: Path, output: io.StringIO
) -> None:
    formatted_by(output, logging.Formatter("%(run_id)s/%(step)s %(message)s"))
    await paid(tmp_path)
    lines = output.getvalue().splitlines()
    assert "r/write in a thread" in lines
    assert "r/None paying order" in lines
    assert "None/None outside of runs" in lines


@in_asyncio
async def test_workflow_code_writes_each_line_once_over_crashes_and_replays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app(tmp_path)
    caplog.set_level(logging.INFO, "signoff.workflow")

    async def branch(ctx: Context, n: int) -> None:
        ctx.logger.info("branch %d begins", n)
        await ctx.wait_for_user(f"Question {n}?")
        ctx.logger.info("branch %d goes on", n)
        await ctx.step(f"step_{n}", lambda: None)
        ctx.logger.info("branch %d ends", n)

    @app.workflow
    async def refund(ctx: Context) -> None:
        ctx.logger.info("it begins")
        await ctx.step("fetch_order", lambda: None)
        ctx.logger.info("fetched")
        await asyncio.gather(ctx.lfc(branch, 1), ctx.lfc(branch, 2))
        ctx.logger.info("it ends")

    def written() -> Counter[str]:
        return Counter(record.getMessage() for record in caplog.records if record.name == "signoff.workflow")

    lines = {"it begins", "fetched", "it ends"}
    lines |= {f"branch {n} {what}" for n in (1, 2) for what in ("begins", "goes on", "ends")}

    async with environment(app, hot_runs=0) as env:
        for n in (1, 2):
            env.people.answer(f"Question {n}?", approved=True, after=n)
        env.crash(at=at_pause(nth=2))
        await env.run(refund)
        assert env.pending_crashes == []
    assert written() == dict.fromkeys(lines, 1)

    async def scenario(env: Environment) -> None:
        caplog.clear()
        env.people.answer("*", approved=True)
        await env.run(refund)
        assert written().keys() == lines  # none is lost, wherever a worker dies
        assert sum(written().values()) < 2 * len(lines)  # only what the journal did not know yet comes again

    await crash_everywhere(app, scenario)


@in_asyncio
async def test_a_generation_whose_lines_are_not_yet_written_is_not_silent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app(tmp_path)
    caplog.set_level(logging.INFO, "signoff.workflow")

    @app.workflow
    async def count(ctx: Context, n: int) -> None:
        ctx.logger.info("generation %d", n)
        if n:
            ctx.continue_as_new(n - 1)

    async def scenario(env: Environment) -> None:
        caplog.clear()
        await env.run(count, 2)
        written = [record.getMessage() for record in caplog.records if record.name == "signoff.workflow"]
        assert set(written) == {"generation 2", "generation 1", "generation 0"}

    await crash_everywhere(app, scenario)
