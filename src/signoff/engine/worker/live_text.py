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
from signoff.engine.steps.live_stream import Voice
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
        self._speaking: dict[LiveVoice, None] = {}
        self._numbers = itertools.count()
        self._writing: asyncio.Task[None] | None = None
        self._is_writing = False
        self._under_way: set[LiveVoice] = set()
        self._written = asyncio.Event()

    def voice(self, call: StepCall, attempt: int) -> Voice | None:
        """Return the live stream of an attempt, or None if the attempt has ended. Thread-safe."""
        with self._lock:
            if call.speech is not self or call.attempt != attempt:
                return None
            if call.voice is None:
                call.voice = LiveVoice(self, call, attempt)
            return call.voice

    def hush(self, call: StepCall) -> Voice | None:
        """Close the attempt's live stream and return it, if one was opened."""
        with self._lock:
            voice, call.voice, call.speech = call.voice, None, None
            if isinstance(voice, LiveVoice):
                voice.is_silent = True
                self._speaking.pop(voice, None)
            return voice

    async def close(self) -> None:
        """Stop writing."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def hear(self, voice: LiveVoice, text: str, kind: str) -> None:
        """Queue text of a step. Thread-safe."""
        with self._lock:
            if voice.is_silent:
                return
            voice.keep(text, kind)
            self._speaking[voice] = None
            begins, self._is_writing = not self._is_writing, True
        if begins and self.loop is not None:
            self.loop.call_soon_threadsafe(self._begin, context=contextvars.Context())

    async def written(self, voice: LiveVoice) -> None:
        """Wait until no text of the stream is being written."""
        while voice in self._under_way:
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
                self._under_way.clear()
                self._written.set()
            await asyncio.sleep(EVERY_SECONDS)

    def _take(self) -> list[LiveText]:
        with self._lock:
            pieces = [piece for voice in self._speaking for piece in voice.take(self._numbers)]
            self._under_way.update(self._speaking)
            self._speaking.clear()
            self._is_writing = bool(pieces)
            return pieces


class LiveVoice:
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
        "_call",
        "_position",
        "_publisher",
        "_run",
        "_said",
        "_was_taken",
        "is_silent",
    )

    def __init__(self, publisher: Publisher, call: StepCall, attempt: int) -> None:
        self._publisher = publisher
        self._call = call
        self._run = call.run
        self._attempt = attempt
        self._position = 0
        self._said: deque[tuple[int, str, str]] | None = None
        self.is_silent = False
        self._was_taken = False

    def say(self, text: str, kind: str) -> None:
        """Add text. Thread-safe."""
        if text:
            self._publisher.hear(self, _storable(text), _storable(kind))

    async def was_heard(self) -> bool:
        """Wait for pending writes of a closed stream. Returns whether any text was written."""
        await self._publisher.written(self)
        return self._was_taken

    def keep(self, text: str, kind: str) -> None:
        """Buffer text until it is taken. Of a long text, the store keeps the last part."""
        said = self._said = self._said or deque()
        self._position += len(text)
        kept = text[-KEPT_CHARACTERS:]
        said.append((self._position - len(kept), kind, kept))
        while said[0][0] < self._position - KEPT_CHARACTERS:
            said.popleft()

    def take(self, numbers: Iterator[int]) -> Iterator[LiveText]:
        """Return the buffered text, with pieces of one kind joined, and start empty."""
        said, self._said = self._said or (), None
        self._was_taken = True
        for kind, group in itertools.groupby(said, key=lambda each: each[1]):
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
