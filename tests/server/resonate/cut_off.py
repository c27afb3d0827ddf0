"""A server, and a process that polls it, whose network goes away. Started in a network namespace of its own.

It prints how long after its message the process gets it once it has connected again.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from signoff.records import NewPromise, PromiseKind, PromiseState, Settlement
from signoff.server import Server
from signoff.server.resonate.connection import UNACKNOWLEDGED_SECONDS
from signoff.stores.sqlite.store import SqliteStore

ADDRESS = "poll://uni@g/a"
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1


def set_loopback(*, is_up: bool) -> None:
    with socket.socket() as any_socket:
        name = b"lo".ljust(16, b"\0")
        known = fcntl.ioctl(any_socket, GET_FLAGS, name + bytes(16))
        (flags,) = struct.unpack("16xh", known[:18])
        flags = flags | UP if is_up else flags & ~UP
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", name, flags))


async def poll(url: str) -> asyncio.StreamReader:
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(b"GET /poll/g/a HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    await reader.readuntil(b": ping\n\n")
    _kept.append(writer)
    return reader


_kept: list[asyncio.StreamWriter] = []  # one that is forgotten is closed


async def main(folder: Path) -> None:
    set_loopback(is_up=True)
    store = SqliteStore(folder / "signoff.db")
    async with Server(store, port=0, resonate_port=0) as server:
        assert server.resonate_url is not None
        await store.create_promise(NewPromise("p"))
        await store.listen_promise("p", ADDRESS)
        await poll(server.resonate_url)
        set_loopback(is_up=False)
        settled_at = time.monotonic()
        await store.settle("p", PromiseKind.PROMISE, Settlement(PromiseState.RESOLVED))
        await asyncio.sleep(UNACKNOWLEDGED_SECONDS + 2)
        set_loopback(is_up=True)
        again = await poll(server.resonate_url)
        await asyncio.wait_for(again.readuntil(b"unblock"), 60)
        print(f"{time.monotonic() - settled_at:.1f}")
    await store.close()


asyncio.run(main(Path(sys.argv[1])))
