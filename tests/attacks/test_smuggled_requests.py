"""Bodies whose end a proxy may see elsewhere, so that the rest of one request becomes another one."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from typing import Final

import pytest

from tests.server.keyed import Keyed, keyed
from tests.support import OnThread

HEAD: Final = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HIDDEN: Final = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CHUNKS: Final = b"2\r\n{}\r\n0\r\n\r\n"

REFUSED: Final = {
    "both lengths": b"Content-Length: 4\r\nTransfer-Encoding: chunked",
    "both lengths, the other way round": b"Transfer-Encoding: chunked\r\nContent-Length: 0",
    "two lengths": b"Content-Length: 2\r\nContent-Length: 13",
    "a negative length": b"Content-Length: -1",
    "a signed length": b"Content-Length: +13",
    "a length with an underscore": b"Content-Length: 1_3",
    "a hexadecimal length": b"Content-Length: 0xd",
    "a length in other digits": "Content-Length: \N{ARABIC-INDIC DIGIT THREE}".encode(),
    "a length beyond any": b"Content-Length: " + b"9" * 30,
    "a list of lengths": b"Content-Length: 2, 13",
    "an unknown coding": b"Transfer-Encoding: xchunked",
    "another coding": b"Transfer-Encoding: identity",
    "two codings": b"Transfer-Encoding: gzip, chunked",
    "chunked twice": b"Transfer-Encoding: chunked, chunked",
    "two fields": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "a parameter": b"Transfer-Encoding: chunked;q=1",
    "a vertical tab": b"Transfer-Encoding: \x0bchunked",
    "a blank before the colon": b"Transfer-Encoding : chunked",
    "a tab before the colon": b"Transfer-Encoding\t: chunked",
    "a null character": b"Transfer-Encoding: chunked\0",
    "a bare line feed": b"X: y\nTransfer-Encoding : chunked",
    "a carriage return": b"X: y\rTransfer-Encoding: chunked\r\nContent-Length: 13",
    "an empty name": b": chunked",
    "a line without a colon": b"chunked",
    "HTTP/1.0 in chunks": b"",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with OnThread(lambda: keyed(tmp_path_factory.mktemp("smuggled"), require_auth=False)) as served:
        yield served


def _replies(here: Keyed, sent: bytes) -> list[bytes]:
    """Send bytes and return the status of each reply, until the server closes the connection."""
    received = b""
    with (
        socket.create_connection(("127.0.0.1", here.server.port), timeout=60) as raw,
        contextlib.suppress(ConnectionError),  # a reset: the server closed before it had read everything
    ):
        raw.sendall(sent)
        while part := raw.recv(65536):
            received += part
    return re.findall(rb"HTTP/1\.1 (\d{3})", received)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_body_of_disputed_length_is_refused_with_all_behind_it(here: Keyed, kind: str) -> None:
    head = HEAD + REFUSED[kind]
    if kind == "HTTP/1.0 in chunks":
        head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked"
    replies = _replies(here, head + b"\r\n\r\n" + CHUNKS + HIDDEN)
    assert replies in ([b"400"], [b"415"], [b"422"]) or replies == []


CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS: Final = {
    "a negative size": b"-2\r\n{}\r\n0\r\n\r\n",
    "a signed size": b"+2\r\n{}\r\n0\r\n\r\n",
    "a prefixed size": b"0x2\r\n{}\r\n0\r\n\r\n",
    "a size with an underscore": b"0_2\r\n{}\r\n0\r\n\r\n",
    "a size beyond any": b"F" * 40 + b"\r\n{}\r\n0\r\n\r\n",
    "no end after the bytes": b"2\r\n{}XX0\r\n\r\n",
    "a bare line feed after the size": b"2\n{}\r\n0\r\n\r\n",
    "an extension without end": b"2;" + b"x" * 200_000,
    "trailers without end": b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 40_000,
}


@pytest.mark.parametrize("kind", BAD_CHUNKS)
def test_a_malformed_chunk_ends_the_connection(here: Keyed, kind: str) -> None:
    assert b"200" not in _replies(here, CHUNKED + BAD_CHUNKS[kind] + HIDDEN)


def test_a_whole_request_behind_another_is_answered(here: Keyed) -> None:
    replies = _replies(here, CHUNKED + CHUNKS + HIDDEN)
    assert replies == [b"422", b"200"]


@pytest.mark.parametrize("extension", [b";a=\rb", b";\rGET / HTTP/1.1", b";\0", b" "])
def test_what_follows_a_chunk_s_size_moves_no_end(here: Keyed, extension: bytes) -> None:
    # The parser takes a bare CR there. Sizes alone say where chunks end, and proxies write chunks of their own.
    chunks = b"2%b\r\n{}\r\n0%b\r\n\r\n" % (extension, extension)
    assert _replies(here, CHUNKED + chunks + HIDDEN) == [b"422", b"200"]


@pytest.mark.parametrize("kind", ["websocket", "h2c", "TLS/1.0", "websocket, h2c"])
def test_no_connection_is_upgraded(here: Keyed, kind: str) -> None:
    upgrade = (
        f"GET /v1/questions/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
        f"Upgrade: {kind}\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        f"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    ).encode()
    status = _replies(here, upgrade.replace(b"/v1/questions/events", b"/health"))
    assert status == [b"200"]


def test_the_preface_of_http_2_and_a_tls_hello_are_no_requests(here: Keyed) -> None:
    for sent in (
        b"PRI * HTTP/2.0\r\nConnection: close\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 100,
    ):
        assert _replies(here, sent) in ([b"400"], [b"421"], [])
