"""What docs/agents.md shows runs as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from signoff.testing import environment
from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


@in_asyncio
async def test_the_first_example_of_the_page_runs(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(calls(("refund", {"order_id": "o-1", "cents": 700})), says("done"))
    names: dict[str, Any] = {"__name__": "page", "model": script.model}
    code = PAGE.read_text().split("```python\n")[1].split("```")[0].replace('"openai:gpt-5"', "model")
    exec(compile(code, str(PAGE), "exec"), names)
    async with environment(names["app"]) as env:
        env.people.answer("support wants to call refund", approved=True)
        assert await env.run(names["help_with"], "Pay it back") == "done"
    assert "refunded 700 cents of o-1" in str(script.asked[1])
