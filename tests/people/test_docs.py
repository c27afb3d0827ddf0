"""The example of docs/questions.md runs as documented."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from signoff import Signoff
from signoff.testing import MemoryStore, environment
from tests.support import in_asyncio

DOCS = Path(__file__).parents[2] / "docs" / "questions.md"


def _app() -> Signoff:
    [example] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    scope: dict[str, Any] = {"__name__": "complaints", "store": MemoryStore()}
    exec(example.replace('Signoff("sqlite:///signoff.db")', "Signoff(store)"), scope)
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
