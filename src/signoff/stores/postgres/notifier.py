"""Notifies other processes of commits with LISTEN and NOTIFY.

A notification is a hint that saves polling; waiters also poll now and then. So notifications are sent after the commit,
in a transaction of their own that does not wait for the disk, and may be lost.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import psycopg
from pydantic_core import from_json, to_json

from signoff.runtime.loggers import own_logger
from signoff.stores.shared.listeners import Listeners
from signoff.stores.shared.touched_runs import TouchedRuns

log = own_logger("signoff.store")

CHANNEL: Final = "signoff"
MOST_BYTES: Final = 7_900  # of a payload; the limit of Postgres is 8,000
APPENDS_WAIT: Final = 0.05  # seconds to delay notifications that only report journal appends
RECONNECT_SOON: Final = 0.05
RECONNECT_LATER: Final = 2.0

NOTIFY: Final = "SELECT pg_notify('signoff', %s)"


class Notifier:
    """Sends and receives notifications between processes, on one connection and one thread.

    Args:
        connect: Opens a connection in autocommit mode, not through a transaction pooler.
        listeners: Callbacks of this process to notify of other processes' commits.
        location: The store's address, for messages.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], listeners: Listeners, location: str
    ) -> None:
        self._connect = connect
        self._listeners = listeners
        self._location = location
        self._sender = uuid.uuid4().hex[:12]
        self._outbox: deque[TouchedRuns] = deque()
        self._urgent = False
        self._began_to_wait = 0.0
        self._closing = False
        self._wake_read_fd, self._wake_write_fd = os.pipe()
        os.set_blocking(self._wake_write_fd, False)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signoff-postgres-notifier", daemon=True)
        self._thread.start()

    def notify(self, touched: TouchedRuns) -> None:
        """Notify other processes of a commit, soon. Thread-safe."""
        urgent = bool(touched.woken or touched.ended or touched.ready or touched.due or touched.settled)
        first = not self._outbox
        self._outbox.append(touched)
        if urgent and not self._urgent:
            self._urgent = True
            self._wake()
        elif first:
            self._began_to_wait = time.monotonic()
            self._wake()

    def wait_until_listening(self, seconds: float, given_up: threading.Event) -> None:
        """Wait until this process receives notifications, for at most ``seconds``, or until the caller gives up."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not given_up.is_set() and not self._listening.wait(0.2):
            pass

    def close(self) -> None:
        """Send queued notifications if the server is available, and end the thread. Blocks."""
        self._closing = True
        self._wake()
        self._thread.join()
        os.close(self._wake_read_fd)
        os.close(self._wake_write_fd)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full: the thread wakes anyway
            os.write(self._wake_write_fd, b".")

    def _run(self) -> None:
        pause = RECONNECT_SOON
        while not self._closing:
            try:
                with self._connect() as connection:
                    connection.execute("SET synchronous_commit TO off")
                    connection.add_notify_handler(self._on_notify)
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._listeners.notify_disturbance()  # commits may have been missed
                    self._listening.set()
                    pause = RECONNECT_SOON
                    self._serve(connection)
            except psycopg.Error as error:
                self._listening.clear()
                if self._closing:
                    return
                said = " ".join(str(error).split())
                log.warning("store %s: not listening to other processes: %s", self._location, said)
                select.select([], [], [], pause)
                pause = min(pause * 2, RECONNECT_LATER)

    def _serve(self, connection: psycopg.Connection[Any]) -> None:
        pgconn = connection.pgconn
        sockets = [pgconn.socket, self._wake_read_fd]
        while True:
            readable, _, _ = select.select(sockets, [], [], self._seconds_to_wait())
            if self._wake_read_fd in readable:
                os.read(self._wake_read_fd, 4096)
            if pgconn.socket in readable:
                pgconn.consume_input()
                while (notify := pgconn.notifies()) is not None:
                    self._take(notify.extra)
            if self._urgent or self._closing or self._seconds_to_wait() == 0.0:
                self._send(connection)
            if self._closing:
                return

    def _seconds_to_wait(self) -> float | None:
        if not self._outbox:
            return None
        return max(0.0, self._began_to_wait + APPENDS_WAIT - time.monotonic())

    def _send(self, connection: psycopg.Connection[Any]) -> None:
        self._urgent = False
        touched = TouchedRuns()
        while self._outbox:
            touched.add(self._outbox.popleft())
        if not touched:
            return
        message = {
            "from": self._sender,
            "due": touched.due,
            "in": _by_namespace(touched),
            "settled": list(touched.settled),
        }
        text = to_json(message)
        if len(text) > MOST_BYTES:
            text = to_json({"from": self._sender})
        connection.execute(NOTIFY, (text.decode(),))

    def _on_notify(self, notify: psycopg.Notify) -> None:
        self._take(notify.payload.encode())

    def _take(self, payload: bytes) -> None:
        try:
            message = from_json(payload)
            if message["from"] == self._sender:
                return
            if "in" not in message:
                self._listeners.notify_disturbance()
                return
            touched = TouchedRuns()
            touched.due = message["due"]
            touched.settled.update(message.get("settled", ()))  # older versions do not send or read it
            for namespace, (runs, woken, ended, ready) in message["in"].items():
                touched.runs[namespace] = {*runs, *woken, *ended}
                touched.woken[namespace] = set(woken)
                touched.ended[namespace] = set(ended)
                if ready:
                    touched.ready.add(namespace)
        except (ValueError, KeyError, TypeError):
            log.warning(
                "store %s: invalid notification on channel %s: %r", self._location, CHANNEL, payload[:200]
            )
            self._listeners.notify_disturbance()
            return
        self._listeners.notify(touched.change)


def _by_namespace(touched: TouchedRuns) -> dict[str, tuple[list[str], list[str], list[str], bool]]:
    found: dict[str, tuple[list[str], list[str], list[str], bool]] = {}
    for namespace in touched.runs.keys() | touched.ready:
        runs = touched.runs.get(namespace, set())
        woken, ended = touched.woken.get(namespace, set()), touched.ended.get(namespace, set())
        others = runs - woken - ended
        found[namespace] = (list(others), list(woken), list(ended), namespace in touched.ready)
    return found
