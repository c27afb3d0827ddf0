"""The worker in TypeScript, on the SDK from npm: it asks in the inbox, pays once and calls a workflow in Python."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.typescript_worker.receipts import write_receipt
from signoff import AsyncClient, Promise, Signoff
from signoff.records.tasks import TaskState
from signoff.server.server import Server
from tests.postgres.databases import migrated_database
from tests.resonate_sdks import TYPESCRIPT, node_program
from tests.support import in_asyncio

WORKER = TYPESCRIPT / "worker.ts"
SECONDS = 60  # for a Node to start on a busy machine


@dataclass
class Place:
    """A server that speaks the durable promise protocol, and a worker with the workflow in Python."""

    app: Signoff
    client: AsyncClient
    environment: dict[str, str]
    ledger: Path

    async def node(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start the worker in TypeScript."""
        command = await asyncio.to_thread(node_program, WORKER, *arguments)
        return await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=self.environment
        )

    async def question(self) -> Promise:
        """Wait for the open question."""
        async with asyncio.timeout(SECONDS):
            while not (found := (await self.client.questions(user_id="ana", groups=["finance"])).items):
                await asyncio.sleep(0.02)
        return found[0]

    async def suspended(self) -> None:
        """Wait until the refund waits for its answer. Before that its process has a lease of a minute."""
        async with asyncio.timeout(SECONDS):
            while (await self.app.store.get_task("refund-7")).state is not TaskState.SUSPENDED:
                await asyncio.sleep(0.02)

    async def answer(self, value: bool) -> None:
        await self.client.answer((await self.question()).id, value, user_id="ana", groups=["finance"])

    @property
    def payments(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []


@asynccontextmanager
async def place(folder: Path, database: str) -> AsyncIterator[Place]:
    app = Signoff(database, group="python")
    app.workflow(write_receipt)
    ledger = folder / "ledger"
    try:
        async with Server(app, port=0, resonate_port=0) as server, app.worker(), AsyncClient(app) as client:
            assert server.resonate_url is not None
            environment = {**os.environ, "RESONATE_URL": server.resonate_url, "LEDGER": str(ledger)}
            yield Place(app, client, environment, ledger)
    finally:
        await app.store.close()


async def output_of(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(SECONDS):
        output, _ = await process.communicate()
    return output.decode()


async def refunds_and_writes_a_receipt(folder: Path, database: str) -> None:
    async with place(folder, database) as here:
        process = await here.node("refund-7")
        question = await here.question()
        assert question.assignees == ("group:finance",)
        await here.answer(True)
        output = await output_of(process)
        assert "Ann received 70.00 euros: payment of refund-7:1" in output, output
        assert len(here.payments) == 1


@in_asyncio
async def test_an_approved_refund_is_paid_and_gets_its_receipt(tmp_path: Path) -> None:
    await refunds_and_writes_a_receipt(tmp_path, f"sqlite:///{tmp_path}/signoff.db")


@pytest.mark.long
def test_an_approved_refund_is_paid_on_postgres(tmp_path: Path) -> None:
    with migrated_database() as url:
        asyncio.run(refunds_and_writes_a_receipt(tmp_path, url))


@pytest.mark.long
@in_asyncio
async def test_a_declined_refund_is_not_paid(tmp_path: Path) -> None:
    async with place(tmp_path, f"sqlite:///{tmp_path}/signoff.db") as here:
        process = await here.node("refund-7")
        await here.answer(False)
        assert "declined" in await output_of(process)
        assert here.payments == []


@pytest.mark.long
@in_asyncio
async def test_another_process_continues_for_one_killed_while_it_waits(tmp_path: Path) -> None:
    async with place(tmp_path, f"sqlite:///{tmp_path}/signoff.db") as here:
        killed = await here.node("refund-7")
        await here.question()
        await here.suspended()
        killed.send_signal(signal.SIGKILL)
        await killed.wait()
        other = await here.node()
        await here.answer(True)
        async with asyncio.timeout(SECONDS):
            while (done := await here.app.store.get_promise("refund-7")).value is None:
                await asyncio.sleep(0.02)
        other.terminate()
        await other.wait()
        assert done.value == '"Ann received 70.00 euros: payment of refund-7:1"'
        assert len(here.payments) == 1
