"""The live stream of a step's attempt, as the step uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from signoff.engine.run.step_call import StepCall


class LiveStream(Protocol):
    """The live stream of one attempt at a step."""

    def write(self, text: str, kind: str) -> None:
        """Add text. Thread-safe."""
        ...

    async def was_published(self) -> bool:
        """Wait for pending writes of a closed stream. Returns whether any text was written."""
        ...


class LiveStreams(Protocol):
    """Opens and closes the live streams of steps."""

    def live_stream(self, call: StepCall, attempt: int) -> LiveStream | None:
        """Return the live stream of an attempt, or None if the attempt has ended. Thread-safe."""
        ...

    def close_live(self, call: StepCall) -> LiveStream | None:
        """Close the attempt's live stream and return it, if one was opened."""
        ...
