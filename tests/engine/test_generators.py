"""Generator style: every call can be yielded, errors are thrown in; and two complete programs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Context, RetryPolicy, RunCancelled, SignalTimeout
from signoff.errors import RegistrationError
from signoff.records import EntryKind
from signoff.testing import VirtualClock
from tests.cli.commands import Running
from tests.support import asked, doomed_worker, in_asyncio, journaled, new_app, opened, opens, pauses, running


@in_asyncio
async def test_every_call_can_be_yielded(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    def plain(ctx: Context, number: int) -> int:
        return number + 1

    def inner(ctx: Context, number: int) -> Generator[Any, Any, int]:
        return (yield ctx.step("inner", lambda: number * 10))

    async def awaiting(ctx: Context, number: int) -> int:
        return await ctx.step("awaiting", lambda: number * 100)

    @app.workflow
    def child(ctx: Context, number: int) -> Generator[Any, Any, int]:
        yield ctx.sleep(0)
        return -number

    @app.workflow
    def flow(ctx: Context) -> Generator[Any, Any, list[Any]]:
        got: list[Any] = [(yield ctx.lfc(plain, 1)), (yield ctx.lfc(inner, 2)), (yield ctx.lfc(awaiting, 3))]
        handles = [(yield ctx.lfi(plain, 4)), (yield ctx.lfi(inner, 5)), (yield ctx.rfi(child, 6))]
        got += [(yield ctx.rfc("child", 7)), (yield ctx.detached(child, 8))]
        got += [(yield handles[0]), (yield handles[1]), (yield handles[2])]
        promise = yield ctx.promise()
        got.append((yield promise))
        answer = yield ctx.wait_for_user("ok?")
        got.append(answer.approved)
        got.append((yield ctx.wait_for_signal("go")))
        yield ctx.progress("nearly", done=1)
        got.extend((yield asyncio.gather(ctx.step("a", lambda: "a"), ctx.step("b", lambda: "b"))))
        return got

    async with opened(app) as client:
        run = await client.start(flow, id="r")
        await run.signal("go", "went")
        async with doomed_worker(app):
            promise, question = "r.9", "r.10"
            await opens(app, promise)
            await client.promises.resolve(promise, "kept")
            await opens(app, question)
        await client.answer(question, True)
        async with app.worker():
            assert await run.result(60) == [
                *(2, 20, 300, -7, "r.8", 5, 50, -6),
                *("kept", True, "went", "a", "b"),
            ]


@in_asyncio
async def test_errors_are_thrown_into_the_generator_where_it_stands(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    cleaned: list[str] = []

    def fail() -> None:
        raise LookupError("no such thing")

    @app.workflow
    def flow(ctx: Context) -> Generator[Any, Any, str]:
        try:
            yield ctx.step("fail", fail, retry=RetryPolicy(max_attempts=1))
        except LookupError as error:
            yield ctx.step("clean", lambda: cleaned.append("step"))
            return f"caught {error}"
        return "missed"

    async with running(app) as client:
        assert await (await client.start(flow)).result(60) == "caught no such thing"
        assert cleaned == ["step"]


@in_asyncio
async def test_a_cancellation_is_thrown_into_the_generator_and_it_may_clean_up(tmp_path: Path) -> None:
    app = new_app(tmp_path)
    cleaned: list[str] = []

    @app.workflow
    def flow(ctx: Context) -> Generator[Any, Any, None]:
        try:
            yield ctx.wait_for_signal("never")
        finally:
            yield ctx.step("clean", lambda: cleaned.append("step"))

    async with running(app) as client:
        run = await client.start(flow, id="r")
        await pauses(app, "r")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(60)
        assert cleaned == ["step"]


@in_asyncio
async def test_a_yield_of_something_else_is_named(tmp_path: Path) -> None:
    app = new_app(tmp_path)

    @app.workflow
    def flow(ctx: Context) -> Generator[Any, Any, None]:
        yield 7

    async with running(app) as client:
        with pytest.raises(RegistrationError, match="yielded int"):
            await (await client.start(flow)).result(60)


class NetworkResolutionError(Exception):
    """The host's name is not known."""


class _Web:
    """What download_and_summarize works with, and how often."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.is_down = False

    def download(self, ctx: Context, usable_id: str, url: str) -> str:
        self.done.append("download")
        if self.is_down:
            raise NetworkResolutionError(url)
        return f"{usable_id}.html"

    def summarize(self, ctx: Context, filename: str) -> str:
        self.done.append("summarize")
        return f"summary {self.done.count('summarize')} of {filename}"

    def send_email(self, ctx: Context, summary: str, email: str, promise_id: str) -> None:
        self.done.append(f"send {summary!r} to {email} with {promise_id}")


def _website_app(folder: Path, web: _Web):
    app = new_app(folder)
    download, summarize, send_email = web.download, web.summarize, web.send_email

    @app.workflow
    def download_and_summarize(ctx, params):
        filename = yield ctx.lfc(download, params["usable_id"], params["url"]).options(
            durable=False, non_retryable_exceptions=(NetworkResolutionError,)
        )
        while True:
            summary = yield ctx.lfc(summarize, filename)
            promise = yield ctx.promise()
            yield ctx.lfc(send_email, summary, params["email"], promise.id)
            if (yield promise):  # resolved from another process, over HTTP
                break
        return summary

    return app, download_and_summarize


@asynccontextmanager
async def _server_process(folder: Path) -> AsyncIterator[AsyncClient]:
    """A client of a ``signoff server`` process that serves the folder's database."""
    with Running("server", "--port", "0", cwd=folder) as server:
        listening = await asyncio.to_thread(server.wait_for, "listening")
        async with AsyncClient(listening["url"]) as client:
            yield client


PARAMS = {"usable_id": "example", "url": "https://example.org", "email": "ana@example.org"}


@pytest.mark.long
@in_asyncio
async def test_download_and_summarize_runs_as_it_stands(tmp_path: Path) -> None:
    web = _Web()
    app, download_and_summarize = _website_app(tmp_path, web)
    async with opened(app) as client, _server_process(tmp_path) as elsewhere:
        run = await client.start(download_and_summarize, PARAMS, id="s")
        async with app.worker():
            await pauses(app, "s")
        await elsewhere.promises.resolve("s.3", False)
        async with app.worker():
            await opens(app, "s.6")
            await elsewhere.promises.resolve("s.6", True)
            assert await run.result(60) == "summary 2 of example.html"
    # The download is not durable, so the second worker downloads again; a summary is.
    assert web.done == [
        "download",
        "summarize",
        "send 'summary 1 of example.html' to ana@example.org with s.3",
        "download",
        "summarize",
        "send 'summary 2 of example.html' to ana@example.org with s.6",
    ]


@in_asyncio
async def test_download_and_summarize_fails_at_once_where_no_retry_helps(tmp_path: Path) -> None:
    web = _Web()
    web.is_down = True
    app, download_and_summarize = _website_app(tmp_path, web)
    async with running(app) as client:
        with pytest.raises(NetworkResolutionError):
            await (await client.start(download_and_summarize, PARAMS)).result(60)
    assert web.done == ["download"]


class _Shop:
    """What refund_flow works with."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, int]] = []
        self.posts: list[str] = []


def _refund_app(folder: Path, shop: _Shop, clock: VirtualClock | None = None):
    app = new_app(folder, clock=clock)

    def get_order(order_id: str) -> dict[str, str]:
        return {"id": order_id, "customer_email": "bob@example.org"}

    def issue_refund(order_id: str, amount_cents: int) -> None:
        shop.refunds.append((order_id, amount_cents))

    def post_slack(text: str) -> None:
        shop.posts.append(text)

    @app.workflow
    async def refund_flow(ctx: Context, order_id: str, amount_cents: int) -> dict:
        order = await ctx.step("fetch_order", lambda: get_order(order_id))
        if amount_cents < 5_000:
            await ctx.step("issue_refund", lambda: issue_refund(order_id, amount_cents))
            return {"status": "auto_approved", "amount_cents": amount_cents}
        try:
            decision = await ctx.wait_for_user(
                question=f"Approve ${amount_cents / 100:.2f} refund for order {order_id}?",
                input_type="approval",
                metadata={"customer": order["customer_email"]},
                timeout_seconds=3600,
            )
        except SignalTimeout:
            await ctx.step("notify", lambda: post_slack("timed out, escalating"))
            decision = await ctx.wait_for_user(
                question="ESCALATION: approve?", input_type="approval", metadata={"escalation": True}
            )
        if decision["approved"]:
            await ctx.step("issue_refund", lambda: issue_refund(order_id, amount_cents))
            return {"status": "approved_by_human", "approver": decision["user_id"]}
        return {"status": "rejected", "reason": decision.get("note", "")}

    return app, refund_flow


@in_asyncio
async def test_refund_flow_pays_small_sums_without_asking(tmp_path: Path) -> None:
    shop = _Shop()
    app, refund_flow = _refund_app(tmp_path, shop)
    async with running(app) as client:
        result = await (await client.start(refund_flow, "o-1", 4_999)).result(60)
    assert result == {"status": "auto_approved", "amount_cents": 4_999}
    assert shop.refunds == [("o-1", 4_999)]


@pytest.mark.parametrize("approved", [True, False])
@in_asyncio
async def test_refund_flow_pays_large_sums_when_a_person_says_so(tmp_path: Path, approved: bool) -> None:
    shop = _Shop()
    app, refund_flow = _refund_app(tmp_path, shop)
    async with running(app) as client:
        run = await client.start(refund_flow, "o-1", 7_000, id="r")
        await pauses(app, "r")
        (question,) = await asked(client, "r")
        assert "$70.00" in (question.data or "")
        await client.answer(question.id, approved, user_id="ana", note="seen")
        result = await run.result(60)
    if approved:
        assert result == {"status": "approved_by_human", "approver": "ana"}
        assert shop.refunds == [("o-1", 7_000)]
    else:
        assert result == {"status": "rejected", "reason": "seen"}
        assert shop.refunds == []


@in_asyncio
async def test_refund_flow_escalates_after_an_hour_even_if_every_worker_was_down(tmp_path: Path) -> None:
    shop = _Shop()
    clock = VirtualClock()
    app, refund_flow = _refund_app(tmp_path, shop, clock)
    async with opened(app) as client:
        run = await client.start(refund_flow, "o-1", 7_000, id="r")
        async with app.worker():
            await pauses(app, "r")
        clock.advance(3601)
        async with app.worker():
            await opens(app, "r.4")
            await client.answer("r.4", True, user_id="boss")
            assert await run.result(60) == {"status": "approved_by_human", "approver": "boss"}
        assert shop.posts == ["timed out, escalating"]
        assert len(await journaled(app, "r", EntryKind.STARTED)) == 1
