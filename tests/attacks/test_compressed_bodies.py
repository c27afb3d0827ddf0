"""Compressed bodies: a kilobyte of zeros that were compressed twice unpacks to a gigabyte.

A server unpacks nothing that a client sends, or that the receiver of a webhook or an identity provider replies.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from starlette.responses import Response

from signoff.errors import ProviderUnavailable
from signoff.people.notifications.channels.http import Post
from signoff.runtime.clock import SystemClock
from signoff.server.auth.oidc_provider import Provider
from signoff.server.auth.oidc_settings import OpenIdConnect
from signoff.stores.sqlite.store import SqliteStore
from tests.attacks.served import JSON, MOST_KIB, Served
from tests.notifications.receivers import web
from tests.support import in_asyncio

MIB: Final = 1024 * 1024


def _zeros(mebibytes: int) -> bytes:
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packing.compress(b"\0" * MIB) for _ in range(mebibytes)) + packing.flush()


BOMB: Final = gzip.compress(_zeros(400))
ENCODINGS: Final = ("gzip", "GZIP", "x-gzip", "gzip, gzip", "deflate", "br", "zstd", "identity, gzip", "none")
DOORS: Final = ("/v1/store", "/v1/runs", "/v1/snapshots", "/v1/slack/none/actions", "/l/none", "/c/none")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")

    async def make() -> None:
        store = SqliteStore(folder / "signoff.db")
        await store.open()
        await store.close()

    in_asyncio(make)()
    with ExitStack() as stack:
        yield Served(stack, f"sqlite:///{folder}/signoff.db", folder)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc")
@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_a_compressed_body(served: Served, door: str) -> None:
    assert len(BOMB) < 2048
    for encoding in ENCODINGS:
        with served.memory.rise() as risen:
            reply = served.http.post(door, content=BOMB, headers={**JSON, "content-encoding": encoding})
        assert reply.status_code == 415
        assert "Content-Encoding: a body must not be compressed" in reply.text
        assert risen[0] <= MOST_KIB // 4, encoding


def test_a_plain_body_may_say_that_it_is_plain(served: Served) -> None:
    headers = {**JSON, "content-encoding": "identity"}
    reply = served.http.post("/v1/runs", content=b'{"workflow":"w"}', headers=headers)
    assert reply.status_code == 201


@pytest.mark.parametrize("door", ["/v1/runs", "/v1/store"])
def test_a_chunked_body_is_read_up_to_its_limit(served: Served, door: str) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * MIB

    with served.memory.rise() as risen:
        status = served.take("POST", door, content=chunks(), headers=JSON)
    assert status == 413
    assert risen[0] <= MOST_KIB


REPLY: Final = """
import asyncio, re, sys
from pathlib import Path
from signoff.people.notifications.channels.http import Post

async def main():
    post = Post(sys.argv[1])
    await post.send(b"{}", {})
    await post.close()
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

asyncio.run(main())
"""


def _compressed(status: int = 200) -> Response:
    return Response(BOMB, status, headers={"content-encoding": "gzip, gzip"})


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it reads /proc")
@in_asyncio
async def test_a_receiver_s_compressed_reply_is_not_unpacked() -> None:
    async with web(_compressed()) as receiver:
        sender = await asyncio.create_subprocess_exec(
            sys.executable, "-c", REPLY, receiver.url, stdout=subprocess.PIPE, env=dict(os.environ)
        )
        out, _ = await sender.communicate()
    assert sender.returncode == 0
    assert int(out) < 4 * MOST_KIB  # with all that it imports
    assert receiver.got[0].headers["accept-encoding"] == "identity"


@in_asyncio
async def test_a_message_counts_as_received_if_the_reply_is_compressed() -> None:
    async with web(_compressed()) as receiver:
        post = Post(receiver.url)
        try:
            assert await post.send(b"{}", {}) == b""
        finally:
            await post.close()


@in_asyncio
async def test_a_provider_s_compressed_reply_is_not_unpacked() -> None:
    async with web(_compressed()) as issuer:
        settings = OpenIdConnect(issuer.url, "signoff", "http://127.0.0.1:1")
        provider = Provider(settings, SystemClock())
        try:
            with pytest.raises(ProviderUnavailable, match="compressed"):
                await provider.login_url("s", "n", "v")
        finally:
            await provider.close()
