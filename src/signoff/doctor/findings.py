"""Findings of checks, and how checks are run: one after the other, each with a timeout."""

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
"""Timeout of one check. A server that hangs does not even return an error."""


class Level(StrEnum):
    """Severity of a finding. Only a failure fails the examination."""

    OK = "ok"
    SKIPPED = "skipped"  # it could not be checked
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check: its severity, and one line with the facts and the remedy."""

    level: Level
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict with the name of its check."""

    check: str
    level: Level
    message: str


Check = Callable[[T], Iterable[Verdict]]


class TookTooLong(Exception):
    """A check did not end in time. Its thread still runs, so its connection cannot be used any more."""

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
        TookTooLong: A check timed out, after the finding about it. The subject cannot be used any more.
    """
    for name, check in checks.items():
        verdicts = yield from attempt(name, lambda check=check: list(check(subject)))
        for verdict in verdicts or ():
            yield Finding(name, verdict.level, verdict.message)


def attempt(
    check: str, work: Callable[[], R], seconds: float = CHECK_SECONDS
) -> Generator[Finding, None, R | None]:
    """Return the result of ``work``. An exception yields a failure, and the result is None.

    Raises:
        TookTooLong: As for ``examine``.
    """
    try:
        return within(work, seconds)
    except Exception as error:
        yield Finding(check, Level.FAILURE, one_line(error))
        if isinstance(error, TookTooLong):
            raise
        return None


def within(work: Callable[[], R], seconds: float = CHECK_SECONDS) -> R:
    """Call ``work`` on a thread, which is abandoned after a timeout.

    Raises:
        TookTooLong: It has not ended in time.
        Exception: It raised this.
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


def one_line(error: BaseException) -> str:
    """Return an error's message in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def printable(text: str) -> str:
    """Return a server's text in one line, without control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def latency(seconds: Sequence[float], what: str, slow_seconds: float, hint: str) -> Verdict:
    """Judge the duration of a frequent operation."""
    median = statistics.median(seconds)
    text = f"{what} takes {median * 1000:.1f} ms (median of {len(seconds)})"
    return warning(f"{text}; {hint}") if median > slow_seconds else ok(text)


def clock(difference: float, inexact: float, whose: str) -> Verdict:
    """Judge the difference between a clock and this machine's."""
    text = f"{whose} clock is {abs(difference):.1f} s {'ahead of' if difference > 0 else 'behind'} this machine's"
    if abs(difference) - inexact > 2.0:
        return warning(f"{text}; set both by NTP: {whose} clock decides what is due, this one is in the logs")
    return ok(f"{whose} clock agrees with this machine's")
