"""Live output of steps reaches all readers of the run, and is not kept."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import signoff
from signoff import Context, Entry, LiveText, RetryPolicy, Signoff
from signoff.engine.steps.attempt import StepInfo
from signoff.engine.worker.live_text import EVERY_SECONDS
from signoff.records import EntryKind
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.sqlite.store import SqliteStore
from tests.support import PATIENCE_SECONDS, in_asyncio, new_app, running

Event = Entry | LiveText


class CountingStore(SqliteStore):
    """Keeps what it was asked to publish."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.published: list[Sequence[LiveText]] = []

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        self.published.append(pieces)
        await super().publish(pieces)


class FailingStore(SqliteStore):
    """Publishes nothing."""

    async def publish(self, pieces: Sequence[LiveText]) -> None:
        raise RuntimeError("out of order")


async def read(events: AsyncGenerator[Any], ends: Callable[[list[Event]], bool]) -> list[Event]:
    """Read on until what was read is enough, or there is no more."""
    read: list[Event] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in events:
            read.append(event)
            if ends(read):
                break
    return read


def said(events: Sequence[Event]) -> str:
    return "".join(each.text for each in events if isinstance(each, LiveText))


def says(text: str) -> Callable[[list[Event]], bool]:
    return lambda events: said(events) == text


def never(events: list[Event]) -> bool:
    return False


def left_in(folder: Path) -> int:
    """How many pieces there are in the database."""
    with closing(sqlite3.connect(folder / "signoff.db")) as connection:
        return connection.execute("SELECT count(*) FROM live").fetchone()[0]


@in_asyncio
async def test_a_steps_live_text_is_read_while_it_runs_and_not_journaled(
    tmp_path: Path,
) -> None:
    app, go_on = new_app(tmp_path), asyncio.Event()

    @app.workflow
    async def tell(ctx: Context) -> str:
        return await ctx.step(speak)

    async def speak() -> str:
        here = signoff.current_step()
        here.live("Hel")
        here.live("lo", kind="text")
        here.live("hm", kind="thinking")
        await go_on.wait()
        return "Hello"

    async with running(app) as client:
        handle = await client.start(tell)
        events = handle.events(live=True)
        before = await read(events, says("Hellohm"))
        text, thinking = (each for each in before if isinstance(each, LiveText))
        assert (text.n, text.name, text.attempt, text.kind) == (1, "speak", 1, "text")
        assert (text.position, thinking.position, thinking.kind) == (0, 5, "thinking")
        go_on.set()
        after = await read(events, never)
        assert said(after) == ""
        assert [each for each in before + after if isinstance(each, Entry)] == await handle.journal()
        assert "hm" not in str(await handle.journal())
        assert [each async for each in handle.events()] == await handle.journal()
    assert left_in(tmp_path) == 0


@in_asyncio
async def test_a_late_reader_gets_missed_entries_then_live_text_then_the_rest(
    tmp_path: Path,
) -> None:
    app, go_on = new_app(tmp_path), [asyncio.Event(), asyncio.Event()]

    @app.workflow
    async def tell(ctx: Context) -> None:
        await ctx.step("first", str)
        await ctx.step(speak)

    async def speak() -> None:
        signoff.current_step().live("Once ")
        await go_on[0].wait()
        signoff.current_step().live("upon ")
        await go_on[1].wait()

    async with running(app) as client:
        handle = await client.start(tell)
        async with aclosing(handle.events(live=True)) as first:
            seen = await read(first, says("Once "))
        go_on[0].set()
        await read(handle.events(live=True), says("Once upon "))
        assert [type(each) for each in seen] == [Entry, Entry, LiveText]
        again = handle.events(0, live=True)
        resumed = await read(again, says("Once upon "))
        assert [each.seq for each in resumed if isinstance(each, Entry)] == [1]
        assert isinstance(resumed[0], Entry)
        go_on[1].set()
        rest = await read(again, never)
        assert [each.seq for each in rest if isinstance(each, Entry)] == [2, 3]


@in_asyncio
async def test_a_further_attempt_starts_over_and_removes_earlier_live_text(tmp_path: Path) -> None:
    app, go_on = new_app(tmp_path), asyncio.Event()

    @app.workflow
    async def tell(ctx: Context) -> None:
        await ctx.step(speak, retry=RetryPolicy(initial_seconds=0.01))

    async def speak() -> None:
        attempt = signoff.current_step().attempt
        signoff.current_step().live(f"attempt {attempt}")
        await comes_to_be_read(attempt)
        if attempt == 1:
            raise ValueError("no")
        await go_on.wait()

    read_of: dict[int, asyncio.Event] = {1: asyncio.Event(), 2: asyncio.Event()}

    async def comes_to_be_read(attempt: int) -> None:
        await read_of[attempt].wait()

    async with running(app) as client:
        handle = await client.start(tell)
        events = handle.events(live=True)
        await read(events, says("attempt 1"))
        read_of[1].set()
        between = await read(events, says("attempt 2"))
        [piece] = [each for each in between if isinstance(each, LiveText)]
        assert (piece.attempt, piece.position) == (2, 0)
        assert [each.kind for each in between if isinstance(each, Entry)] == [EntryKind.ATTEMPT_FAILED]
        assert [each.text for each in await app.store.read_live(handle.id)] == ["attempt 2"]
        read_of[2].set()
        go_on.set()
        await handle.result()
    assert left_in(tmp_path) == 0


@in_asyncio
async def test_ten_thousand_words_of_many_steps_cost_a_few_commits_a_second(tmp_path: Path) -> None:
    store = CountingStore(tmp_path / "signoff.db")
    app = Signoff(store)
    began, seconds = asyncio.get_running_loop().time(), 0.0

    @app.workflow
    async def tell(ctx: Context) -> None:
        await asyncio.gather(*(ctx.step("speak", speak) for _ in range(10)))

    async def speak() -> None:
        for number in range(1000):
            signoff.current_step().live(f"{number} ")
            if number % 100 == 0:
                await asyncio.sleep(0)
        await heard.wait()

    heard = asyncio.Event()
    everything = "".join(f"{number} " for number in range(1000))
    async with running(app) as client:
        handle = await client.start(tell)
        await read(handle.events(live=True), lambda events: len(said(events)) == 10 * len(everything))
        seconds = asyncio.get_running_loop().time() - began
        pieces = await store.read_live(handle.id)
        of_calls = {
            n: "".join(each.text for each in pieces if each.n == n) for n in {each.n for each in pieces}
        }
        assert list(of_calls.values()) == [everything] * 10
        heard.set()
        await handle.result()
    assert len(store.published) <= seconds / EVERY_SECONDS + 1
    assert left_in(tmp_path) == 0


@in_asyncio
async def test_of_more_than_is_kept_the_last_part_is_published(tmp_path: Path) -> None:
    app, go_on = new_app(tmp_path), asyncio.Event()

    @app.workflow
    async def tell(ctx: Context) -> None:
        await ctx.step(speak)

    async def speak() -> None:
        signoff.current_step().live("a" * 1_000_000)
        for _ in range(1000):
            signoff.current_step().live("b" * 1000)
        signoff.current_step().live("\0\ud800" + "c" * (KEPT_CHARACTERS - 2))
        await go_on.wait()

    async with running(app) as client:
        handle = await client.start(tell)
        events = await read(handle.events(live=True), lambda events: bool(said(events)))
        assert said(events) == "\ufffd?" + "c" * (KEPT_CHARACTERS - 2)
        assert events[-1].position == 2_000_000  # pyright: ignore[reportAttributeAccessIssue]
        go_on.set()
        await handle.result()


@in_asyncio
async def test_a_plain_function_speaks_from_its_thread(tmp_path: Path) -> None:
    app, go_on = new_app(tmp_path), threading.Event()

    @app.workflow
    async def tell(ctx: Context) -> int:
        return await ctx.step(speak)

    def speak() -> int:
        signoff.current_step().live("from a thread")
        go_on.wait(PATIENCE_SECONDS)
        return 1

    async with running(app) as client:
        handle = await client.start(tell)
        await read(handle.events(live=True), says("from a thread"))
        go_on.set()
        assert await handle.result() == 1


@in_asyncio
async def test_a_step_does_not_fail_or_wait_if_what_it_says_cannot_be_delivered(tmp_path: Path) -> None:
    app = Signoff(FailingStore(tmp_path / "signoff.db"))

    @app.workflow
    async def tell(ctx: Context) -> str:
        return await ctx.step(speak)

    async def speak() -> str:
        signoff.current_step().live("lost")
        await asyncio.sleep(0)
        signoff.current_step().live("")
        return "done"

    async with running(app) as client:
        handle = await client.start(tell)
        events = await read(handle.events(live=True), never)
        assert (said(events), await handle.result()) == ("", "done")


@in_asyncio
async def test_live_text_after_the_attempt_is_dropped(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    voices: list[StepInfo] = []
    contexts: list[contextvars.Context] = []

    @app.workflow
    async def tell(ctx: Context) -> None:
        await ctx.step(speak)
        await ctx.step(listen)

    async def speak() -> None:
        voices.append(signoff.current_step())
        contexts.append(contextvars.copy_context())

    async def listen() -> None:
        voices[0].live("too late")
        contexts[0].run(signoff.current_step).live("too late")
        signoff.current_step().live("now")
        await heard.wait()

    heard = asyncio.Event()
    async with running(app) as client:
        handle = await client.start(tell)
        await read(handle.events(live=True), says("now"))
        heard.set()
        await handle.result()


@in_asyncio
async def test_nothing_is_live_of_a_step_that_the_code_gave_up(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    heard = asyncio.Event()

    @app.workflow
    async def tell(ctx: Context) -> None:
        speaking = asyncio.ensure_future(ctx.step(speak))
        await ctx.step(listen)
        speaking.cancel()
        await ctx.step("after", str)
        await ctx.step(look)

    async def speak() -> None:
        signoff.current_step().live("never mind")
        await asyncio.Event().wait()

    async def listen() -> None:
        await heard.wait()

    async def look() -> None:
        assert left_in(tmp_path) == 0

    async with running(app) as client:
        handle = await client.start(tell)
        await read(handle.events(live=True), says("never mind"))
        heard.set()
        await handle.result()
