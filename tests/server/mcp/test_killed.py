"""kill -9 of the server, or of the client, while a person is asked: one question, and its answer arrives."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import Running, signoff
from tests.server.mcp.clients import told
from tests.server.mcp.programs import program

pytestmark = pytest.mark.long

COMMAND = {"tool_name": "Bash", "input": {"command": "rm -rf build"}, "tool_use_id": "toolu_1"}


def server(folder: Path, port: int = 0) -> Running:
    return Running("server", "--store", "sqlite:///signoff.db", "--port", str(port), cwd=folder)


async def opened(url: str) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
        while not (found := (await http.get("/v1/questions")).json()["items"]):
            await asyncio.sleep(0.05)
        return found


@pytest.mark.parametrize("answered", ["before", "after"])
def test_a_permission_survives_a_kill_of_the_server(tmp_path: Path, answered: str) -> None:
    """The person answers while the server is down, on the database, or after it is back."""

    async def work() -> None:
        with server(tmp_path) as first:
            at = (await asyncio.to_thread(first.wait_for, "listening"))["port"]
            url = f"http://127.0.0.1:{at}"
            async with program("--url", url, folder=tmp_path) as client:
                asking = asyncio.create_task(client.call_tool("permission_prompt", COMMAND))
                [question] = await opened(url)
                first.signal(signal.SIGKILL)
                await asyncio.to_thread(first.ends)
                answer = ("answer", question["id"], "--approve", "--user", "ana")
                if answered == "before":
                    await asyncio.to_thread(signoff, *answer, "--store", "sqlite:///signoff.db", cwd=tmp_path)
                with server(tmp_path, at) as second:
                    await asyncio.to_thread(second.wait_for, "listening")
                    if answered == "after":
                        assert [each["id"] for each in await opened(url)] == [question["id"]]
                        done = await asyncio.to_thread(signoff, *answer, "--url", url, cwd=tmp_path)
                        assert done.code == 0, done.err
                    got = told(await asking)
        assert got == {"behavior": "allow", "updatedInput": COMMAND["input"]}

    asyncio.run(work())


def test_a_permission_without_its_server_is_denied_after_a_while(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        with server(tmp_path) as first:
            at = (await asyncio.to_thread(first.wait_for, "listening"))["port"]
            url = f"http://127.0.0.1:{at}"
            async with program("--url", url, "--retry", "2", folder=tmp_path) as client:
                asking = asyncio.create_task(client.call_tool("permission_prompt", COMMAND))
                await opened(url)
                first.signal(signal.SIGKILL)
                assert told(await asking)["behavior"] == "deny"

    asyncio.run(work())


def test_a_client_that_died_asks_the_same_question_again(tmp_path: Path) -> None:
    async def work() -> None:
        with server(tmp_path) as running:
            url = (await asyncio.to_thread(running.wait_for, "listening"))["url"]
            for _ in range(2):
                async with program("--url", url, folder=tmp_path) as client:
                    asking = asyncio.create_task(client.call_tool("permission_prompt", COMMAND))
                    [question] = await opened(url)
                    asking.cancel()  # and the program ends: the client is gone
            async with program("--url", url, folder=tmp_path) as client:
                asking = asyncio.create_task(client.call_tool("permission_prompt", COMMAND))
                done = await asyncio.to_thread(
                    signoff, "answer", question["id"], "--reject", "--note", "no", "--url", url, cwd=tmp_path
                )
                assert done.code == 0, done.err
                assert told(await asking) == {"behavior": "deny", "message": "no"}
            async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                assert (await http.get("/v1/questions")).json()["items"] == []

    asyncio.run(work())
