"""Checking values and schemas with jsonschema-rs, which is large and so is imported late.

A schema may come from anywhere, and the values come from people. So nothing is fetched, whatever a schema refers to;
patterns run in linear time, or give up; and what is said of a value stays short, however long the value is.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from signoff import codec
from signoff.people.patterns import in_words

if TYPE_CHECKING:
    import jsonschema_rs

MAX_PROBLEMS: Final = 100
"""How many problems of one value are listed."""

MAX_MESSAGE: Final = 300
"""How long a problem's field and its message may each be, in characters."""

MAX_DETAIL: Final = 20_000_000
"""How many values a wrong answer may hold, times the length of its schema, for its problems to be listed.

The validator finds all of them at once, each with what is expected there: a megabyte of wrong options where there are
10,000 would take more memory than there is.
"""

MOST_LEVELS: Final = 6
"""How deep a wrong answer may be nested for its problems to be listed, where forms hold forms like themselves."""

LONGEST_COMPARED: Final = 10_000
"""How many characters a text has at most that is compared with a pattern, unless its ``maxLength`` is more."""

_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Parts of schemas that are no schemas."""

_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Parts of schemas that hold schemas by names, which may be any."""

_BRANCHES: Final = ('"anyOf"', '"oneOf"', '"if"', '"not"')
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

_TOO_DEEP: Final = "it is nested too deep; make it flatter"

BACKTRACKS: Final = 10_000
"""How many steps back a pattern with look-around or back-references may take in one text. Others take none."""


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a JSON Schema, or None."""
    import jsonschema_rs

    try:
        _validator(schema)
    except jsonschema_rs.ValidationError as error:
        return ": ".join(part for part in (_field(error.instance_path), shorten(error.message)) if part)
    except (
        RecursionError,
        ValueError,
    ):  # the only one that the library raises itself: of its own recursion limit
        return _TOO_DEEP
    return None


def problems(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    """Say what is wrong with a value: ``(field, message)`` each, the field ``""`` for the whole."""
    import jsonschema_rs

    try:
        validator = _validator(schema)
    except jsonschema_rs.ValidationError as error:
        return [("", f"nothing fits the schema that it is asked with: {shorten(error.message)}")]
    except (RecursionError, ValueError):
        return [("", f"nothing fits the schema that it is asked with: {_TOO_DEEP}")]
    if validator.is_valid(value):
        return []
    written = json.dumps(schema)
    if _size(value) * len(written) > MAX_DETAIL:
        return [("", "it does not fit, and holds too much to say where")]
    if _depth(value) > MOST_LEVELS and any(name in written for name in _BRANCHES) and _is_recursive(schema):
        # To say where takes each branch of each level: three times as long for each level.
        return [("", "it does not fit; its form holds forms like itself, so that it is not said where")]
    found = list(islice(_explained(validator.iter_errors(value)), MAX_PROBLEMS + 1))
    if len(found) > MAX_PROBLEMS:
        found[-1] = ("", f"and there is more: these are the first {MAX_PROBLEMS} problems")
    return found


def listed(found: Iterable[tuple[str, str]], whole: str) -> str:
    """Put problems into one line, with ``whole`` for the value itself."""
    return shorten("; ".join(f"{field or whole}: {message}" for field, message in found), 10 * MAX_MESSAGE)


def shorten(text: str, width: int = MAX_MESSAGE) -> str:
    """Cut what is too long out of the middle, and escape what is no print.

    A message names the value first, and ends with what was expected.
    """
    half = (width - 5) // 2
    short = text if len(text) <= width else f"{text[:half]} ... {text[-half:]}"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in short)


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Raises ValidationError: it is no schema, or it refers to something that is not in it."""
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        cast("dict[str, Any]", _bounded(dict(schema))),
        offline=True,
        validate_formats=True,
        formats=dict(_FORMATS),
        keywords={_WITHIN: _Within},
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS),
    )


def _bounded(part: object) -> object:
    """Return a schema in which patterns are compared with texts of some length only."""
    if isinstance(part, list):
        return [_bounded(each) for each in cast("list[object]", part)]
    if not isinstance(part, dict):
        return part
    made = {name: _bounded_member(name, each) for name, each in cast("dict[str, Any]", part).items()}
    _bound_decimals(made.get("anyOf"))
    pattern, others = made.get("pattern"), made.get("allOf", [])
    if isinstance(pattern, str) and isinstance(others, list):
        given = made.get("maxLength")
        short = {"maxLength": max(LONGEST_COMPARED, given) if isinstance(given, int) else LONGEST_COMPARED}
        del made["pattern"]
        compared = {"if": short, "then": {"pattern": pattern}, "else": short}
        made["allOf"] = [*cast("list[object]", others), compared]
    return made


def _bound_decimals(branches: object) -> None:
    """Have the text of a decimal number keep the bounds that its schema has for the number only."""
    if not isinstance(branches, list):
        return
    listed = [
        cast("dict[str, Any]", each) for each in cast("list[object]", branches) if isinstance(each, dict)
    ]
    texts = [each for each in listed if each.get("format") == "decimal"]
    numbers = [each for each in listed if each.get("type") == "number"]
    if len(listed) == 2 and len(texts) == len(numbers) == 1 and (bounds := _bounds_in(numbers[0])):
        texts[0][_WITHIN] = bounds


def _bounds_in(schema: Mapping[str, Any]) -> dict[str, int | float]:
    return {name: schema[name] for name in _BOUNDS if isinstance(schema.get(name), int | float)}


class _Within:
    """The keyword that compares the text of a decimal number with bounds."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        self._bounds = _bounds_in(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}

    def validate(self, instance: Any) -> None:
        """Raises ValueError: it is out of bounds."""
        try:
            number = Decimal(instance)
        except (ArithmeticError, TypeError, ValueError):
            return  # its format says so
        for name, bound in self._bounds.items():
            fits, words = _BOUNDS[name]
            if not fits(number, Decimal(str(bound))):
                raise ValueError(f"{shorten(instance)} is not {words} {_plainly(bound)}")


def _plainly(bound: float) -> str:
    return str(int(bound) if float(bound).is_integer() else bound)


def _is_multiple(number: Decimal, step: Decimal) -> bool:
    try:
        return number % step == 0
    except ArithmeticError:  # the type reads it, and decides
        return True


_WITHIN: Final = "signoff:within"
_BOUNDS: Final[Mapping[str, tuple[Callable[[Decimal, Decimal], bool], str]]] = {
    "minimum": (operator.ge, "at least"),
    "exclusiveMinimum": (operator.gt, "more than"),
    "maximum": (operator.le, "at most"),
    "exclusiveMaximum": (operator.lt, "less than"),
    "multipleOf": (_is_multiple, "a multiple of"),
}


def _bounded_member(name: str, member: object) -> object:
    if name in _DATA:
        return member
    if name in _NAMED and isinstance(member, dict):
        return {field: _bounded(each) for field, each in cast("dict[str, object]", member).items()}
    return _bounded(member)


def _depth(value: object) -> int:
    """Count how deep a value is nested."""
    depth, level = 0, [value]
    while level := [item for each in level for item in _items(each)]:
        depth += 1
    return depth


def _items(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Whether a part of a schema refers to what that part is in, directly or by way of others."""
    targets: dict[str, set[str]] = {}
    rest: list[tuple[str, str, object]] = [("#", "#", schema)]
    while rest:
        path, base, part = rest.pop()
        targets[path] = set()
        if isinstance(part, dict):
            members = cast("dict[str, object]", part)
            base = path if "$id" in members else base  # what it refers to is within it
            for name in _REFERENCES:
                if isinstance(reference := members.get(name), str):
                    targets[path].add(base + reference[1:] if reference.startswith("#") else reference)
            items: Iterable[tuple[str, object]] = members.items()
        else:
            items = ((str(n), each) for n, each in enumerate(cast("list[object]", part)))
        for name, each in items:
            if isinstance(each, dict | list):
                inner = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
                targets[path].add(inner)
                rest.append((inner, base, cast("object", each)))
    return _has_circle(targets)


def _has_circle(targets: Mapping[str, set[str]]) -> bool:
    """Whether anything leads back to itself; what leads elsewhere than to what is known may lead anywhere."""
    done: set[str] = set()
    for start in targets:
        trail: dict[str, Iterator[str]] = {start: iter(targets[start])} if start not in done else {}
        while trail:
            here = next(reversed(trail))
            following = next(trail[here], None)
            if following is None:
                done.add(here)
                del trail[here]
            elif following in trail or following not in targets:
                return True
            elif following not in done:
                trail[following] = iter(targets[following])
    return False


def _size(value: object) -> int:
    """Count the values in a value, itself included."""
    count, rest = 0, [value]
    while rest:
        each = rest.pop()
        count += 1
        if isinstance(each, dict):
            rest.extend(cast("dict[str, object]", each).values())
        elif isinstance(each, list):
            rest.extend(cast("list[object]", each))
    return count


def _explained(errors: Iterable[jsonschema_rs.ValidationError]) -> Iterator[tuple[str, str]]:
    """Name the field of each problem: the missing and the unknown one, where one is missing or unknown."""
    import jsonschema_rs

    kinds = jsonschema_rs.ValidationErrorKind
    for error in errors:
        path, kind = error.instance_path, error.kind
        match kind:
            case kinds.Required():
                yield _field([*path, kind.property]), shorten(error.message)
            case kinds.AdditionalProperties() | kinds.UnevaluatedProperties():
                for name in kind.unexpected:
                    yield _field([*path, name]), "there is no such field"
            case kinds.FalseSchema():
                yield _field(path), "must be left out here"
            case kinds.Not():
                yield _field(path), "is not allowed here"
            case kinds.BacktrackLimitExceeded():
                yield _field(path), "takes too long to compare with its pattern"
            case kinds.Pattern() if (words := in_words(kind.pattern)) is not None:
                yield _field(path), words
            case kinds.AnyOf() | kinds.OneOfNotValid() if meant := _meant(error, kind.context):
                yield from _explained(meant)
            case kinds.AnyOf() | kinds.OneOfNotValid() if unknown := _unknown_tag(error, kind.context):
                yield unknown
            case _:
                yield _field(path), shorten(error.message)


def _meant(
    error: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]]
) -> list[jsonschema_rs.ValidationError] | None:
    """Return the problems of the only branch for values of this type (a model, null), or of this kind."""
    import jsonschema_rs

    def is_other(each: jsonschema_rs.ValidationError) -> bool:
        is_whole = each.instance_path == error.instance_path
        return is_whole and isinstance(each.kind, jsonschema_rs.ValidationErrorKind.Type)

    near = [branch for branch in branches if not any(is_other(each) for each in branch)]
    if len(near) < 2:
        return near[0] if near else None
    return _meant_by_tag(len(error.instance_path), near)


def _meant_by_tag(
    depth: int, branches: list[list[jsonschema_rs.ValidationError]]
) -> list[jsonschema_rs.ValidationError] | None:
    """Return the problems of the only kind of a union whose fixed fields match the value."""
    meant = [branch for branch in branches if not _wrong_tags(depth, branch)]
    return meant[0] if len(meant) == 1 else None


def _unknown_tag(
    error: jsonschema_rs.ValidationError, branches: list[list[jsonschema_rs.ValidationError]]
) -> tuple[str, str] | None:
    """Return the field that has a value of none of a union's kinds, and what it may have."""
    depth = len(error.instance_path)
    tags = [tag for tag in (_wrong_tags(depth, branch) for branch in branches) if tag]
    names = set[str | int].intersection(*map(set[str | int], tags)) if tags else set[str | int]()
    if len(tags) < 2 or len(names) != 1:
        return None
    [name] = names
    values = ", ".join(json.dumps(value, ensure_ascii=False) for tag in tags for value in tag[name])
    return _field([*error.instance_path, name]), shorten(f"is none of {values}")


def _wrong_tags(depth: int, branch: list[jsonschema_rs.ValidationError]) -> dict[str | int, list[Any]]:
    """Return the top-level fields of an object whose fixed value differs, each with its allowed values."""
    import jsonschema_rs

    found: dict[str | int, list[Any]] = {}
    for each in branch:
        if len(each.instance_path) != depth + 1:
            continue
        match each.kind:
            case jsonschema_rs.ValidationErrorKind.Constant() as kind:
                found[each.instance_path[-1]] = [kind.expected_value]
            case jsonschema_rs.ValidationErrorKind.Enum() as kind:
                options: Any = kind.options
                found[each.instance_path[-1]] = (
                    cast("list[Any]", options) if isinstance(options, list) else [options]
                )
            case _:
                pass
    return found


def _field(path: Iterable[str | int]) -> str:
    return shorten(".".join(str(part) for part in path))


# Formats: what a form's field of that type can read


def _is_datetime(text: str) -> bool:
    return "-" in text[1:] and _reads(datetime, codec.bare_time(text))


def _is_time(text: str) -> bool:
    return ":" in text and _reads(time, codec.bare_time(text))


def _is_duration(text: str) -> bool:
    # also negative, and with fractions of seconds, which RFC 3339 has not
    return "P" in text[:2] and _reads(timedelta, text)


def _is_decimal(text: str) -> bool:
    return _reads(Decimal, text)


def _reads(kind: type, text: str) -> bool:
    try:
        _adapter(kind).validate_python(text)
    except ValidationError:
        return False
    return True


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


_FORMATS: Final = {
    "date-time": _is_datetime,
    "time": _is_time,
    "duration": _is_duration,
    "decimal": _is_decimal,
}
