"""How a command ends: its exit code, and the one line that says what went wrong."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from signoff.codec.strict_json import read_object
from signoff.errors import (
    AccessDenied,
    AlreadySettled,
    AlreadyVoted,
    IdConflict,
    InvalidState,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    QuestionClaimed,
    RequestConflict,
    SignoffError,
    SnapshotRefused,
    StoreError,
    TooManyRequests,
    WrongAnswer,
)
from signoff.people.audit.anchors.anchor import AnchorUnavailable


class ExitCode(IntEnum):
    """What the shell is told. Stable: scripts rely on it."""

    OK = 0
    FAILED = 1  # what was asked for failed: the run, the replay
    USAGE = 2  # wrong arguments, or code that cannot be loaded
    NOT_FOUND = 3
    CONFLICT = 4  # refused: a wrong answer, too late, an id that is taken, a wrong key
    UNAVAILABLE = 5  # the store or the server
    INTERRUPTED = 130


class CommandFailed(Exception):
    """Ends a command with a message for the user.

    Args:
        code: The exit code.
        message: One line that says what to do.
        facts: What else ``--json`` tells of it.
    """

    def __init__(self, code: ExitCode, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.code = code
        self.facts = facts


_CODES: tuple[tuple[type[SignoffError] | tuple[type[SignoffError], ...], ExitCode], ...] = (
    (NotFound, ExitCode.NOT_FOUND),
    (
        (
            AccessDenied,
            AlreadySettled,
            AlreadyVoted,
            IdConflict,
            InvalidState,
            NotAllowed,
            NotAuthenticated,
            QuestionClaimed,
            RequestConflict,
            SnapshotRefused,
            TooManyRequests,
            WrongAnswer,
        ),
        ExitCode.CONFLICT,
    ),
    ((StoreError, AnchorUnavailable), ExitCode.UNAVAILABLE),
)


def exit_code_of(error: SignoffError) -> ExitCode:
    """Return the exit code of an error of ours. What is not listed is the fault of what the user typed."""
    return next((code for types, code in _CODES if isinstance(error, types)), ExitCode.USAGE)


def run_error(error: str | None) -> tuple[str, str]:
    """Return the type and the message of a journaled error."""
    record = read_object(error)
    return str(record.get("type", "an unknown error")).rpartition(":")[2], str(record.get("message", ""))
