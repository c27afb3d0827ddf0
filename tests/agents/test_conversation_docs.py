"""The examples in docs/conversations.md run unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agents.scripts import Script, calls, says
from tests.support import in_asyncio

PAGE = Path(__file__).parents[2] / "docs" / "conversations.md"


@in_asyncio
async def test_the_first_example_of_the_page_runs(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    script = Script(calls(("rm", {"path": "a"})), says("done"))
    names: dict[str, Any] = {"__name__": "page", "model": script.model}
    code = PAGE.read_text().split("```python\n")[1].split("```")[0].replace('"openai:gpt-5"', "model")
    exec(compile(code, str(PAGE), "exec"), names)
    app = names["app"]
    async with app.worker():
        assert await names["talk"]() == "done"
    await app.store.close()
    assert "removed a" in str(script.asked[1])
