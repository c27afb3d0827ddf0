"""HTML values: what a page's fields show, and the value of the submitted form.

A field that is submitted as it was shown gives the initial value unchanged: viewing a page must not edit a value.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.people.links.html_fields import (
    APPROVE,
    EDIT,
    MISSING,
    REJECT,
    FieldGroup,
    HtmlField,
    decision_field,
    html_fields_of,
    same,
    visible_json,
)
from signoff.people.questions.question import Question

SubmittedForm = Mapping[str, Sequence[str]]
"""The submitted values by field name."""

OTHER: Final = "other"
"""Stands for the free text among the indexes of the choices."""

_WHOLE: Final = re.compile(r"-?[0-9]{1,4000}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,4000}(\.[0-9]{1,4000})?([eE][+-]?[0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of a field.

    Attributes:
        text: Its text.
        chosen: Indexes of the chosen options, and ``OTHER``.
        other: The free text.
    """

    text: str = ""
    chosen: frozenset[str] = frozenset()
    other: str = ""


class _Wrong(Exception):
    """The submitted text is not a valid value."""


def begin(field: HtmlField) -> Shown:
    """Return the initial content of a field."""
    initial = field.initial
    match field.kind:
        case "one" | "some":
            values = [initial]
            if field.kind == "some" and isinstance(initial, list):
                values = cast("list[Any]", initial)
            numbers = [_number(field, value) for value in values]
            own = [value["other"] for value in values if _is_own(value)]
            chosen = {str(number) for number in numbers if number is not None}
            return Shown(chosen=frozenset({*chosen, OTHER} if own else chosen), other="\n".join(own))
        case "lines":
            return Shown("\n".join(_line(value) for value in initial or ()) if initial is not MISSING else "")
        case "json":
            return Shown("" if initial is MISSING else visible_json(initial))
        case _:
            return Shown("" if initial is MISSING or initial is None else _line(initial))


def returned(field: HtmlField, filled: SubmittedForm) -> Shown:
    """Return the submitted content of a field."""
    texts = filled.get(field.name, ())
    other = normal("".join(filled.get(f"{field.name}.{OTHER}", ())[:1]))
    if field.kind in ("one", "some"):
        return Shown(chosen=frozenset(texts) - {""}, other=other)
    return Shown(normal("".join(texts[:1])))


def read(
    groups: Sequence[FieldGroup], filled: SubmittedForm, start: Any = MISSING
) -> tuple[Any, list[tuple[str, str]]]:
    """Return the value of submitted fields.

    Args:
        groups: The fields.
        filled: The submitted form.
        start: The initial value. Parts without a field stay as they are there.

    Returns:
        The value, and ``(field, message)`` for each invalid field.
    """
    wrong: list[tuple[str, str]] = []

    def value_of(field: HtmlField, *, is_needed: bool) -> Any:
        try:
            if field.kind != "some" and len(filled.get(field.name, ())) > 1:
                raise _Wrong("this was sent twice")
            value = _value(field, returned(field, filled))
            if value is MISSING and is_needed and field.is_required:
                raise _Wrong("this is required")
        except _Wrong as why:
            wrong.append((".".join(field.path), str(why)))
            return MISSING
        return value

    if len(groups) == 1 and groups[0].is_whole:
        return value_of(groups[0].fields[0], is_needed=True), wrong
    result = copy.deepcopy(cast("dict[str, Any]", start)) if isinstance(start, dict) else {}
    for group in groups:
        is_needed = group.is_required and not group.is_nullable
        values = {field.path[-1]: value_of(field, is_needed=is_needed) for field in group.fields}
        if not group.path:
            _put(result, values)
            continue
        [name] = group.path
        known = result.get(name)
        inner: dict[str, Any] = cast("dict[str, Any]", known) if isinstance(known, dict) else {}
        _put(inner, values)
        if inner or isinstance(known, dict):
            result[name] = inner
        elif group.is_required:
            result[name] = None if group.is_nullable else {}
    return result, wrong


def answer_of(
    question: Question, filled: SubmittedForm, *, can_edit: bool
) -> tuple[Any, list[tuple[str, str]]]:
    """Return the answer of a submitted page.

    Args:
        question: The question.
        filled: The submitted form.
        can_edit: Whether a proposal may be edited.

    Returns:
        The answer, and ``(field, message)`` for each invalid part.
    """
    if any(filled.get("skip", ())):
        return None, []
    if question.input_type != "approval":
        return read(html_fields_of(question), filled)
    decision, wrong = read(
        [FieldGroup((), None, (decision_field(question, can_edit=can_edit),), is_whole=True)], filled
    )
    if wrong:
        return None, wrong
    if decision == REJECT or question.proposal is None or not can_edit:
        return {"approved": decision == APPROVE}, []
    edited, wrong = read(html_fields_of(question), filled, question.proposal)
    if decision == EDIT:
        return {"approved": True, "edited": edited}, wrong
    if wrong or json.dumps(edited, sort_keys=True) != json.dumps(question.proposal, sort_keys=True):
        return None, [
            ("approved", "you have changed the proposal: approve it with your changes, or undo them")
        ]
    return {"approved": True}, []


def _put(target: dict[str, Any], values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if value is MISSING:
            target.pop(name, None)
        else:
            target[name] = value


def _value(field: HtmlField, shown: Shown) -> Any:
    """Raises _Wrong."""
    if field.initial is not MISSING and shown == _normal_shown(begin(field)):
        return field.initial
    match field.kind:
        case "one":
            return _one(field, shown)
        case "some":
            return _some(field, shown)
        case "lines":
            return _lines(field, shown.text)
        case "line" | "long" if not shown.text and not field.has_format:
            if field.is_nullable:
                return _nothing(field)
            if field.initial is not MISSING and (field.is_required or field.falls_back):
                return ""
            return MISSING
        case _ if not shown.text.strip():
            return _nothing(field)
        case "line" if field.has_format:
            return shown.text.strip()
        case _:
            return _READ[field.kind](shown.text)


def _nothing(field: HtmlField) -> Any:
    """Return the value of an empty field.

    Raises:
        _Wrong: The user has cleared a value, and the type's default would silently replace it.
    """
    if field.falls_back and field.initial is not MISSING and not field.is_nullable:
        raise _Wrong("this cannot be empty: write or choose a value")
    return None if field.is_nullable and (field.is_required or field.initial is not MISSING) else MISSING


def _one(field: HtmlField, shown: Shown) -> Any:
    if len(shown.chosen) > 1:
        raise _Wrong("choose one")
    if OTHER in shown.chosen and field.other is not None:
        if not shown.other.strip():
            raise _Wrong("enter a text, or choose an option")
        return {"other": shown.other}
    if shown.other.strip():
        raise _Wrong("choose an option or enter a text, not both")
    if not shown.chosen:
        return _nothing(field)
    [chosen] = shown.chosen
    return _chosen(field, chosen)


def _some(field: HtmlField, shown: Shown) -> Any:
    own = [line for line in shown.other.split("\n") if line.strip()] if field.other is not None else []
    numbers = sorted(shown.chosen - {OTHER}, key=lambda each: (len(each), each))
    values = [*(_chosen(field, each) for each in numbers), *({"other": line} for line in own)]
    if not values and not field.is_required and field.initial is MISSING:
        return MISSING
    return values


def _chosen(field: HtmlField, number: str) -> Any:
    if re.fullmatch("[0-9]{1,6}", number) is None or int(number) >= len(field.choices):
        raise _Wrong("there is no such option")
    return field.choices[int(number)].value


def _lines(field: HtmlField, text: str) -> Any:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines and not field.is_required and field.initial is MISSING:
        return MISSING
    return [_READ[field.items](line if field.items in ("line", "long") else line.strip()) for line in lines]


def _text(text: str) -> str:
    return text


def _integer(text: str) -> int:
    if _WHOLE.fullmatch(text.strip()) is None:
        raise _Wrong("this is not a whole number")
    return int(text)


def _float(text: str) -> int | float:
    if _NUMBER.fullmatch(text.strip()) is None or not math.isfinite(float(text)):
        raise _Wrong("this is not a number such as 12.5")
    return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)


def _decimal(text: str) -> str:
    _float(text)
    return text.strip()


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"this is not valid JSON: {error}") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("duplicate key")
    return made


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is too large")
    return float(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON value")


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "line": _text,
    "long": _text,
    "integer": _integer,
    "number": _float,
    "decimal": _decimal,
    "json": _json,
}


def _number(field: HtmlField, value: Any) -> int | None:
    return next((n for n, choice in enumerate(field.choices) if same(choice.value, value)), None)


def _is_own(value: Any) -> bool:
    return isinstance(value, dict) and "other" in value


def _line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def normal(text: str) -> str:
    """Normalize line ends to ``\\n``: browsers send ``\\r\\n``."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _normal_shown(shown: Shown) -> Shown:
    return Shown(normal(shown.text), shown.chosen, normal(shown.other))
