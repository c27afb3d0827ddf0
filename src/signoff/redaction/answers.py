"""Answers of people who were shown a question without what is hidden of it: a placeholder means what it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from signoff.errors import WrongAnswer
from signoff.redaction.paths import PLACEHOLDER, Place, Pointer, marker, pointer_to

_MARKER: Final = re.compile(re.escape(PLACEHOLDER[:-1]) + " /")

_CUT: Final = " ... "
"""What is in a field's name that was shortened."""

_MISSING: Final = object()

Problems = list[tuple[str, str]]
"""``(field, message)`` each."""


def restored(start: Place, asked: dict[str, Any], given: Any) -> tuple[Any, Problems]:
    """Put back what placeholders stand for in an answer.

    Args:
        start: Where the walk through a payload begins.
        asked: The question, as its JSON has it.
        given: The answer.

    Returns:
        The answer as it is meant, and what is wrong: placeholders that stand for nothing where they are.
    """
    problems: Problems = []
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        said = cast("dict[str, Any]", given)
        if "edited" not in said:
            return said, problems
        original = asked.get("proposal")
        edited = _restored(start, original, said["edited"], (), ("edited",), problems)
        return {**said, "edited": edited}, problems
    default = asked.get("default")
    return _restored(start, _MISSING if default is None else default, given, (), (), problems), problems


def hidden_fields(start: Place, asked: dict[str, Any], given: Any) -> list[str]:
    """Return where an answer has what is hidden, as problems name fields."""
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        edited = cast("dict[str, Any]", given).get("edited")
        return [".".join(("edited", *map(str, where))) for where in _hidden(start, edited, ())]
    return [".".join(map(str, where)) for where in _hidden(start, given, ())]


def unquoted(refusal: WrongAnswer, hidden: list[str]) -> WrongAnswer:
    """Return a refusal whose messages quote nothing hidden: of the very field, of what is in it, or around it."""
    said: Problems = []
    for field, message in refusal.problems:
        is_about = any(
            not field
            or _CUT in field
            or field == each
            or each.startswith(f"{field}.")
            or field.startswith(f"{each}.")
            for each in hidden
        )
        said.append((field, "it does not fit" if is_about else message))
    return WrongAnswer(refusal.question_id, said)


def _restored(
    place: Place, original: Any, given: Any, where: Pointer, prefix: Pointer, problems: Problems
) -> Any:
    if isinstance(given, str):
        if given == original:
            return given
        if place.is_hidden and given == marker(where) and original is not _MISSING:
            return original
        if given == PLACEHOLDER or _MARKER.search(given):
            field = ".".join(map(str, (*prefix, *where)))
            problems.append((field, _why(place, original, where)))
        return given
    if isinstance(given, dict):
        fields = cast("dict[str, Any]", given)
        known = cast("dict[str, Any]", original) if isinstance(original, dict) else {}
        return {
            name: _restored(
                place.under(name), known.get(name, _MISSING), each, (*where, name), prefix, problems
            )
            for name, each in fields.items()
        }
    if isinstance(given, list):
        items = cast("list[Any]", given)
        before = cast("list[Any]", original) if isinstance(original, list) else []
        return [
            _restored(
                place.under(n),
                before[n] if n < len(before) else _MISSING,
                each,
                (*where, n),
                prefix,
                problems,
            )
            for n, each in enumerate(items)
        ]
    return given


def _why(place: Place, original: Any, where: Pointer) -> str:
    if place.is_hidden and original is not _MISSING:
        return f"what is hidden here is {marker(where)!r}: leave that as it is, or write another value"
    return (
        f"a placeholder stands for what is hidden at its own place, and at {pointer_to(where) or 'this one'} "
        f"nothing is: write the value itself"
    )


def _hidden(place: Place, value: Any, where: Pointer) -> Iterator[Pointer]:
    if place.is_hidden:
        yield where
    elif isinstance(value, dict):
        for name, each in cast("dict[str, Any]", value).items():
            yield from _hidden(place.under(name), each, (*where, name))
    elif isinstance(value, list):
        for n, each in enumerate(cast("list[Any]", value)):
            yield from _hidden(place.under(n), each, (*where, n))
