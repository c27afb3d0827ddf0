"""The examples of docs/questions.md run as documented."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from signoff import AsyncClient, Signoff
from signoff.testing import MemoryStore, environment
from tests.support import comes, in_asyncio

DOCS = Path(__file__).parents[2] / "docs" / "questions.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


def _app() -> Signoff:
    scope: dict[str, Any] = {"__name__": "complaints", "store": MemoryStore()}
    exec(EXAMPLES[0].replace('Signoff("sqlite:///signoff.db")', "Signoff(store)"), scope)
    return scope["app"]


@in_asyncio
async def test_the_example_sends_what_was_approved() -> None:
    async with environment(_app()) as env:
        env.people.answer("What do we offer*", {"other": "a day out"})
        env.people.answer("Send*", {"approved": True, "edited": {"to": "eve", "text": "Hello"}}, by="ana")
        assert await env.run("complaint", "bob") == "to eve: Hello, edited by ana"
    async with environment(_app()) as env:
        env.people.answer("What do we offer*", "replace")
        env.people.answer("Where*", {"street": "Main St", "weight": 2})
        env.people.answer("Send*", True)
        assert await env.run("complaint", "bob") == "to bob: Sorry, you get a replace, to Main St"


@in_asyncio
async def test_the_programs_without_a_workflow_wait_for_answers(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {}
    exec(EXAMPLES[1], scope)
    async with AsyncClient(Signoff(MemoryStore())) as client:
        tasks = [
            asyncio.create_task(scope["clean_up"](client)),
            asyncio.create_task(scope["refund"](client, "small", "o-1", 900)),
            asyncio.create_task(scope["refund"](client, "large", "o-2", 7000)),
        ]
        asked = (await comes(lambda: _two(client))).items
        for question in asked:
            [assignee] = question.assignees
            await client.answer(question.id, True, user_id="ana", groups=[assignee.removeprefix("group:")])
        await asyncio.gather(*tasks)
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed == [
        "deleting",
        "refunding {'order': 'o-1', 'cents': 900}",
        "refunding {'order': 'o-2', 'cents': 7000}",
    ]


async def _two(client: AsyncClient) -> Any:
    page = await client.questions()
    return page if len(page.items) == 2 else None
