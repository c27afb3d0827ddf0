"""Exit codes of commands, and the error that ends a command."""

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
    """Exit code of a command. The values are stable: scripts rely on them."""

    OK = 0
    FAILED = 1  # the run, the replay or a check failed
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
        facts: Further members of the error object that ``--json`` prints.
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
    """Return the exit code of an error. Errors that are not listed are usage errors."""
    return next((code for types, code in _CODES if isinstance(error, types)), ExitCode.USAGE)


def run_error(error: str | None) -> tuple[str, str]:
    """Return the type and the message of a journaled error."""
    record = read_object(error)
    return str(record.get("type", "an unknown error")).rpartition(":")[2], str(record.get("message", ""))
