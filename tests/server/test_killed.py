"""kill -9 of a server right after it has acknowledged a request: nothing of that is lost."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import free_port
from signoff import AlreadySettled, AsyncClient
from tests.cli.commands import Running
from tests.server.conftest import app_in
from tests.support import PATIENCE_SECONDS, pauses, running

ACTS = {
    "/v1/runs": {"workflow": "echo", "id": "started", "args": ["hello"]},
    "/v1/questions/asked.1/answer": {"value": True, "user_id": "ana"},
    "/v1/runs/listening/signals": {"name": "news", "value": 7},
    "/v1/promises/promised.1/resolve": {"value": "paid"},
}

RESULTS = {
    "started": "hello",
    "asked": {"approved": True, "by": "ana", "note": None},
    "listening": 7,
    "promised": "paid",
}


def post(connection: http.client.HTTPConnection, path: str, body: object) -> http.client.HTTPResponse:
    """Post something, and return as soon as the reply begins."""
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    return connection.getresponse()


def connected(server: Running) -> closing[http.client.HTTPConnection]:
    port = server.wait_for("listening")["port"]
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS))


async def let_them_wait(folder: Path) -> None:
    """Start a run that asks a person, one that listens for a signal and one that waits for a promise."""
    app = app_in(folder)
    async with running(app) as client:
        for workflow, id in (("ask", "asked"), ("listen", "listening"), ("promised", "promised")):
            await client.start(workflow, id=id)
            await pauses(app, id)


async def results(folder: Path) -> dict[str, Any]:
    """What a worker makes of the runs."""
    async with running(app_in(folder)) as client:
        return {id: await (await client.get(id)).result(PATIENCE_SECONDS) for id in RESULTS}


def test_acknowledged_writes_survive_a_kill_of_the_server_at_that_instant(tmp_path: Path) -> None:
    asyncio.run(let_them_wait(tmp_path))
    with ExitStack() as stack:  # they start together to save time, and die one after the other
        servers = [stack.enter_context(Running("server", "--port", "0", cwd=tmp_path)) for _ in ACTS]
        for server, (path, body) in zip(servers, ACTS.items(), strict=True):
            with connected(server) as connection, post(connection, path, body) as reply:
                server.signal(signal.SIGKILL)
                assert reply.status in (200, 201)
            assert server.ends() == -signal.SIGKILL
    assert asyncio.run(results(tmp_path)) == RESULTS


async def ask_across_a_kill(folder: Path, port: int) -> None:
    """Ask over HTTP, kill the server while the program waits, and answer at the next one."""
    command = ("server", "--port", str(port))
    url = f"http://127.0.0.1:{port}"
    async with AsyncClient(url) as asks, AsyncClient(url) as answers:
        with Running(*command, cwd=folder) as first:
            await asyncio.to_thread(first.wait_for, "listening")
            question = await asks.ask("refund-1", "Refund?", timeout_seconds=3600)
            waiting = asyncio.create_task(question.answer())
            await asyncio.sleep(
                0.1
            )  # the request is under way, or about to be sent: both are tried by chance
            first.signal(signal.SIGKILL)
            await asyncio.to_thread(first.ends)
        with Running(*command, cwd=folder) as second:
            await asyncio.to_thread(second.wait_for, "listening")
            again = await asks.ask("refund-1", "Refund?", timeout_seconds=3600)
            assert len((await answers.questions()).items) == 1
            await answers.answer("refund-1", True, user_id="ana", request_id="r")
            assert (await waiting) == (await again.answer())
            await answers.answer("refund-1", True, user_id="ana", request_id="r")  # a duplicate delivery
            with pytest.raises(AlreadySettled):
                await answers.answer("refund-1", False, user_id="ana")


@pytest.mark.long
def test_a_program_waits_for_its_answer_across_a_kill_of_the_server(tmp_path: Path) -> None:
    asyncio.run(ask_across_a_kill(tmp_path, free_port()))
