"""Several answers at once: each counts by itself, and none depends on another."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from signoff.errors import InvalidValue, SignoffError, StoreUnavailable

T = TypeVar("T")

MOST_ANSWERS: Final = 100
"""How many answers are given at once at most."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One of several answers that a person gives at once.

    Attributes:
        question_id: The question.
        value: As in ``client.answer``.
        note: What they add in words.
        request_id: Makes a repetition of this very answer a success without effect.
        digest: What they saw; refused if the question is another one.
    """

    question_id: str
    value: Any
    note: str | None = None
    request_id: str | None = None
    digest: str | None = None


async def answer_each(
    given: Sequence[GivenAnswer], answer: Callable[[GivenAnswer], Awaitable[T]]
) -> list[T | SignoffError]:
    """Give answers one after the other, whatever comes of those before.

    Args:
        given: The answers.
        answer: Gives one of them.

    Returns:
        What came of each, in the same order. Once the store is not available the rest is not tried, and fails likewise.

    Raises:
        InvalidValue: They are too many.
    """
    check_count(given)
    results: list[T | SignoffError] = []
    for each in given:
        try:
            results.append(await answer(each))
        except StoreUnavailable as error:
            return results + [error] * (len(given) - len(results))
        except SignoffError as error:
            error.__cause__ = error.__context__ = None  # they, and its frames, hold the question
            results.append(error.with_traceback(None))
    return results


def check_count(given: Sequence[GivenAnswer]) -> None:
    """Raise InvalidValue for more answers than are given at once, and for what is none."""
    if isinstance(given, str) or not isinstance(cast("object", given), Sequence):
        raise InvalidValue("answers", f"expected a list of GivenAnswer, not {reprlib.repr(given)}")
    for each in given:
        if not isinstance(cast("object", each), GivenAnswer):
            raise InvalidValue(
                "answers", f"expected GivenAnswer(question_id, value), not {reprlib.repr(each)}"
            )
    if len(given) > MOST_ANSWERS:
        raise InvalidValue("answers", f"{len(given)} are more than {MOST_ANSWERS} at once")
