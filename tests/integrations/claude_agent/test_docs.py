"""The program of the page about the Claude Agent SDK, with a CLI that is played."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import claude_agent_sdk
import pytest

from examples.website_summary.processes import REPOSITORY
from signoff import AsyncClient, Signoff
from signoff.testing import MemoryStore
from tests.integrations.claude_agent.fake_cli import FakeCli
from tests.support import comes, in_asyncio

PAGE = REPOSITORY / "docs/integrations/claude-agent.md"


@in_asyncio
async def test_the_program_of_the_page_asks_and_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    cli = FakeCli(("Bash", {"command": "ls"}, "t1"))
    played = functools.partial(claude_agent_sdk.ClaudeSDKClient, transport=cli)
    monkeypatch.setattr(claude_agent_sdk, "ClaudeSDKClient", played)
    shown: dict[str, Any] = {}
    exec(PAGE.read_text().partition("```python\n")[2].partition("```")[0], shown)
    async with AsyncClient(Signoff(MemoryStore())) as client:
        running = asyncio.create_task(shown["main"](client))

        async def look() -> list[Any]:
            return list((await client.questions()).items)

        (question,) = await comes(look)
        await client.answer(question.id, True, user_id="ana", groups=["ops"])
        await running
    assert cli.replies["t1"]["response"] == {"behavior": "allow", "updatedInput": {"command": "ls"}}
