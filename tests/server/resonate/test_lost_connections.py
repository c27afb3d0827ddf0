"""Rule: a message that a process may not have received is sent again soon: to it, or to another of its group."""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from signoff.server.resonate import poll
from signoff.server.resonate.connection import CONFIRM_SECONDS
from signoff.stores.sqlite.store import SqliteStore
from tests.server.resonate.speaker import Speaker, speaking
from tests.support import OnThread

PATIENCE = 30.0
CUT_OFF = Path(__file__).with_name("cut_off.py")


class Process:
    """A process that polls, on a socket of its own. It reads only when asked."""

    def __init__(self, speaker: Speaker, pid: str, group: str = "g") -> None:
        where = urlsplit(speaker.url)
        self.socket = socket.create_connection((where.hostname, where.port), timeout=PATIENCE)
        self.socket.sendall(f"GET /poll/{group}/{pid} HTTP/1.1\r\nhost: {where.hostname}\r\n\r\n".encode())
        self._read = b""
        while b": ping" not in self._read:
            self._read += self.socket.recv(65536)

    def next(self, seconds: float = PATIENCE) -> Any:
        """The next message."""
        until = time.monotonic() + seconds
        while True:
            before, separator, after = self._read.partition(b"data: ")
            if separator and b"\n" in after:
                line, _, self._read = after.partition(b"\n")
                return json.loads(line)["data"]
            self.socket.settimeout(max(0.01, until - time.monotonic()))
            found = self.socket.recv(65536)
            assert found, f"the connection has ended after {before!r}"
            self._read += found

    def ends(self) -> None:
        """Wait for the end of the response. The connection itself may be used again."""
        while not self._read.endswith(b"0\r\n\r\n"):
            found = self.socket.recv(65536)
            assert found
            self._read += found

    def reset(self) -> None:
        """End the connection as the kernel does for a process that dies with unread messages."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@contextmanager
def processes(speaker: Speaker, *pids: str) -> Iterator[list[Process]]:
    started = [Process(speaker, pid) for pid in pids]
    try:
        yield started
    finally:
        for each in started:
            each.socket.close()


def arrives(process: Process) -> None:
    """Wait until the process's system has a message, which the process has not read."""
    process.socket.settimeout(PATIENCE)
    assert b"data" in process.socket.recv(65536, socket.MSG_PEEK)


def settled_for(speaker: Speaker, address: str) -> Any:
    """Settle a promise that an address listens to."""
    speaker.create("p")
    speaker.ask("promise.register_listener", {"awaited": "p", "address": address})
    return speaker.settle("p")


def to_group(speaker: Speaker, id: str) -> None:
    speaker.create(id, tags={"resonate:target": "poll://any@g"})


def test_settled_promise_of_a_reset_connection_is_sent_when_its_process_returns(speaker: Speaker) -> None:
    with processes(speaker, "a") as [first]:
        promise = settled_for(speaker, "poll://uni@g/a")
        arrives(first)
        first.reset()
        with processes(speaker, "a") as [second]:
            assert second.next() == {"promise": promise}


def test_messages_of_a_reset_connection_go_to_another_of_the_group(speaker: Speaker) -> None:
    with processes(speaker, "a") as [first]:
        promise = settled_for(speaker, "poll://any@g/a")
        to_group(speaker, "t")
        arrives(first)
        with processes(speaker, "b") as [second]:
            first.reset()
            got = [second.next(), second.next()]
            assert {"promise": promise} in got
            assert {"task": {"id": "t", "version": 0}} in got


def test_message_lost_by_one_server_is_sent_by_another_at_once(tmp_path: Path) -> None:
    one, two = (OnThread(lambda: speaking(tmp_path)) for _ in range(2))
    with one as first, first, two as second, second:
        process = Process(first, "a")
        promise = settled_for(first, "poll://uni@g/a")
        arrives(process)
        process.reset()
        with processes(second, "a") as [again]:
            assert again.next() == {"promise": promise}


def test_task_that_was_acquired_is_not_sent_again(speaker: Speaker) -> None:
    with processes(speaker, "a") as [first]:
        to_group(speaker, "t")
        assert first.next()["task"]["id"] == "t"
        speaker.ask("task.acquire", {"id": "t", "version": 0, "pid": "a", "ttl": 60_000})
        first.reset()
        with processes(speaker, "a") as [second]:
            to_group(speaker, "u")
            assert second.next()["task"]["id"] == "u"


def test_message_is_finished_once_its_connection_has_lasted(
    speaker: Speaker, elapse: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, finish = threading.Event(), SqliteStore.finish_task_message

    async def finish_and_tell(self: SqliteStore, promise_id: str, address: str) -> None:
        await finish(self, promise_id, address)
        finished.set()

    monkeypatch.setattr(SqliteStore, "finish_task_message", finish_and_tell)
    with processes(speaker, "a") as [first]:
        settled_for(speaker, "poll://uni@g/a")
        first.next()
        assert not finished.wait(1.5)  # a look of the server later
        elapse(CONFIRM_SECONDS + 0.1)
        assert finished.wait(PATIENCE)
        first.reset()
        with processes(speaker, "a") as [second]:
            to_group(speaker, "t")
            assert second.next() == {"task": {"id": "t", "version": 0}}


def test_a_clock_that_is_set_confirms_no_message(speaker: Speaker) -> None:
    with processes(speaker, "a") as [first]:
        promise = settled_for(speaker, "poll://uni@g/a")
        first.next()
        speaker.clock.advance(CONFIRM_SECONDS + 0.1)
        to_group(speaker, "t")
        first.next()
        first.reset()
        with processes(speaker, "a") as [second]:
            assert {"promise": promise} in [second.next(), second.next()]


def test_process_that_connects_again_ends_its_earlier_connection(speaker: Speaker) -> None:
    with processes(speaker, "a") as [first]:
        to_group(speaker, "t")
        arrives(first)
        with processes(speaker, "a") as [second]:
            assert second.next() == {"task": {"id": "t", "version": 0}}
            first.ends()


def test_stream_ends_before_clients_give_it_up(speaker: Speaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "LAST_SECONDS", 0.5)
    with processes(speaker, "a") as [first]:
        first.ends()
    with processes(speaker, "a") as [second]:
        to_group(speaker, "t")
        assert second.next() == {"task": {"id": "t", "version": 0}}


def test_tasks_of_a_process_that_acquires_none_go_to_others(
    speaker: Speaker, elapse: Callable[[float], None]
) -> None:
    """The process is stopped, say: its system takes the messages."""
    with processes(speaker, "stopped", "b") as [_, second]:
        for number in range(4):
            to_group(speaker, f"t{number}")
        found: set[str] = set()
        for _ in range(2):
            found.add(_acquired(speaker, second))
        with pytest.raises(TimeoutError):
            second.next(1.5)
        elapse(CONFIRM_SECONDS + 0.1)
        for _ in range(2):
            found.add(_acquired(speaker, second))
        assert found == {f"t{number}" for number in range(4)}
        for number in range(4):  # it gets no more for a while
            to_group(speaker, f"u{number}")
            assert _acquired(speaker, second) == f"u{number}"


def test_process_that_reacts_again_gets_tasks_again(
    speaker: Speaker, elapse: Callable[[float], None]
) -> None:
    with processes(speaker, "late", "b") as [first, second]:
        for number in range(2):
            to_group(speaker, f"t{number}")
        _acquired(speaker, second)
        elapse(CONFIRM_SECONDS + 0.1)
        passed_on = second.next()["task"]
        assert _acquired(speaker, first, "late") == passed_on["id"]
        speaker.send("task.acquire", {**passed_on, "pid": "b", "ttl": 1000})
        for number in range(2):
            to_group(speaker, f"u{number}")
        assert {first.next()["task"]["id"], second.next()["task"]["id"]} == {"u0", "u1"}


@pytest.mark.long
def test_message_to_a_host_that_is_gone_is_not_taken_for_received(tmp_path: Path) -> None:
    namespace = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"], check=False).returncode != 0:
        pytest.skip("this machine lets us make no network of our own")
    command = [*namespace, sys.executable, CUT_OFF, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 25  # a message is sent again by itself after 30


def _acquired(speaker: Speaker, process: Process, pid: str = "b") -> str:
    """Acquire the next task of a process."""
    task = process.next()["task"]
    speaker.ask("task.acquire", {**task, "pid": pid, "ttl": 600_000})
    return task["id"]
