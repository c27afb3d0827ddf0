"""A server behind a proxy with a password in the server's URL."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from signoff import AsyncClient
from signoff.errors import StoreUnavailable
from signoff.server import Server
from signoff.stores.remote.store import RemoteStore
from signoff.stores.sqlite.store import SqliteStore
from signoff.wire.http import new_client, server_url, shown_url
from tests import worker_keys
from tests.support import in_asyncio

PASSWORD = "pr0xy-S3CR3T"


@in_asyncio
async def test_no_password_of_a_url_is_in_a_log_an_error_or_a_repr(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    served = SqliteStore(tmp_path / "signoff.db")
    with caplog.at_level(1), caplog.at_level(1, "httpx"), caplog.at_level(1, "httpcore"):
        async with Server(served, port=0, worker_keys=worker_keys.KEYS) as server:
            url = f"http://ana:{PASSWORD}@127.0.0.1:{server.port}"
            async with AsyncClient(url) as client:
                await client.list()
                said.append(repr(client.backend))
            store = RemoteStore(url, key=worker_keys.SECRET)
            await store.open()
            assert await store.list_groups() == [], "the key goes before the password"
            said.append(store.location)
            await store.close()
        await served.close()
        away = f"http://ana:{PASSWORD}@127.0.0.1:9"
        with pytest.raises(StoreUnavailable) as refused:
            async with AsyncClient(away) as client:
                await client.list()
        said.append(f"{refused.value!r} {refused.value}")
        store = RemoteStore(away, key=worker_keys.SECRET, patience_seconds=0.1)
        with pytest.raises(StoreUnavailable) as refused:
            await store.open()
        said.append(f"{refused.value!r} {refused.value}")
    assert any(record.name.startswith("httpx") for record in caplog.records)
    said += [record.getMessage() for record in caplog.records]
    assert not [text for text in said if PASSWORD in text or worker_keys.SECRET in text]
    assert logging.getLogger("httpx").level != 1


@in_asyncio
async def test_the_proxy_gets_the_password_all_the_same() -> None:
    async with new_client(server_url(f"http://ana:{PASSWORD}@127.0.0.1:9/x"), answer_seconds=1) as http:
        request = http.build_request("GET", "y")
        assert str(request.url) == "http://127.0.0.1:9/x/y"
        assert http.auth is not None
        signed = next(http.auth.auth_flow(request))
    expected = base64.b64encode(f"ana:{PASSWORD}".encode()).decode()
    assert signed.headers["authorization"] == f"Basic {expected}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("https://ana:p%40ss@example.com/signoff", "https://example.com/signoff"),
        ("https://ana@example.com", "https://example.com"),
        ("http://a:b@[::1]:8000/", "http://[::1]:8000/"),
    ],
)
def test_a_url_is_shown_without_its_user(url: str, shown: str) -> None:
    assert shown_url(url) == shown
