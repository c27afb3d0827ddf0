"""What checks find, and how they are run: one after the other, each for a bounded time."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

CHECK_SECONDS: Final = 10.0
"""How long one check may take. A server that stands still answers nothing, not even an error."""


class Level(StrEnum):
    """How bad a finding is. Only a failure fails the examination."""

    OK = "ok"
    SKIPPED = "skipped"  # nothing could be looked at
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check says: how it is, in one line, and what to do if it is not well."""

    level: Level
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict of a named check."""

    check: str
    level: Level
    message: str


Check = Callable[[T], Iterable[Verdict]]


class TookTooLong(Exception):
    """A check did not end in time. Its thread goes on, and what it works on cannot be used any more."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s; nothing more is checked")


def ok(message: str) -> Verdict:
    return Verdict(Level.OK, message)


def skipped(message: str) -> Verdict:
    return Verdict(Level.SKIPPED, message)


def warning(message: str) -> Verdict:
    return Verdict(Level.WARNING, message)


def failure(message: str) -> Verdict:
    return Verdict(Level.FAILURE, message)


def examine(subject: T, checks: Mapping[str, Check[T]]) -> Iterator[Finding]:
    """Run a table of checks. One that raises is a failure.

    Raises:
        TookTooLong: After the finding that says so: what was examined cannot be used any more.
    """
    for name, check in checks.items():
        verdicts = yield from attempt(name, lambda check=check: list(check(subject)))
        for verdict in verdicts or ():
            yield Finding(name, verdict.level, verdict.message)


def attempt(
    check: str, work: Callable[[], R], seconds: float = CHECK_SECONDS
) -> Generator[Finding, None, R | None]:
    """Return what ``work`` returns; what it raises is a failure, and None.

    Raises:
        TookTooLong: As ``examine``.
    """
    try:
        return within(work, seconds)
    except Exception as error:
        yield Finding(check, Level.FAILURE, said(error))
        if isinstance(error, TookTooLong):
            raise
        return None


def within(work: Callable[[], R], seconds: float = CHECK_SECONDS) -> R:
    """Return what ``work`` returns, on a thread that is left alone after so long.

    Raises:
        TookTooLong: It has not ended.
        Exception: What it raises.
    """
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="signoff doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TookTooLong(seconds)
    return results[0]


def said(error: BaseException) -> str:
    """Spell an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def printable(text: str) -> str:
    """Return a text of a server in one line, without anything that a terminal would obey."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def latency(seconds: Sequence[float], what: str, slow_seconds: float, hint: str) -> Verdict:
    """Judge how long something takes that is done all the time."""
    median = statistics.median(seconds)
    text = f"{what} takes {median * 1000:.1f} ms (median of {len(seconds)})"
    return warning(f"{text}; {hint}") if median > slow_seconds else ok(text)


def clock(difference: float, inexact: float, whose: str) -> Verdict:
    """Judge by how much a clock differs from this machine's."""
    text = f"{whose} clock is {abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} this machine's"
    if abs(difference) - inexact > 2.0:
        return warning(f"{text}; set both by NTP: {whose} decides when things are due, logs show this one")
    return ok(f"{whose} clock agrees with this machine's")
