"""The cost of checking a value against a JSON Schema, estimated without checking it.

A schema of one kilobyte can keep a validator busy for days. Where a part has ``anyOf`` with two references to the next
part, each further part doubles the work, because a validator walks the schema as a tree. The estimate visits each part
and value once and multiplies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag, urljoin

MOST_LOOKED_AT: Final = 30_000
"""The limit on visited pairs of a part and a value, for recursive schemas."""

_PATTERN_WITH_MEMORY: Final = 100
"""The cost of a pattern that may backtrack, in plain comparisons."""

_SCHEMAS_BY_NAME: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
)
_LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_WIDE: Final = (
    *("additionalProperties", "propertyNames", "unevaluatedProperties"),
    *("items", "contains", "unevaluatedItems"),
)
_OTHER_SCHEMAS: Final = (*_WIDE, "not", "if", "then", "else")
_BRANCHES: Final = ("anyOf", "oneOf")

Schema = Mapping[str, Any]
Value = Any


@dataclass(frozen=True)
class Effort:
    """The most comparisons of a part of a schema with a value that a validator makes.

    Attributes:
        checks: In all.
        branched: Those in branches of ``anyOf`` and ``oneOf``. A wrong value may have a problem for each.
    """

    checks: int
    branched: int


class TooMuch(Exception):
    """The check never ends, or its cost cannot be estimated. The text gives the reason."""


class Unfolded:
    """A schema with its references resolved.

    Args:
        schema: A JSON Schema of draft 2020-12. What it refers to is in it, or part of the drafts.
        length: How long it is as JSON.

    Attributes:
        length: The same.
        each: The most that one value costs, without the values inside it. A recursive reference counts once:
            a validator that does not explain remembers its result for each value.
        is_recursive: Whether a part refers to itself at a deeper level. An explanation visits each branch of each.
        pattern_states: The total size of its regular expressions, see ``pattern_size``.

    Raises:
        TooMuch: A reference leads to itself without going deeper, or the schema is nested too deep.
    """

    def __init__(self, schema: Schema, length: int) -> None:
        self.length = length
        self._schema = schema
        self._targets = _Targets(schema)
        self._counted: dict[int, Effort] = {}
        self._without_circle: set[int] = set()
        self._begun: set[int] = set()
        self.is_recursive = False
        self.pattern_states = sum(
            pattern_size(each) for part in self._targets.parts for each in _patterns_in(part)
        )
        try:
            for part in self._targets.parts:
                self._check_circle(part)
            self.each = self._count(schema)
        except RecursionError:
            raise TooMuch(_TOO_DEEP) from None

    def to_explain(self, value: Value) -> Effort:
        """Return the cost of explaining what is wrong with a value.

        Raises:
            TooMuch: There is more than could be found out.
        """
        try:
            return _Pairs(self._targets).of(self._schema, value)
        except RecursionError:
            raise TooMuch(_TOO_DEEP) from None

    def _check_circle(self, part: Schema) -> None:
        key = id(part)
        if key in self._without_circle:
            return
        if key in self._begun:
            raise TooMuch("a reference leads to itself without going deeper")
        self._begun.add(key)
        for _, each in _applied_here(part, self._targets):
            if isinstance(each, Mapping):
                self._check_circle(cast("Schema", each))
        self._begun.remove(key)
        self._without_circle.add(key)

    def _count(self, part: Any) -> Effort:
        if not isinstance(part, Mapping):
            return _NOTHING
        members = cast("Schema", part)
        key = id(members)
        if key in self._begun:
            self.is_recursive = True
            return _NOTHING
        known = self._counted.get(key)
        if known is None:
            self._begun.add(key)
            here = [
                (name in _BRANCHES, self._count(each)) for name, each in _applied_here(members, self._targets)
            ]
            inside = [(False, self._count(each)) for each in _schemas_inside(members)]
            known = self._counted[key] = _sum(members, [*here, *inside])
            self._begun.remove(key)
        return known


def _sum(part: Schema, found: Iterable[tuple[bool, Effort]]) -> Effort:
    checks, branched = _PATTERN_WITH_MEMORY if _may_go_back(part.get("pattern")) else 1, 0
    for is_branch, each in found:
        checks += each.checks
        branched += each.checks if is_branch else each.branched
    if (
        "unevaluatedProperties" in part or "unevaluatedItems" in part
    ):  # it is found out again what is evaluated
        checks *= 2
    return Effort(checks, branched)


_NOTHING: Final = Effort(1, 0)
_TOO_DEEP: Final = "it is nested too deep; make it flatter"


class _Pairs:
    """Goes through a schema and a value side by side."""

    def __init__(self, targets: _Targets) -> None:
        self._targets = targets
        self._known: dict[tuple[int, int], Effort] = {}

    def of(self, part: Any, value: Value) -> Effort:
        if not isinstance(part, Mapping) or not part:
            return _NOTHING
        members = cast("Schema", part)
        key = id(members), id(cast("object", value)) if isinstance(value, dict | list) else 0
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_LOOKED_AT:
                raise TooMuch("it is too large")
            here = [
                (name in _BRANCHES, self.of(each, value))
                for name, each in _applied_here(members, self._targets)
            ]
            inside = [(False, self.of(each, held)) for each, held in _applied_inside(members, value)]
            known = self._known[key] = _sum(members, [*here, *inside])
        return known


def _applied_here(part: Schema, targets: _Targets) -> Iterator[tuple[str, Any]]:
    """The schemas that the same value is compared with, and the keyword of each."""
    for name in ("allOf", *_BRANCHES):
        for each in _listed(part.get(name)):
            yield name, each
    for name in ("not", "if", "then", "else"):
        if name in part:
            yield name, part[name]
    for name in ("dependentSchemas", "dependencies"):
        for each in _members(part.get(name)).values():
            yield name, each
    for each in targets.of(part):
        yield "$ref", each


def _schemas_inside(part: Schema) -> Iterator[Any]:
    """The schemas that what is in a value is compared with."""
    for name in ("properties", "patternProperties"):
        yield from _members(part.get(name)).values()
    yield from _listed(part.get("prefixItems"))
    yield from (part[name] for name in _WIDE if name in part)


def _applied_inside(part: Schema, value: Value) -> Iterator[tuple[Any, Value]]:
    """The same schemas, each with the value that it is compared with."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        for name, each in _members(part.get("properties")).items():
            if name in held:
                yield each, held[name]
        wide = [*_members(part.get("patternProperties")).values()]
        wide += [part[name] for name in ("additionalProperties", "unevaluatedProperties") if name in part]
        for each in wide:
            yield from ((each, item) for item in held.values())
        if "propertyNames" in part:
            yield from ((part["propertyNames"], name) for name in held)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        yield from zip(_listed(part.get("prefixItems")), items, strict=False)
        for each in (part[name] for name in ("items", "contains", "unevaluatedItems") if name in part):
            yield from ((each, item) for item in items)


class _Targets:
    """What the references of a schema lead to."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._by_uri: dict[str, Any] = {}
        self._dynamic: list[Any] = []
        self.parts: list[Schema] = []
        self._bases: dict[int, str] = {}
        self._collect(schema, "")

    def _collect(self, root: Any, base: str) -> None:
        rest: list[tuple[Any, str]] = [(root, base)]
        self._by_uri[base] = root
        while rest:
            part, base = rest.pop()
            if not isinstance(part, Mapping):
                continue
            members = cast("Schema", part)
            self.parts.append(members)
            if isinstance(own := members.get("$id"), str):
                base = urldefrag(_joined(base, own)).url
                self._by_uri[base] = members
            for anchor in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := members.get(anchor), str):
                    self._by_uri[f"{base}#{name}"] = members
                    if anchor == "$dynamicAnchor":
                        self._dynamic.append(members)
            self._bases[id(members)] = base
            rest += [(each, base) for each in _inside(members)]

    def of(self, part: Schema) -> Sequence[Any]:
        found: list[Any] = []
        if isinstance(reference := part.get("$ref"), str):
            found.append(self._target(_joined(self._bases.get(id(part), ""), reference)))
        if "$dynamicRef" in part:
            found += self._dynamic or [self._root]
        return found

    def _target(self, uri: str) -> Any:
        if uri in self._by_uri:
            return self._by_uri[uri]
        base, fragment = urldefrag(uri)
        target: Any = self._by_uri.get(
            base, {}
        )  # what is not here is a part of the drafts, which goes on evenly
        for step in unquote(fragment).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list):
                items = cast("list[Any]", target)
                target = items[int(name)] if name.isdigit() and int(name) < len(items) else {}
            else:
                target = _members(target).get(name, {})
        self._by_uri[uri] = target
        return target


def _patterns_in(part: Schema) -> Iterator[str]:
    if isinstance(pattern := part.get("pattern"), str):
        yield pattern
    yield from _members(part.get("patternProperties"))


def _inside(part: Schema) -> Iterable[Any]:
    for name in _SCHEMAS_BY_NAME:
        yield from _members(part.get(name)).values()
    for name in _LISTS_OF_SCHEMAS:
        yield from _listed(part.get(name))
    for name in _OTHER_SCHEMAS:
        if name in part:
            yield part[name]


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference) if base else reference
    except ValueError:
        return reference


def _members(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _listed(value: Any) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _may_go_back(pattern: object) -> bool:
    """Whether a pattern looks around or refers back, so that it takes longer than the text is long."""
    return isinstance(pattern, str) and (
        "(?" in pattern or any(f"\\{digit}" in pattern for digit in "123456789k")
    )


def pattern_size(pattern: str) -> int:
    """Return the approximate number of states of a regular expression, with its repetitions expanded."""
    open_groups, atoms = [0], 0  # what each open group holds before its last atom, and the size of that
    position = 0
    while position < len(pattern):
        char = pattern[position]
        repeated = _REPEATED.match(pattern, position)
        if repeated is not None:
            most = int(repeated[2] or repeated[1])
            atoms *= max(1, min(most, _MOST_STATES))
            position = repeated.end()
            continue
        if char == "(":
            open_groups[-1] += atoms
            open_groups.append(0)
            atoms = 0
        elif char == ")" and len(open_groups) > 1:
            atoms += open_groups.pop() + 1
        elif char not in "*+?":
            open_groups[-1] += atoms
            atoms = 1
            if char == "\\":
                position += 1
            elif char == "[":
                position = _end_of_class(pattern, position)
        atoms = min(atoms, _MOST_STATES)
        position += 1
    return sum(open_groups) + atoms


_MOST_STATES: Final = 10**9
_REPEATED: Final = re.compile(r"\{(\d{1,9})(?:,(\d{0,9}))?\}")


def _end_of_class(pattern: str, begin: int) -> int:
    """Return where a class of characters ends that begins with a bracket."""
    position = begin + 1
    while position < len(pattern) and (pattern[position] != "]" or position == begin + 1):
        position += 2 if pattern[position] == "\\" else 1
    return position
