"""A server serves the Studio page that was built last."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from signoff import Signoff
from signoff.server import create_server_app
from signoff.server.routes import studio
from signoff.testing import MemoryStore
from tests.support import in_asyncio


@in_asyncio
async def test_a_running_server_gives_the_page_that_was_built_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studio, "_STATIC", tmp_path)
    transport = httpx.ASGITransport(create_server_app(Signoff(MemoryStore())), client=("127.0.0.1", 7))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        not_built = await http.get("/inbox")
        assert not_built.status_code == 404
        assert "without Studio" in not_built.text
        for script in ("a1.js", "b2.js"):
            (tmp_path / "index.html").write_text(f'<base href="/" /><script src="{script}"></script>')
            assert script in (await http.get("/inbox")).text
