"""The program of the page about LangGraph."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from examples.website_summary.processes import REPOSITORY
from signoff.testing import environment
from tests.support import comes, in_asyncio

PAGE = (REPOSITORY / "docs/integrations/langgraph.md").read_text()


@in_asyncio
async def test_the_program_of_the_page_runs_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {"__name__": "refund_graph"}
    [program] = (
        each for each in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Refund" in each
    )
    exec(program, shown)
    async with environment(shown["app"]) as env:
        run_of_page = await env.start(shown["refund"], "o-1", id="refund-o-1")

        async def look() -> list[Any]:
            return list((await env.client.questions()).items)

        (question,) = await comes(look)
        assert question.id == "refund-o-1.2"  # as in the page's commands
        await env.client.answer(question.id, True, user_id="ana", groups=["finance"])
        assert await run_of_page.result() == {"order": "o-1", "approved": True}
    await shown["app"].store.close()
