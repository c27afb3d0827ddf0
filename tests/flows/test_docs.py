"""The example of docs/flows.md runs as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from signoff import Signoff
from tests.support import in_asyncio, running

DOCS = Path(__file__).parents[2] / "docs" / "flows.md"


@in_asyncio
async def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code = DOCS.read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(DOCS), "exec"), names)
    app: Signoff = names["app"]
    async with running(app):
        assert await names["decide"]() == {"decision": {"approved": True}}
