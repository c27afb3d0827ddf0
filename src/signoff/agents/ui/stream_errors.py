"""Errors as a chat receives them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai.exceptions import RunCancelled

from signoff.agents.ui.turn_stream import TurnFailed
from signoff.errors import SignoffError
from signoff.runtime.loggers import own_logger

log = own_logger("signoff.agents")


@dataclass(frozen=True, slots=True)
class PublicError:
    """An error without anything that is not meant for the chat's user.

    Attributes:
        message: Its text.
        code: Its kind: the name of Signoff's error, ``TurnFailed``, ``TurnAborted`` or ``InternalError``.
    """

    message: str
    code: str


def public_error(error: Exception) -> PublicError:
    """Return an error as a chat receives it. Unexpected ones are logged, and sent without their text."""
    if isinstance(error, RunCancelled):
        return PublicError(str(error), "TurnAborted")
    if isinstance(error, (SignoffError, TurnFailed)):
        return PublicError(str(error), type(error).__name__)
    log.error("a chat's request failed", exc_info=error)
    return PublicError("the request failed", "InternalError")
