"""Words come as the model says them, and a chat survives kills of its worker and of its web service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from examples.website_summary.processes import free_port
from tests.agents.ui.chat_clients import Client, Node, approve, kinds, said, serving_web
from tests.agents.ui.chat_program import AGENT, chat_app
from tests.forks import Program
from tests.node_programs import ROOT
from tests.support import comes, in_asyncio, running


@asynccontextmanager
async def program(folder: Path, *arguments: str) -> AsyncIterator[Program]:
    """A process of the chat, killed at the end."""
    command = ("tests.agents.ui.chat_program", str(folder), *arguments)
    with (folder / "log").open("ab") as log:
        process = Program(command, cwd=ROOT, env=os.environ, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


@asynccontextmanager
async def web_process(folder: Path, port: int) -> AsyncIterator[Program]:
    """A web service that is up."""
    async with (
        program(folder, str(port)) as process,
        httpx.AsyncClient(trust_env=False, verify=False) as http,
    ):

        async def is_up() -> bool:
            try:
                return (await http.get(f"http://127.0.0.1:{port}/chat/x")).status_code == 401
            except httpx.TransportError:
                return False

        await comes(is_up)
        yield process


def removed(folder: Path) -> list[str]:
    file = folder / "removed"
    return file.read_text().split() if file.exists() else []


async def text_of(client: Client) -> str:
    """Return what the assistant has said so far in a client of the Vercel AI SDK."""
    state: dict[str, Any] = await client.do("state")
    return "".join(
        part["text"]
        for each in state["messages"]
        if each["role"] == "assistant"
        for part in each["parts"]
        if part["type"] == "text"
    )


@in_asyncio
async def test_words_come_as_the_model_says_them_in_both_protocols(tmp_path: Path, node: Node) -> None:
    app = chat_app(tmp_path)
    async with running(app), serving_web(app, AGENT) as url:
        vercel = Client(node, kind="vercel", url=f"{url}/chat", thread="v", user="ana")
        telling = asyncio.create_task(vercel.do("say", id="m-1", text="tell"))

        async def has_begun() -> bool:
            return await text_of(vercel) == "Once upon "

        await comes(has_begun)
        late = Client(node, kind="vercel", url=f"{url}/chat", thread="v", user="ana")
        await late.do("load")
        resuming = asyncio.create_task(late.do("resume"))

        async def has_caught_up() -> bool:
            return await text_of(late) == "Once upon "

        await comes(has_caught_up)
        ag_ui = Client(node, kind="ag-ui", url=f"{url}/agent", thread="v", user="ana")
        connecting = asyncio.create_task(ag_ui.do("connect"))
        await asyncio.sleep(0.2)
        (tmp_path / "go").touch()
        ended = await telling, await resuming
        assert [each["failed"] for each in ended] == [None, None]
        assert [await text_of(each) for each in (vercel, late)] == ["Once upon a time"] * 2
        shown = await connecting
        assert kinds(shown).count("TEXT_MESSAGE_CONTENT") > 1
        assert said(shown)[-1] == ("assistant", "Once upon a time")
        assert len(shown["pending"]) == 1


@pytest.mark.long
@in_asyncio
async def test_a_killed_worker_says_no_word_twice_and_runs_nothing_twice(tmp_path: Path, node: Node) -> None:
    app = chat_app(tmp_path)
    try:
        async with serving_web(app, AGENT) as url:
            tab = Client(node, kind="ag-ui", url=f"{url}/agent", thread="t", user="ana")
            watcher = Client(node, kind="vercel", url=f"{url}/chat", thread="t", user="ana")
            telling = asyncio.create_task(tab.do("say", id="m-1", text="tell"))
            watching: asyncio.Task[Any] | None = None
            for _ in range(2):
                async with program(tmp_path):

                    async def has_begun() -> bool:
                        nonlocal watching
                        if watching is None or watching.done():
                            watching = asyncio.create_task(watcher.do("resume"))
                        return await text_of(watcher) == "Once upon "

                    await comes(has_begun)
            async with program(tmp_path):
                (tmp_path / "go").touch()
                shown = await telling
                assert said(shown)[-1] == ("assistant", "Once upon a time")
                [question] = shown["pending"]
                ended = await tab.do("answer", entries=[approve(question)])
                assert said(ended)[-1] == ("assistant", "Once upon a time: removed a")
                assert removed(tmp_path) == ["a"]
            assert watching is not None
            assert "Once upon a time" in str(await watching)
    finally:
        await app.store.close()


@pytest.mark.long
@in_asyncio
async def test_a_killed_web_service_loses_nothing_of_the_chat(tmp_path: Path, node: Node) -> None:
    port = free_port()
    async with program(tmp_path):
        tab = Client(node, kind="ag-ui", url=f"http://127.0.0.1:{port}/agent", thread="t", user="ana")
        async with web_process(tmp_path, port) as web:
            telling = asyncio.create_task(tab.do("say", id="m-1", text="tell"))
            other = Client(node, kind="vercel", url=f"http://127.0.0.1:{port}/chat", thread="t", user="ana")

            async def has_begun() -> bool:
                await other.do("load")
                return "tell" in str(await other.do("state"))

            await comes(has_begun)
            web.kill()
            assert (await telling)["failed"] is not None
        (tmp_path / "go").touch()
        async with web_process(tmp_path, port) as web:
            again = await tab.do("connect")
            assert said(again) == [("user", "tell"), ("assistant", "Once upon a time")]
            [question] = again["pending"]
            answering = asyncio.create_task(tab.do("answer", entries=[approve(question)]))

            async def has_run() -> bool:
                return removed(tmp_path) == ["a"]

            await comes(has_run)
            web.kill()
            await answering
        async with web_process(tmp_path, port):
            fresh = Client(node, kind="ag-ui", url=f"http://127.0.0.1:{port}/agent", thread="t", user="ana")
            shown = await fresh.do("connect")
            assert said(shown)[-1] == ("assistant", "Once upon a time: removed a")
            assert removed(tmp_path) == ["a"]
