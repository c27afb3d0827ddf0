"""Estimates the cost of validating a value against a JSON Schema, without validating it.

A schema of one kilobyte can keep a validator busy for days. If a part has ``anyOf`` with two references to the next
part, each further part doubles the work, because validators walk the schema as a tree. The estimate visits each pair of
part and value once and multiplies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from signoff.people.schemas.number_cost import (
    LARGE_MULTIPLE,
    compared_numbers,
    has_long_integer,
    is_ordinary,
    multiple_cost,
    number_cost,
)
from signoff.people.schemas.pattern_cost import (
    LONGEST_COMPARED,
    may_go_back,
    pattern_size,
    pattern_states,
    steps_of,
)
from signoff.people.schemas.references import (
    DRAFT,
    References,
    Schema,
    TooMuch,
    applied_here,
    applied_inside,
    listed_in,
    members_of,
    schemas_inside,
)
from signoff.people.schemas.value_size import Weight

MOST_LOOKED_AT: Final = 30_000
"""Limit on visited pairs of a part and a value."""

_AT_ONCE: Final = 16
"""Number of values and keys that take as long as one visit."""

_NO_CHECKS: Final = frozenset(
    {
        *("title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$id", "$schema", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$defs", "definitions"),
        *("properties", "patternProperties", "prefixItems", "items", "allOf", "if", "then", "else"),
        *("dependentSchemas", "propertyNames", "type", "required", "dependentRequired"),
    }
)
"""Keywords without problems of their own, or whose problems are counted separately."""

_QUOTED: Final = ("const", "enum", "not", "pattern", "required", "dependentRequired")
"""Keywords that are copied into their problems."""

_BY_LENGTH: Final = ("minLength", "maxLength", "const", "enum", "uniqueItems")
"""Keywords whose cost depends on the length of a text."""

_FORMAT: Final = 2
"""Cost of a text's format, per character."""

CALLED_FORMATS: Final = frozenset({"date-time", "time", "duration", "decimal"})
"""Formats that Python code checks, for each text."""

_CALL: Final = 60
"""Cost of such a call: up to a microsecond, of some 15 ns for a comparison."""

_LISTED_NUMBER: Final = 7
"""Cost of comparing a value with an integer of a list that has other options than integers."""

_OF_DRAFT: Final = 300
"""Upper bound on the checks of a draft's part for one value, and on its problems."""

_PROBLEM: Final = 400
"""Bytes of a problem without its copies and its path."""

_UNBOUNDED: Final = 10**15

Value = Any


@dataclass(frozen=True)
class Effort:
    """Upper bound on the cost of one value, without the values inside it.

    Attributes:
        checks: Comparisons of parts of the schema with it.
        steps: Additional comparisons for each four characters of a text or key.
        problems: Number of problems. Each holds a copy of the value.
        quoted: Additional bytes of the schema that these problems hold.
        numbers: Numbers of the schema that a number in it is compared with: bounds and options.
    """

    checks: int
    steps: int
    problems: int
    quoted: int
    numbers: int = 0


@dataclass(frozen=True)
class Cost:
    """Cost of one value with all values inside it.

    Attributes:
        checks: Comparisons.
        problems: Number of problems, including those of inner values.
        copied: Bytes that these problems hold.
    """

    checks: int
    problems: int
    copied: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.checks + other.checks, self.problems + other.problems, self.copied + other.copied)


class Unfolded:
    """A schema with its references resolved.

    Args:
        schema: A JSON Schema of draft 2020-12. All targets of its references are in it, or parts of the drafts.
        length: Its length as JSON.

    Attributes:
        length: The same.
        each: Upper bound on the cost of one value, without the values inside it. A recursive reference counts once:
            plain validation caches its result for each value.
        is_recursive: Whether a part refers to itself at a deeper level. Listing problems visits each branch of each.
        pattern_states: The total size of its compiled patterns, see ``pattern_states``.

    Raises:
        TooMuch: A reference leads back to itself without going deeper, or the schema is nested too deep.
    """

    def __init__(self, schema: Schema, length: int) -> None:
        self.length = length
        self._schema = schema
        self._targets = References(schema)
        self._counted: dict[int, Effort] = {}
        self._without_circle: set[int] = set()
        self._begun: set[int] = set()
        self.is_recursive = False
        self._has_unique_items = any("uniqueItems" in part for part in self._targets.parts)
        self.pattern_states = sum(
            pattern_states(each) for part in self._targets.parts for each in _patterns_in(part)
        )
        self.pattern_states += _STATES_OF_DRAFT * self._targets.drafts
        keys = (
            len(each) for part in self._targets.parts for each in members_of(part.get("patternProperties"))
        )
        self._longest_pattern = max(keys, default=0)
        try:
            for part in self._targets.parts:
                self._check_circle(part)
            self.each = self._count(schema)
        except RecursionError:
            raise TooMuch(_TOO_DEEP) from None

    def checks_of(self, weight: Weight) -> int:
        """Return an upper bound on the cost of checking a value, from its weight alone."""
        each = self.each.checks + self.each.numbers * weight.dearest
        pairs = weight.size**2 * weight.dearest if self._has_unique_items else 0
        return each * weight.size + self.each.steps * weight.chars // 4 + pairs

    def copied_of(self, weight: Weight) -> int:
        """Return an upper bound on the bytes held by a value's problems, from its weight alone."""
        each = _PROBLEM + weight.path + self._longest_pattern * weight.size
        return self.each.problems * (weight.nested + each * weight.size) + self.each.quoted * weight.size

    def may_check(self, value: Value, most: int) -> bool:
        """Whether checking a value surely takes at most ``most`` comparisons."""
        return self.is_within(value, most, _UNBOUNDED)

    def may_explain(self, value: Value, most: int) -> bool:
        """Whether all problems of a value surely hold at most ``most`` bytes."""
        return self.is_within(value, _UNBOUNDED, most)

    def is_within(self, value: Value, most_checks: int, most_copied: int) -> bool:
        """Whether both hold: ``may_check`` and ``may_explain``."""
        try:
            _Pairs(self._targets, most_checks, most_copied).of(self._schema, value)
        except (TooMuch, RecursionError):
            return False
        return True

    def _check_circle(self, part: Schema) -> None:
        key = id(part)
        if key in self._without_circle:
            return
        if key in self._begun:
            raise TooMuch("a reference leads to itself without going deeper")
        self._begun.add(key)
        for each in applied_here(part, self._targets):
            if isinstance(each, Mapping):
                self._check_circle(cast("Schema", each))
        self._begun.remove(key)
        self._without_circle.add(key)

    def _count(self, part: Any) -> Effort:
        if not isinstance(part, Mapping):
            return _FLAG
        members = cast("Schema", part)
        key = id(members)
        if key in self._begun:
            self.is_recursive = True
            return _NOTHING
        known = self._counted.get(key)
        if known is None:
            self._begun.add(key)
            found = [self._count(each) for each in applied_here(members, self._targets)]
            found += [self._count(each) for each in schemas_inside(members)]
            known = self._counted[key] = _sum(members, found)
            self._begun.remove(key)
        return known


def _sum(part: Schema, found: Iterable[Effort]) -> Effort:
    own = _own(part)
    checks, steps, problems, quoted, numbers = own.checks, own.steps, own.problems, own.quoted, own.numbers
    for each in found:
        checks += each.checks
        steps += each.steps
        problems += each.problems
        quoted += each.quoted
        numbers += each.numbers
    times = _times(part)
    return Effort(checks * times, steps * times, problems, quoted, numbers * times)


def _own(part: Schema) -> Effort:
    """Return the cost of a part's own keywords, for any value."""
    if part is DRAFT:
        return Effort(_OF_DRAFT, 4 * _OF_DRAFT, _OF_DRAFT, _OF_DRAFT * 1_000, _OF_DRAFT)
    checks = _flat_checks(part) + (LARGE_MULTIPLE if "multipleOf" in part else 0)
    steps = 4 * _per_char(part) + sum(
        4 * (steps_of(each, LONGEST_COMPARED) // LONGEST_COMPARED + 1) for each in _patterns_in(part)
    )
    problems = _fixed_problems(part) + len(listed_in(part.get("required"))) + _dependent_names(part)
    if "propertyNames" in part:
        problems = _UNBOUNDED  # one per key, each with a copy of the whole object
    return Effort(checks, steps, problems + ("type" in part), _quoted(part), len(compared_numbers(part)))


def _flat_checks(part: Schema) -> int:
    """Return the comparisons of a part that do not depend on the value."""
    checks = 1 + _option_cost(part.get("enum")) + len(members_of(part.get("dependentRequired")))
    checks += Weight.of(part["const"]).size - 1 if "const" in part else 0
    checks += sum(map(number_cost, compared_numbers(part)))
    checks += _CALL if part.get("format") in CALLED_FORMATS else 0
    return checks + sum(100 for each in _patterns_in(part) if may_go_back(each))


def _option_cost(options: object) -> int:
    """Return the number of comparisons of ``enum``. Sets of texts only, or of small integers only, are hashed."""
    listed = listed_in(options)
    kinds = set(map(type, listed))
    if kinds <= {str} or (kinds <= {int} and not any(map(number_cost, cast("list[int]", listed)))):
        return 0
    return Weight.of(listed).size + _LISTED_NUMBER * sum(
        1 for each in listed if isinstance(each, int | float)
    )


def _per_char(part: Schema) -> int:
    """Return the cost of a part's lengths, formats and equality checks, per character."""
    return any(name in part for name in _BY_LENGTH) + (_FORMAT if "format" in part else 0)


def _fixed_problems(part: Schema) -> int:
    return sum(1 for name in part if name not in _NO_CHECKS)


def _dependent_names(part: Schema) -> int:
    return sum(len(listed_in(names)) for names in members_of(part.get("dependentRequired")).values())


def _quoted(part: Schema) -> int:
    return sum(Weight.of(part[name]).held for name in _QUOTED if name in part)


def _times(part: Schema) -> int:
    """Return how often a part is evaluated: ``unevaluated...`` evaluates it again."""
    return 2 if "unevaluatedProperties" in part or "unevaluatedItems" in part else 1


_NOTHING: Final = Effort(1, 0, 0, 0)
_FLAG: Final = Effort(1, 0, 1, 0)
_STATES_OF_DRAFT: Final = 5_000
_TOO_DEEP: Final = "it is nested too deep; make it flatter"


class _Pairs:
    """Walks a schema and a value in parallel, up to a limit."""

    def __init__(self, targets: References, most_checks: int, most_copied: int) -> None:
        self._targets = targets
        self._most_checks = most_checks
        self._most_copied = most_copied
        self._known: dict[tuple[int, int], Cost] = {}
        self._weights: dict[int, Weight] = {}
        self._fixed: dict[int, _Fixed] = {}
        self._looked_at = 0

    def of(self, part: Any, value: Value) -> Cost:
        self._look_at(1)
        if not isinstance(part, Mapping):
            return Cost(1, 1, self._bytes(value) + _PROBLEM) if part is False else Cost(1, 0, 0)
        if not part:
            return Cost(1, 0, 0)
        members = cast("Schema", part)
        key = id(members), _identity(value)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._cost(members, value)
        return known

    def _look_at(self, count: int) -> None:
        self._looked_at += count
        if self._looked_at > MOST_LOOKED_AT:
            raise TooMuch("it is too large")

    def _weigh(self, value: Value) -> Weight:
        weight = Weight.of(value)
        self._look_at(weight.size // _AT_ONCE)
        return weight

    def _cost(self, part: Schema, value: Value) -> Cost:
        if isinstance(value, dict | list):
            self._look_at(len(cast("list[Any]", value)) // _AT_ONCE)
        if part is DRAFT:
            weight = self._weigh(value)
            checks = _OF_DRAFT * (weight.size + weight.chars)
            copied = _OF_DRAFT * (weight.nested + (1_000 + _PROBLEM + weight.path) * weight.size)
            return self._limited(Cost(checks, _OF_DRAFT * weight.size, copied))
        fixed = self._fixed_of(part)
        checks = fixed.checks + _checks_by_value(part, fixed, value)
        items = len(cast("list[Any]", value)) if fixed.is_unique and isinstance(value, list) else 0
        if fixed.numbers or items:
            dearest = self._weight(value).dearest
            checks += fixed.numbers * dearest
            checks += items**2 * dearest // 2 if items and has_long_integer(cast("list[Any]", value)) else 0
        problems = fixed.problems + _problems_by_value(part, fixed, value)
        copied = problems * (self._bytes(value) + _PROBLEM) + fixed.quoted
        cost = self._limited(Cost(checks, problems, copied))
        for each in applied_here(part, self._targets):
            cost = self._limited(cost + self.of(each, value))
        for each, held, key in applied_inside(part, cast("Any", value)):
            inside = self.of(each, held)
            cost = self._limited(cost + inside + Cost(0, 0, inside.problems * key))
        if "propertyNames" in part and isinstance(value, dict):
            for name in cast("dict[str, Any]", value):
                of_name = self.of(part["propertyNames"], name)
                cost = self._limited(cost + of_name)
                cost = self._limited(cost + Cost(0, 0, of_name.problems * self._bytes(value)))
        return self._limited(Cost(cost.checks * _times(part), cost.problems, cost.copied))

    def _limited(self, cost: Cost) -> Cost:
        if cost.checks > self._most_checks or cost.copied > self._most_copied:
            raise TooMuch("it is too large")
        return cost

    def _fixed_of(self, part: Schema) -> _Fixed:
        known = self._fixed.get(id(part))
        if known is None:
            known = self._fixed[id(part)] = _Fixed.of(part)
        return known

    def _bytes(self, value: Value) -> int:
        return self._weight(value).held

    def _weight(self, value: Value) -> Weight:
        key = _identity(value)
        known = self._weights.get(key)
        if known is None:
            known = self._weights[key] = self._weigh(value)
        return known


@dataclass(frozen=True)
class _Fixed:
    """The cost of a part that does not depend on the value.

    Attributes:
        checks: Comparisons.
        problems: Number of problems that any value may have.
        quoted: Bytes of the schema that its problems hold.
        required: The required names of an object.
        patterns: Number of key patterns, their total size, and how many may backtrack.
        numbers: How many numbers of the schema are compared with those of a value.
        is_unique: Whether the items of a list must differ.
    """

    checks: int
    problems: int
    quoted: int
    required: frozenset[str]
    patterns: tuple[int, int, int]
    numbers: int
    is_unique: bool

    @classmethod
    def of(cls, part: Schema) -> _Fixed:
        required = frozenset(each for each in listed_in(part.get("required")) if isinstance(each, str))
        patterns = list(members_of(part.get("patternProperties")))
        sizes = len(patterns), sum(map(pattern_size, patterns)), sum(map(may_go_back, patterns))
        return cls(
            _flat_checks(part),
            _fixed_problems(part),
            _quoted(part),
            required,
            sizes,
            len(compared_numbers(part)),
            part.get("uniqueItems") is True,
        )


def _identity(value: Value) -> int:
    """Return the same number for values of equal cost."""
    if isinstance(value, dict | list | str):
        return id(cast("object", value))
    return 0 if not isinstance(value, int | float) else -2 * number_cost(value) - (not is_ordinary(value))


def _checks_by_value(part: Schema, fixed: _Fixed, value: Value) -> int:
    if isinstance(value, str):
        checks = _per_char(part) * len(value)
        if isinstance(pattern := part.get("pattern"), str):
            given = part.get("maxLength")
            longest = max(LONGEST_COMPARED, given) if isinstance(given, int) else LONGEST_COMPARED
            checks += steps_of(pattern, len(value)) if len(value) <= longest else 0
        return checks
    if isinstance(value, dict) and fixed.patterns[0]:
        count, size, back = fixed.patterns
        lengths = list(map(len, cast("dict[str, Any]", value)))
        steps = sum(lengths) * (20 * count + size) // 2 + 4 * len(lengths) * count
        steps += back * sum(300 * length * (400 + length) // 400 for length in lengths) if back else 0
        return steps * (2 if "additionalProperties" in part else 1)
    if isinstance(value, int | float) and "multipleOf" in part:
        return multiple_cost(value, part["multipleOf"])
    return 0


def _problems_by_value(part: Schema, fixed: _Fixed, value: Value) -> int:
    problems = 0
    if "type" in part and not _is_of_type(value, part["type"]):
        problems += 1
    if isinstance(value, dict):
        names = cast("dict[str, Any]", value)
        problems += len(fixed.required) - sum(1 for name in names if name in fixed.required)
        if "dependentRequired" in part:
            dependent = members_of(part["dependentRequired"])
            problems += sum(len(listed_in(dependent[name])) for name in names if name in dependent)
    return problems


def _is_of_type(value: Value, named: object) -> bool:
    """Whether a value surely has a type, or one of several."""
    if isinstance(named, list):
        return any(_is_of_type(value, each) for each in cast("list[object]", named))
    kind = _TYPES.get(named) if isinstance(named, str) else None
    return kind is not None and type(value) in kind


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def _patterns_in(part: Schema) -> Iterator[str]:
    if isinstance(pattern := part.get("pattern"), str):
        yield pattern
    yield from members_of(part.get("patternProperties"))
