"""A run's timeline as the server sends it: rows that readers keep, without knowledge of the journal."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import Context, RetryPolicy, SignalTimeout
from signoff.client.async_client import AsyncClient
from signoff.client.http_backend import HttpBackend
from signoff.records import CallKind, Entry, EntryKind, RunState
from signoff.records.timeline import TimelineChange
from signoff.service.timeline import Timeline
from tests.server.conftest import asked, ended, kind, serving, start
from tests.support import asked as waiting_for
from tests.support import fails, in_asyncio, new_app, opened, opens, pauses, reaches

ABOUT_A_ROW = ("at", "kind", "name", "n", "id", "due_at", "opened")

Row = dict[str, Any]


def sent(http: httpx.Client, run_id: str, **query: Any) -> list[tuple[str, Row]]:
    """The events of a timeline, as (event, data)."""
    text = http.get(f"/v1/runs/{run_id}/timeline", params=query).text
    events: list[tuple[str, Row]] = []
    for block in text.strip().split("\n\n"):
        parts = dict(line.split(": ", 1) for line in block.splitlines())
        data = json.loads(parts["data"])
        assert "id" not in parts or int(parts["id"]) == data["seq"]
        events.append((parts.get("event", "message"), data))
    return events


def rows(changes: Sequence[Row], known: Mapping[int, Row] | None = None) -> dict[int, Row]:
    """What a reader has after the changes."""
    found = {row: dict(facts) for row, facts in (known or {}).items()}
    for change in changes:
        former = found.get(change["row"], change)
        kept = {name: former[name] for name in ABOUT_A_ROW if name in former}
        tried = former.get("attempts", []) + ([change["attempt"]] if "attempt" in change else [])
        found[change["row"]] = {**change, **kept, "attempts": tried}
    return found


def changes_of(events: Sequence[tuple[str, Row]]) -> list[Row]:
    return [data for event, data in events if event == "message"]


def test_a_timeline_is_rows_then_current_then_the_end(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    question = asked(http, name)
    before = sent(http, name)
    assert [event for event, _ in before][-2:] == ["current", "end"]
    waiting = rows(changes_of(before))[1]
    assert (waiting["kind"], waiting["state"], waiting["id"]) == ("question", "open", question)
    assert waiting["opened"]["text"] == "Go on?"
    http.post(f"/v1/questions/{question}/answer", json={"value": True, "user_id": "ana", "note": "fine"})
    ended(http, name)
    whole = rows(changes_of(sent(http, name)))
    assert [(row["kind"], row["name"], row["state"]) for row in whole.values()] == [
        ("run", "started", "noted"),
        ("question", "Go on?", "succeeded"),
        ("run", "succeeded", "succeeded"),
    ]
    assert (whole[1]["by"], whole[1]["note"], whole[1]["origin"]["way"]) == ("ana", "fine", "open")


@pytest.mark.parametrize("seen", [-1, 0, 1, 2, 3, 100])
def test_a_timeline_is_resumed_after_any_entry(http: httpx.Client, name: str, seen: int) -> None:
    start(http, "ask", name)
    http.post(f"/v1/questions/{asked(http, name)}/answer", json={"value": True})
    ended(http, name)
    whole = changes_of(sent(http, name))
    rest = changes_of(sent(http, name, after=seen))
    assert rest == [change for change in whole if change["seq"] > seen]
    assert rows(rest, rows(whole[: len(whole) - len(rest)])) == rows(whole)


def test_a_timeline_is_followed_until_the_run_ends(http: httpx.Client, name: str) -> None:
    start(http, "ask", name)
    asked(http, name)
    with http.stream("GET", f"/v1/runs/{name}/timeline", params={"follow": True}) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event:")) == "event: current"
        http.post(f"/v1/questions/{name}.1/answer", json={"value": True})
        rest = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert [(each.get("row"), each.get("state")) for each in rest if each] == [
        (1, "succeeded"),
        (3, "succeeded"),
    ]


def test_an_unknown_run_has_no_timeline(http: httpx.Client, name: str) -> None:
    refused = http.get(f"/v1/runs/{name}/timeline")
    assert (refused.status_code, kind(refused)) == (404, "NotFound")


async def read(backend: Any, run_id: str, **options: Any) -> list[TimelineChange]:
    return [
        change async for change in backend.timeline(run_id, **options) if isinstance(change, TimelineChange)
    ]


@in_asyncio
async def test_a_server_sends_the_rows_that_the_store_gives(tmp_path: Path) -> None:
    tries = 0

    def shaky() -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError
        return tries

    app = new_app(tmp_path)

    @app.workflow
    async def child(ctx: Context, number: int) -> int:
        return number

    @app.workflow
    async def work(ctx: Context) -> None:
        await ctx.progress("begun", done=1)
        await ctx.step("shaky", shaky, retry=RetryPolicy(initial_seconds=0.01))
        await ctx.rfc(child, 1)
        await ctx.detached(child, 2)
        try:
            await ctx.wait_for_user("Nobody?", timeout_seconds=0.01)
        except SignalTimeout:
            await ctx.promise(id="outside")
        await ctx.wait_for_signal("go")
        await ctx.wait_for_user("Left open?")

    async with serving(app) as server:
        client, remote = AsyncClient(app), HttpBackend(server.url)
        async with client:
            await client.start(work, id="r")
            await opens(app, "outside")
            await client.promises.resolve("outside", {"x": 1})
            await client.signal("r", "go", 1)
            while not await waiting_for(client, "r"):
                await asyncio.sleep(0.01)
            for is_over in (False, True):
                if is_over:
                    await client.cancel("r", reason="enough")
                    await reaches(app, "r", RunState.CANCELLED)
                here, there = await read(client.backend, "r"), await read(remote, "r")
                assert [json.dumps(str(each)) for each in here] == [json.dumps(str(each)) for each in there]
                states = {each.kind: each.state for each in here if each.kind}
                assert states["progress"] == "noted"
            last = {each.row: each.state for each in here}
        await remote.close()
    names = {each.row: (each.kind, each.name) for each in here if each.kind}
    found = {names[row]: state for row, state in last.items()}
    assert found["step", "shaky"] == "succeeded"
    assert found["question", "Nobody?"] == "timed_out"
    assert found["question", "Left open?"] in ("cancelled", "abandoned")
    assert sum(each.attempt is not None for each in here) == 2


@in_asyncio
async def test_an_answer_shows_before_a_worker_has_journaled_it(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    async def work(ctx: Context) -> None:
        await ctx.wait_for_user("Pay?")

    async with opened(app) as client:
        await client.start(work, id="r")
        async with app.worker():
            await pauses(app, "r")
        known = await read(client.backend, "r")
        assert known[-1].state == "open"
        await client.answer("r.1", True, user_id="ana")
        last = (await read(client.backend, "r"))[-1]
        assert (last.row, last.state, last.by) == (known[-1].row, "succeeded", "ana")
        assert last.origin is not None
        [again] = await read(client.backend, "r", after=last.seq)
        assert again == last


@in_asyncio
async def test_a_question_that_a_retry_asks_anew_has_a_row_of_its_own(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    is_broken = True

    async def work_of(ctx: Context) -> None:
        async def boom() -> None:
            if is_broken:
                raise ValueError("no stock")

        await asyncio.gather(
            ctx.wait_for_user("Pay?"), ctx.step("boom", boom, retry=RetryPolicy(max_attempts=1))
        )

    work = app.workflow(name="work")(work_of)
    async with opened(app) as client, app.worker():
        await client.start(work, id="r")
        await fails(app, "r")
        is_broken = False
        await client.retry("r")
        await pauses(app, "r")
        changes = await read(client.backend, "r")
    questions = [each for each in changes if each.kind == "question"]
    assert [each.name for each in questions] == ["Pay?", "Pay?"]
    assert len({each.id for each in questions}) == 2
    last = {each.row: each for each in changes}
    assert [last[each.row].state for each in questions] == ["abandoned", "open"]
    assert last[questions[1].row].doubt is None


def test_a_timeline_keeps_no_payload_of_its_open_calls() -> None:
    timeline = Timeline(0.0)
    tracemalloc.start()
    try:
        for n in range(2_000):
            value = json.dumps({"text": str(n) * 10_000})
            details = json.dumps({"id": f"r.{n}"})
            entry = Entry(n, 1.5, EntryKind.OPENED, n, CallKind.QUESTION, "Pay?", value, None, details)
            assert [change.opened for change in timeline.add(entry)] == [value]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(timeline.open_promises) == 2_000
    assert peak < 4 * 1024 * 1024
