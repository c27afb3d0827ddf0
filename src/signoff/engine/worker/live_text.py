"""Live text: output of running steps, collected in the process and published a few times a second."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections import deque
from collections.abc import Iterator
from typing import Final

from signoff.engine.run.step_call import StepCall
from signoff.engine.steps.live_stream import LiveStream
from signoff.records import LiveText
from signoff.runtime.loggers import own_logger
from signoff.stores.contract.live import KEPT_CHARACTERS
from signoff.stores.contract.store import Store

log = own_logger("signoff.worker")

EVERY_SECONDS: Final = 0.1
"""Minimum seconds between two writes of all steps of a process."""


class Publisher:
    """Publishes the live text of a worker's steps: the first piece at once, the rest in batches.

    Publishing never blocks or fails a step. Text that cannot be written is lost.

    Args:
        store: The worker's store.

    Attributes:
        loop: The worker's event loop, while it works.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._unwritten: dict[PublishedStream, None] = {}
        self._numbers = itertools.count()
        self._writing: asyncio.Task[None] | None = None
        self._is_writing = False
        self._being_written: set[PublishedStream] = set()
        self._written = asyncio.Event()

    def live_stream(self, call: StepCall, attempt: int) -> LiveStream | None:
        """Return the live stream of an attempt, or None if the attempt has ended. Thread-safe."""
        with self._lock:
            if call.live_streams is not self or call.attempt != attempt:
                return None
            if call.live_stream is None:
                call.live_stream = PublishedStream(self, call, attempt)
            return call.live_stream

    def close_live(self, call: StepCall) -> LiveStream | None:
        """Close the attempt's live stream and return it, if one was opened."""
        with self._lock:
            live_stream, call.live_stream, call.live_streams = call.live_stream, None, None
            if isinstance(live_stream, PublishedStream):
                live_stream.is_silent = True
                self._unwritten.pop(live_stream, None)
            return live_stream

    async def close(self) -> None:
        """Stop writing."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def queue(self, live_stream: PublishedStream, text: str, kind: str) -> None:
        """Queue text of a step. Thread-safe."""
        with self._lock:
            if live_stream.is_silent:
                return
            live_stream.keep(text, kind)
            self._unwritten[live_stream] = None
            begins, self._is_writing = not self._is_writing, True
        if begins and self.loop is not None:
            self.loop.call_soon_threadsafe(self._begin, context=contextvars.Context())

    async def written(self, live_stream: PublishedStream) -> None:
        """Wait until no text of the stream is being written."""
        while live_stream in self._being_written:
            await self._written.wait()

    def _begin(self) -> None:
        self._writing = asyncio.get_running_loop().create_task(self._write(), name="signoff live text")

    async def _write(self) -> None:
        while pieces := self._take():
            self._written.clear()
            try:
                await self._store.publish(pieces)
            except Exception as error:
                log.warning("live text of %s is lost: %s", _runs(pieces), error)
            finally:
                self._being_written.clear()
                self._written.set()
            await asyncio.sleep(EVERY_SECONDS)

    def _take(self) -> list[LiveText]:
        with self._lock:
            pieces = [piece for live_stream in self._unwritten for piece in live_stream.take(self._numbers)]
            self._being_written.update(self._unwritten)
            self._unwritten.clear()
            self._is_writing = bool(pieces)
            return pieces


class PublishedStream:
    """The live stream of one attempt at a step.

    Args:
        publisher: The publisher that writes it.
        call: The step.
        attempt: The attempt's number.

    Attributes:
        is_silent: Whether it is closed.
    """

    __slots__ = (
        "_attempt",
        "_buffer",
        "_call",
        "_position",
        "_publisher",
        "_run",
        "_was_taken",
        "is_silent",
    )

    def __init__(self, publisher: Publisher, call: StepCall, attempt: int) -> None:
        self._publisher = publisher
        self._call = call
        self._run = call.run
        self._attempt = attempt
        self._position = 0
        self._buffer: deque[tuple[int, str, str]] | None = None
        self.is_silent = False
        self._was_taken = False

    def write(self, text: str, kind: str) -> None:
        """Add text. Thread-safe."""
        if text:
            self._publisher.queue(self, _storable(text), _storable(kind))

    async def was_published(self) -> bool:
        """Wait for pending writes of a closed stream. Returns whether any text was written."""
        await self._publisher.written(self)
        return self._was_taken

    def keep(self, text: str, kind: str) -> None:
        """Buffer text until it is taken. Of a long text, the store keeps the last part."""
        buffer = self._buffer = self._buffer or deque()
        self._position += len(text)
        kept = text[-KEPT_CHARACTERS:]
        buffer.append((self._position - len(kept), kind, kept))
        while buffer[0][0] < self._position - KEPT_CHARACTERS:
            buffer.popleft()

    def take(self, numbers: Iterator[int]) -> Iterator[LiveText]:
        """Return the buffered text, with pieces of one kind joined, and start empty."""
        buffer, self._buffer = self._buffer or (), None
        self._was_taken = True
        for kind, group in itertools.groupby(buffer, key=lambda each: each[1]):
            parts = list(group)
            yield LiveText(
                self._run.id,
                self._run.epoch,
                next(numbers),
                self._call.n,
                self._call.name,
                self._attempt,
                parts[0][0],
                kind,
                "".join(text for _, _, text in parts),
            )


def _storable(text: str) -> str:
    """Replace characters that a store cannot keep, preserving the length."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def _runs(pieces: list[LiveText]) -> str:
    return ", ".join(sorted({repr(piece.run_id) for piece in pieces}))
