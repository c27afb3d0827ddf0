"""Validates values and schemas with jsonschema-rs, which is large and therefore imported late.

Schemas may come from anywhere, and values come from people. So no reference is fetched, patterns run in linear time or
give up, and error messages stay short even for long values.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import TypeAdapter, ValidationError

from signoff import codec
from signoff.people.schemas.pattern_cost import LONGEST_COMPARED
from signoff.people.schemas.patterns import in_words
from signoff.people.schemas.references import TooMuch
from signoff.people.schemas.validation_cost import Unfolded
from signoff.people.schemas.value_size import Weight

if TYPE_CHECKING:
    import jsonschema_rs

MAX_PROBLEMS: Final = 100
"""Maximum number of problems listed for one value."""

MAX_MESSAGE: Final = 300
"""Maximum length of a problem's field, and of its message, in characters."""

MAX_DETAIL: Final = 20_000_000
"""Limit on the number of values in a wrong answer, times the length of its schema. Beyond it problems are not listed.

The validator collects all problems at once, each with the expected values: a megabyte of wrong options of 10,000 would
take more memory than there is.
"""

MOST_CHECKS: Final = 20_000_000
"""Limit on comparisons of a part of a schema with a value: about 0.3 seconds. Beyond it an answer is refused.

Ordinary forms take a few dozen, a list of 10,000 objects about 100,000."""

MOST_COPIED: Final = 8 * 1024 * 1024
"""Limit on bytes of a value and of its schema that its problems hold. Beyond it they are not listed.

Each problem holds a copy of its value, and the validator takes about four times as much to make them."""

MOST_UNFOLDED: Final = 100_000
"""Limit on the checks that a schema needs for a single value. A costlier schema is refused."""

MOST_STATES: Final = 200_000
"""Limit on the total size of a schema's patterns with repetitions expanded: about 60 MB of memory at most."""

MOST_HELD: Final = 150_000
"""Limit on the values in a schema, options and defaults included: each takes about 70 bytes, in several copies."""

LONGEST_REMEMBERED: Final = 64 * 1024
"""Maximum length of a schema, as JSON, whose estimate is cached."""

SMALL_LENGTH: Final = 4 * 1024
SMALL_STATES: Final = 1_000
"""Limits on the length and the patterns of a schema whose validator is cached: some 100 kB of memory."""

LIGHT_LENGTH: Final = 16 * 1024
"""The most characters of a light check's schema, as JSON, and bytes of its value, together."""

LIGHT_CHECKS: Final = 5_000
LIGHT_STATES: Final = 30_000
LIGHT_COPIED: Final = 1024 * 1024

_DATA: Final = frozenset({"const", "enum", "default", "examples"})
"""Members of schemas that are not schemas."""

_NAMED: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Members of schemas that hold schemas by arbitrary names."""

_TOO_DEEP: Final = "it is nested too deep; make it flatter"

BACKTRACKS: Final = 10_000
"""Limit on backtracking of a pattern with look-around or back-references in one text. Others never backtrack."""


def schema_problem(schema: Mapping[str, Any]) -> str | None:
    """Return why a JSON Schema is invalid, or None."""
    try:
        form = _form_of(schema)
        if form.unfolded.each.checks > MOST_UNFOLDED:
            return f"its branches and references take more than {MOST_UNFOLDED:,} checks for one value"
        form.validator()
    except _Refused as refused:
        return str(refused)
    return None


def problems(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]]:
    """Return the problems of a value as ``(field, message)``; the field of the whole value is ``""``."""
    try:
        form = _form_of(schema)
        return _problems(form, value, Weight.of(value))
    except _Refused as refused:
        return _unusable(refused)


def problems_if_light(schema: Mapping[str, Any], value: Any) -> list[tuple[str, str]] | None:
    """Return what ``problems`` returns; None if the check may take more than a few milliseconds."""
    try:
        form = _form_of(schema)
        weight = Weight.of(value)
        return _problems(form, value, weight) if _is_light(form.unfolded, value, weight) else None
    except _Refused as refused:
        return _unusable(refused)


def is_light(schema: Mapping[str, Any]) -> bool:
    """Whether a schema is certainly checked in a few milliseconds."""
    try:
        return _is_light(_form_of(schema).unfolded, None, Weight.of(None))
    except _Refused:
        return False


def listed(found: Iterable[tuple[str, str]], whole: str) -> str:
    """Join problems into one line. ``whole`` names the value itself."""
    return shorten("; ".join(f"{field or whole}: {message}" for field, message in found), 10 * MAX_MESSAGE)


def shorten(text: str, width: int = MAX_MESSAGE) -> str:
    """Elide the middle of long text, and escape unprintable characters.

    The start of a message names the value, its end the expected value.
    """
    half = (width - 5) // 2
    short = text if len(text) <= width else f"{text[:half]} ... {text[-half:]}"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in short)


class _Refused(Exception):
    """The schema cannot be used. The text gives the reason."""


class _Form:
    """A schema, the cost of its checks, and its validator.

    Args:
        written: The schema as JSON.

    Raises:
        TooMuch, RecursionError, ValueError: It is circular or too deep.
    """

    def __init__(self, written: str) -> None:
        self._schema: dict[str, Any] = json.loads(written)
        self._compiled: jsonschema_rs.Validator | None = None
        self.unfolded = Unfolded(self._schema, len(written))
        self._is_small = len(written) <= SMALL_LENGTH and self.unfolded.pattern_states <= SMALL_STATES

    def validator(self) -> jsonschema_rs.Validator:
        """Return its validator, which a small schema keeps. Raises _Refused: the schema is invalid."""
        if self._compiled is not None:
            return self._compiled
        made = _compiled(self._schema)
        if self._is_small:
            self._compiled = made
        return made


_large_forms = lru_cache(maxsize=16)(_Form)
_small_forms = lru_cache(maxsize=128)(_Form)


def _form_of(schema: Mapping[str, Any]) -> _Form:
    """Read a schema, and estimate its cost. Raises _Refused: it refers to something outside, or costs too much."""
    try:
        written = json.dumps(schema)
        if len(written) <= SMALL_LENGTH:
            form = _small_forms(written)
        elif len(written) <= LONGEST_REMEMBERED:
            form = _large_forms(written)
        elif Weight.of(schema).size <= MOST_HELD:
            form = _Form(written)
        else:
            raise _Refused(f"it holds more than {MOST_HELD:,} values")
    except TooMuch as error:
        raise _Refused(str(error)) from None
    except (RecursionError, ValueError):
        raise _Refused(_TOO_DEEP) from None
    if form.unfolded.pattern_states > MOST_STATES:
        raise _Refused(f"its patterns expand to more than {MOST_STATES:,} parts; use fewer repetitions")
    return form


def _problems(form: _Form, value: Any, weight: Weight) -> list[tuple[str, str]]:
    """Raises _Refused: the schema is invalid."""
    unfolded = form.unfolded
    if not _may_check(unfolded, weight, value):
        return [("", "takes too long to check; make it smaller, or the form simpler")]
    validator = form.validator()
    if validator.is_valid(value):
        return []
    if weight.size * unfolded.length > MAX_DETAIL:
        return [("", "does not fit, and is too large to list the problems")]
    if not _may_explain(unfolded, weight, value):
        return [("", "does not fit, and the form has too many branches to list the problems")]
    found = list(islice(_explained(validator.iter_errors(value)), MAX_PROBLEMS + 1))
    if len(found) > MAX_PROBLEMS:
        found[-1] = ("", f"only the first {MAX_PROBLEMS} problems are listed")
    return found


def _unusable(refused: _Refused) -> list[tuple[str, str]]:
    return [("", f"the schema of the question cannot be used: {refused}")]


def _is_light(unfolded: Unfolded, value: Any, weight: Weight) -> bool:
    return (
        unfolded.length + weight.held <= LIGHT_LENGTH
        and not unfolded.is_recursive
        and unfolded.pattern_states <= LIGHT_STATES
        and (
            (unfolded.checks_of(weight) <= LIGHT_CHECKS and unfolded.copied_of(weight) <= LIGHT_COPIED)
            or unfolded.is_within(value, LIGHT_CHECKS, LIGHT_COPIED)
        )
    )


def _compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Compile a schema. Raises _Refused: it is invalid."""
    import jsonschema_rs

    try:
        return _validator(schema)
    except jsonschema_rs.ValidationError as error:
        path, message = list(error.instance_path), shorten(error.message)
        if path[-1:] == ["pattern"] and path[-2:-1] == ["then"]:
            del path[-4:-1]  # ``_bounded`` has moved it there
            message += ", or repeats too much"
        raise _Refused(": ".join(part for part in (_field(path), message) if part)) from None
    except (
        RecursionError,
        ValueError,
    ):  # the library raises ValueError only for its recursion limit
        raise _Refused(_TOO_DEEP) from None


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Raises ValidationError: it is not a valid schema, or refers to something outside."""
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
    """Return a schema that compares patterns only with texts of limited length."""
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
    """Apply the bounds of a decimal number to its text, too; pydantic's schema has them for the number only."""
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
    """Custom keyword that checks the bounds of a decimal number in text."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        self._bounds = _bounds_in(cast("dict[str, Any]", value)) if isinstance(value, dict) else {}

    def validate(self, instance: Any) -> None:
        """Raises ValueError: it is out of bounds."""
        try:
            number = Decimal(instance)
        except (ArithmeticError, TypeError, ValueError):
            return  # the format check reports it
        for name, bound in self._bounds.items():
            fits, words = _BOUNDS[name]
            if not fits(number, Decimal(str(bound))):
                raise ValueError(f"{shorten(instance)} is not {words} {_plainly(bound)}")


def _plainly(bound: float) -> str:
    return str(int(bound) if float(bound).is_integer() else bound)


def _is_multiple(number: Decimal, step: Decimal) -> bool:
    try:
        return number % step == 0
    except ArithmeticError:  # left to the type
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


def _may_check(unfolded: Unfolded, weight: Weight, value: object) -> bool:
    """Whether the time to check a value is bounded."""
    return unfolded.checks_of(weight) <= MOST_CHECKS or unfolded.may_check(value, MOST_CHECKS)


def _may_explain(unfolded: Unfolded, weight: Weight, value: object) -> bool:
    """Whether all problems of a value fit into memory: each holds a copy of its value."""
    if not unfolded.is_recursive and unfolded.copied_of(weight) <= MOST_COPIED:
        return True
    return unfolded.may_explain(value, MOST_COPIED)


def _explained(errors: Iterable[jsonschema_rs.ValidationError]) -> Iterator[tuple[str, str]]:
    """Yield each problem with its field; for missing and unknown fields, that field."""
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
    """Return the problems of the only branch for values of this type (such as a model or null), or of this kind."""
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
    """Return the field whose value belongs to no kind of a union, and its allowed values."""
    depth = len(error.instance_path)
    tags = [tag for tag in (_wrong_tags(depth, branch) for branch in branches) if tag]
    names = set[str | int].intersection(*map(set[str | int], tags)) if tags else set[str | int]()
    if len(tags) < 2 or len(names) != 1:
        return None
    [name] = names
    values = ", ".join(json.dumps(value, ensure_ascii=False) for tag in tags for value in tag[name])
    return _field([*error.instance_path, name]), shorten(f"is not one of {values}")


def _wrong_tags(depth: int, branch: list[jsonschema_rs.ValidationError]) -> dict[str | int, list[Any]]:
    """Return the top-level fields of an object whose fixed value differs, with their allowed values."""
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


# Formats: accept what the corresponding type can parse


def _is_datetime(text: str) -> bool:
    return "-" in text[1:] and _reads(datetime, codec.bare_time(text))


def _is_time(text: str) -> bool:
    return ":" in text and _reads(time, codec.bare_time(text))


def _is_duration(text: str) -> bool:
    # also negative ones and fractions of seconds, unlike RFC 3339
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
