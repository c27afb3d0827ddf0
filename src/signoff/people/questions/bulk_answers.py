"""Several answers in one call. Each succeeds or fails on its own."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from signoff.errors import InvalidValue, SignoffError, StoreUnavailable

T = TypeVar("T")

MOST_ANSWERS: Final = 100
"""Maximum number of answers per call."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One of several answers given in one call.

    Attributes:
        question_id: The question's id.
        value: As in ``client.answer``.
        note: The user's note.
        request_id: Makes repeating the same answer a success without effect.
        digest: Digest of the question that the user saw. The answer is refused if the question differs.
    """

    question_id: str
    value: Any
    note: str | None = None
    request_id: str | None = None
    digest: str | None = None


async def answer_each(
    given: Sequence[GivenAnswer], answer: Callable[[GivenAnswer], Awaitable[T]]
) -> list[T | SignoffError]:
    """Give answers one after the other. A failed answer does not stop the others.

    Args:
        given: The answers.
        answer: Gives one answer.

    Returns:
        The result or error of each, in the same order. Once the store is unavailable, the rest fails with the same
        error without being tried.

    Raises:
        InvalidValue: There are too many answers.
    """
    check_count(given)
    results: list[T | SignoffError] = []
    for each in given:
        try:
            results.append(await answer(each))
        except StoreUnavailable as error:
            return results + [error] * (len(given) - len(results))
        except SignoffError as error:
            error.__cause__ = error.__context__ = None  # these and the traceback keep the question in memory
            results.append(error.with_traceback(None))
    return results


def check_count(given: Sequence[GivenAnswer]) -> None:
    """Raise InvalidValue for too many answers, and for items that are not answers."""
    if isinstance(given, str) or not isinstance(cast("object", given), Sequence):
        raise InvalidValue("answers", f"expected a list of GivenAnswer, not {reprlib.repr(given)}")
    for each in given:
        if not isinstance(cast("object", each), GivenAnswer):
            raise InvalidValue(
                "answers", f"expected GivenAnswer(question_id, value), not {reprlib.repr(each)}"
            )
    if len(given) > MOST_ANSWERS:
        raise InvalidValue("answers", f"{len(given)} answers are over the limit of {MOST_ANSWERS} per call")
