"""The example: an agent asks another one for a refund, and a person of finance approves it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from examples.website_summary.processes import REPOSITORY, free_port
from signoff import AsyncClient, Promise
from tests.forks import Program, run
from tests.support import comes, in_asyncio, new_app


@pytest.mark.long
@in_asyncio
async def test_an_agent_gets_its_refund_once_finance_has_approved_it(tmp_path: Path) -> None:
    port = free_port()
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "AGENT_URL": f"http://127.0.0.1:{port}/refunds"}
    environ["SIGNOFF_STORE"] = f"sqlite:///{tmp_path / 'signoff.db'}"
    with (tmp_path / "log").open("wb") as log:
        command = ("uvicorn", "examples.a2a_refund.service:service", "--port", str(port))
        service = Program(command, cwd=tmp_path, env=environ, stdout=log, stderr=log)
    app = new_app(tmp_path)
    try:
        await comes(lambda: _is_up(port))
        asking = asyncio.create_task(
            asyncio.to_thread(run, ["examples.a2a_refund", "o-1", "7000"], cwd=tmp_path, env=environ)
        )
        async with AsyncClient(app) as client:

            async def approval() -> Promise | None:
                asked = (await client.questions(user_id="ana", groups=["finance"])).items
                return next((each for each in asked if each.assignees), None)

            question = await comes(approval)
            assert question is not None
            await client.answer(question.id, True, user_id="ana", groups=["finance"])
        done = await asking
        assert done.returncode == 0, done.stderr
        assert "What is the reason? -> caller" in done.stdout
        assert "group:finance must answer this in the inbox" in done.stdout
        assert done.stdout.endswith("refunded 7000 cents of o-1\n")
    finally:
        service.kill()
        await asyncio.to_thread(service.wait)
        await app.store.close()


async def _is_up(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
