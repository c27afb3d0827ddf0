"""Answers of people who were shown a question without what is hidden of it: a placeholder means what it stands for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from signoff.errors import WrongAnswer
from signoff.redaction.hidden_values import PLACEHOLDER, Hidden, Pointer, pointer_to
from signoff.redaction.paths import Place
from signoff.redaction.records import choices_of

_MARKER: Final = re.compile(re.escape(PLACEHOLDER[:-1]) + " /")

_CUT: Final = " ... "
"""What is in a field's name that was shortened."""

_MISSING: Final = object()

_ALIKE: Final = "rows that look like this one have other hidden values: write the value itself"

Problems = list[tuple[str, str]]
"""``(field, message)`` each."""


def restored(
    start: Place, asked: dict[str, Any], given: Any, shown: dict[str, Any] | None = None
) -> tuple[Any, Problems]:
    """Put back what placeholders stand for in an answer.

    Args:
        start: Where the walk through a payload begins.
        asked: The question, as its JSON has it.
        given: The answer.
        shown: The question as it was shown; None: without what the paths hide in what can be edited.

    Returns:
        The answer as it is meant, and what is wrong: placeholders that stand for nothing where they are.
    """
    problems: Problems = []
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        said = cast("dict[str, Any]", given)
        if "edited" not in said:
            return said, problems
        original, seen = _as_shown(start, asked, shown, "proposal")
        edited = _restored(start, original, seen, said["edited"], (), ("edited",), problems)
        return {**said, "edited": edited}, problems
    chosen = _chosen(asked, shown, given)
    if chosen is not given:
        return chosen, problems
    original, seen = _as_shown(start, asked, shown, "default")
    return _restored(start, original, seen, given, (), (), problems), problems


def _as_shown(
    start: Place, asked: dict[str, Any], shown: dict[str, Any] | None, name: str
) -> tuple[Any, Any]:
    """Return a part of a question as it is, and as it was shown."""
    original = asked.get(name)
    if original is None:
        return _MISSING, _MISSING
    return original, start.shown(original, Hidden(), ()) if shown is None else shown.get(name)


def _chosen(asked: dict[str, Any], shown: dict[str, Any] | None, given: Any) -> Any:
    """Return what was chosen of options, with the values that their placeholders stand for."""
    options = choices_of(asked.get("options"), None if shown is None else shown.get("options"))
    meant = {other: value for value, other in options.items()}
    if isinstance(given, str):
        return meant.get(given, given)
    if not isinstance(given, list):
        return given
    items = cast("list[Any]", given)
    chosen = [meant.get(each, each) if isinstance(each, str) else each for each in items]
    return items if chosen == items else chosen


def hidden_fields(start: Place, asked: dict[str, Any], given: Any) -> list[str]:
    """Return where an answer has what is hidden, as problems name fields."""
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        edited = cast("dict[str, Any]", given).get("edited")
        return [".".join(("edited", *map(str, where))) for where in _hidden(start, edited, ())]
    return [".".join(map(str, where)) for where in _hidden(start, given, ())]


def unquoted(refusal: WrongAnswer, hidden: list[str], secrets: Iterable[str] = ()) -> WrongAnswer:
    """Return a refusal whose messages quote nothing hidden: of the very field, of what is in it, or around it.

    Args:
        refusal: The refusal.
        hidden: The fields that are hidden.
        secrets: What is hidden elsewhere.
    """
    texts = Hidden(secrets)
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
        said.append((texts.masked(field), "it does not fit" if is_about else texts.masked(message)))
    return WrongAnswer(refusal.question_id, said)


def _restored(
    place: Place, original: Any, shown: Any, given: Any, where: Pointer, prefix: Pointer, problems: Problems
) -> Any:
    if isinstance(given, str):
        if isinstance(shown, str) and given == shown:
            return original
        if PLACEHOLDER in given or _MARKER.search(given):
            field = ".".join(map(str, (*prefix, *where)))
            problems.append((field, _why(place, original, shown, where)))
        return given
    if isinstance(given, dict):
        fields = cast("dict[str, Any]", given)
        known = _by_shown_name(original, shown)
        restored: dict[str, Any] = {}
        for name, each in fields.items():
            meant, before, seen = known.get(name, (name, _MISSING, _MISSING))
            restored[meant] = _restored(
                place.under(meant), before, seen, each, (*where, meant), prefix, problems
            )
        return restored
    if isinstance(given, list):
        items = cast("list[Any]", given)
        before = cast("list[Any]", original) if isinstance(original, list) else []
        seen = cast("list[Any]", shown) if isinstance(shown, list) else []
        if len(items) != len(before):  # a row may not be the one that was there
            alike = [n for n, each in enumerate(items) if _is_one_of_several(before, seen, n, each)]
            problems += [(".".join(map(str, (*prefix, *where, n))), _ALIKE) for n in alike]
        return [
            _restored(
                place.under(n),
                before[n] if n < len(before) else _MISSING,
                seen[n] if n < len(seen) else _MISSING,
                each,
                (*where, n),
                prefix,
                problems,
            )
            for n, each in enumerate(items)
        ]
    return given


def _is_one_of_several(before: list[Any], seen: list[Any], n: int, given: Any) -> bool:
    """Whether a row looks like one that was shown, and like another that is not the same."""
    if n >= len(seen) or given != seen[n] or len(before) != len(seen):
        return False
    return any(other == given and before[k] != before[n] for k, other in enumerate(seen))


def _by_shown_name(original: Any, shown: Any) -> dict[str, tuple[str, Any, Any]]:
    """Return the fields of an object by the names they were shown under: name, value, and value as shown."""
    if not isinstance(original, dict):
        return {}
    fields = cast("dict[str, Any]", original)
    seen = cast("dict[str, Any]", shown) if isinstance(shown, dict) else {}
    if len(seen) != len(fields):  # two names look the same: none of them is known
        return {name: (name, value, seen[name]) for name, value in fields.items() if name in seen}
    return {
        other: (name, value, seen[other]) for (name, value), other in zip(fields.items(), seen, strict=True)
    }


def _why(place: Place, original: Any, shown: Any, where: Pointer) -> str:
    if original is not _MISSING and isinstance(shown, str) and shown != original:
        return f"what is hidden here is {shown!r}: leave that as it is, or write another value"
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
