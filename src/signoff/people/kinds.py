"""The kinds of a union in a form's schema, in words: JSON Schema has branches, and people read none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

Schema = Mapping[str, Any]
Resolve = Callable[[Schema], Schema]

_MOST: Final = 20
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class KindOfForm:
    """One kind of a union.

    Attributes:
        tag: The field that tells the kinds apart.
        value: What that field holds for this kind.
        schema: What else belongs to it.
    """

    tag: str
    value: Any
    schema: Schema


def kinds_of(schema: Schema, resolve: Resolve) -> list[KindOfForm]:
    """Return the kinds of a union of objects that one field tells apart; empty if it is not such a union.

    Args:
        schema: The union.
        resolve: Follows a reference.
    """
    branches = schema.get("oneOf", schema.get("anyOf"))
    if not isinstance(branches, list) or len(cast("list[Any]", branches)) > _MOST:
        return []
    listed = [cast("Schema", each) for each in cast("list[Any]", branches) if isinstance(each, Mapping)]
    objects = [resolve(each) for each in listed]
    objects = [each for each in objects if each.get("type") != "null"]
    if len(objects) < 2 or not all(isinstance(each.get("properties"), Mapping) for each in objects):
        return []
    tag = next(
        (name for name in objects[0]["properties"] if all(_value(each, name) for each in objects)), None
    )
    if tag is None:
        return []
    return [KindOfForm(tag, value, each) for each in objects for value in _value(each, tag)]


def kinds_in_words(schema: Schema, resolve: Resolve) -> str | None:
    """Say what the kinds of a union are and what each takes; None if it is not one that a field tells apart.

    Example::

        'One of: kind "card" with number (text); kind "cash" with cents (whole number, optional).'
    """
    kinds = kinds_of(schema, resolve)
    if not kinds:
        return None
    said = "; ".join(_in_words(kind, resolve) for kind in kinds)
    text = f"One of: {said}."
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _value(branch: Schema, name: str) -> list[Any]:
    """Return what a field of a kind must hold, if that is fixed."""
    field = branch["properties"].get(name)
    if not isinstance(field, Mapping):
        return []
    fixed = cast("Schema", field)
    return [fixed["const"]] if "const" in fixed else list(fixed.get("enum", ()))


def _in_words(kind: KindOfForm, resolve: Resolve) -> str:
    required = kind.schema.get("required", ())
    fields = [
        f"{name} ({_type(resolve(field))}{'' if name in required else ', optional'})"
        for name, field in kind.schema["properties"].items()
        if name != kind.tag
    ]
    what = f"{kind.tag} {json.dumps(kind.value, ensure_ascii=False)}"
    return f"{what} with {', '.join(fields)}" if fields else what


def _type(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    branches = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(branches, list):
        names = dict.fromkeys(_type(each) for each in cast("list[Schema]", branches))
        return " or ".join(name for name in names if name != "nothing")
    return _NAMES.get(str(schema.get("format")), _NAMES.get(str(schema.get("type")), "JSON"))


_NAMES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "array": "list",
    "object": "object",
    "null": "nothing",
    "date": "date",
    "date-time": "date and time",
}
