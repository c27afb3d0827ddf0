"""What a step speaks with while it runs, as the step sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from signoff.engine.run.step_call import StepCall


class Voice(Protocol):
    """What one attempt at a step speaks with."""

    def say(self, text: str, kind: str) -> None:
        """Say something. From any thread."""
        ...

    async def was_heard(self) -> bool:
        """Whether anything was written, of one that is silent; returns when nothing of it is being written any more."""
        ...


class Speech(Protocol):
    """What gives steps a voice."""

    def voice(self, call: StepCall, attempt: int) -> Voice | None:
        """Return the voice of an attempt; None if it has ended. From any thread."""
        ...

    def hush(self, call: StepCall) -> Voice | None:
        """Silence the attempt that was made. Returns its voice, if it had one."""
        ...
