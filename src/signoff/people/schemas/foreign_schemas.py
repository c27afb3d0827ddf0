"""JSON Schemas from other systems, such as MCP servers, reduced to the parts that can be checked here.

Servers use older drafts, JavaScript patterns and types of their own. None of that may fail a run: unsupported parts are
left out and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, cast

from signoff.people.schemas.validation import listed, problems, schema_problem

LONGEST: Final = 100_000
"""Maximum length of a schema that is stored with its value, in characters."""

LONGEST_REMEMBERED: Final = 16 * 1024
"""Maximum length of a schema that is cached, in characters."""

MOST_REMEMBERED: Final = 256
"""Number of cached schemas: at most 8 MiB of ASCII."""

DEEPEST: Final = 40
"""Maximum nesting of a schema that is checked."""

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS: Final = (
    "additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems", "contains", "not", "if", "then",
    "else", "propertyNames",
)  # fmt: skip
_UNREAD: Final = (
    "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "dependencies",
)  # fmt: skip
"""Keywords that constrain a value, but are not checked."""

_BOUNDS: Final = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def _is_text(part: Any) -> bool:
    return isinstance(part, str)


def _is_number(part: Any) -> bool:
    return isinstance(part, (int, float)) and not isinstance(part, bool)


def _is_count(part: Any) -> bool:
    return _is_number(part) and part >= 0 and int(part) == part


def _is_list(part: Any) -> bool:
    return isinstance(part, list)


def _is_flag(part: Any) -> bool:
    return isinstance(part, bool)


def _is_lists_of_names(part: Any) -> bool:
    return isinstance(part, dict) and all(map(_is_names, cast("dict[str, Any]", part).values()))


def _is_names(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(each, str) for each in cast("list[Any]", part))


def _is_anything(part: Any) -> bool:
    return True


_KEPT: Final[dict[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("title", "description", "$comment", "format", "contentEncoding", "contentMediaType"), _is_text
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _is_count
    ),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
    "multipleOf": lambda part: _is_number(part) and part > 0,
    "enum": lambda part: _is_list(part) and bool(part),
    "examples": _is_list,
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), _is_flag),
    **dict.fromkeys(("const", "default", "discriminator"), _is_anything),
    "dependentRequired": _is_lists_of_names,
}
"""Keywords that are kept unchanged, and the check of their value."""


def checked_as(schema: object, value: Any) -> tuple[dict[str, Any], str | None]:
    """Return a schema that can check a value and its replacement.

    Args:
        schema: The value's declared schema.
        value: The value.

    Returns:
        The schema, ``{}`` if nothing can be checked; and a description of the unchecked parts, or None.
    """
    usable, left_out = checkable(schema)
    wrong = problems(usable, value)
    if wrong:
        return {}, f"the call does not fit its own schema ({listed(wrong, 'it')})"
    return usable, left_out


def checkable(schema: object) -> tuple[dict[str, Any], str | None]:
    """Return the checkable part of a schema, and a description of the rest, or None.

    An unusable schema gives ``{}``, which accepts everything.
    """
    if schema is True:
        return {}, None
    if not isinstance(schema, dict):
        return {}, "the schema is not an object"
    try:
        written = json.dumps(schema, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return {}, "the schema is not JSON"
    if len(written) > LONGEST:
        return {}, f"the schema is longer than {LONGEST:,} characters"
    made, left_out = _checkable(written)
    return json.loads(made), left_out


def _checkable(written: str) -> tuple[str, str | None]:
    return (_remembered if len(written) <= LONGEST_REMEMBERED else _read)(written)


def _read(written: str) -> tuple[str, str | None]:
    schema: dict[str, Any] = json.loads(written)
    reader = _Reader(schema)
    try:
        made = cast("dict[str, Any]", reader.read(schema, "", 0))
    except RecursionError:
        return "{}", "the schema is nested too deep"
    problem = schema_problem(made)
    if problem is not None:
        return "{}", f"the schema cannot be used ({problem})"
    left_out = f"left out of the schema: {', '.join(reader.left_out[:10])}" if reader.left_out else None
    return json.dumps(made), left_out


_remembered = lru_cache(MOST_REMEMBERED)(_read)


class _Reader:
    """Converts a schema of any draft to the current draft.

    Args:
        root: The whole schema, for references.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._is_own_base = any(isinstance(root.get(name), str) for name in ("$id", "id"))
        self.left_out: list[str] = []

    def read(self, schema: object, place: str, depth: int) -> Any:
        """Return a converted part. Records the parts that it leaves out."""
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict) or depth > DEEPEST:
            self._leave_out(place or "/")
            return True
        given = cast("dict[str, Any]", schema)
        made: dict[str, Any] = {}
        for name, part in given.items():
            self._keyword(made, name, part, f"{place}/{name}", depth)
        self._bounds(made, given, place)
        self._items(made, given, place, depth)
        if given.get("nullable") is True and made:
            texts = {name: made.pop(name) for name in ("title", "description", "default") if name in made}
            definitions = {name: made.pop(name) for name in ("$defs", "definitions") if name in made}
            return {**texts, **definitions, "anyOf": [made, {"type": "null"}]}
        return made

    def _keyword(self, made: dict[str, Any], name: str, part: Any, place: str, depth: int) -> None:
        special = {
            "$ref": self._reference,
            "type": self._type,
            "required": self._required,
            "pattern": self._pattern,
        }
        if name in _KEPT:
            if _KEPT[name](part):
                made[name] = part
            else:
                self._leave_out(place)
        elif name in special:
            special[name](made, part, place)
        elif name in _NAMED:
            self._named(made, name, part, place, depth)
        elif name in _LISTS:
            self._list(made, name, part, place, depth)
        elif name in _SCHEMAS and name != "items":
            made[name] = self.read(part, place, depth + 1)
        elif name in _UNREAD:
            self._leave_out(place)
        # other keywords check nothing, or are read with others

    def _reference(self, made: dict[str, Any], part: Any, place: str) -> None:
        if isinstance(part, str) and (part == "#" or part.startswith("#/")) and self._leads_to_schema(part):
            made["$ref"] = part
        else:
            self._leave_out(place)

    def _leads_to_schema(self, reference: str) -> bool:
        found: Any = self._root
        for part in reference.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(cast("list[Any]", found)):
                found = cast("list[Any]", found)[int(name)]
            elif isinstance(found, dict) and name in found:
                found = cast("dict[str, Any]", found)[name]
            else:
                return False
        is_kept = any(reference == "#" or f"/{name}/" in reference for name in (*_NAMED, *_LISTS, *_SCHEMAS))
        return isinstance(found, (dict, bool)) and is_kept

    def _type(self, made: dict[str, Any], part: Any, place: str) -> None:
        names: list[Any] = cast("list[Any]", part) if isinstance(part, list) else [part]
        if names and all(isinstance(each, str) and each in _TYPES for each in names):
            made["type"] = list(dict.fromkeys(names)) if isinstance(part, list) else part
        else:
            self._leave_out(place)

    def _required(self, made: dict[str, Any], part: Any, place: str) -> None:
        if _is_names(part):
            made["required"] = list(dict.fromkeys(cast("list[str]", part)))
        elif part is not False:  # a draft-3 keyword of single properties
            self._leave_out(place)

    def _pattern(self, made: dict[str, Any], part: Any, place: str) -> None:
        written = readable_pattern(part)
        if written is None:
            self._leave_out(place)
        else:
            made["pattern"] = written

    def _named(self, made: dict[str, Any], name: str, part: Any, place: str, depth: int) -> None:
        if not isinstance(part, dict):
            self._leave_out(place)
            return
        found: dict[str, Any] = {}
        for key, each in cast("dict[str, Any]", part).items():
            written = readable_pattern(key) if name == "patternProperties" else key
            if written is None:
                self._leave_out(f"{place}/{key}")
            else:
                found[written] = self.read(each, f"{place}/{key}", depth + 1)
        made[name] = found

    def _list(self, made: dict[str, Any], name: str, part: Any, place: str, depth: int) -> None:
        if not isinstance(part, list) or not part:
            self._leave_out(place)
            return
        made[name] = [
            self.read(each, f"{place}/{n}", depth + 1) for n, each in enumerate(cast("list[Any]", part))
        ]

    def _bounds(self, made: dict[str, Any], given: dict[str, Any], place: str) -> None:
        for exclusive, inclusive in _BOUNDS:
            bound = given.get(exclusive)
            if bound is True and inclusive in made:  # draft 4
                made[exclusive] = made.pop(inclusive)
            elif _is_number(bound):
                made[exclusive] = bound
            elif bound is not None and not isinstance(bound, bool):
                self._leave_out(f"{place}/{exclusive}")

    def _items(self, made: dict[str, Any], given: dict[str, Any], place: str, depth: int) -> None:
        items = given.get("items")
        if isinstance(items, list):  # up to draft 2019-09
            if items:
                self._list(made, "prefixItems", items, f"{place}/items", depth)
            if "additionalItems" in given:
                made["items"] = self.read(given["additionalItems"], f"{place}/additionalItems", depth + 1)
        elif items is not None:
            made["items"] = self.read(items, f"{place}/items", depth + 1)

    def _leave_out(self, place: str) -> None:
        self.left_out.append(place)


_RESPELLED: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"\\u\{([0-9A-Fa-f]{1,6})\}"), lambda found: f"\\x{{{found[1]}}}"),
    (re.compile(r"\\c([A-Za-z])"), lambda found: f"\\x{ord(found[1].upper()) - 64:02x}"),
    (re.compile(r"\(\?<([A-Za-z_]\w*)>"), lambda found: f"(?P<{found[1]}>"),
    (re.compile(r"(\\[wdsWDS])-(?!\])"), lambda found: f"{found[1]}\\-"),
    (re.compile(r"(?<!\\)\[\^\]"), lambda found: r"[\s\S]"),
    (re.compile(r"(?<!\\)\[\]"), lambda found: "(?!)"),
)
"""Syntax that differs in JavaScript."""


def readable_pattern(pattern: object) -> str | None:
    """Return a JavaScript pattern in the syntax used here; None if it cannot be converted."""
    if not isinstance(pattern, str):
        return None
    respelled = pattern
    for javascript, here in _RESPELLED:
        respelled = javascript.sub(here, respelled)
    for written in (pattern, respelled):
        if schema_problem({"pattern": written}) is None:
            return written
    return None
