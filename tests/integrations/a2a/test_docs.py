"""The examples in docs/integrations/a2a.md run unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from signoff import AsyncClient
from tests.support import in_asyncio

PAGE = Path(__file__).parents[3] / "docs" / "integrations" / "a2a.md"


@in_asyncio
async def test_the_example_of_the_page_serves_its_card_and_refuses_strangers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for block in PAGE.read_text().split("```python\n")[1:]:
        exec(compile(block.split("```")[0], str(PAGE), "exec"), names)
    transport = httpx.ASGITransport(names["service"])
    async with httpx.AsyncClient(transport=transport, base_url="https://agents.example.com") as http:
        card = (await http.get("/refunds/.well-known/agent-card.json")).json()
        assert (card["name"], card["url"]) == ("refund", "https://agents.example.com/refunds")
        assert (await http.post("/refunds", json={})).status_code == 401
    assert names["trusted"](names["Caller"]("desk-agent"), await _asked(names["app"]))
    await names["app"].store.close()


async def _asked(app: Any) -> Any:
    async with AsyncClient(app) as client:
        await client.ask("q", "Why?", input_type="text")
        return await client.promises.get("q")
