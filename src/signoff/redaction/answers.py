"""Answers to redacted questions: replaces placeholders in an answer by the hidden values that they stand for."""

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
"""The mark in a shortened field name."""

_MISSING: Final = object()

_AMBIGUOUS: Final = "other rows look the same but have other hidden values: write the value itself"

Problems = list[tuple[str, str]]
"""``(field, message)`` each."""


def restored(
    start: Place, asked: dict[str, Any], given: Any, shown: dict[str, Any] | None = None
) -> tuple[Any, Problems]:
    """Replace the placeholders in an answer by the values that they stand for.

    Args:
        start: The root of payloads.
        asked: The question, as in its JSON.
        given: The answer.
        shown: The question as it was shown; None: with its editable parts redacted by the paths only.

    Returns:
        The complete answer, and the problems: placeholders that stand for nothing at their place.
    """
    problems: Problems = []
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        approval = cast("dict[str, Any]", given)
        if "edited" not in approval:
            return approval, problems
        original, seen = _as_shown(start, asked, shown, "proposal")
        edited = _restored(start, original, seen, approval["edited"], (), ("edited",), problems)
        return {**approval, "edited": edited}, problems
    chosen = _chosen(asked, shown, given)
    if chosen is not given:
        return chosen, problems
    original, seen = _as_shown(start, asked, shown, "default")
    return _restored(start, original, seen, given, (), (), problems), problems


def _as_shown(
    start: Place, asked: dict[str, Any], shown: dict[str, Any] | None, name: str
) -> tuple[Any, Any]:
    """Return a part of a question, original and as shown."""
    original = asked.get(name)
    if original is None:
        return _MISSING, _MISSING
    return original, start.shown(original, Hidden(), ()) if shown is None else shown.get(name)


def _chosen(asked: dict[str, Any], shown: dict[str, Any] | None, given: Any) -> Any:
    """Return the chosen options with their original values."""
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
    """Return the hidden fields of an answer, as problems name them."""
    if isinstance(given, dict) and asked.get("input_type") == "approval":
        edited = cast("dict[str, Any]", given).get("edited")
        return [".".join(("edited", *map(str, where))) for where in _hidden(start, edited, ())]
    return [".".join(map(str, where)) for where in _hidden(start, given, ())]


def unquoted(refusal: WrongAnswer, hidden: list[str], secrets: Iterable[str] = ()) -> WrongAnswer:
    """Return a refusal without messages about hidden fields, or about fields in or around them.

    Args:
        refusal: The refusal.
        hidden: The hidden fields.
        secrets: Texts that are hidden elsewhere.
    """
    texts = Hidden(secrets)
    problems: Problems = []
    for field, message in refusal.problems:
        is_about = any(
            not field
            or _CUT in field
            or field == each
            or each.startswith(f"{field}.")
            or field.startswith(f"{each}.")
            for each in hidden
        )
        problems.append((texts.masked(field), "it does not fit" if is_about else texts.masked(message)))
    return WrongAnswer(refusal.question_id, problems)


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
        if len(items) != len(before):  # rows may have moved, so a placeholder may belong to another row
            ambiguous = [n for n, each in enumerate(items) if _is_ambiguous(before, seen, n, each)]
            problems += [(".".join(map(str, (*prefix, *where, n))), _AMBIGUOUS) for n in ambiguous]
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


def _is_ambiguous(before: list[Any], seen: list[Any], n: int, given: Any) -> bool:
    """Whether a row looks like two rows as shown, whose originals differ."""
    if n >= len(seen) or given != seen[n] or len(before) != len(seen):
        return False
    return any(other == given and before[k] != before[n] for k, other in enumerate(seen))


def _by_shown_name(original: Any, shown: Any) -> dict[str, tuple[str, Any, Any]]:
    """Return the fields of an object by their names as shown: original name, value, and value as shown."""
    if not isinstance(original, dict):
        return {}
    fields = cast("dict[str, Any]", original)
    seen = cast("dict[str, Any]", shown) if isinstance(shown, dict) else {}
    if len(seen) != len(fields):  # two names look the same, so neither can be restored
        return {name: (name, value, seen[name]) for name, value in fields.items() if name in seen}
    return {
        other: (name, value, seen[other]) for (name, value), other in zip(fields.items(), seen, strict=True)
    }


def _why(place: Place, original: Any, shown: Any, where: Pointer) -> str:
    if original is not _MISSING and isinstance(shown, str) and shown != original:
        return f"the hidden value here is shown as {shown!r}: leave that as it is, or write another value"
    return (
        f"a placeholder stands for the hidden value at its own place, and {pointer_to(where) or 'this place'} has "
        f"none: write the value itself"
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
