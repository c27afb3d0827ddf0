"""The parts of a JSON Schema, and the targets of its references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote, urldefrag, urljoin

MOST_PARTS: Final = 20_000
"""Maximum number of parts of a schema. Each takes about 3 KB of memory, and 15 microseconds to compile."""

_LONGEST_INDEX: Final = 9

SCHEMAS_BY_NAME: Final = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
)
LISTS_OF_SCHEMAS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
WIDE: Final = (
    *("additionalProperties", "propertyNames", "unevaluatedProperties"),
    *("items", "contains", "unevaluatedItems"),
)
_OTHER_SCHEMAS: Final = (*WIDE, "not", "if", "then", "else", "contentSchema")
_DRAFTS: Final = ("https://json-schema.org/draft", "http://json-schema.org/draft")
_CURRENT: Final = "https://json-schema.org/draft/2020-12/schema"

DRAFT: Final[Mapping[str, Any]] = {"$comment": "a schema of schemas"}
"""Stands for any target within the published drafts."""

Schema = Mapping[str, Any]


class TooMuch(Exception):
    """The check never ends, or its cost cannot be estimated. The text gives the reason."""


class References:
    """The targets of a schema's references.

    Args:
        schema: A JSON Schema of draft 2020-12.

    Attributes:
        parts: All schemas in it, including those reached only by reference.
        drafts: Number of references to parts of the published drafts.

    Raises:
        TooMuch: A reference points outside, an id is duplicated, a part is of another draft, or there are too many.
    """

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._by_uri: dict[str, Any] = {}
        self._own: dict[str, Schema] = {}
        self._dynamic: list[Any] = []
        self._bases: dict[int, str] = {}
        self.parts: list[Schema] = []
        self.drafts = 0
        self._by_uri[""] = schema
        self._collect(schema, "")
        for part in self.parts:  # it grows meanwhile
            self._follow(part)

    def of(self, part: Schema) -> Sequence[Any]:
        """Return the targets of a part's references."""
        found: list[Any] = []
        if isinstance(reference := part.get("$ref"), str):
            found.append(self._target(_joined(self._bases.get(id(part), ""), reference)))
        if "$dynamicRef" in part:
            found += self._dynamic or [self._root]
        return found

    def _follow(self, part: Schema) -> None:
        """Collect a target outside the usual places of schemas, such as below an unknown keyword."""
        for target in self.of(part):
            if target is DRAFT:
                self.drafts += 1
            elif isinstance(target, Mapping) and id(cast("Schema", target)) not in self._bases:
                self._collect(cast("Schema", target), self._bases[id(part)])

    def _collect(self, root: Any, base: str) -> None:
        rest: list[tuple[Any, str]] = [(root, base)]
        while rest:
            part, base = rest.pop()
            if not isinstance(part, Mapping):
                continue
            members = cast("Schema", part)
            self.parts.append(members)
            if len(self.parts) > MOST_PARTS:
                raise TooMuch(f"it has more than {MOST_PARTS:,} parts")
            if (
                members.get("$schema", _CURRENT) not in (_CURRENT, f"{_CURRENT}#")
                and members is not self._root
            ):
                raise TooMuch(f"a part of it uses another draft than {_CURRENT}")
            if isinstance(own := members.get("$id"), str):
                base = urldefrag(_joined(base, own)).url
                self._name(base, members)
            for anchor in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := members.get(anchor), str):
                    self._name(f"{base}#{name}", members)
                    if anchor == "$dynamicAnchor":
                        self._dynamic.append(members)
            self._bases[id(members)] = base
            rest += [(each, base) for each in _inside(members)]

    def _name(self, uri: str, part: Schema) -> None:
        if self._own.setdefault(uri, part) is not part:
            raise TooMuch(f"two parts of it have the id {uri[:100]!r}")
        self._by_uri[uri] = part

    def _target(self, uri: str) -> Any:
        if uri in self._by_uri:
            return self._by_uri[uri]
        base, fragment = urldefrag(uri)
        if base not in self._by_uri:
            if not base.startswith(_DRAFTS):
                raise TooMuch(f"its reference {uri[:100]!r} has no target in the schema")
            return DRAFT
        target: Any = self._by_uri[base]
        for step in unquote(fragment).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list):
                items = cast("list[Any]", target)
                is_index = name.isdecimal() and len(name) <= _LONGEST_INDEX
                target = items[int(name)] if is_index and int(name) < len(items) else {}
            else:
                target = members_of(target).get(name, {})
        self._by_uri[uri] = target
        return target


def _inside(part: Schema) -> Iterable[Any]:
    for name in SCHEMAS_BY_NAME:
        yield from members_of(part.get(name)).values()
    for name in LISTS_OF_SCHEMAS:
        yield from listed_in(part.get(name))
    for name in _OTHER_SCHEMAS:
        if name in part:
            yield part[name]


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference) if base else reference
    except ValueError:
        return reference


def members_of(value: Any) -> Mapping[str, Any]:
    """Return an object's members; empty for other values."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def listed_in(value: Any) -> Sequence[Any]:
    """Return a list's items; empty for other values."""
    return cast("list[Any]", value) if isinstance(value, list) else ()


def applied_here(part: Schema, targets: References) -> Iterator[Any]:
    """Yield the schemas applied to the same value."""
    for name in ("allOf", "anyOf", "oneOf"):
        yield from listed_in(part.get(name))
    for name in ("not", "if", "then", "else"):
        if name in part:
            yield part[name]
    for name in ("dependentSchemas", "dependencies"):
        yield from members_of(part.get(name)).values()
    yield from targets.of(part)


def schemas_inside(part: Schema) -> Iterator[Any]:
    """Yield the schemas applied to the parts of a value."""
    for name in ("properties", "patternProperties"):
        yield from members_of(part.get(name)).values()
    yield from listed_in(part.get("prefixItems"))
    yield from (part[name] for name in WIDE if name in part)


def applied_inside(part: Schema, value: object) -> Iterator[tuple[Any, Any, int]]:
    """Yield the schemas applied to a value's parts, except keys, with the part and its share of a problem's path."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        known = members_of(part.get("properties"))
        for name, item in held.items():
            if name in known:
                yield known[name], item, len(name)
        for pattern, each in members_of(part.get("patternProperties")).items():
            yield from ((each, item, len(name) + len(pattern)) for name, item in held.items())
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            if keyword in part:
                yield from (
                    (part[keyword], item, len(name)) for name, item in held.items() if name not in known
                )
    if isinstance(value, list):
        items = cast("list[Any]", value)
        yield from (
            (each, item, 0) for each, item in zip(listed_in(part.get("prefixItems")), items, strict=False)
        )
        for each in (part[name] for name in ("items", "contains", "unevaluatedItems") if name in part):
            yield from ((each, item, 0) for item in items)
