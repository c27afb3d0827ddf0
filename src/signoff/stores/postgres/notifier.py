"""Telling other processes of commits through Postgres, and hearing of theirs.

What is told is a hint that saves looking: whoever waits also looks by itself now and then. So it is told after the
commit, in a transaction of its own that waits for no disk, and may be lost.
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
MOST_BYTES: Final = 7_900  # Postgres takes 8,000
APPENDS_WAIT: Final = 0.05  # seconds before others hear that a journal has grown, and nothing else
RECONNECT_SOON: Final = 0.05
RECONNECT_LATER: Final = 2.0

NOTIFY: Final = "SELECT pg_notify('signoff', %s)"


class Notifier:
    """One connection and one thread for what processes tell each other.

    Args:
        connect: Opens a connection in autocommit mode; not through a pooler that shares connections by transaction.
        listeners: Who is told here of what other processes did.
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
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._mouth, False)
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signoff-postgres-notifier", daemon=True)
        self._thread.start()

    def tell(self, touched: TouchedRuns) -> None:
        """Tell other processes of a commit, soon. From any thread."""
        urgent = bool(touched.woken or touched.ended or touched.ready or touched.due)
        first = not self._outbox
        self._outbox.append(touched)
        if urgent and not self._urgent:
            self._urgent = True
            self._wake()
        elif first:
            self._began_to_wait = time.monotonic()
            self._wake()

    def wait_until_listening(self, seconds: float, given_up: threading.Event) -> None:
        """Wait until this process hears of others' commits, or nobody waits for that any more."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not given_up.is_set() and not self._listening.wait(0.2):
            pass

    def close(self) -> None:
        """Send what waits, if the server is there, and end the thread. Blocks."""
        self._closing = True
        self._wake()
        self._thread.join()
        os.close(self._ear)
        os.close(self._mouth)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full: the thread wakes anyway
            os.write(self._mouth, b".")

    def _run(self) -> None:
        pause = RECONNECT_SOON
        while not self._closing:
            try:
                with self._connect() as connection:
                    connection.execute("SET synchronous_commit TO off")
                    connection.add_notify_handler(self._heard)
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._listeners.tell_disturbance()  # whatever happened while nobody listened
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
        ears = [pgconn.socket, self._ear]
        while True:
            readable, _, _ = select.select(ears, [], [], self._seconds_to_wait())
            if self._ear in readable:
                os.read(self._ear, 4096)
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
        told = {"from": self._sender, "due": touched.due, "in": _by_namespace(touched)}
        text = to_json(told)
        if len(text) > MOST_BYTES:
            text = to_json({"from": self._sender})
        connection.execute(NOTIFY, (text.decode(),))

    def _heard(self, notify: psycopg.Notify) -> None:
        self._take(notify.payload.encode())

    def _take(self, payload: bytes) -> None:
        try:
            told = from_json(payload)
            if told["from"] == self._sender:
                return
            if "in" not in told:
                self._listeners.tell_disturbance()
                return
            touched = TouchedRuns()
            touched.due = told["due"]
            for namespace, (runs, woken, ended, ready) in told["in"].items():
                touched.runs[namespace] = {*runs, *woken, *ended}
                touched.woken[namespace] = set(woken)
                touched.ended[namespace] = set(ended)
                if ready:
                    touched.ready.add(namespace)
        except (ValueError, KeyError, TypeError):
            log.warning("store %s: not understood on channel %s: %r", self._location, CHANNEL, payload[:200])
            self._listeners.tell_disturbance()
            return
        self._listeners.tell(touched.change)


def _by_namespace(touched: TouchedRuns) -> dict[str, tuple[list[str], list[str], list[str], bool]]:
    told: dict[str, tuple[list[str], list[str], list[str], bool]] = {}
    for namespace in touched.runs.keys() | touched.ready:
        runs = touched.runs.get(namespace, set())
        woken, ended = touched.woken.get(namespace, set()), touched.ended.get(namespace, set())
        others = runs - woken - ended
        told[namespace] = (list(others), list(woken), list(ended), namespace in touched.ready)
    return told
